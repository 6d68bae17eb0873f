//! Studies and their evaluations by the names that a command line gives them: `@champion`, `@previous`, `@17`, `@3fa9c0`.
//!
//! Journals are only read: no lock is taken and nothing is written, so a sweep that is running is not disturbed, and a
//! line that it is just writing counts as not there yet.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::{ChampionChange, LeaderboardSection};
use evo_space::diagnostic::nearest;
use evo_space::genome::{Configuration, ContentHash};
use thiserror::Error;

use evo_journal::error::JournalError;
use evo_journal::own_folder::OwnFolder;
use evo_journal::reader::{self, JOURNAL, Journal};
use evo_journal::record::{FORMAT, JournalRecord, StudyHeader};
use evo_journal::{champion, leaderboard, leaderboard_file, line};

/// Where studies are looked for, and whose.
#[derive(Clone, Copy, Debug)]
pub struct StudySearch<'a> {
    /// The evidence folder.
    pub out: &'a Path,
    /// A study's name in it, or the path of a study's folder.
    pub study: Option<&'a str>,
    /// The kernel whose studies count.
    pub kernel: &'a str,
    /// Only studies on this kind of device, where it is known.
    pub device: Option<DeviceKind>,
}

/// An evaluation that a name means.
#[derive(Clone, Debug)]
pub struct NamedEvaluation {
    /// The study's name.
    pub study: String,
    pub number: u64,
    pub configuration: Configuration,
    /// Of the rendered source with the files that it includes, where it is known.
    pub source_hash: Option<ContentHash>,
    /// Of the machine code, where it is known.
    pub code_hash: Option<ContentHash>,
    /// Whether the name is a prefix of the source's or the code's hash, so that another source would be another
    /// candidate.
    pub by_content: bool,
}

/// Why a name means nothing.
#[derive(Debug, Error)]
pub enum NameError {
    /// What is wrong, and what a person can do about it.
    #[error("{text}")]
    Refused { text: String, hint: String },
    /// Trouble with a journal or the leaderboard.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

fn refused(text: impl Into<String>, hint: impl Into<String>) -> NameError {
    NameError::Refused { text: text.into(), hint: hint.into() }
}

/// Bytes in which a journal's first header is looked for.
const HEADER_BYTES: u64 = 1 << 20;
/// Folders that are looked into.
const FOLDERS: usize = 1000;
/// Candidates that an ambiguous prefix lists.
const LISTED: usize = 8;
/// Digits that a prefix of a hash has at least.
pub const PREFIX_MIN: usize = 4;

/// A study whose journal was read.
struct ReadStudy {
    name: String,
    header: StudyHeader,
    records: Vec<JournalRecord>,
}

/// Folders with a journal.
#[derive(Default)]
struct StudyFolders {
    /// Of the kernel, the newest first.
    own: Vec<(String, OwnFolder)>,
    /// Of which it cannot be told.
    unreadable: Vec<String>,
}

impl ReadStudy {
    fn read(name: String, folder: &OwnFolder) -> Result<ReadStudy, NameError> {
        let journal = reader::read_in(folder)?;
        let headers = journal.records.iter().rev();
        let header = headers.into_iter().find_map(|record| match record {
            JournalRecord::Study(header) => Some((**header).clone()),
            _ => None,
        });
        let path = || folder.place(JOURNAL);
        let header = header.ok_or_else(|| JournalError::NoHeader { path: path() })?;
        if header.format > FORMAT {
            let (found, known) = (header.format, FORMAT);
            return Err(JournalError::Newer { path: path(), found, known }.into());
        }
        Ok(ReadStudy { name, header, records: journal.records })
    }

    /// Evaluations in the order of their verdicts, those of before an edit included.
    fn evaluations(&self) -> impl Iterator<Item = &Evaluation> {
        self.records.iter().filter_map(|record| match record {
            JournalRecord::Evaluation(one) | JournalRecord::NotFinal(one) => Some(&**one),
            _ => None,
        })
    }

