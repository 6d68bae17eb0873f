//! The CUDA device: driver API only, loaded at run time.
//!
//! All `unsafe` of the GPU side lives in this folder. `driver` is a checked skin over the driver
//! calls, `buffer` and `memory` own guarded buffers, `support` the helper kernels that fill, hash and compare on
//! the device, `launch` turns plans into
//! launches and graphs, `context` holds what they run on, `timing` takes samples, `backend` is the device.

mod backend;
mod buffer;
mod context;
mod driver;
mod info;
mod launch;
mod memory;
mod support;
mod timing;

pub use backend::CudaDevice;
pub use support::SUPPORT_SOURCE;
