//! What a study knows after its journal is read again.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use evo_protocol::evaluation::Evaluation;
use evo_space::genome::{Configuration, ContentHash};

use super::error::JournalError;
use super::reader::Journal;
use super::record::{Confirmation, FORMAT, InputRole, JournalRecord, RunEnd, StudyHeader, StudyInput};
use crate::budget::StopReason;

/// A configuration that was on the device when a run died.
#[derive(Clone, Debug, PartialEq)]
pub struct Struck {
    pub number: u64,
    pub configuration: Configuration,
    /// How often.
    pub strikes: u32,
}

/// A study's past.
#[derive(Debug, Default)]
pub struct History {
    /// The newest header.
    pub header: Option<StudyHeader>,
    /// By number, in the order of arrival.
    pub evaluations: Vec<Evaluation>,
    pub confirmations: Vec<Confirmation>,
    /// In flight at a crash and not evaluated since, by number.
    pub struck: Vec<Struck>,
    pub ends: Vec<RunEnd>,
    /// Without a verdict, because evo or the machine failed; by number.
    pub not_final: Vec<Evaluation>,
    pub(super) numbers: HashSet<u64>,
    pub(super) configurations: HashSet<ContentHash>,
}

impl History {
    /// Replays a journal's records.
    pub fn replay(journal: Journal) -> History {
        let mut history = History::default();
        let mut in_flight = BTreeMap::<u64, Configuration>::new();
        // By number, so that every resume takes struck variants up in the same order.
        let mut struck = BTreeMap::<u64, Struck>::new();
        let mut not_final = BTreeMap::<u64, Evaluation>::new();
        for record in journal.records {
            match record {
                JournalRecord::Study(header) => {
                    // A new header without an `End` before it means that the run before died. Whatever was on
                    // the device then may be the cause.
                    strike(&mut in_flight, &mut struck);
                    history.header = Some(*header);
                }
                JournalRecord::Started { number, configuration } => {
                    in_flight.insert(number, configuration);
                }
                JournalRecord::NotFinal(evaluation) => {
                    in_flight.remove(&evaluation.number);
                    struck.remove(&evaluation.number);
                    not_final.insert(evaluation.number, *evaluation);
                }
                // Journals of before `not_final` kept trouble as a verdict, which no resume could repair.
                JournalRecord::Evaluation(evaluation) if evaluation.verdict.is_trouble() => {
                    in_flight.remove(&evaluation.number);
                    struck.remove(&evaluation.number);
                    not_final.insert(evaluation.number, *evaluation);
                }
                JournalRecord::Evaluation(evaluation) => {
                    in_flight.remove(&evaluation.number);
                    // A verdict settles the suspicion: the configuration came back from the device or was
                    // given up on.
                    struck.remove(&evaluation.number);
                    history.add(*evaluation);
                }
                JournalRecord::Confirmation(confirmation) => history.confirmations.push(*confirmation),
                JournalRecord::Note { .. } => {}
                // A run that ended by itself left nothing behind by accident, unless the device died.
                JournalRecord::End(end) => {
                    if end.reason == StopReason::DeviceLost {
                        strike(&mut in_flight, &mut struck);
                    }
                    in_flight.clear();
                    history.ends.push(*end);
                }
            }
        }
        strike(&mut in_flight, &mut struck);
        history.struck = struck.into_values().collect();
        // A number that has a verdict keeps it, whatever stands around it.
        not_final.retain(|number, one| {
            !history.numbers.contains(number) && !history.configurations.contains(&one.configuration_hash)
        });
        history.not_final = not_final.into_values().collect();
        history
    }

    /// A number counts once, and so does a configuration: the first verdict stays. A line that was damaged and
    /// mended may come back after its configuration was evaluated again.
    fn add(&mut self, evaluation: Evaluation) {
        let is_new = !self.configurations.contains(&evaluation.configuration_hash);
        if is_new && self.numbers.insert(evaluation.number) {
            self.configurations.insert(evaluation.configuration_hash.clone());
            self.evaluations.push(evaluation);
        }
    }

    /// Refuses a history of another space, kernel or device.
    pub fn check_belongs(&self, path: &Path, current: &StudyHeader) -> Result<(), JournalError> {
        let Some(written) = &self.header else {
            return Err(JournalError::NoHeader { path: path.to_path_buf() });
        };
        // Checked first: the other fields of a newer format may mean something else.
        if written.format > FORMAT {
            let (found, known) = (written.format, FORMAT);
            return Err(JournalError::Newer { path: path.to_path_buf(), found, known });
        }
        let changes = changes(written, current);
        if written.kernel == current.kernel && written.space_hash != current.space_hash && !changes.is_empty()
        {
            return Err(JournalError::Edited { path: path.to_path_buf(), changes });
        }
        let describe = |header: &StudyHeader| format!("{} {}", header.kernel, header.space_hash);
        let device = |header: &StudyHeader| format!("{} ({})", header.device.name, header.device.arch);
        let problems = |header: &StudyHeader| header.problems.join(", ");
        let pairs: [(&'static str, String, String); 3] = [
            ("space or kernel", describe(written), describe(current)),
            ("device", device(written), device(current)),
            ("set of problems", problems(written), problems(current)),
        ];
        for (what, written, current) in pairs {
            if written != current {
                return Err(JournalError::Foreign { path: path.to_path_buf(), what, written, current });
            }
        }
        Ok(())
    }
}

/// What differs between the inputs of two headers, in words; nothing where one of them does not list its
/// inputs.
fn changes(written: &StudyHeader, current: &StudyHeader) -> Vec<String> {
    let (before, after) = (&written.inputs, &current.inputs);
    if before.is_empty() || after.is_empty() {
        return Vec::new();
    }
    // Names of space files and kernels depend on the folder that evo runs in; there is one of each.
    let single = |role| matches!(role, InputRole::Space | InputRole::Kernel | InputRole::Compiler);
    let same = |a: &StudyInput, b: &StudyInput| a.role == b.role && (single(a.role) || a.name == b.name);
    let mut changes = Vec::new();
    for one in before {
        match after.iter().find(|other| same(one, other)) {
            None => changes.push(format!("{} is not used any more", one.shown())),
            Some(other) if one.hash == other.hash => {}
            Some(other) if one.role == InputRole::Compiler => {
                changes.push(format!(
                    "the compiler or its arguments have changed (`{}`, now `{}`)",
                    one.name, other.name
                ));
            }
            Some(other) => changes.push(format!("{} has changed", other.shown())),
        }
    }
    let new = after.iter().filter(|one| !before.iter().any(|other| same(one, other)));
    changes.extend(new.map(|one| format!("{} is new", one.shown())));
    changes
}

fn strike(in_flight: &mut BTreeMap<u64, Configuration>, struck: &mut BTreeMap<u64, Struck>) {
    for (number, configuration) in std::mem::take(in_flight) {
        struck.entry(number).or_insert(Struck { number, configuration, strikes: 0 }).strikes += 1;
    }
}
