//! What outside programs see of one candidate: its own launches, in a worker that runs under the program.

mod watch;

pub use watch::{WatchOrder, watch};
