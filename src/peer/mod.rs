//! Peers: other people's implementations of a problem, in a process of their own that speaks JSON lines.
//!
//! A peer is given a problem's inputs as `.npy` files, writes its outputs as such files, and times itself in blocks,
//! which take turns with ours. Nothing that it says is taken on trust: its outputs are compared as a candidate's are
//! (`worker::judge`), and the times that it reports must fit our own clock. The protocol is in
//! `docs/bench.md`.

use std::io;
use std::path::Path;

use evo_system::scratch::ScratchPlace;

mod process;
mod protocol;

pub use process::{ClaimedTime, PeerSeat, ending, last_words, shown};
pub use protocol::{
    CrosscheckProblem, CrosscheckRequest, ForeignProblem, PeerImplementation, PeerProblem, arrays,
};

pub const SHIPPED: &[&str] = &["torch", "python"];

/// The Python program of the peers that come with evo, which an installed evo carries inside.
pub const SCRIPT: &str = include_str!("../../python/evo_peer.py");

/// The command of a shipped peer, with this Python. Its text goes on the command line, so that nothing has to be
/// written; stdin is the protocol's.
pub fn shipped(name: &str, python: &Path) -> Vec<String> {
    let python = python.display().to_string();
    [python.as_str(), "-c", SCRIPT, "--backend", name].map(String::from).to_vec()
}

/// Where in the cache folders for other people's programs are made. It can be written to.
pub fn place(cache: &Path, name: &str) -> io::Result<ScratchPlace> {
    let place = ScratchPlace::new(cache.join(name));
    place.probe()?;
    place.sweep();
    Ok(place)
}
