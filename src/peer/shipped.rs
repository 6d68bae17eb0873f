//! The peers that come with evo: one Python program, which an installed evo carries inside.

use std::path::Path;
use std::time::Duration;

use super::process::PeerCommand;

/// Names of peers that need no `[[peers]]`.
pub const SHIPPED: &[&str] = &["torch", "python"];

/// Their text, for peers that are made of it.
pub const SCRIPT: &str = include_str!("../../python/evo_peer.py");

/// The command of a shipped peer, with this Python. Its text goes on the command line, so that nothing has to be
/// written; stdin is the protocol's.
pub fn shipped(name: &str, python: &Path, timeout: Duration) -> PeerCommand {
    let python = python.display().to_string();
    let command = [python.as_str(), "-c", SCRIPT, "--backend", name].map(String::from).to_vec();
    PeerCommand { name: name.to_string(), command, folder: None, timeout }
}
