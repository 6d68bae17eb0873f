//! `mutators.jsonl`: every message between evo and a mutator, and every judgement of a proposal, one checksummed line
//! each beside the journal of the study.

use std::io;

use evo_space::genome::Configuration;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::journal::error::JournalError;
use crate::journal::numbered::{self, NumberedLine};
use crate::journal::own_folder::OwnFolder;
use crate::journal::record::now;

/// The file's name.
pub const MUTATORS: &str = "mutators.jsonl";
/// Raised by any change that an older reader would misread.
const FORMAT: u32 = 1;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MutatorRecord {
    pub format: u32,
    /// From 1, in the order of the lines.
    pub number: u64,
    /// UTC, RFC 3339.
    pub at: String,
    pub event: MutatorEvent,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MutatorEvent {
    /// A run begins; what repeats it.
    Begun(Box<MutatorBegun>),
    /// A message of evo's.
    Sent(Value),
    /// A message of the mutator's.
    Received(Value),
    /// It was late, said what is not the protocol, or died.
    Strike { count: u32, why: String, log_tail: String },
    /// A configuration of a proposal at a level: the answer, as the proposal's author may read it.
    Judged { proposal: String, configuration: Configuration, answer: Value },
    /// The run is over.
    Ended { why: String },
}

/// The beginning of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MutatorBegun {
    pub command: String,
    pub space: String,
    pub kernel: String,
    /// As the command line names it.
    pub device: String,
    pub seed: u64,
    pub problems: Vec<String>,
    /// What searches of proposals begin with.
    pub start: Configuration,
    pub rounds: u32,
    pub proposals: usize,
    pub timeout_s: f64,
}

impl NumberedLine for MutatorRecord {
    const FILE: &'static str = MUTATORS;
    const FORMAT: u32 = FORMAT;

    fn format(&self) -> u32 {
        self.format
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn stamp(&mut self, format: u32, number: u64) {
        self.format = format;
        self.number = number;
    }
}

/// Where a run's lines go. A file that cannot be written ends no search: what went wrong is kept and told at its end.
#[derive(Debug, Default)]
pub struct MutatorRecords {
    folder: Option<OwnFolder>,
    /// Why the file is not whole.
    pub trouble: Option<String>,
}

impl MutatorRecords {
    /// Into the folder of a study, whose lock the caller holds.
    pub fn to(folder: OwnFolder) -> MutatorRecords {
        MutatorRecords { folder: Some(folder), trouble: None }
    }

    /// Appends a line; on return it is on the disk.
    pub fn keep(&mut self, event: MutatorEvent) {
        let Some(folder) = self.folder.as_ref().filter(|_| self.trouble.is_none()) else { return };
        let record = MutatorRecord { format: 0, number: 0, at: now(), event };
        if let Err(error) = numbered::append(folder, record) {
            self.trouble = Some(error.to_string());
        }
    }
}

/// The lines of the last run in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRun {
    pub begun: MutatorBegun,
    pub events: Vec<MutatorEvent>,
    /// What could not be read.
    pub notes: Vec<String>,
}

/// Reads the last run of `folder`'s file.
///
/// # Errors
/// The file cannot be read, a newer evo wrote it, or it holds no run.
pub fn last_run(folder: &OwnFolder) -> Result<RecordedRun, JournalError> {
    let path = folder.place(MUTATORS);
    let missing = |text: &str| JournalError::io("read", &path, io::Error::other(text.to_string()));
    if !folder.has_file(MUTATORS) {
        return Err(missing("there is no such file"));
    }
    let read = numbered::read::<MutatorRecord>(folder)?;
    let mut found = None;
    for record in read.lines {
        match (record.event, &mut found) {
            (MutatorEvent::Begun(begun), _) => {
                let begun = *begun;
                found = Some(RecordedRun { begun, events: Vec::new(), notes: Vec::new() });
            }
            (event, Some(run)) => run.events.push(event),
            (_, None) => {}
        }
    }
    let run = found.ok_or_else(|| missing("it holds no run of a mutator"))?;
    Ok(RecordedRun { notes: read.notes, ..run })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(command: &str) -> MutatorEvent {
        MutatorEvent::Begun(Box::new(MutatorBegun {
            command: command.to_string(),
            space: "s.toml".into(),
            kernel: "k".into(),
            device: "host".into(),
            seed: 1,
            problems: Vec::new(),
            start: Configuration::new(Vec::new()),
            rounds: 1,
            proposals: 1,
            timeout_s: 1.0,
        }))
    }

    #[test]
    fn the_last_run_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let own = OwnFolder::open(folder.path()).unwrap();
        let missing = last_run(&own).unwrap_err();
        let cause = std::error::Error::source(&missing).unwrap().to_string();
        assert_eq!(cause, "there is no such file");
        let mut records = MutatorRecords::to(own.clone());
        let sent = |text: &str| MutatorEvent::Sent(Value::from(text));
        for event in [sent("lost"), begun("first"), sent("a"), begun("second"), sent("b")] {
            records.keep(event);
        }
        assert_eq!(records.trouble, None);
        let run = last_run(&own).unwrap();
        assert_eq!((run.begun.command.as_str(), run.events), ("second", vec![sent("b")]));
        // A torn last line costs itself and nothing else.
        let path = folder.path().join(MUTATORS);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.truncate(bytes.len() - 5);
        std::fs::write(&path, bytes).unwrap();
        let run = last_run(&own).unwrap();
        assert_eq!((run.events.len(), run.notes.len()), (0, 1));
        records.keep(sent("c"));
        assert_eq!(last_run(&own).unwrap().events, [sent("c")]);
    }
}