    fn named(&self, one: &Evaluation, by_content: bool) -> NamedEvaluation {
        NamedEvaluation {
            study: self.name.clone(),
            number: one.number,
            configuration: one.configuration.clone(),
            source_hash: one.source_hash.clone(),
            code_hash: one.code_hash.clone(),
            by_content,
        }
    }
}

impl StudySearch<'_> {
    /// The champion: of the leaderboard, or of the study that is named. `previous` for the one before it.
    pub fn champion(&self, previous: bool) -> Result<NamedEvaluation, NameError> {
        if self.study.is_none()
            && let Some(section) = self.section()?
        {
            return self.of_history(&section, &section.history, previous);
        }
        let study = self.newest()?;
        let journal = Journal { records: study.records.clone(), ..Journal::default() };
        let mut sections: Vec<LeaderboardSection> =
            leaderboard::sections(&journal.records).into_iter().map(|(_, section)| section).collect();
        let Some(newest) = sections.pop() else {
            let text = format!("study `{}` has no champion: nothing in it was confirmed yet", study.name);
            let hint =
                "`evo sweep` confirms its finalists at the end; `@NUMBER` names any evaluation of the study";
            return Err(refused(text, hint));
        };
        sections.push(newest.clone());
        let mut history: Vec<ChampionChange> = Vec::new();
        for section in &sections {
            let change = champion::change(section, None);
            if history.last().is_none_or(|last| last.configuration != change.configuration) {
                history.push(change);
            }
        }
        self.of_history(&newest, &history, previous)
    }

    /// The fastest configurations of the problems, each once: of the leaderboard, or of the study that is named. Where
    /// nobody else leads anywhere, the champion alone.
    pub fn portfolio(&self) -> Result<Vec<NamedEvaluation>, NameError> {
        let section = self.confirmed()?;
        let mut found = vec![self.of_history(&section, &section.history, false)?];
        for own in section.portfolio.iter().flat_map(|own| &own.best) {
            if !found.iter().any(|other| other.number == own.number) {
                found.push(NamedEvaluation {
                    number: own.number,
                    configuration: own.configuration.clone(),
                    source_hash: None,
                    code_hash: None,
                    ..found[0].clone()
                });
            }
        }
        Ok(found)
    }

    /// What was confirmed: the newest section of the leaderboard, or that of the study that is named.
    pub fn confirmed(&self) -> Result<LeaderboardSection, NameError> {
        let of_board = if self.study.is_none() { self.section()? } else { None };
        let section = match of_board {
            Some(section) => Some(section),
            None => {
                let study = self.newest()?;
                let journal = Journal { records: study.records, ..Journal::default() };
                leaderboard::sections(&journal.records).pop().map(|(_, section)| section)
            }
        };
        section.ok_or_else(|| {
            let text = format!("`{}` has no portfolio: nothing was confirmed yet", self.kernel);
            refused(text, "`evo sweep` confirms its finalists at the end")
        })
    }

    fn of_history(
        &self,
        section: &LeaderboardSection,
        history: &[ChampionChange],
        previous: bool,
    ) -> Result<NamedEvaluation, NameError> {
        if !previous {
            let own = &section.champion;
            return Ok(NamedEvaluation {
                study: section.study.name.clone(),
                number: own.number,
                configuration: own.configuration.clone(),
                source_hash: own.source_hash.clone(),
                code_hash: own.code_hash.clone(),
                by_content: false,
            });
        }
        let before = history.len().checked_sub(2).and_then(|at| history.get(at));
        let Some(before) = before else {
            let text = format!(
                "`{}` has no previous champion: evaluation {} of study `{}` was the first",
                self.kernel, section.champion.number, section.study.name
            );
            return Err(refused(text, "`@champion` names it, `@baseline` the default configuration"));
        };
        Ok(NamedEvaluation {
            study: before.study.clone(),
            number: before.number,
            configuration: before.configuration.clone(),
            source_hash: None,
            code_hash: None,
            by_content: false,
        })
    }

