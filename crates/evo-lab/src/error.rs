//! How a command of the laboratory fails.

use std::error::Error;
use std::fmt::Display;

/// Why a command did not finish.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The command line or an input file is wrong.
    #[error("{said}{}", hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default())]
    Usage {
        /// What is wrong.
        said: String,
        /// What a person can do about it.
        hint: Option<String>,
    },
    /// A strategy or the laboratory itself is wrong.
    #[error("{0}")]
    Internal(String),
}

impl LabError {
    /// A mistake of the user's.
    pub fn usage(said: impl Display) -> LabError {
        LabError::Usage { said: said.to_string(), hint: None }
    }

    /// A mistake of the user's: another error with its causes, and its hint if it has one.
    pub fn bad_input(error: &dyn Error, hint: Option<&str>) -> LabError {
        let mut said = error.to_string();
        let mut cause = error.source();
        while let Some(next) = cause {
            let words = next.to_string();
            // Some errors name their cause themselves.
            if !said.contains(&words) {
                said = format!("{said}: {words}");
            }
            cause = next.source();
        }
        LabError::Usage { said, hint: hint.map(str::to_string) }
    }

    /// The same with what a person can do about it.
    pub fn with_hint(self, text: impl Into<String>) -> LabError {
        match self {
            LabError::Usage { said, .. } => LabError::Usage { said, hint: Some(text.into()) },
            internal => internal,
        }
    }

    /// A fault of our own, with the message of another error.
    pub fn internal(error: impl Display) -> LabError {
        LabError::Internal(error.to_string())
    }

    /// The process's exit code, the same as `evo` gives.
    pub fn exit_code(&self) -> u8 {
        match self {
            LabError::Usage { .. } => 2,
            LabError::Internal(_) => 4,
        }
    }
}
