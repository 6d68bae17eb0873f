//! Devices that run and time untrusted kernels, behind one trait of memory and executor.
//!
//! [`cuda::CudaDevice`] talks to the driver API, which is loaded at run time: a program with this crate starts on
//! machines without CUDA. [`host::HostDevice`] runs the same CUDA source on this processor: [`host::translate`]
//! rewrites it to C++, the threads of a block become fibers, and buffers end at unmapped pages. [`probe`] chooses
//! a device without opening it.
//!
//! A device reports what happened ([`DeviceError`](evo_protocol::device::DeviceError)); what that means for a
//! variant is for its caller to judge. A kernel may hang or corrupt the process, so callers that run
//! kernels they do not trust open the device in a process that they can kill.
//!
//! ```
//! use evo_device::Memory;
//! use evo_device::host::HostDevice;
//!
//! let mut device = HostDevice::open()?;
//! let buffer = device.allocate("x", 8)?;
//! device.write(buffer, &[1, 2, 3, 4, 5, 6, 7, 8])?;
//! let before = device.hash(buffer)?;
//! device.fill(buffer, 0x0403_0201)?;
//! assert_eq!(device.read(buffer)?, [1, 2, 3, 4, 1, 2, 3, 4]);
//! assert_ne!(device.hash(buffer)?, before);
//! # Ok::<(), evo_protocol::device::DeviceError>(())
//! ```

pub mod binary_notes;
pub mod cuda;
pub mod device;
pub mod host;
pub mod numbers;
pub mod open;
pub mod probe;
pub mod telemetry;
mod tensor_maps;
mod variables;

pub use device::{Device, Executor, Memory};
pub use probe::cuda_arch;
