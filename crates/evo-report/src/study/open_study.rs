//! An open study: appends to its journal, keeps its history, writes the views of it.

use std::path::Path;

use evo_protocol::evaluation::Evaluation;
use evo_search::insight::Insight;
use evo_space::genome::Configuration;
use evo_space::text::counted;

use super::folder::{self, FoundStudy, StudyError, StudyRequest, check_writable};
use crate::{csv, json};
use evo_journal::budget::CommandClock;
use evo_journal::error::JournalError;
use evo_journal::line::{LineWriter, Rejected};
use evo_journal::own_folder::OwnFolder;
use evo_journal::reader::{self, JOURNAL, write_view};
use evo_journal::record::{Confirmation, JournalRecord, RunEnd, SanitizedVariant, StudyHeader, now};
use evo_journal::replay::History;

const STUDY: &str = "study.json";

const GENERATION: &str = "gen-";

/// An open study; nobody else writes to it.
#[derive(Debug)]
pub struct Study {
    place: FoundStudy,
    writer: LineWriter,
    header: StudyHeader,
    clock: CommandClock,
    /// The last stamp of earlier runs.
    before_ms: u64,
    /// What earlier runs and this one have found.
    pub history: History,
    /// Things a person should know about how the study was opened.
    pub notices: Vec<String>,
}

impl Study {
    /// Starts or continues the study that was asked for. `header` is this run's; its `study` field
    /// is set to the name that was found. `clock` began with the command; records are stamped by it.
    pub fn open(
        request: &StudyRequest<'_>,
        header: StudyHeader,
        clock: CommandClock,
    ) -> Result<Study, StudyError> {
        // Before `find`, which creates the study's folder.
        check_writable(request.out)?;
        let complete = folder::complete(request, &header);
        let goes_on = complete.is_some();
        let place = complete.map_or_else(|| folder::find(request), Ok)?;
        let header = StudyHeader { study: place.name.clone(), ..header };
        place.folder.sweep_unfinished();
        if place.folder.exists(JOURNAL) {
            let mut study = Study::resume(place, header, clock)?;
            if goes_on {
                let message = format!(
                    "study `{}` has evaluated every configuration, so it goes on; `--study NAME` begins another",
                    study.header.study
                );
                study.notices.push(message.clone());
                study.note(message)?;
            }
            return Ok(study);
        }
        let writer = LineWriter::create(&place.folder, JOURNAL)?;
        let notices = match request.wish.resumes() {
            true => {
                vec![format!("nothing to resume in `{}`: a new study begins", place.folder.path().display())]
            }
            false => Vec::new(),
        };
        let history = History::default();
        let study = Study { place, writer, header, clock, before_ms: 0, history, notices };
        Ok(study.begin()?)
    }

    fn resume(place: FoundStudy, header: StudyHeader, clock: CommandClock) -> Result<Study, JournalError> {
        let path = place.folder.place(JOURNAL);
        let journal = reader::read_in(&place.folder)?;
        let mut notices = Vec::new();
        if journal.torn {
            notices.push(format!("the last line of `{}` was torn and is left out", path.display()));
        }
        if !journal.rejected.is_empty() {
            let (aside, fresh) = reader::set_aside(&place.folder, &journal.rejected)?;
            if !fresh.is_empty() {
                notices.push(rejected_notice(&path, &aside, &fresh));
            }
        }
        let length = journal.length;
        let mut history = History::replay(journal);
        if history.header.is_none() {
            // A damaged first line would otherwise make the whole journal unusable; `study.json` holds a copy
            // of the header.
            let copy = place.folder.read(STUDY).ok();
            history.header = copy.and_then(|text| json::read_header(&text));
        }
        // A journal that was cut before its first record is a study that has not begun.
        let edits = match history.header.is_some() || length > 0 {
            true => history.check_belongs(&path, &header)?,
            false => Vec::new(),
        };
        if !edits.is_empty() {
            notices.push(format!("the study was edited: {}", edits.join("; ")));
        }
        // Only now, because this cuts the file: the journal of another study has been refused above.
        let writer = LineWriter::append_after(&place.folder, JOURNAL, length)?;
        let before_ms = history.last_ms;
        Study { place, writer, header, clock, before_ms, history, notices }.begin()
    }

    fn begin(mut self) -> Result<Study, JournalError> {
        self.header.at_ms = self.stamp();
        self.writer.append(&JournalRecord::Study(Box::new(self.header.clone())))?;
        self.history.begin(self.header.clone());
        for message in self.notices.clone() {
            self.note(message)?;
        }
        Ok(self)
    }

    fn stamp(&mut self) -> Option<u64> {
        // Saturating: a damaged journal may hold any number.
        let now = self.before_ms.saturating_add(self.clock.elapsed_ms());
        self.history.last_ms = now.max(self.history.last_ms);
        Some(self.history.last_ms)
    }

    pub fn folder(&self) -> &Path {
        self.place.folder.path()
    }

    /// The evidence folder, in which the study's folder and the leaderboard are.
    pub fn out(&self) -> &OwnFolder {
        &self.place.out
    }

    pub fn header(&self) -> &StudyHeader {
        &self.header
    }

