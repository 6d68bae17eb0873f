//! The champions of all studies in an output folder, from their journals.

use std::io;
use std::path::PathBuf;

use evo_protocol::device::DeviceKind;
use evo_protocol::leaderboard::LeaderboardSection;

use super::error::JournalError;
use super::leaderboard;
use super::own_folder::OwnFolder;
use super::reader::{self, JOURNAL};
use super::record::JournalRecord;

#[derive(Debug, Default)]
pub struct StudySections {
    pub studies: usize,
    /// In the order in which the runs ended, each with the time of its end.
    pub sections: Vec<(String, LeaderboardSection)>,
    pub notes: Vec<String>,
}

/// A damaged line is left out and noted, as is a link.
pub fn sections_in(out: &OwnFolder) -> Result<StudySections, JournalError> {
    let mut found = StudySections::default();
    for name in out.names().map_err(|error| JournalError::io("read", out.path(), error))? {
        let Some(study) = study(out, &name, &mut found.notes) else { continue };
        found.studies += 1;
        let journal = reader::read_in(&study)?;
        let path = study.place(JOURNAL);
        found.notes.extend(journal.rejected.iter().map(|rejected| {
            format!("line {} of `{}` is damaged: {}", rejected.line, path.display(), rejected.reason)
        }));
        let newest = journal.records.iter().rev().find_map(|record| match record {
            JournalRecord::Study(header) => Some(header),
            _ => None,
        });
        if newest.is_some_and(|header| header.device.kind == DeviceKind::Replay) {
            let text = "is a replay, in which nothing was measured: it is not on the board";
            found.notes.push(format!("`{}` {text}", path.display()));
        }
        found.sections.extend(leaderboard::sections(&journal.records));
    }
    found.sections.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// Neither the folder nor its journal may be a link.
fn study(out: &OwnFolder, name: &str, notes: &mut Vec<String>) -> Option<OwnFolder> {
    let mut skip = |link: PathBuf| {
        notes.push(format!("`{}` is a link, which evo does not follow: it is left out", link.display()));
    };
    let Ok(folder) = out.folder(name) else {
        if out.place(name).is_dir() {
            skip(out.place(name));
        }
        return None;
    };
    if folder.has_link(JOURNAL) {
        skip(folder.place(JOURNAL));
    }
    folder.has_file(JOURNAL).then_some(folder)
}

pub fn output_folder(out: &std::path::Path) -> Result<Option<OwnFolder>, JournalError> {
    match OwnFolder::open(out) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(JournalError::io("open", out, error)),
    }
}