    /// The newest section of the leaderboard for this kernel; nothing where there is no board.
    fn section(&self) -> Result<Option<LeaderboardSection>, NameError> {
        let out = match OwnFolder::open(self.out) {
            Ok(out) => out,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(JournalError::io("open", self.out, error).into()),
        };
        let board = match leaderboard_file::load(&out)? {
            None => return Ok(None),
            Some(Ok(board)) => board,
            Some(Err(reason)) => {
                let text = format!("`{}` cannot be read: {reason}", out.place("leaderboard.json").display());
                let hint = "`evo leaderboard --rebuild` computes it again from the journals";
                return Err(refused(text, hint));
            }
        };
        let own = board.sections.into_iter().filter(|section| {
            section.kernel == self.kernel && self.device.is_none_or(|kind| section.device.kind == kind)
        });
        Ok(own.max_by(|a, b| a.confirmed_at.cmp(&b.confirmed_at)))
    }

    /// An evaluation by its number in the study that is named, or in the newest one.
    pub fn number(&self, number: u64) -> Result<NamedEvaluation, NameError> {
        let study = self.newest()?;
        // The last verdict of a number is the one that holds.
        if let Some(one) = study.evaluations().filter(|one| one.number == number).last() {
            return Ok(study.named(one, false));
        }
        let numbers: BTreeSet<u64> = study.evaluations().map(|one| one.number).collect();
        let has = match (numbers.first(), numbers.last()) {
            (Some(first), Some(last)) if first == last => format!("it has {first} only"),
            (Some(first), Some(last)) => format!("it has {} evaluations, {first} to {last}", numbers.len()),
            _ => "it has none yet".to_string(),
        };
        let text = format!("study `{}` has no evaluation {number}: {has}", study.name);
        Err(refused(text, "`--study NAME` names another study, `--out DIR` another folder"))
    }

    /// An evaluation by a prefix of its configuration's, source's or code's hash, in all studies of the kernel.
    pub fn hash(&self, prefix: &str) -> Result<NamedEvaluation, NameError> {
        let mut matches: Vec<(NamedEvaluation, ContentHash, &'static str)> = Vec::new();
        for study in self.all()? {
            for one in study.evaluations() {
                let hashes = [
                    ("configuration", Some(&one.configuration_hash)),
                    ("source", one.source_hash.as_ref()),
                    ("code", one.code_hash.as_ref()),
                ];
                let own = hashes.into_iter().find_map(|(what, hash)| {
                    hash.filter(|hash| hash.as_str().starts_with(prefix)).map(|hash| (what, hash.clone()))
                });
                let Some((what, hash)) = own else { continue };
                // One configuration stands in several studies; and one with the code and the launches of another is
                // the same candidate. Equal code alone is not: launches may differ.
                let known = matches.iter().any(|(other, own, _)| {
                    let twin = *own == hash && one.duplicate_of.is_some();
                    twin || other.configuration.hash() == one.configuration_hash
                });
                if !known {
                    matches.push((study.named(one, what != "configuration"), hash, what));
                }
            }
        }
        match matches.len() {
            1 => Ok(matches.swap_remove(0).0),
            0 => {
                let text = format!(
                    "no evaluation of `{}` under `{}` has a hash that begins with `{prefix}`",
                    self.kernel,
                    self.out.display()
                );
                let hint =
                    "a candidate is found by the hash of its configuration, its source or its machine code";
                Err(refused(text, hint))
            }
            count => {
                let mut text = format!("`@{prefix}` is ambiguous: {count} candidates match");
                for (one, hash, what) in matches.iter().take(LISTED) {
                    let NamedEvaluation { study, number, configuration, .. } = one;
                    text.push_str(&format!("\n  {what} {hash}  {number} of `{study}`  {configuration}"));
                }
                if count > LISTED {
                    text.push_str(&format!("\n  … and {} more", count - LISTED));
                }
                Err(refused(text, "give more digits"))
            }
        }
    }

    /// The study that is named, or the newest of the kernel.
    fn newest(&self) -> Result<ReadStudy, NameError> {
        if let Some(study) = self.study {
            return self.open(study);
        }
        let StudyFolders { own, unreadable } = self.folders()?;
        let Some((name, folder)) = own.into_iter().next() else { return Err(self.none(&unreadable)) };
        ReadStudy::read(name, &folder)
    }

    /// The study that is named, or all of the kernel, the newest first.
    fn all(&self) -> Result<Vec<ReadStudy>, NameError> {
        if let Some(study) = self.study {
            return Ok(vec![self.open(study)?]);
        }
        let StudyFolders { own, unreadable } = self.folders()?;
        if own.is_empty() {
            return Err(self.none(&unreadable));
        }
        own.into_iter().map(|(name, folder)| ReadStudy::read(name, &folder)).collect()
    }

    fn none(&self, unreadable: &[String]) -> NameError {
        let kind = self.device.map_or(String::new(), |kind| format!(" on {}", kind.as_str()));
        let text = format!("there is no study of `{}`{kind} under `{}`", self.kernel, self.out.display());
        if let Some(first) = unreadable.first() {
            let count = unreadable.len();
            let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
            let hint = format!("the journal of `{first}`{more} cannot be read: `--study {first}` says why");
            return refused(text, hint);
        }
        refused(text, "`evo sweep` begins one; `--out DIR` names another folder")
    }

    /// The study of that name or path, which must be of this kernel.
    fn open(&self, study: &str) -> Result<ReadStudy, NameError> {
        let path = match study.contains('/') {
            true => PathBuf::from(study),
            false => self.out.join(study),
        };
        let folder = OwnFolder::open(&path).ok().filter(|folder| folder.has_file(JOURNAL));
        let Some(folder) = folder else {
            let text = format!("there is no study `{study}`: `{}` has no journal", path.display());
            let out = OwnFolder::open(self.out).ok();
            let names = out.and_then(|out| out.names().ok()).unwrap_or_default();
            // A folder of that very name holds no journal that can be read.
            let near = nearest(study, names.iter().map(String::as_str).filter(|name| *name != study));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`--study` takes a name under `--out`, or the path of a study's folder".to_string(),
            };
            return Err(refused(text, hint));
        };
        let name = path.file_name().map_or(study.to_string(), |name| name.to_string_lossy().into_owned());
        let read = ReadStudy::read(name, &folder)?;
        if read.header.kernel != self.kernel {
            let StudyHeader { kernel, space, .. } = &read.header;
            let text = format!(
                "study `{study}` is of another kernel: it searched `{kernel}` of `{space}`, and this space has \
                 `{}`",
                self.kernel
            );
            return Err(refused(text, "name the space that the study searched, or another study"));
        }
        Ok(read)
    }

