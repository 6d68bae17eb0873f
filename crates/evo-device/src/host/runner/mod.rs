//! Runs the blocks of a launch on one processor thread, with fibers for the threads of a block.

mod async_view;
mod callbacks;
mod cluster;
mod copies;
mod mbarrier;
mod named;
mod operations;
mod order;
mod residue;
mod scheduler;
mod switch;
mod warpgroup;

pub use callbacks::{RUNTIME, give_way};
pub use cluster::{BLOCKS_MAX, ClusterTurns};
pub use order::{BlockSequence, WINDOW};
pub use scheduler::{Runner, THREADS_MAX, Work};
