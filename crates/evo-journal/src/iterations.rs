//! `iterations.jsonl`: what `evo evaluate` judged, one checksummed line each, and `incumbent.json`, the best candidate
//! that was accepted so far. Both lie in the folder of a kernel on a kind of device; whoever holds the folder's lock
//! may write, and others wait for it.

use std::fs::File;
use std::io;

use evo_space::genome::{Configuration, ContentHash};
use evo_timing::acceptance::RivalDecision;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::JournalError;
use super::line::{LineWriter, NumberedLine, numbered};
use super::lock::{DeviceTurn, locked};
use super::own_folder::OwnFolder;

pub const ITERATIONS: &str = "iterations.jsonl";
pub const INCUMBENT: &str = "incumbent.json";
/// The folder of sources that stood in for the space's own.
pub const SOURCES: &str = "sources";
const LOCK: &str = "iterations.lock";
/// Raised by any change that an older reader would misread.
const FORMAT: u32 = 1;
const INCUMBENT_MAX: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Iteration {
    pub format: u32,
    pub number: u64,
    pub at: String,
    pub kernel: String,
    pub space: String,
    pub device: String,
    pub candidate: IterationCandidate,
    pub against: String,
    pub parent: Option<String>,
    pub hypothesis: Option<String>,
    /// As `evo explain` takes it.
    pub verdict: String,
    pub message: String,
    pub correct: bool,
    /// Weighted geometric mean speed-up over the canonical problems.
    pub score: Option<f64>,
    pub claimed: Option<f64>,
    pub problems: Vec<IterationProblem>,
    pub decision: RivalDecision,
    pub why: String,
    pub notes: Vec<String>,
    pub git_commit: Option<String>,
    pub git_dirty: Option<bool>,
}