    /// Says that a configuration goes to the device. Not synced: the death of this process is what
    /// the record is for, and the lane must not wait for the disk twice per variant.
    pub fn started(
        &mut self,
        number: u64,
        configuration: &Configuration,
        lane: Option<u32>,
    ) -> Result<(), JournalError> {
        let (configuration, at_ms) = (configuration.clone(), self.stamp());
        self.writer.append_unsynced(&JournalRecord::Started { number, configuration, lane, at_ms })
    }

    /// Stamps and records a verdict; on return it is on the disk.
    pub fn record(&mut self, evaluation: &mut Evaluation) -> Result<(), JournalError> {
        evaluation.at_ms = self.stamp();
        // The journal first: nothing may act on a verdict that could not be written.
        self.writer.append(&JournalRecord::Evaluation(Box::new(evaluation.clone())))?;
        self.history.not_final.retain(|one| one.number != evaluation.number);
        self.history.evaluations.push(evaluation.clone());
        Ok(())
    }

    /// Records a result that another study measured. Not synced: what a power cut takes is taken over again.
    pub fn record_taken_over(&mut self, evaluation: &mut Evaluation) -> Result<(), JournalError> {
        evaluation.at_ms = self.stamp();
        self.writer.append_unsynced(&JournalRecord::Evaluation(Box::new(evaluation.clone())))?;
        self.history.evaluations.push(evaluation.clone());
        Ok(())
    }

    /// Records which evaluations of before an edit hold after it; on return it is on the disk. Files of generations
    /// are removed: they show what does not hold any more.
    pub fn keep(&mut self, numbers: Vec<u64>) -> Result<(), JournalError> {
        self.writer.append(&JournalRecord::Kept { numbers: numbers.clone() })?;
        self.history.keep(&numbers);
        self.place.folder.remove_files(|name| name.starts_with(GENERATION) && name.ends_with(".json"));
        Ok(())
    }

    /// Stamps and records a variant without a verdict; on return it is on the disk.
    pub fn record_not_final(&mut self, evaluation: &mut Evaluation) -> Result<(), JournalError> {
        evaluation.at_ms = self.stamp();
        self.writer.append(&JournalRecord::NotFinal(Box::new(evaluation.clone())))?;
        self.history.not_final.retain(|one| one.number != evaluation.number);
        self.history.not_final.push(evaluation.clone());
        Ok(())
    }

    pub fn confirm(&mut self, mut confirmation: Confirmation) -> Result<(), JournalError> {
        confirmation.at_ms = self.stamp();
        self.writer.append(&JournalRecord::Confirmation(Box::new(confirmation.clone())))?;
        self.history.confirmations.push(confirmation);
        Ok(())
    }

    /// Stamps and records what a sanitizer said; on return it is on the disk.
    pub fn sanitized(&mut self, mut one: SanitizedVariant) -> Result<(), JournalError> {
        one.at_ms = self.stamp();
        self.writer.append(&JournalRecord::Sanitized(Box::new(one.clone())))?;
        self.history.sanitize(one);
        Ok(())
    }

    pub fn note(&mut self, message: String) -> Result<(), JournalError> {
        let at_ms = self.stamp();
        self.writer.append(&JournalRecord::Note { at: now(), message, at_ms })
    }

    /// Records that this run ended by itself; gives the record with its stamp.
    pub fn end(&mut self, end: RunEnd) -> Result<RunEnd, JournalError> {
        let end = RunEnd { at_ms: self.stamp(), ..end };
        self.writer.append(&JournalRecord::End(Box::new(end.clone())))?;
        self.history.ends.push(end.clone());
        Ok(end)
    }

    pub fn write_generation(&self, generation: u32, slice: &[Evaluation]) -> Result<(), JournalError> {
        let name = format!("{GENERATION}{generation:03}.json");
        // A view of the journal that can be made again: the loop does not wait for the disk.
        // What was taken over belongs to no generation: nobody proposed it.
        let own: Vec<Evaluation> =
            slice.iter().filter(|one| one.taken_over_from.is_none()).cloned().collect();
        write_view(&self.place.folder, &name, &json::generation(generation, &own), false)
    }

    /// Writes `study.json`, with what the study says beyond its winner where that was looked at, and
    /// `results.csv`. Each is tried whatever became of the other; gives what could not be written.
    pub fn write_views(&self, insight: Option<&Insight>) -> Vec<JournalError> {
        let study = json::study(&self.header, &self.history, insight);
        let results = csv::table(&self.history.evaluations);
        let write = |name: &str, bytes: &[u8]| write_view(&self.place.folder, name, bytes, true).err();
        [write(STUDY, &study), write("results.csv", &results)].into_iter().flatten().collect()
    }
}

fn rejected_notice(path: &Path, aside: &Path, rejected: &[&Rejected]) -> String {
    let lines: Vec<String> = rejected.iter().take(5).map(|one| one.line.to_string()).collect();
    let more = if rejected.len() > 5 { ", …" } else { "" };
    format!(
        "`{}` has {} ({}{more}): kept aside in `{}`, the rest is used",
        path.display(),
        counted(rejected.len(), "damaged line"),
        lines.join(", "),
        aside.display()
    )
}
