//! Named checks with their answers, as `evo selftest` prints them.

use serde::Serialize;

/// The answer of one check.
#[derive(Clone, Debug, Serialize)]
pub struct SelftestCheck {
    pub name: String,
    /// `None`: it did not run, and `message` says why. Never counts as passed.
    pub passed: Option<bool>,
    pub message: String,
}

/// Checks in the order they ran.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SelftestReport {
    pub checks: Vec<SelftestCheck>,
}

impl SelftestReport {
    /// Adds an answer; an error is a failed check.
    pub fn add(&mut self, name: &str, answer: Result<String, String>) {
        let (passed, message) = match answer {
            Ok(message) => (Some(true), message),
            Err(message) => (Some(false), message),
        };
        self.checks.push(SelftestCheck { name: name.into(), passed, message });
    }

    /// Adds a check that could not run.
    pub fn skip(&mut self, name: &str, why: &str) {
        self.checks.push(SelftestCheck { name: name.into(), passed: None, message: why.into() });
    }

    /// Whether nothing failed.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.passed != Some(false))
    }
}
