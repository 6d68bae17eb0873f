//! `evo selftest faults --sanitize`: which check of compute-sanitizer finds which fault. A check that does not find
//! what it should, gives no answer, or finds something in an honest variant is a failure; what no check can see is
//! told, and decides nothing.

use std::time::Duration;

use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::GateState;
use serde_json::json;

use super::rows::WORDS;
use crate::cli::selftest::bench::SelftestCheck;
use crate::inspect::sanitize::{LookOrder, SanitizerCheck, SanitizerFinding, SanitizerOutcome, look};
use crate::supervise::job::Job;
use crate::supervise::lane::LaneOptions;
use crate::tool::FoundTool;

/// For one check of one fault: the checks of an honest kernel took a second at most (H200, 2026-11-23), and a fault
/// that does not end takes all of it.
pub const SANITIZE_LIMIT: Duration = Duration::from_secs(15);

/// Letters of a message beside what each check found.
const SHOWN: usize = 100;

/// A fault of the space `faults`, and the checks that are made on it.
#[derive(Clone, Debug)]
pub struct SanitizedFault {
    pub name: &'static str,
    pub checks: Vec<SanitizerCheck>,
    /// The check that shall find it, though another may; `honest`; or `unseen` and why.
    pub expected: &'static str,
}

impl SanitizedFault {
    pub fn all() -> impl Iterator<Item = SanitizedFault> {
        WORDS.sanitized.iter().map(|[name, checks, expected]| {
            let made = |check: &&SanitizerCheck| checks.split(' ').any(|own| own == check.as_str());
            let checks = match checks.as_str() {
                "all" => SanitizerCheck::ALL.to_vec(),
                _ => SanitizerCheck::ALL.iter().filter(made).copied().collect(),
            };
            SanitizedFault { name, checks, expected }
        })
    }

    pub fn looked(
        &self,
        (kind, tool): (DeviceKind, &FoundTool),
        options: &LaneOptions,
        job: &Job,
    ) -> SelftestCheck {
        let order = LookOrder {
            kind,
            tool: Ok(tool),
            checks: &self.checks,
            options,
            job,
            small_only: false,
            limit: SANITIZE_LIMIT,
            within: None,
        };
        self.judged(&look(&order).outcomes)
    }

    fn judged(&self, outcomes: &[SanitizerOutcome]) -> SelftestCheck {
        let cell = |check: &SanitizerCheck| outcomes.iter().find(|own| own.check == *check).map_or("", cell);
        let cells = || SanitizerCheck::ALL.iter().map(|check| (check.as_str(), cell(check)));
        let (expected, why) = self.expected.split_once(": ").unwrap_or((self.expected, ""));
        let passed = match expected {
            "honest" => Some(!outcomes.is_empty() && cells().all(|(_, cell)| ["-", ""].contains(&cell))),
            // It decides nothing.
            "unseen" => None,
            _ => Some(cells().any(|(_, cell)| cell == "FOUND")),
        };
        let first = outcomes.iter().flat_map(|one| one.findings.iter().map(|own| (one.check, own)));
        let first = first.min_by_key(|(_, own)| (!own.is_error(), own.tool == SanitizerFinding::OF_EVO));
        let failure = outcomes.iter().find_map(|outcome| outcome.failure.as_ref());
        let message = match (first, failure) {
            (Some((check, own)), _) => format!("{}: {}", check.as_str(), own.what),
            (None, Some(failure)) => failure.message.clone(),
            (None, None) if passed != Some(false) => why.to_string(),
            (None, None) => "nothing was found".to_string(),
        };
        let message: String = message.lines().next().unwrap_or_default().chars().take(SHOWN).collect();
        let shown: String = cells().map(|(_, cell)| format!("{cell:<10}")).collect();
        let check = SelftestCheck::new(self.name, passed, format!("{shown}{expected:<10}{message}"));
        let elapsed_ms: f64 = outcomes.iter().map(|own| own.elapsed.as_secs_f64() * 1e3).sum();
        let cells: serde_json::Map<_, _> = cells().map(|(name, cell)| (name.into(), cell.into())).collect();
        check.with(&json!({ "expected": self.expected, "cells": cells, "elapsed_ms": elapsed_ms }))
    }
}

