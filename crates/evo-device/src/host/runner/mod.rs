//! Runs the blocks of a launch on one processor thread, with fibers for the threads of a block.
//!
//! `scheduler` decides which fiber goes on, in the `order` of a seed; `callbacks` is what a running thread calls:
//! barriers, warp operations, `printf`; `copies` are those in the background, `named` the barriers of a part of the
//! block; `residue` fills stacks before threads begin. `hopper` is what a thread calls for instructions of sm_90, `hopper_state` what they know of a block:
//! `mbarrier` (barriers that count bytes), `bulk` (copies that they count), `async_view` (shared memory as those see
//! it), `warpgroup` (products of four warps); `cluster` is what blocks have in common that run together. `switch` hands the processor from a thread to the scheduler.

mod async_view;
mod bulk;
mod callbacks;
mod cluster;
mod cluster_place;
mod copies;
mod hopper;
mod hopper_state;
mod mbarrier;
mod named;
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
