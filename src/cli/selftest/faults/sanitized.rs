//! `evo selftest faults --sanitize`: which check of compute-sanitizer finds which fault. A check that does not find
//! what it should, gives no answer, or finds something in an honest variant is a failure; what no check can see is
//! told, and decides nothing.

use std::time::Duration;

use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::{GateState, Verdict};
use serde::Serialize;

use crate::inspect::sanitize::{LookOrder, SanitizerCheck, SanitizerFinding, SanitizerOutcome, look};
use crate::supervise::job::Job;
use crate::supervise::lane::LaneOptions;
use crate::tool::FoundTool;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenAs {
    /// This check, or another one, finds something.
    Found(SanitizerCheck),
    /// Nothing does, and why.
    Unseen(&'static str),
    Honest,
}

/// A fault of the space `faults`, the checks that are made on it, and what is expected of them.
#[derive(Clone, Copy, Debug)]
pub struct SanitizedFault {
    pub name: &'static str,
    pub checks: &'static [SanitizerCheck],
    pub seen_as: SeenAs,
}

use SanitizerCheck::{Initcheck, Memcheck, Racecheck, Synccheck};
use SeenAs::{Found, Honest, Unseen};

const fn row(name: &'static str, checks: &'static [SanitizerCheck], seen_as: SeenAs) -> SanitizedFault {
    SanitizedFault { name, checks, seen_as }
}

const ALL: &[SanitizerCheck] = SanitizerCheck::ALL;

/// Faults of accesses, of memory that nobody wrote, of order and of barriers, and honest variants that look like them. A fault that does not
/// end would take the whole limit of each check, so few are made on it.
pub const SANITIZED: &[SanitizedFault] = &[
    row("oob_write", ALL, Found(Memcheck)),
    row("near_write", ALL, Found(Memcheck)),
    row("oob_read", ALL, Found(Memcheck)),
    row("near_read", ALL, Found(Memcheck)),
    row("shared_overrun", ALL, Found(Memcheck)),
    row("illegal_address", ALL, Found(Memcheck)),
    row("misaligned", ALL, Found(Memcheck)),
    row("trap", ALL, Found(Memcheck)),
    row("assert", ALL, Found(Memcheck)),
    row("recursion", &[Memcheck], Found(Memcheck)),
    row("race", ALL, Found(Racecheck)),
    row("missing_fence", ALL, Unseen("racecheck looks at shared memory alone")),
    row("unset_shared", ALL, Unseen("initcheck looks at global memory, before version 2026 at nothing else")),
    row("unset_bit", ALL, Unseen("initcheck looks at global memory, before version 2026 at nothing else")),
    row("unset_local", ALL, Unseen("initcheck does not look at local memory")),
    row("unset_scratch", ALL, Unseen("evo fills a workspace before the kernel reads it")),
    row(
        "narrow_index",
        ALL,
        Unseen("its index overflows at large sizes, and the tool sees the smallest problem"),
    ),
    row("barrier", ALL, Unseen("a GPU counts arrivals, whichever line they come from")),
    row("barrier_spin", &[Synccheck], Unseen("half of the block waits for a flag, not at a barrier")),
    row(
        "transfer_hang",
        &[Memcheck, Synccheck],
        Unseen("the copy is whole; the count that it signals is not"),
    ),
    row("none", ALL, Honest),
    // Under racecheck 2025.3.1 the first does not end, and the second, a spin on shared memory, is called a race
    // (H200, 2026-11-23): a space with such kernels names the other checks as its `sanitizers`.
    row("early_exit", &[Memcheck, Initcheck, Synccheck], Honest),
    row("block_wait", &[Memcheck, Initcheck, Synccheck], Honest),
    row("atomics", ALL, Honest),
    row("lock", ALL, Honest),
    row("persistent", ALL, Honest),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SanitizedCell {
    /// The tool recorded it.
    Found,
    /// The worker alone blames the kernel.
    Worker,
    Clean,
    NotRun,
    /// It is not made on this fault.
    NotAsked,
}

impl SanitizedCell {
    fn of(outcome: &SanitizerOutcome) -> SanitizedCell {
        let by_tool = |own: &SanitizerFinding| own.is_error() && own.tool != SanitizerFinding::OF_EVO;
        match outcome.state {
            GateState::Fail if outcome.findings.iter().any(by_tool) => SanitizedCell::Found,
            GateState::Fail => SanitizedCell::Worker,
            GateState::Pass => SanitizedCell::Clean,
            GateState::NotRun => SanitizedCell::NotRun,
        }
    }

    fn shown(self) -> &'static str {
        match self {
            SanitizedCell::Found => "FOUND",
            SanitizedCell::Worker => "worker",
            SanitizedCell::Clean => "-",
            SanitizedCell::NotRun => "not run",
            SanitizedCell::NotAsked => "",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct SanitizedRow {
    pub fault: &'static str,
    /// `memcheck`, …, `honest` or `unseen`.
    pub expected: &'static str,
    /// By check, in their order.
    pub cells: Vec<(SanitizerCheck, SanitizedCell)>,
    /// Whether that is as expected; none for a fault that no check is expected to see.
    pub passed: Option<bool>,
    /// The first finding, why it cannot be seen, or why there is no answer.
    pub message: String,
    pub elapsed_ms: f64,
}

impl SanitizedRow {
    /// What outcomes mean for a fault.
    pub fn of(fault: &SanitizedFault, outcomes: &[SanitizerOutcome]) -> SanitizedRow {
        let cell = |check: &SanitizerCheck| {
            let outcome = outcomes.iter().find(|outcome| outcome.check == *check);
            (*check, outcome.map_or(SanitizedCell::NotAsked, SanitizedCell::of))
        };
        let cells: Vec<_> = SanitizerCheck::ALL.iter().map(cell).collect();
        let has = |wanted: SanitizedCell| cells.iter().any(|(_, cell)| *cell == wanted);
        let unexpected = has(SanitizedCell::Found) || has(SanitizedCell::Worker);
        let complete = !outcomes.is_empty() && !has(SanitizedCell::NotRun);
        let (expected, passed) = match fault.seen_as {
            Found(check) => (check.as_str(), Some(has(SanitizedCell::Found))),
            Honest => ("honest", Some(complete && !unexpected)),
            Unseen(_) => ("unseen", None),
        };
        let first =
            outcomes.iter().flat_map(|outcome| outcome.findings.iter().map(|own| (outcome.check, own)));
        let first = first.min_by_key(|(_, own)| (!own.is_error(), own.tool == SanitizerFinding::OF_EVO));
        let failure = outcomes.iter().find_map(|outcome| outcome.failure.as_ref());
        let message = match (first, failure, fault.seen_as) {
            (Some((check, own)), ..) => format!("{}: {}", check.as_str(), own.what),
            (None, Some(failure), _) => failure.message.clone(),
            (None, None, Unseen(why)) => why.to_string(),
            (None, None, Found(_)) => "nothing was found".to_string(),
            (None, None, Honest) => String::new(),
        };
        let elapsed: Duration = outcomes.iter().map(|outcome| outcome.elapsed).sum();
        let elapsed_ms = elapsed.as_secs_f64() * 1e3;
        SanitizedRow { fault: fault.name, expected, cells, passed, message, elapsed_ms }
    }

    fn line(&self) -> String {
        let cells: Vec<String> = self.cells.iter().map(|(_, cell)| format!("{:<9}", cell.shown())).collect();
        let mark = match self.passed {
            Some(true) => "ok",
            Some(false) => "WRONG",
            None => "told",
        };
        let message: String = self.message.lines().next().unwrap_or_default().chars().take(100).collect();
        format!("{:<15} {} {:<9} {mark:<5} {message}", self.fault, cells.join(" "), self.expected)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct FaultLook<'a> {
    pub kind: DeviceKind,
    pub tool: &'a FoundTool,
    pub options: &'a LaneOptions,
    pub limit: Duration,
}

impl FaultLook<'_> {
    pub fn row(&self, fault: &SanitizedFault, job: Result<Job, Box<Verdict>>) -> SanitizedRow {
        let job = match job {
            Ok(job) => job,
            Err(verdict) => {
                let (label, why) = (verdict.label(), &verdict.message);
                let message = format!("it does not come to a launch: {label}: {why}");
                return SanitizedRow { passed: Some(false), message, ..SanitizedRow::of(fault, &[]) };
            }
        };
        let order = LookOrder {
            kind: self.kind,
            tool: Ok(self.tool),
            checks: fault.checks,
            options: self.options,
            job: &job,
            small_only: false,
            limit: self.limit,
            within: None,
        };
        SanitizedRow::of(fault, &look(&order).outcomes)
    }
}

/// The table, with what it comes to as its last line.
pub fn table(rows: &[SanitizedRow]) -> String {
    let names: Vec<String> =
        SanitizerCheck::ALL.iter().map(|check| format!("{:<9}", check.as_str())).collect();
    let mut text = format!("{:<15} {} {:<9} {:<5} what\n", "fault", names.join(" "), "expected", "");
    for row in rows {
        text.push_str(row.line().trim_end());
        text.push('\n');
    }
    let count = |passed| rows.iter().filter(|row| row.passed == passed).count();
    let seconds: f64 = rows.iter().map(|row| row.elapsed_ms).sum::<f64>() / 1e3;
    text + &format!(
        "{} as expected, {} not, {} that no check is expected to see; {seconds:.0} s under the tool\n",
        count(Some(true)),
        count(Some(false)),
        count(None)
    )
}

#[cfg(test)]
mod tests {
    use super::super::rows::rows;
    use super::*;
    use crate::tool::{ToolFailure, ToolState};

    fn outcome(check: SanitizerCheck, state: GateState, tool: Option<&str>) -> SanitizerOutcome {
        let none = ToolFailure::new(ToolState::Broken, "it wrote no summary");
        let not_run = SanitizerOutcome::not_run(check, none);
        let found = tool.map(|tool| SanitizerFinding {
            tool: tool.into(),
            ..SanitizerFinding::of_worker("Precise", "a write")
        });
        let failure = not_run.failure.clone().filter(|_| state == GateState::NotRun);
        SanitizerOutcome { state, failure, findings: found.into_iter().collect(), ..not_run }
    }

    #[track_caller]
    fn check(seen_as: SeenAs, outcomes: &[SanitizerOutcome], passed: Option<bool>) -> SanitizedRow {
        let row = SanitizedRow::of(&row("oob_write", ALL, seen_as), outcomes);
        assert_eq!(row.passed, passed, "{row:?}");
        row
    }

    use GateState::{Fail, NotRun, Pass};

    #[test]
    fn a_fault_is_found_by_the_tool_and_not_by_the_worker_alone() {
        let found = [outcome(Memcheck, Fail, Some("memcheck")), outcome(Racecheck, Pass, None)];
        let row = check(Found(Memcheck), &found, Some(true));
        assert_eq!((row.cells[0].1, row.cells[1].1), (SanitizedCell::Found, SanitizedCell::Clean));
        assert_eq!((row.cells[2].1, row.message.as_str()), (SanitizedCell::NotAsked, "memcheck: a write"));
        check(Found(Memcheck), &[outcome(Memcheck, Fail, Some("evo"))], Some(false));
        check(Found(Memcheck), &[outcome(Memcheck, Pass, None)], Some(false));
        let row = check(Found(Memcheck), &[outcome(Memcheck, NotRun, None)], Some(false));
        assert!(row.message.contains("no summary"));
        check(Found(Memcheck), &[], Some(false));
    }

    #[test]
    fn an_honest_variant_needs_every_answer_and_no_finding() {
        let all: Vec<_> = SanitizerCheck::ALL.iter().map(|check| outcome(*check, Pass, None)).collect();
        check(Honest, &all, Some(true));
        check(Honest, &[outcome(Memcheck, NotRun, None)], Some(false));
        check(Honest, &[outcome(Synccheck, Fail, Some("synccheck"))], Some(false));
        check(Honest, &[], Some(false));
        // What is not expected decides nothing, whatever is found.
        check(Unseen("why"), &[outcome(Initcheck, Fail, Some("initcheck"))], None);
    }

    #[test]
    fn the_table_counts_its_rows() {
        let rows = [
            SanitizedRow::of(
                &row("race", ALL, Found(Racecheck)),
                &[outcome(Racecheck, Fail, Some("racecheck"))],
            ),
            SanitizedRow::of(&row("none", ALL, Honest), &[]),
            SanitizedRow::of(&row("missing_fence", ALL, Unseen("shared memory alone")), &[]),
        ];
        let text = table(&rows);
        assert!(text.lines().all(|line| line.len() <= 180), "{text}");
        assert!(text.contains("race                      FOUND"), "{text}");
        assert!(
            text.ends_with("1 as expected, 1 not, 1 that no check is expected to see; 0 s under the tool\n")
        );
    }

    #[test]
    fn every_row_is_a_fault_of_the_space() {
        let [(_, faults), _] = rows();
        for own in SANITIZED {
            let known = own.name == "none" || faults.iter().any(|fault| fault.page.name == own.name);
            assert!(known && !own.checks.is_empty(), "{}", own.name);
        }
    }
}
