//! The CUDA device: driver API only, loaded at run time.
//!
//! All `unsafe` of the GPU side lives in this folder. `driver` is a checked skin over the driver
//! calls, `buffer` and `memory` own guarded buffers, `zone_table` lists their guard zones on the device, `support`
//! has the helper kernels that fill, hash and compare there, `launch` turns plans into launches and graphs, `tensor_map` has the driver encode tensor maps,
//! `variables` reads and restores what a module keeps between calls, `context` holds what they run on, `persistence` keeps buffers in the L2 cache and gives it back, `timing` takes samples, `backend` is the device.

mod backend;
mod buffer;
mod context;
mod driver;
mod info;
mod launch;
mod memory;
mod persistence;
mod read_only;
mod support;
mod tensor_map;
mod timing;
mod variables;
mod zone_table;

pub use backend::CudaDevice;
pub use support::SUPPORT_SOURCE;