/// Enough to build the candidate again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IterationCandidate {
    pub configuration: Configuration,
    pub configuration_hash: ContentHash,
    pub source_hash: Option<ContentHash>,
    pub code_hash: Option<ContentHash>,
    /// The rendered source, where it is not the space's own.
    pub source: Option<String>,
    pub launch: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IterationProblem {
    pub problem: String,
    pub canonical: bool,
    pub p50_ns: Option<f64>,
    pub p90_ns: Option<f64>,
    pub against_p50_ns: Option<f64>,
    pub speedup: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Incumbent {
    pub format: u32,
    pub number: u64,
    pub at: String,
    pub configuration: Configuration,
    pub source_hash: Option<ContentHash>,
    /// Names of files in the folder `sources`, where the source is not the space's own.
    pub source_file: Option<String>,
    pub launch_file: Option<String>,
}

impl NumberedLine for Iteration {
    const FILE: &'static str = ITERATIONS;
    const FORMAT: u32 = FORMAT;

    fn stamp(&mut self) -> (&mut u32, &mut u64) {
        (&mut self.format, &mut self.number)
    }
}

#[derive(Debug)]
pub struct IterationLog {
    folder: OwnFolder,
    _lock: File,
    /// That of whoever times the candidate too.
    _turn: Option<DeviceTurn>,
}

impl IterationLog {
    /// Waits for whoever holds the folder. The device's turn ends with the log.
    pub fn take(folder: OwnFolder, turn: Option<DeviceTurn>) -> Result<IterationLog, JournalError> {
        let lock = locked(&folder, LOCK, || {})?;
        Ok(IterationLog { folder, _lock: lock, _turn: turn })
    }

    pub fn folder(&self) -> &OwnFolder {
        &self.folder
    }

    /// On return the line is on the disk; after an error the file ends with the line before. A torn last line is cut
    /// off.
    pub fn append<T: NumberedLine>(&self, mut line: T) -> Result<T, JournalError> {
        let mut before = numbered::<T>(&self.folder)?;
        let last = before.lines.iter_mut().map(|line| *line.stamp().1).max().unwrap_or(0);
        let (format, number) = line.stamp();
        (*format, *number) = (T::FORMAT, last.saturating_add(1));
        LineWriter::append_after(&self.folder, T::FILE, before.length)?.append(&line)?;
        Ok(line)
    }

    /// Keeps a source or a launch file under the hash of its text; its name.
    pub fn keep(&self, text: &str, ending: &str) -> Result<String, JournalError> {
        let name = format!("{}.{ending}", ContentHash::of(text.as_bytes()));
        let path = self.folder.place(SOURCES);
        let fail = |error: io::Error| JournalError::io("write", &path, error);
        let folder = self.folder.create_folder(SOURCES).map_err(fail)?;
        if !folder.has_file(&name) {
            folder.replace(&name, text.as_bytes(), true).map_err(fail)?;
        }
        Ok(name)
    }

    /// An `incumbent.json` that cannot be understood is kept under another name, which is given back.
    pub fn set_aside(&self, number: u64) -> Result<String, String> {
        let shown = self.folder.place(INCUMBENT).display().to_string();
        let read = self.folder.read_at_most(INCUMBENT, INCUMBENT_MAX);
        let bytes = read
            .map_err(|error| format!("cannot read `{shown}`, which stays: {error}"))?
            .ok_or_else(|| format!("`{shown}` is too large for an incumbent, and stays"))?;
        let format = serde_json::from_slice::<Value>(&bytes).ok().and_then(|own| own["format"].as_u64());
        if format.is_some_and(|format| format > u64::from(FORMAT)) {
            return Err(format!("`{shown}` was written by a newer evo, and stays"));
        }
        let name = format!("incumbent-unreadable-{number}.json");
        let kept = self.folder.replace(&name, &bytes, true);
        kept.map_err(|error| format!("cannot keep `{shown}` under another name: {error}"))?;
        Ok(self.folder.place(&name).display().to_string())
    }

    /// All or nothing: if a file cannot be written, the incumbent before stays.
    pub fn set_incumbent(&self, accepted: &Iteration) -> Result<Incumbent, JournalError> {
        let keep =
            |text: &Option<String>, ending| text.as_ref().map(|text| self.keep(text, ending)).transpose();
        let incumbent = Incumbent {
            format: FORMAT,
            number: accepted.number,
            at: accepted.at.clone(),
            configuration: accepted.candidate.configuration.clone(),
            source_hash: accepted.candidate.source_hash.clone(),
            source_file: keep(&accepted.candidate.source, "cu")?,
            launch_file: keep(&accepted.candidate.launch, "json")?,
        };
        let replace = || self.folder.replace_json(INCUMBENT, &incumbent);
        // A sweep that begins in this folder removes unfinished files, which are not told apart.
        let written = replace().or_else(|_| replace());
        written.map_err(|error| JournalError::io("write", &self.folder.place(INCUMBENT), error))?;
        Ok(incumbent)
    }
}

/// How a command line names an evaluation of `evo evaluate`: `@iteration-3`.
pub const ITERATION: &str = "@iteration-";

pub fn incumbent_name(number: u64) -> String {
    format!("incumbent (evaluation {number})")
}

/// By number, in order: the first that was kept, and each that was kept against the one before it.
pub fn incumbents(lines: &[Iteration]) -> Vec<u64> {
    let mut found: Vec<u64> = Vec::new();
    for one in lines.iter().filter(|one| one.decision == RivalDecision::Keep) {
        if found.last().is_none_or(|last| one.against == incumbent_name(*last)) {
            found.push(one.number);
        }
    }
    found
}

pub fn incumbent(folder: &OwnFolder) -> Result<Option<Incumbent>, String> {
    let shown = folder.place(INCUMBENT).display().to_string();
    let bytes = match folder.read_at_most(INCUMBENT, INCUMBENT_MAX) {
        Ok(bytes) => bytes.unwrap_or_default(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot read `{shown}`: {error}")),
    };
    match serde_json::from_slice::<Incumbent>(&bytes) {
        Ok(own) if own.format > FORMAT => Err(format!("`{shown}` was written by a newer evo")),
        Ok(own) => Ok(Some(own)),
        Err(error) => Err(format!("`{shown}` is not an incumbent: {error}")),
    }
}

pub const GATES: &str = "gates.jsonl";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateRun {
    pub format: u32,
    pub number: u64,
    pub at: String,
    pub kernel: String,
    pub space: String,
    pub device: String,
    /// The baseline's file as the command line names it, and the hash of its source.
    pub baseline: String,
    pub baseline_source_hash: Option<ContentHash>,
    pub candidate: IterationCandidate,
    /// The slowdown above which a problem regresses, as a share.
    pub threshold: f64,
    /// `pass`, `fail`, `noisy` or `not_run`.
    pub decision: String,
    pub why: String,
    pub problems: Vec<GateRunProblem>,
    pub git_commit: Option<String>,
    pub git_dirty: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateRunProblem {
    pub problem: String,
    /// Times of this run, nanoseconds.
    pub baseline_p50_ns: Option<f64>,
    pub candidate_p50_ns: Option<f64>,
    /// Candidate's time over the baseline's, paired.
    pub ratio: Option<f64>,
    pub decision: String,
}

impl GateRun {
    pub fn ratio(&self) -> Option<f64> {
        let logs: Option<Vec<f64>> = self.problems.iter().map(|one| one.ratio.map(f64::ln)).collect();
        let logs = logs.filter(|logs| !logs.is_empty())?;
        Some((logs.iter().sum::<f64>() / logs.len() as f64).exp()).filter(|ratio| ratio.is_finite())
    }
}

impl NumberedLine for GateRun {
    const FILE: &'static str = GATES;
    const FORMAT: u32 = 1;

    fn stamp(&mut self) -> (&mut u32, &mut u64) {
        (&mut self.format, &mut self.number)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::own_folder::temporary;

    fn iteration() -> Iteration {
        let candidate = IterationCandidate { source: Some("text".into()), ..IterationCandidate::default() };
        serde_json::from_value(json!({
            "format": FORMAT, "number": 0, "at": "2026-01-01T00:00:00Z", "kernel": "k", "space": "k.toml",
            "device": "d", "candidate": candidate, "against": "@baseline", "verdict": "pass", "message": "",
            "correct": true, "score": 2.0, "problems": [], "decision": RivalDecision::Keep, "why": "", "notes": [],
        }))
        .unwrap()
    }

    #[test]
    fn lines_are_numbered_and_torn_ones_skipped() {
        let (root, folder) = temporary();
        let log = IterationLog::take(folder.clone(), None).unwrap();
        assert_eq!(log.append(iteration()).unwrap().number, 1);
        let path = root.path().join(ITERATIONS);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&whole[..], &whole[..40]].concat()).unwrap();
        let read = || numbered::<Iteration>(&folder).unwrap();
        let torn = read();
        assert_eq!((torn.lines.len(), torn.notes.len()), (1, 1));
        assert!(torn.notes[0].contains("torn"), "{torn:?}");
        assert_eq!(log.append(iteration()).unwrap().number, 2);
        assert_eq!(read().notes, Vec::<String>::new());
        // A line that lost its newline only, and one whose digits changed.
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.trim_end().replacen("\"number\":1", "\"number\":7", 1)).unwrap();
        assert_eq!(log.append(iteration()).unwrap().number, 3);
        let history = read();
        assert_eq!(history.lines.iter().map(|one| one.number).collect::<Vec<_>>(), [2, 3]);
        assert!(history.notes[0].contains("checksum"), "{history:?}");
    }

    #[test]
    fn the_incumbent_keeps_its_source() {
        let (root, folder) = temporary();
        assert_eq!(incumbent(&folder), Ok(None));
        let log = IterationLog::take(folder.clone(), None).unwrap();
        let set = log.set_incumbent(&log.append(iteration()).unwrap()).unwrap();
        assert_eq!(incumbent(&folder), Ok(Some(set.clone())));
        let file = root.path().join(SOURCES).join(set.source_file.unwrap());
        assert_eq!(std::fs::read_to_string(file).unwrap(), "text");
        std::fs::write(root.path().join(INCUMBENT), "{").unwrap();
        assert!(incumbent(&folder).is_err());
        let aside = log.set_aside(3).unwrap();
        assert_eq!(std::fs::read_to_string(aside).unwrap(), "{");
        std::fs::write(root.path().join(INCUMBENT), "{\"format\": 99}").unwrap();
        assert!(log.set_aside(4).unwrap_err().contains("newer evo"));
        std::fs::remove_file(root.path().join(INCUMBENT)).unwrap();
        std::fs::create_dir(root.path().join(INCUMBENT)).unwrap();
        assert!(log.set_aside(5).unwrap_err().contains("which stays"));
    }
}
