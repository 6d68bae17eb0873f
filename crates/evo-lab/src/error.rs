//! How a command of the laboratory fails.

use std::fmt::Display;

use thiserror::Error;

/// Why a command did not finish. The text is the whole message, a `hint:` line included.
#[derive(Debug, Error)]
pub enum LabError {
    /// The command line or an input file is wrong.
    #[error("{0}")]
    Usage(String),
    /// A strategy or the laboratory itself is wrong.
    #[error("{0}")]
    Internal(String),
}

impl LabError {
    /// A mistake of the user's, with the message of another error.
    pub fn usage(error: impl Display) -> LabError {
        LabError::Usage(error.to_string())
    }

    /// A fault of our own, with the message of another error.
    pub fn internal(error: impl Display) -> LabError {
        LabError::Internal(error.to_string())
    }

    /// The process's exit code, the same as `evo` gives.
    pub fn exit_code(&self) -> u8 {
        match self {
            LabError::Usage(_) => 2,
            LabError::Internal(_) => 4,
        }
    }
}
