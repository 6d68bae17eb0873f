//! The studies in an output folder, found without a lock.

use std::io;

use evo_journal::error::JournalError;
use evo_journal::line;
use evo_journal::own_folder::OwnFolder;
use evo_journal::reader::JOURNAL;
use evo_journal::record::{FORMAT, JournalRecord, StudyHeader};
use evo_space::diagnostic::nearest;

/// A header has a few KiB.
const HEADER_BYTES: u64 = 1 << 20;
/// Studies that a hint names.
const SHOWN: usize = 8;

/// The folder of a study. Neither it nor its journal is a link.
#[derive(Debug)]
pub struct StudyFolder {
    pub name: String,
    pub folder: OwnFolder,
    /// Seconds since 1970 of the journal's last line.
    written: i64,
    pub journal_bytes: u64,
}

/// The newest first; of one age, the one that comes last by name.
pub fn studies(out: &OwnFolder) -> io::Result<Vec<StudyFolder>> {
    let study = |name: String| {
        let folder = out.folder(&name).ok().filter(|folder| folder.has_file(JOURNAL))?;
        let (written, journal_bytes) = folder.age(JOURNAL).ok()?;
        Some(StudyFolder { name, folder, written, journal_bytes })
    };
    let mut found: Vec<StudyFolder> = out.names()?.into_iter().filter_map(study).collect();
    found.sort_by(|a, b| (b.written, &b.name).cmp(&(a.written, &a.name)));
    Ok(found)
}

impl StudyFolder {
    /// The header in the first line of the journal.
    pub fn first_header(&self) -> Option<StudyHeader> {
        let start = self.folder.read_start(JOURNAL, HEADER_BYTES).ok()?;
        match line::decode(start.split(|byte| *byte == b'\n').next()?).ok()? {
            JournalRecord::Study(header) => Some(*header),
            _ => None,
        }
    }
}

/// What to name instead of a study that is not there, `place` being where the others are; nothing where there are none.
pub fn instead_of(name: &str, out: Option<&OwnFolder>, place: &str) -> Option<String> {
    let found = out.and_then(|out| studies(out).ok()).unwrap_or_default();
    let mut names: Vec<&str> = found.iter().map(|study| study.name.as_str()).collect();
    names.sort_unstable();
    match nearest(name, names.iter().copied()) {
        Some(near) => Some(format!("did you mean `{near}`?")),
        None if names.is_empty() => None,
        None => {
            let more = if names.len() > SHOWN { ", …" } else { "" };
            names.truncate(SHOWN);
            Some(format!("studies {place}: {}{more}", names.join(", ")))
        }
    }
}

/// Refuses a study that has no header, and one that a newer evo wrote.
pub(crate) fn readable(header: Option<StudyHeader>, folder: &OwnFolder) -> Result<StudyHeader, JournalError> {
    let path = folder.place(JOURNAL);
    match header {
        None => Err(JournalError::NoHeader { path }),
        Some(newer) if newer.format > FORMAT => {
            Err(JournalError::Newer { path, found: newer.format, known: FORMAT })
        }
        Some(header) => Ok(header),
    }
}
