//! How a command of the laboratory fails.

use std::error::Error;
use std::fmt::Display;

#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error("{said}{}", hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default())]
    Usage { said: String, hint: Option<String> },
    /// A strategy or the laboratory itself is wrong.
    #[error("{0}")]
    Internal(String),
}

impl LabError {
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

    pub fn with_hint(self, text: impl Into<String>) -> LabError {
        match self {
            LabError::Usage { said, .. } => LabError::Usage { said, hint: Some(text.into()) },
            internal => internal,
        }
    }

    pub fn internal(error: impl Display) -> LabError {
        LabError::Internal(error.to_string())
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            LabError::Usage { .. } => 2,
            LabError::Internal(_) => 4,
        }
    }
}
