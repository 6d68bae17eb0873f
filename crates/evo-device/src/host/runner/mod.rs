//! Runs the blocks of a launch on one processor thread, with fibers for the threads of a block.
//!
//! `scheduler` decides which fiber goes on; `callbacks` is what a running thread calls: barriers, warp
//! operations, `printf`.

mod callbacks;
mod scheduler;

pub use callbacks::RUNTIME;
pub use scheduler::{Runner, THREADS_MAX, Work};
