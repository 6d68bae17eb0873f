//! What can go wrong with the files of a study.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::own_folder::OwnFolder;

#[derive(Debug, Error)]
pub enum JournalError {
    #[error("cannot {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("`{}` is {what}, not a file", path.display())]
    NotAFile { path: PathBuf, what: &'static str },
    #[error("no space left on the device that holds `{}`", path.display())]
    DiskFull { path: PathBuf },
    #[error("study `{}` is in use by process {holder}", path.display())]
    Locked { path: PathBuf, holder: String },
    #[error(
        "the journal `{}` belongs to another {what}: it was written for `{written}`, this run is `{current}`",
        path.display()
    )]
    Foreign { path: PathBuf, what: &'static str, written: String, current: String },
    #[error("the journal `{}` has format {found}; this evo reads up to {known}", path.display())]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error("the journal `{}` has no header that this evo reads", path.display())]
    NoHeader { path: PathBuf },
}

impl JournalError {
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> JournalError {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => JournalError::DiskFull { path },
            _ => JournalError::Io { action, path, source },
        }
    }

    /// Nothing is opened.
    pub fn refuse_irregular(folder: &OwnFolder, name: &str) -> Result<(), JournalError> {
        folder.irregular(name).map_or(Ok(()), |what| {
            let path = folder.place(name);
            Err(JournalError::NotAFile { path, what })
        })
    }

    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            JournalError::Io { .. } => "mend that, or choose another folder with `--out`",
            JournalError::NotAFile { .. } => {
                "move it away, or choose another folder with `--study` or `--out`"
            }
            JournalError::DiskFull { .. } => {
                "everything before this record is safe; make room and run the same command again, a sweep with `--resume`"
            }
            JournalError::Locked { .. } => "wait for it, or choose another folder with `--study` or `--out`",
            JournalError::Foreign { .. } => {
                "nothing can be carried over: begin a new study with `--study` or `--out`, or go back to what this one \
                 began with"
            }
            JournalError::Newer { .. } => "use a newer evo",
            JournalError::NoHeader { .. } => {
                "its first line is damaged or of an early build of evo; choose another folder with `--study` or `--out`"
            }
        };
        Some(hint.to_string())
    }
}
