//! Runs the blocks of a launch on one processor thread, with fibers for the threads of a block.
//!
//! `scheduler` decides which fiber goes on, in the `order` of a seed; `callbacks` is what a running thread calls:
//! barriers, warp operations, `printf`; `copies` are those in the background, `named` the barriers of a part of the
//! block; `residue` fills stacks before threads begin.

mod callbacks;
mod copies;
mod named;
mod order;
mod residue;
mod scheduler;

pub use callbacks::{RUNTIME, give_way};
pub use order::{BlockSequence, WINDOW};
pub use scheduler::{Runner, THREADS_MAX, Work};
