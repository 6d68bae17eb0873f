//! Follows a journal that somebody else writes: decodes what is new, and renders the page again.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::cli::answer::Answer;
use crate::cli::error::CliError;
use crate::cli::report::ChosenStudy;
use crate::cli::report::{self, SourceWish};
use crate::journal::error::JournalError;
use crate::journal::own_folder::OwnFolder;
use crate::journal::reader::{self, JOURNAL, Journal};
use crate::journal::record::FORMAT;
use crate::report::standing::Standing;
use crate::report::study_report::{LoadedStudy, ReportMaterial, StudyModel, StudyView};

/// How often the journal's length is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// A page is rendered at most once in so many times of what rendering took: 5 % of one processor, so that a sweep on the
/// host device beside it is not disturbed.
const REST: u32 = 20;
/// And not more often than this.
const LEAST: Duration = Duration::from_secs(1);

/// The page as it is now.
#[derive(Debug)]
pub struct LivePage {
    state: Mutex<PageState>,
    changed: Condvar,
}

#[derive(Debug)]
struct PageState {
    text: Arc<str>,
    version: u64,
}

impl LivePage {
    pub fn new(text: String) -> LivePage {
        LivePage { state: Mutex::new(PageState { text: text.into(), version: 1 }), changed: Condvar::new() }
    }

    /// The page and its version.
    pub fn now(&self) -> (Arc<str>, u64) {
        let state = self.lock();
        (Arc::clone(&state.text), state.version)
    }

    /// Waits until there is a newer version than `known`; gives the version there is after `patience` at the latest.
    pub fn wait(&self, known: u64, patience: Duration) -> u64 {
        let waited = self.changed.wait_timeout_while(self.lock(), patience, |state| state.version <= known);
        waited.unwrap_or_else(PoisonError::into_inner).0.version
    }

    fn replace(&self, text: String) {
        let mut state = self.lock();
        if *state.text != *text {
            state.text = text.into();
            state.version += 1;
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, PageState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a journal as it grows.
#[derive(Debug)]
pub struct Follower {
    folder: OwnFolder,
    /// What was decoded, up to the last whole line.
    journal: Journal,
    /// A copy of the header as `study.json` has it, for a journal that lacks its own.
    copy: String,
    peers: Option<Standing>,
}

impl Follower {
    /// Reads what there is.
    pub fn begin(chosen: ChosenStudy) -> Result<Follower, CliError> {
        let material = report::gather(&chosen, SourceWish::Leave)?;
        let copy = serde_json::json!({ "header": material.study.header }).to_string();
        let (folder, journal, peers) = (chosen.folder, Journal::default(), material.peers);
        let mut follower = Follower { folder, journal, copy, peers };
        follower.catch_up()?;
        Ok(follower)
    }

    /// Decodes the lines that are new; whether there are any.
    fn catch_up(&mut self) -> Result<bool, JournalError> {
        JournalError::refuse_irregular(&self.folder, JOURNAL)?;
        let fail = |error| JournalError::io("read", &self.folder.place(JOURNAL), error);
        let (_, length) = self.folder.age(JOURNAL).map_err(fail)?;
        if length == self.journal.length {
            return Ok(false);
        }
        let bytes = self.folder.read(JOURNAL).map_err(fail)?;
        // Shorter than what is known: a resumed run has cut off a torn line, or it is another journal.
        if (bytes.len() as u64) < self.journal.length {
            self.journal = Journal::default();
        }
        let start = usize::try_from(self.journal.length).unwrap_or(usize::MAX).min(bytes.len());
        // A last line without its newline is still being written.
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(start, |at| (at + 1).max(start));
        let fresh = reader::parse(&bytes[start..end]);
        let is_new = end > start;
        self.journal.records.extend(fresh.records);
        self.journal.rejected.extend(fresh.rejected);
        self.journal.length = end as u64;
        Ok(is_new)
    }

    /// The page as of what was read.
    pub fn page(&mut self) -> Result<String, CliError> {
        let records = self.journal.records.clone();
        let known = Journal { records, length: self.journal.length, ..Journal::default() };
        let study = LoadedStudy::of(known, self.copy.as_bytes()).filter(|own| own.header.format <= FORMAT);
        let path = self.folder.place(JOURNAL);
        let mut study = study.ok_or_else(|| CliError::from(JournalError::NoHeader { path }))?;
        let damaged = self.journal.rejected.len();
        if damaged > 0 {
            study.damage.push(format!("{damaged} damaged lines of the journal are left out"));
        }
        study.keep_insight(&self.folder);
        let material = ReportMaterial { peers: self.peers.clone(), ..ReportMaterial::of(study) };
        report::rendered(&StudyModel::of(&material), StudyView::LivePage)
    }

    /// Renders the page again whenever there is more, until a signal ends the process.
    pub fn follow(&mut self, live: &LivePage) -> Result<Answer, CliError> {
        let mut pending = false;
        let mut rest_until = Instant::now();
        loop {
            std::thread::sleep(LOOK);
            pending |= self.catch_up()?;
            if !pending || Instant::now() < rest_until {
                continue;
            }
            let began = Instant::now();
            live.replace(self.page()?);
            pending = false;
            rest_until = Instant::now() + (began.elapsed() * REST).max(LEAST);
        }
    }
}
