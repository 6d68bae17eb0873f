//! Runs the blocks of a launch on one processor thread, with fibers for the threads of a block.

mod call;
mod cluster;
mod copies;
mod mbarrier;
mod operations;
mod order;
mod residue;
mod scheduler;
mod seat;
mod warpgroup;

pub use order::{WINDOW, of_neighbors};
pub use scheduler::{THREADS_MAX, Work};
pub use seat::{Seat, SharedLaunch};
