//! How a command of the laboratory fails.

use std::error::Error;
use std::fmt::Display;

/// The exit codes of a wrong command line, as for `evo`, and of a strategy or a laboratory that is wrong itself.
pub const USAGE: u8 = 2;
const INTERNAL: u8 = 4;

#[derive(Debug, thiserror::Error)]
#[error("{text}{}", hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default())]
pub struct LabError {
    pub text: String,
    pub hint: Option<String>,
    pub code: u8,
}

impl LabError {
    pub fn usage(text: impl Display) -> LabError {
        LabError { text: text.to_string(), hint: None, code: USAGE }
    }

    /// A mistake of the user's: another error with its causes, and its hint if it has one.
    pub fn bad_input(error: &dyn Error, hint: Option<&str>) -> LabError {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(next) = cause {
            let words = next.to_string();
            // Some errors name their cause themselves.
            if !text.contains(&words) {
                text = format!("{text}: {words}");
            }
            cause = next.source();
        }
        LabError { hint: hint.map(str::to_string), ..LabError::usage(text) }
    }

    pub fn with_hint(self, text: impl Into<String>) -> LabError {
        LabError { hint: Some(text.into()), ..self }
    }

    pub fn internal(error: impl Display) -> LabError {
        LabError { code: INTERNAL, ..LabError::usage(error) }
    }
}
