//! Runs the blocks of a launch on one processor thread, with fibers for the threads of a block.

mod async_view;
mod call;
mod callbacks;
mod cluster;
mod cluster_place;
mod copies;
mod hopper_state;
mod mbarrier;
mod named;
mod operations;
mod order;
mod residue;
mod scheduler;
mod switch;
mod warpgroup;

pub use callbacks::{RUNTIME, give_way};
pub use cluster::ClusterTurns;
pub use cluster_place::BLOCKS_MAX;
pub use order::{BlockSequence, WINDOW};
pub use scheduler::{Runner, THREADS_MAX, Work};
