//! What a study knows after its journal is read again.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use evo_protocol::device::{DeviceInfo, DeviceKind};
use evo_protocol::evaluation::Evaluation;
use evo_space::genome::{Configuration, ContentHash};

use super::error::JournalError;
use super::reader::Journal;
use super::record::{
    Confirmation, FORMAT, InputRole, JournalRecord, RunEnd, SanitizedVariant, StudyHeader, StudyInput,
};
use crate::budget::StopReason;

#[derive(Clone, Debug, PartialEq)]
pub struct Struck {
    pub number: u64,
    pub configuration: Configuration,
    pub strikes: u32,
}

#[derive(Debug, Default)]
pub struct History {
    pub header: Option<StudyHeader>,
    /// By number, in the order of arrival.
    pub evaluations: Vec<Evaluation>,
    pub confirmations: Vec<Confirmation>,
    /// The newest answer of a sanitizer on each evaluation, by its number.
    pub sanitized: BTreeMap<u64, SanitizedVariant>,
    /// In flight at a crash and not evaluated since, by number.
    pub struck: Vec<Struck>,
    pub ends: Vec<RunEnd>,
    /// Without a verdict, because evo or the machine failed; by number.
    pub not_final: Vec<Evaluation>,
    /// From before an edit of the study, and not known to hold after it. Their numbers stay taken.
    pub set_aside: Vec<Evaluation>,
    pub set_aside_at: String,
    /// Whether it is still to be found out which of `set_aside` hold after the newest edit.
    pub is_unsettled: bool,
    /// The last stamp ([`JournalRecord::at_ms`]); 0 where there is none.
    pub last_ms: u64,
    pub(super) numbers: HashSet<u64>,
    pub(super) configurations: HashSet<ContentHash>,
}

