//! The host device: the same rendered CUDA source, compiled by the system's C++ compiler, on this
//! processor. A block's threads are fibers, so barriers are real; buffers end at unmapped pages, so an
//! overrun is a fault with a name. Its timings are those of this processor and are labelled so.

mod backend;
mod divergence;
pub mod fault;
mod fiber;
mod launch;
mod machine;
mod mapping;
mod memory;
mod module;
mod numbers;
mod pool;
mod rewrite;
mod runner;
mod shared;
mod stop;
#[cfg(test)]
mod tests;
mod tls;
mod tokens;
pub mod translate;
mod warp;

pub use backend::HostDevice;
use evo_protocol::device::DeviceLimits;

/// Launch limits: those of an sm_90 GPU, so that what is refused there is refused here.
pub fn limits() -> DeviceLimits {
    DeviceLimits {
        threads_per_block: 1024,
        block: [1024, 1024, 64],
        grid: [i32::MAX as u32, 65_535, 65_535],
        shared_static_bytes: 48 * 1024,
        shared_optin_bytes: 227 * 1024,
        registers_per_block: 65_536,
        cluster: 1,
        cooperative: true,
    }
}
