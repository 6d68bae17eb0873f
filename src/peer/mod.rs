//! Peers: other people's implementations of a problem, in a process of their own that speaks JSON lines.
//!
//! A peer is given a problem's inputs as `.npy` files, writes its outputs as such files, and times itself in blocks,
//! which take turns with ours. Nothing that it says is taken on trust: its outputs are compared as a candidate's are
//! (`worker::judge`), and the times that it reports must fit our own clock (`claims`). The protocol is in
//! `docs/bench.md`.

mod claims;
mod process;
mod protocol;
mod shipped;

pub use claims::ClaimedTime;
pub use process::{PeerCommand, PeerFailure, PeerSeat, ending, last_words, shown};
pub use protocol::{PeerImplementation, PeerProblem};
pub use shipped::{SCRIPT, SHIPPED, shipped};
