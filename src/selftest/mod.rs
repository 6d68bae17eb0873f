//! evo's checks of itself on a real device: run by `evo selftest`, kept in `evidence/`.
//!
//! CI has no GPU, so what the CUDA device does is shown by these commands and their output.

pub mod device;

use serde::Serialize;

/// One check's answer.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    pub name: String,
    /// `None`: it did not run, and `message` says why. Never counts as passed.
    pub passed: Option<bool>,
    pub message: String,
}

/// Checks in the order they ran.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub checks: Vec<Check>,
}

impl Report {
    /// Adds an answer; an error is a failed check.
    pub fn add(&mut self, name: &str, answer: Result<String, String>) {
        let (passed, message) = match answer {
            Ok(message) => (Some(true), message),
            Err(message) => (Some(false), message),
        };
        self.checks.push(Check { name: name.into(), passed, message });
    }

    /// Adds a check that could not run.
    pub fn skip(&mut self, name: &str, why: &str) {
        self.checks.push(Check { name: name.into(), passed: None, message: why.into() });
    }

    /// Whether nothing failed.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.passed != Some(false))
    }
}