/// `worker`: it alone blames the kernel, and the tool recorded nothing.
fn cell(outcome: &SanitizerOutcome) -> &'static str {
    let by_tool = |own: &SanitizerFinding| own.is_error() && own.tool != SanitizerFinding::OF_EVO;
    match outcome.state {
        GateState::Fail if outcome.findings.iter().any(by_tool) => "FOUND",
        GateState::Fail => "worker",
        GateState::Pass => "-",
        GateState::NotRun => "not run",
    }
}

/// The heads of the columns, in the row of the tool.
pub fn heads(tool: &FoundTool) -> SelftestCheck {
    let checks: String = SanitizerCheck::ALL.iter().map(|check| format!("{:<10}", check.as_str())).collect();
    SelftestCheck::new(tool.kind.as_str(), Some(true), format!("{checks}expected  version {}", tool.version))
}

#[cfg(test)]
mod tests {
    use SanitizerCheck::{Initcheck, Memcheck, Racecheck, Synccheck};

    use super::super::rows::rows;
    use super::*;
    use crate::tool::{ToolFailure, ToolState};

    type Row<'a> = (SanitizerCheck, GateState, Option<&'a str>);

    fn outcome((check, state, tool): &Row<'_>) -> SanitizerOutcome {
        let none = ToolFailure::new(ToolState::Broken, "it wrote no summary");
        let not_run = SanitizerOutcome::not_run(*check, none);
        let found = tool.map(|tool| SanitizerFinding {
            tool: tool.into(),
            ..SanitizerFinding::of_worker("Precise", "a write")
        });
        let failure = not_run.failure.clone().filter(|_| *state == GateState::NotRun);
        SanitizerOutcome { state: *state, failure, findings: found.into_iter().collect(), ..not_run }
    }

    /// What is found by the tool, and not by the worker alone, is found; an honest variant needs every answer and no
    /// finding; what is not expected decides nothing.
    #[test]
    fn each_kind_of_fault_has_its_rule() {
        use GateState::{Fail, NotRun, Pass};
        let found = [(Memcheck, Fail, Some("memcheck")), (Racecheck, Pass, None)];
        let clean = SanitizerCheck::ALL.iter().map(|check| (*check, Pass, None)).collect::<Vec<_>>();
        let rows: [(&'static str, &[Row<'_>], bool, &str); 10] = [
            ("memcheck", &found, true, "FOUND     -                             memcheck  memcheck: a write"),
            ("memcheck", &[(Memcheck, Fail, Some("evo"))], false, "worker"),
            ("memcheck", &[(Memcheck, Pass, None)], false, "nothing was found"),
            ("memcheck", &[(Memcheck, NotRun, None)], false, "not run"),
            ("memcheck", &[], false, "nothing was found"),
            ("honest", &clean, true, "honest"),
            ("honest", &[(Memcheck, NotRun, None)], false, "no summary"),
            ("honest", &[(Synccheck, Fail, Some("synccheck"))], false, "synccheck: a write"),
            ("honest", &[], false, "honest"),
            ("unseen: why", &[(Initcheck, Fail, Some("initcheck"))], true, "unseen"),
        ];
        for (expected, outcomes, passed, words) in rows {
            let outcomes: Vec<_> = outcomes.iter().map(outcome).collect();
            let check = SanitizedFault { name: "race", checks: Vec::new(), expected }.judged(&outcomes);
            let passed = Some(passed).filter(|_| !expected.starts_with("unseen"));
            assert!(check.passed == passed && check.message.contains(words), "{check:?}");
        }
    }

    #[test]
    fn every_row_is_a_fault_of_the_space() {
        let [(_, faults), _] = rows();
        for own in SanitizedFault::all() {
            let known = own.name == "none" || faults.iter().any(|fault| fault.page.name == own.name);
            assert!(known && !own.checks.is_empty(), "{own:?}");
            let (expected, why) = own.expected.split_once(": ").unwrap_or((own.expected, ""));
            let is_check = SanitizerCheck::named(expected).is_some_and(|check| own.checks.contains(&check));
            assert!(is_check || expected == "honest" || (expected == "unseen" && !why.is_empty()), "{own:?}");
        }
    }
}
