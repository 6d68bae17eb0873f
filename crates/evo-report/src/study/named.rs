//! Studies and their evaluations by the names that a command line gives them: `@champion`, `@previous`, `@17`, `@3fa9c0`.
//!
//! Journals are only read: no lock is taken and nothing is written, so a sweep that is running is not disturbed, and a
//! line that it is just writing counts as not there yet.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::{ChampionChange, LeaderboardSection};
use evo_space::diagnostic::nearest;
use evo_space::genome::{Configuration, ContentHash};
use thiserror::Error;

use super::studies::{StudyFolder, readable, studies};
use evo_journal::error::JournalError;
use evo_journal::ladder::output_folder;
use evo_journal::own_folder::OwnFolder;
use evo_journal::reader::{self, JOURNAL};
use evo_journal::record::{JournalRecord, StudyHeader};
use evo_journal::{leaderboard, leaderboard_file};

#[derive(Clone, Copy, Debug)]
pub struct StudySearch<'a> {
    pub out: &'a Path,
    /// A study's name in it, or the path of a study's folder.
    pub study: Option<&'a str>,
    pub kernel: &'a str,
    /// Only studies on this kind of device, where it is known.
    pub device: Option<DeviceKind>,
}

#[derive(Clone, Debug)]
pub struct NamedEvaluation {
    pub study: String,
    pub number: u64,
    pub configuration: Configuration,
    /// Of the rendered source with the files that it includes, where it is known.
    pub source_hash: Option<ContentHash>,
    /// Whether the name is a prefix of the source's or the code's hash, so that another source would be another
    /// candidate.
    pub by_content: bool,
}

#[derive(Debug, Error)]
pub enum NameError {
    #[error("{text}")]
    Refused { text: String, hint: String },
    #[error(transparent)]
    Journal(#[from] JournalError),
}

fn refused(text: impl Into<String>, hint: impl Into<String>) -> NameError {
    NameError::Refused { text: text.into(), hint: hint.into() }
}

const FOLDERS: usize = 1000;
/// Candidates that an ambiguous prefix lists.
const LISTED: usize = 8;
/// Digits that a prefix of a hash has at least.
pub const PREFIX_MIN: usize = 4;

struct ReadStudy {
    name: String,
    header: StudyHeader,
    records: Vec<JournalRecord>,
}

impl ReadStudy {
    fn read(name: String, folder: &OwnFolder) -> Result<ReadStudy, NameError> {
        let records = reader::read_in(folder)?.records;
        let header = records.iter().rev().find_map(|record| match record {
            JournalRecord::Study(header) => Some((**header).clone()),
            _ => None,
        });
        Ok(ReadStudy { name, header: readable(header, folder)?, records })
    }

    /// Evaluations in the order of their verdicts, those of before an edit included.
    fn evaluations(&self) -> impl Iterator<Item = &Evaluation> {
        self.records.iter().filter_map(|record| match record {
            JournalRecord::Evaluation(evaluation) | JournalRecord::NotFinal(evaluation) => {
                Some(&**evaluation)
            }
            _ => None,
        })
    }

    fn named(&self, evaluation: &Evaluation, by_content: bool) -> NamedEvaluation {
        NamedEvaluation {
            source_hash: evaluation.source_hash.clone(),
            by_content,
            ..NamedEvaluation::of(&self.name, evaluation.number, &evaluation.configuration)
        }
    }
}

impl NamedEvaluation {
    fn of(study: &str, number: u64, configuration: &Configuration) -> NamedEvaluation {
        NamedEvaluation {
            study: study.to_string(),
            number,
            configuration: configuration.clone(),
            source_hash: None,
            by_content: false,
        }
    }

    fn champion(section: &LeaderboardSection) -> NamedEvaluation {
        let champion = &section.champion;
        NamedEvaluation {
            source_hash: champion.source_hash.clone(),
            ..NamedEvaluation::of(&section.study.name, champion.number, &champion.configuration)
        }
    }
}

impl StudySearch<'_> {
    /// The champion: of the leaderboard, or of the study that is named. `previous` for the one before it.
    pub fn champion(&self, previous: bool) -> Result<NamedEvaluation, NameError> {
        let section = self.section()?.map_err(|study| {
            let text = format!("study `{study}` has no champion: nothing in it was confirmed yet");
            refused(
                text,
                "`evo sweep` confirms its finalists at the end; `@NUMBER` names any evaluation of the study",
            )
        })?;
        if !previous {
            return Ok(NamedEvaluation::champion(&section));
        }
        let before = section.history.iter().rev().nth(1).ok_or_else(|| {
            let text = format!(
                "`{}` has no previous champion: evaluation {} of study `{}` was the first",
                self.kernel, section.champion.number, section.study.name
            );
            refused(text, "`@champion` names it, `@baseline` the default configuration")
        })?;
        Ok(NamedEvaluation::of(&before.study, before.number, &before.configuration))
    }

