//! Named checks with their answers, as `evo selftest` prints them.

use evo_protocol::evaluation::Recovery;
use serde::Serialize;

/// The answer of one check.
#[derive(Clone, Debug, Serialize)]
pub struct SelftestCheck {
    pub name: String,
    /// `None`: it did not run, and `message` says why. Never counts as passed.
    pub passed: Option<bool>,
    pub message: String,
    /// What `evo selftest faults` looked at, where this is a fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultCells>,
}

/// A row of the matrix of faults: what must hold for each, and what was seen.
#[derive(Clone, Debug, Serialize)]
pub struct FaultCells {
    /// Its numbers in the catalogue.
    pub catalogue: &'static [&'static str],
    pub does: &'static str,
    /// It got one of the verdicts that it must get.
    pub verdict: bool,
    /// The message names the cause.
    pub evidence: bool,
    /// The good variant after it is right, and as fast as before.
    pub neighbor: bool,
    /// No process, file or descriptor is left behind.
    pub leftovers: bool,
    /// It held up everybody else for no longer than it may.
    pub delay: bool,
    /// The verdict, with its cause.
    pub label: String,
    /// The good variant's time after it over its median before any fault.
    pub neighbor_ratio: Option<f64>,
    pub delay_ms: f64,
    pub delay_max_ms: f64,
    pub recovery: Option<Recovery>,
    pub left_behind: Vec<String>,
}

impl FaultCells {
    /// Cells in their order, by name.
    fn cells(&self) -> [(&'static str, bool); 5] {
        [
            ("verdict", self.verdict),
            ("evidence", self.evidence),
            ("neighbor", self.neighbor),
            ("leftovers", self.leftovers),
            ("delay", self.delay),
        ]
    }
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
        self.checks.push(SelftestCheck { name: name.into(), passed, message, fault: None });
    }

    /// Adds a check that could not run.
    pub fn skip(&mut self, name: &str, why: &str) {
        self.checks.push(SelftestCheck { name: name.into(), passed: None, message: why.into(), fault: None });
    }

    /// Adds a fault, which passes where all of its cells do. `said` is the verdict's message, `neighbor_error`
    /// what is wrong with the good variant after it.
    pub fn add_fault(&mut self, name: &str, cells: FaultCells, said: &str, neighbor_error: Option<String>) {
        let mut message = format!("{} in {:.0} ms", cells.label, cells.delay_ms);
        if let Some(recovery) = cells.recovery {
            message.push_str(&format!(", {} {:.0} ms", recovery.level.as_str(), recovery.elapsed_ms));
        }
        match (&neighbor_error, cells.neighbor_ratio) {
            (Some(error), _) => message.push_str(&format!(", NEIGHBOR FAILED: {error}")),
            (None, ratio) => message.push_str(&format!(", neighbor {:.2}×", ratio.unwrap_or(f64::NAN))),
        }
        let failed: Vec<&str> =
            cells.cells().iter().filter(|(_, right)| !right).map(|(name, _)| *name).collect();
        if !failed.is_empty() {
            message.push_str(&format!(", WRONG: {}", failed.join(", ")));
        }
        if !cells.left_behind.is_empty() {
            message.push_str(&format!(", left behind: {}", cells.left_behind.join(", ")));
        }
        message.push_str(&format!("; {said}"));
        let passed = Some(failed.is_empty());
        self.checks.push(SelftestCheck { name: name.into(), passed, message, fault: Some(cells) });
    }

    /// Whether nothing failed.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.passed != Some(false))
    }

    /// The table that a person reads. Faults have a column of their cells: a letter each (verdict, evidence,
    /// neighbor, leftovers, delay), or `!` where it is wrong.
    pub fn table(&self) -> String {
        let has_faults = self.checks.iter().any(|check| check.fault.is_some());
        let mut text = String::new();
        if has_faults {
            text.push_str("VENLD: verdict, evidence, neighbor, leftovers, delay; ! where one is wrong\n");
        }
        for check in &self.checks {
            let mark = match check.passed {
                Some(true) => "pass   ",
                Some(false) => "FAIL   ",
                None => "not_run",
            };
            let cells = check.fault.as_ref().map_or("     ".to_string(), marks);
            let cells = if has_faults { format!(" {cells}") } else { String::new() };
            text.push_str(&format!("{mark}{cells} {:<24} {}\n", check.name, check.message));
        }
        text
    }
}

fn marks(cells: &FaultCells) -> String {
    let letter = |(name, right): &(&str, bool)| match right {
        true => name.chars().next().unwrap_or('?').to_ascii_uppercase(),
        false => '!',
    };
    cells.cells().iter().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells() -> FaultCells {
        FaultCells {
            catalogue: &["W1"],
            does: "writes nothing",
            verdict: true,
            evidence: true,
            neighbor: true,
            leftovers: true,
            delay: true,
            label: "wrong_answer:unwritten".into(),
            neighbor_ratio: Some(1.02),
            delay_ms: 12.0,
            delay_max_ms: 1000.0,
            recovery: None,
            left_behind: Vec::new(),
        }
    }

    #[test]
    fn a_fault_passes_where_all_its_cells_do() {
        let mut report = SelftestReport::default();
        report.add_fault("empty", cells(), "nothing", None);
        assert!(report.passed());
        let wrong = FaultCells { leftovers: false, left_behind: vec!["zombie 7".into()], ..cells() };
        report.add_fault("tail", wrong, "a tail", None);
        report.skip("race", "open: no checker");
        assert!(!report.passed());
        assert_eq!(
            report.table(),
            "VENLD: verdict, evidence, neighbor, leftovers, delay; ! where one is wrong\n\
             pass    VENLD empty                    wrong_answer:unwritten in 12 ms, neighbor 1.02×; nothing\n\
             FAIL    VEN!D tail                     wrong_answer:unwritten in 12 ms, neighbor 1.02×, WRONG: \
             leftovers, left behind: zombie 7; a tail\n\
             not_run       race                     open: no checker\n"
        );
    }

    #[test]
    fn other_checks_have_no_cells() {
        let mut report = SelftestReport::default();
        report.add("copy", Ok("3 sizes".into()));
        assert_eq!(report.table(), "pass    copy                     3 sizes\n");
    }
}
