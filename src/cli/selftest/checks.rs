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
    /// A letter for each thing that must hold, `!` where it does not; empty where there is only one.
    #[serde(skip)]
    pub marks: String,
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

    fn line(&self, width: usize) -> String {
        let state = match self.passed {
            Some(true) => "pass   ",
            Some(false) => "FAIL   ",
            None => "not_run",
        };
        format!("{state} {:width$}{:<24} {}\n", self.marks, self.name, self.message)
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
            let _ = output::stdout(&check.line(0));
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

    /// The table that a person reads, with a column of marks where a check has them.
    pub fn table(&self) -> String {
        let widest = self.checks.iter().map(|check| check.marks.len()).max().unwrap_or(0);
        let width = if widest == 0 { 0 } else { widest + 1 };
        self.checks.iter().map(|check| check.line(width)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_have_a_column_where_a_check_has_them() {
        let mut report = SelftestReport::default();
        report.add("copy", Ok::<_, String>("3 sizes".into()));
        assert_eq!(report.table(), "pass    copy                     3 sizes\n");
        let check = SelftestCheck::new("tail", Some(false), "left");
        let check = SelftestCheck { marks: "VEN!D".into(), ..check };
        report.push(check.with(&serde_json::json!({ "fault": 1 })));
        report.skip("race", "open: no checker");
        assert!(!report.passed());
        assert_eq!(serde_json::to_value(&report.checks[1]).unwrap()["fault"], 1);
        assert_eq!(
            report.table(),
            "pass          copy                     3 sizes\nFAIL    VEN!D tail                     left\n\
             not_run       race                     open: no checker\n"
        );
    }
}