    /// The fastest configurations of the problems, each once: of the leaderboard, or of the study that is named. Where
    /// nobody else leads anywhere, the champion alone.
    pub fn portfolio(&self) -> Result<Vec<NamedEvaluation>, NameError> {
        let section = self.confirmed()?;
        let mut found = vec![NamedEvaluation::champion(&section)];
        for best in section.portfolio.iter().flat_map(|portfolio| &portfolio.best) {
            if !found.iter().any(|other| other.number == best.number) {
                found.push(NamedEvaluation::of(&found[0].study, best.number, &best.configuration));
            }
        }
        Ok(found)
    }

    /// What was confirmed: the newest section of the leaderboard, or that of the study that is named.
    pub fn confirmed(&self) -> Result<LeaderboardSection, NameError> {
        self.section()?.map_err(|_| {
            let text = format!("`{}` has no portfolio: nothing was confirmed yet", self.kernel);
            refused(text, "`evo sweep` confirms its finalists at the end")
        })
    }

    /// The newest section of the leaderboard, or of the study that is named, with its champions up to now; the study's
    /// name where nothing was confirmed.
    fn section(&self) -> Result<Result<LeaderboardSection, String>, NameError> {
        if self.study.is_none()
            && let Some(section) = self.section_of_board()?
        {
            return Ok(Ok(section));
        }
        let study = self.newest()?;
        let (mut newest, mut history) = (None, Vec::<ChampionChange>::new());
        for (_, section) in leaderboard::sections(&study.records) {
            let change = leaderboard::change(&section, None);
            if history.last().is_none_or(|last| last.configuration != change.configuration) {
                history.push(change);
            }
            newest = Some(section);
        }
        Ok(newest.map(|section| LeaderboardSection { history, ..section }).ok_or(study.name))
    }

    /// Nothing where there is no board.
    fn section_of_board(&self) -> Result<Option<LeaderboardSection>, NameError> {
        let Some(out) = output_folder(self.out)? else { return Ok(None) };
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
        for study in self.read(usize::MAX)? {
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
        self.read(1).map(|mut studies| studies.swap_remove(0))
    }

    /// The study that is named, or so many of the kernel, the newest first; at least one.
    fn read(&self, most: usize) -> Result<Vec<ReadStudy>, NameError> {
        if let Some(study) = self.study {
            return Ok(vec![self.open(study)?]);
        }
        let mut found = match output_folder(self.out)? {
            Some(out) => studies(&out).map_err(|error| JournalError::io("read", self.out, error))?,
            None => Vec::new(),
        };
        found.truncate(FOLDERS);
        let headers = found.into_iter().map(|study| (study.first_header(), study));
        let (headed, unreadable): (Vec<_>, Vec<_>) = headers.partition(|(header, _)| header.is_some());
        let is_own = |header: &StudyHeader| {
            header.kernel == self.kernel && self.device.is_none_or(|kind| header.device.kind == kind)
        };
        let own = headed.into_iter().filter(|(header, _)| header.as_ref().is_some_and(is_own));
        let read = own.take(most).map(|(_, study)| ReadStudy::read(study.name, &study.folder));
        let read = read.collect::<Result<Vec<_>, _>>()?;
        if read.is_empty() { Err(self.none(&unreadable)) } else { Ok(read) }
    }

    fn none(&self, unreadable: &[(Option<StudyHeader>, StudyFolder)]) -> NameError {
        let kind = self.device.map_or(String::new(), |kind| format!(" on {}", kind.as_str()));
        let text = format!("there is no study of `{}`{kind} under `{}`", self.kernel, self.out.display());
        // The first by name.
        let Some(first) = unreadable.iter().map(|(_, study)| &study.name).min() else {
            return refused(text, "`evo sweep` begins one; `--out DIR` names another folder");
        };
        let more = match unreadable.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let hint = format!("the journal of `{first}`{more} cannot be read: `--study {first}` says why");
        refused(text, hint)
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
}