impl History {
    pub fn replay(journal: Journal) -> History {
        let mut history = History::default();
        let mut in_flight = BTreeMap::<u64, Configuration>::new();
        // By number, so that every resume takes struck variants up in the same order.
        let mut struck = BTreeMap::<u64, Struck>::new();
        let mut not_final = BTreeMap::<u64, Evaluation>::new();
        for record in journal.records {
            history.last_ms = history.last_ms.max(record.at_ms().unwrap_or(0));
            if let JournalRecord::NotFinal(evaluation) | JournalRecord::Evaluation(evaluation) = &record {
                in_flight.remove(&evaluation.number);
                // An answer settles the suspicion: the configuration came back from the device or was given up on.
                struck.remove(&evaluation.number);
            }
            match record {
                JournalRecord::Study(header) => {
                    // A new header without an `End` before it means that the run before died. Whatever was on
                    // the device then may be the cause.
                    strike(&mut in_flight, &mut struck);
                    history.begin(*header);
                }
                JournalRecord::Kept { numbers } => history.keep(&numbers),
                JournalRecord::Started { number, configuration, .. } => {
                    in_flight.insert(number, configuration);
                }
                JournalRecord::NotFinal(evaluation) => {
                    not_final.insert(evaluation.number, *evaluation);
                }
                JournalRecord::Evaluation(evaluation) => history.add(*evaluation),
                JournalRecord::Confirmation(confirmation) => history.confirmations.push(*confirmation),
                JournalRecord::Sanitized(one) => history.sanitize(*one),
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

    /// The first verdict of a number or a configuration stays. A line that was damaged and mended may come back after
    /// its configuration was evaluated again.
    fn add(&mut self, evaluation: Evaluation) {
        let is_new = !self.configurations.contains(&evaluation.configuration_hash);
        if is_new && self.numbers.insert(evaluation.number) {
            self.configurations.insert(evaluation.configuration_hash.clone());
            self.evaluations.push(evaluation);
        }
    }

    /// A finding is the verdict of the variant and of those with its code.
    pub fn sanitize(&mut self, one: SanitizedVariant) {
        let shares = |own: &&mut Evaluation| own.number == one.number || own.duplicate_of == Some(one.number);
        let confirmed = self.confirmations.iter_mut().map(|own| &mut own.evaluation);
        for evaluation in self.evaluations.iter_mut().chain(confirmed).filter(shares) {
            evaluation.sanitized(&one.report, one.verdict.as_ref());
        }
        self.sanitized.insert(one.number, one);
    }

    /// After an edit nothing holds until [`History::keep`] says so.
    pub fn begin(&mut self, header: StudyHeader) {
        if self.header.as_ref().is_some_and(|before| header.is_edited(before)) {
            self.set_all_aside();
            self.is_unsettled = true;
            self.set_aside_at = self.header.take().map(|before| before.started_at).unwrap_or_default();
        }
        self.header = Some(header);
    }

    /// Takes back what holds after an edit: these numbers, and nothing else of before it.
    pub fn keep(&mut self, numbers: &[u64]) {
        // Once more, should the header that says so be damaged: it comes before anything is evaluated.
        self.set_all_aside();
        self.is_unsettled = false;
        let wanted: HashSet<u64> = numbers.iter().copied().collect();
        let (kept, rest) = std::mem::take(&mut self.set_aside)
            .into_iter()
            .partition::<Vec<Evaluation>, _>(|one| wanted.contains(&one.number));
        self.set_aside = rest;
        for one in kept {
            match self.configurations.insert(one.configuration_hash.clone()) {
                true => self.evaluations.push(one),
                false => self.set_aside.push(one),
            }
        }
    }

    fn set_all_aside(&mut self) {
        self.configurations.clear();
        self.set_aside.append(&mut self.evaluations);
        // The paired comparisons were with another baseline, or on other problems.
        self.confirmations.clear();
        // Nor were the shapes these.
        self.sanitized.clear();
    }

    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.numbers.iter().copied()
    }

    /// What was edited since, in words.
    pub fn check_belongs(&self, path: &Path, current: &StudyHeader) -> Result<Vec<String>, JournalError> {
        let Some(written) = &self.header else {
            return Err(JournalError::NoHeader { path: path.to_path_buf() });
        };
        // Checked first: the other fields of a newer format may mean something else.
        if written.format > FORMAT {
            let (found, known) = (written.format, FORMAT);
            return Err(JournalError::Newer { path: path.to_path_buf(), found, known });
        }
        let names = |header: &StudyHeader| {
            let DeviceInfo { kind, name, arch, .. } = &header.device;
            // A recording has no source to compare: another one is another study.
            let space = match kind {
                DeviceKind::Replay => format!("{} {}", header.kernel, header.space_hash),
                DeviceKind::Host | DeviceKind::Cuda => String::new(),
            };
            let device = format!("{name} ({arch})");
            [("space or kernel", space), ("kernel", header.kernel.clone()), ("device", device)]
        };
        for ((what, written), (_, current)) in names(written).into_iter().zip(names(current)) {
            if written != current {
                return Err(JournalError::Foreign { path: path.to_path_buf(), what, written, current });
            }
        }
        Ok(edits(written, current))
    }
}

fn edits(written: &StudyHeader, current: &StudyHeader) -> Vec<String> {
    // What decides no verdict, such as a comment in the space file, is an edit all the same where the hash says so.
    if !current.is_edited(written) {
        return Vec::new();
    }
    let defined = written.definition.as_ref().zip(current.definition.as_ref());
    let mut edits = defined.map_or(Vec::new(), |(before, now)| before.changes(now));
    let judged = written.conditions.as_ref().zip(current.conditions.as_ref());
    let judged = judged.map_or(Vec::new(), |(before, now)| before.changes(now));
    // The space file has changed whenever a parameter has; it is said only where nothing closer can be.
    let is_explained = !edits.is_empty() || !judged.is_empty();
    let inputs = changes(&written.inputs, &current.inputs).into_iter();
    let inputs = inputs.filter(|(role, _)| *role != InputRole::Space || !is_explained);
    edits.extend(inputs.map(|(_, text)| text));
    edits.extend(judged);
    if edits.is_empty() {
        edits.push("the space or the kernel has changed".to_string());
    }
    edits
}

/// Nothing where one of the headers does not list its inputs, as that of a replay.
fn changes(before: &[StudyInput], after: &[StudyInput]) -> Vec<(InputRole, String)> {
    if before.is_empty() || after.is_empty() {
        return Vec::new();
    }
    // Names of space files and kernels depend on the folder that evo runs in; there is one of each.
    let single = |role| matches!(role, InputRole::Space | InputRole::Kernel | InputRole::Compiler);
    let same = |a: &StudyInput, b: &StudyInput| a.role == b.role && (single(a.role) || a.name == b.name);
    let mut changes = Vec::new();
    for one in before {
        match after.iter().find(|other| same(one, other)) {
            None => changes.push((one.role, format!("{} is not used any more", one.shown()))),
            Some(other) if one.hash == other.hash => {}
            Some(other) if one.role == InputRole::Compiler => {
                let text = "the compiler or its arguments have changed";
                changes.push((one.role, format!("{text} (`{}`, now `{}`)", one.name, other.name)));
            }
            Some(other) => changes.push((one.role, format!("{} has changed", other.shown()))),
        }
    }
    let new = after.iter().filter(|one| !before.iter().any(|other| same(one, other)));
    changes.extend(new.map(|one| (one.role, format!("{} is new", one.shown()))));
    changes
}

fn strike(in_flight: &mut BTreeMap<u64, Configuration>, struck: &mut BTreeMap<u64, Struck>) {
    for (number, configuration) in std::mem::take(in_flight) {
        struck.entry(number).or_insert(Struck { number, configuration, strikes: 0 }).strikes += 1;
    }
}
