//! Why a recording cannot be used.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a file cannot be replayed.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// It cannot be opened or read.
    #[error("cannot read the recording `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The gzip stream is damaged.
    #[error("cannot unpack the recording `{}`: {source}", path.display())]
    Compressed { path: PathBuf, source: io::Error },
    /// Well-formed or not, its content is not a recording.
    #[error("cannot use the recording `{}`: {}", path.display(), fault)]
    Content { path: PathBuf, fault: RecordingFault },
}

impl RecordingError {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            RecordingError::Read { .. } => {
                Some("`replay:` takes a file, or the folder of a study with its journal")
            }
            RecordingError::Compressed { .. } => Some("the file may be cut off; fetch it again"),
            RecordingError::Content { fault, .. } => fault.hint.as_deref(),
        }
    }
}

/// What is wrong inside a file, where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{}{cause}", place(row))]
pub struct RecordingFault {
    /// The row as its file counts or names it.
    pub row: Option<String>,
    /// Lower case, present tense.
    pub cause: String,
    pub hint: Option<String>,
}

impl RecordingFault {
    /// A fault of the file as a whole.
    pub fn new(cause: impl Into<String>) -> RecordingFault {
        RecordingFault { row: None, cause: cause.into(), hint: None }
    }

    /// The same with the way out.
    pub fn with_hint(self, hint: impl Into<String>) -> RecordingFault {
        RecordingFault { hint: Some(hint.into()), ..self }
    }

    /// The same in a row.
    pub fn in_row(self, row: impl ToString) -> RecordingFault {
        RecordingFault { row: Some(row.to_string()), ..self }
    }
}

fn place(row: &Option<String>) -> String {
    row.as_ref().map(|row| format!("row {row}: ")).unwrap_or_default()
}
