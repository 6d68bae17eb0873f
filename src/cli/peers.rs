//! Peers that a command asks for by name, and their processes.

use std::path::PathBuf;
use std::time::Duration;

use evo_protocol::envelope::{ErrorCode, ErrorPlace};
use evo_space::document::suggestion;

use super::{CliError, Result};
use crate::kernel::spec::PeerSpec;
use crate::peer::{PeerSeat, SHIPPED, shipped};
use crate::tool::{ToolFailure, ToolKind, ToolPlaces, find};

/// Longest time of a peer's answer where nothing else is said; importing torch may take half a minute. A quick run
/// waits less.
const TIMEOUT: Duration = Duration::from_secs(120);
const TIMEOUT_QUICK: Duration = Duration::from_secs(30);

/// The peer of this name: one that is known from files, or one that comes with evo.
pub fn named(name: &str, known: &[PeerSpec]) -> Option<PeerSpec> {
    let shipped = || PeerSpec { name: name.to_string(), ..PeerSpec::default() };
    let from_file = known.iter().find(|peer| peer.name == name).cloned();
    from_file.or_else(|| SHIPPED.contains(&name).then(shipped))
}

pub fn all_named(names: &[String], known: &[PeerSpec]) -> Result<Vec<PeerSpec>> {
    let mut wanted: Vec<PeerSpec> = Vec::new();
    for name in names {
        let Some(peer) = named(name, known) else {
            let names = known.iter().map(|peer| peer.name.as_str()).chain(SHIPPED.iter().copied());
            let hint = suggestion(name, names.clone(), || {
                format!("there are {}; others go into `[[peers]]`", names.collect::<Vec<_>>().join(", "))
            });
            return Err(CliError::usage(format!("there is no peer `{name}`")).with_hint(hint));
        };
        if !wanted.iter().any(|other| other.name == peer.name) {
            wanted.push(peer);
        }
    }
    Ok(wanted)
}

pub fn start(wanted: &[PeerSpec], device: &str, is_quick: bool) -> Result<Vec<PeerSeat>> {
    let usual = if is_quick { TIMEOUT_QUICK } else { TIMEOUT };
    let start = |wanted: &PeerSpec| {
        let refused =
            |why: String| CliError::usage(format!("the peer `{}` does not start: {why}", wanted.name));
        let mut peer = wanted.clone();
        if peer.command.is_empty() {
            let python = python().map_err(|failure| {
                let hint = failure.hint.unwrap_or_else(|| "install Python, or set EVO_PYTHON".to_string());
                refused(failure.message).with_code(ErrorCode::ToolMissing).with_hint(hint)
            })?;
            peer.command = shipped(&peer.name, &python);
        }
        let timeout = peer.timeout_s.map_or(usual, Duration::from_secs_f64);
        PeerSeat::start(peer.clone(), timeout, device).map_err(|error| {
            let program = peer.command.first().map_or("", String::as_str);
            let hint =
                "a program without a `/` is looked for in PATH, one with a `/` beside the file that names it";
            let refused = refused(format!("`{program}`: {error}"));
            refused.with_code(ErrorCode::BadFile).at(place(&peer)).with_hint(hint)
        })
    };
    wanted.iter().map(start).collect()
}

pub fn python() -> Result<PathBuf, ToolFailure> {
    find(ToolKind::Python, None, &ToolPlaces::of_environment())
}

pub fn place(own: &PeerSpec) -> ErrorPlace {
    let (file, line, column) = &own.place;
    let is_known = *line > 0;
    let file = if is_known { file.display().to_string() } else { format!("--peer {}", own.name) };
    ErrorPlace { file, line: is_known.then_some(*line), column: is_known.then_some(*column) }
}