    /// The folders of the kernel's studies, the newest first.
    fn folders(&self) -> Result<StudyFolders, NameError> {
        let out = match OwnFolder::open(self.out) {
            Ok(out) => out,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(StudyFolders::default()),
            Err(error) => return Err(JournalError::io("open", self.out, error).into()),
        };
        let mut names = out.names().map_err(|error| JournalError::io("read", self.out, error))?;
        names.sort();
        let (mut found, mut unreadable) = (Vec::new(), Vec::new());
        for name in names.into_iter().take(FOLDERS) {
            let Ok(folder) = out.folder(&name) else { continue };
            if !folder.has_file(JOURNAL) {
                continue;
            }
            let Some(header) = first_header(&folder) else {
                unreadable.push(name);
                continue;
            };
            let is_own =
                header.kernel == self.kernel && self.device.is_none_or(|kind| header.device.kind == kind);
            if let Some(written) = is_own.then(|| folder.age(JOURNAL).ok()).flatten() {
                found.push((written.0, name, folder));
            }
        }
        found.sort_by_key(|(written, ..)| std::cmp::Reverse(*written));
        let own = found.into_iter().map(|(_, name, folder)| (name, folder)).collect();
        Ok(StudyFolders { own, unreadable })
    }
}

/// The header in the first line of a journal.
fn first_header(folder: &OwnFolder) -> Option<StudyHeader> {
    let start = folder.read_start(JOURNAL, HEADER_BYTES).ok()?;
    match line::decode(start.split(|byte| *byte == b'\n').next()?).ok()? {
        JournalRecord::Study(header) => Some(*header),
        _ => None,
    }
}
