//! The CUDA device: driver API only, loaded at run time.
//!
//! All `unsafe` of the GPU side lives in this folder.

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

pub use context::CudaDevice;
pub use support::SUPPORT_SOURCE;
