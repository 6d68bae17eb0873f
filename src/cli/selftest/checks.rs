//! Named checks with their answers, as self-tests print them.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::cli::output;

#[derive(Clone, Debug, Default, Serialize)]
pub struct SelftestCheck {
    pub name: String,
    /// `None`: it did not run, and `message` says why. Never counts as passed.
    pub passed: Option<bool>,
    pub message: String,
    /// What else programs are told of it.
    #[serde(flatten)]
    pub details: Map<String, Value>,
}

impl SelftestCheck {
    pub fn new(name: &str, passed: Option<bool>, message: impl Into<String>) -> SelftestCheck {
        SelftestCheck { name: name.into(), passed, message: message.into(), ..SelftestCheck::default() }
    }

    /// The same with what `details` serializes to, an object.
    pub fn with(mut self, details: &impl Serialize) -> SelftestCheck {
        if let Ok(Value::Object(details)) = serde_json::to_value(details) {
            self.details.extend(details);
        }
        self
    }

    fn line(&self) -> String {
        let state = match self.passed {
            Some(true) => "pass   ",
            Some(false) => "FAIL   ",
            None => "not_run",
        };
        format!("{state} {:<24} {}\n", self.name, self.message)
    }
}

#[derive(Clone, Debug, Default)]
pub struct SelftestReport {
    pub checks: Vec<SelftestCheck>,
    /// Whether each is printed when it is known.
    pub is_live: bool,
}

impl SelftestReport {
    pub fn push(&mut self, check: SelftestCheck) {
        if self.is_live {
            // Where nobody reads, the exit code still says it.
            let _ = output::stdout(&check.line());
        }
        self.checks.push(check);
    }

    /// Adds an answer; an error is a failed check.
    pub fn add(&mut self, name: &str, answer: Result<String, impl ToString>) {
        let passed = Some(answer.is_ok());
        self.push(SelftestCheck::new(name, passed, answer.unwrap_or_else(|error| error.to_string())));
    }

    pub fn skip(&mut self, name: &str, why: &str) {
        self.push(SelftestCheck::new(name, None, why));
    }

    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.passed != Some(false))
    }

    /// The table that a person reads.
    pub fn table(&self) -> String {
        self.checks.iter().map(SelftestCheck::line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_run_is_told_and_decides_nothing() {
        let mut report = SelftestReport::default();
        report.add("copy", Ok::<_, String>("3 sizes".into()));
        report.skip("race", "open: no checker");
        assert!(report.passed());
        let check = SelftestCheck::new("tail", Some(false), "left");
        report.push(check.with(&serde_json::json!({ "fault": 1 })));
        assert!(!report.passed());
        assert_eq!(serde_json::to_value(&report.checks[2]).unwrap()["fault"], 1);
        let table = "pass    copy                     3 sizes\nnot_run race                     open: no checker\n\
                     FAIL    tail                     left\n";
        assert_eq!(report.table(), table);
    }
}
