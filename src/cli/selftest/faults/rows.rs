//! The faults and honest variants that are played. `docs/FAULTS.md` says what each does and what must become of it on each
//! device, beside the catalogue whose numbers they have; `words.toml` has the words of which each verdict must have one.
//!
//! With `--sanitize`: which check of compute-sanitizer finds which fault. A check that does not find what it should, gives no
//! answer, or finds something in an honest variant is a failure; what no check can see is told, and decides nothing.

use std::sync::LazyLock;
use std::time::Duration;

use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::GateState;
use evo_protocol::words;
use serde::Deserialize;
use serde_json::json;

use crate::cli::selftest::bench::SelftestCheck;
use crate::inspect::sanitize::{LookOrder, SanitizerCheck, SanitizerFinding, SanitizerOutcome, look};
use crate::supervise::job::Job;
use crate::supervise::lane::LaneOptions;
use crate::tool::FoundTool;

#[derive(Deserialize)]
pub struct FaultWords {
    remembers: Vec<String>,
    faults: Vec<Vec<String>>,
    faults_heads: Vec<Vec<String>>,
    pub sanitized: Vec<[String; 3]>,
}

pub static WORDS: LazyLock<FaultWords> =
    LazyLock::new(|| toml::from_str(include_str!("words.toml")).expect("a table of words"));

pub fn rows() -> [(&'static str, Vec<FaultRow>); 2] {
    let rows =
        |all: &'static [Vec<String>]| all.iter().map(|row| FaultRow::of(row).expect("a name")).collect();
    [("faults", rows(&WORDS.faults)), ("faults_heads", rows(&WORDS.faults_heads))]
}

/// The tables of the page: the catalogue numbers every known way to be bad.
const PAGE: &str = include_str!("../../../../docs/FAULTS.md");

/// A line of the page's tables that is played.
#[derive(Clone, Copy, Debug)]
pub struct PageRow {
    pub number: &'static str,
    pub name: &'static str,
    pub does: &'static str,
    host: &'static str,
    cuda: &'static str,
}

/// The lines that are played. A line without a number has that of the line above.
pub fn page() -> impl Iterator<Item = PageRow> {
    let mut last = "";
    PAGE.lines().filter_map(move |line| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let (number, _, fault) = (cells.next()?, cells.next()?, cells.next()?);
        last = if number.is_empty() { last } else { number };
        let (name, does) = fault.strip_prefix('`')?.split_once("`: ")?;
        Some(PageRow { number: last, name, does, host: cells.next()?, cuda: cells.next()? })
    })
}

/// What must become of a fault on a device.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultOutcome {
    /// One of these verdicts, by kind or by kind and cause.
    Is(Vec<&'static str>),
    /// As on the host: a GPU does not show it, and the host device, which is asked about finalists, does.
    ByTwin,
    /// It is honest.
    Passes,
    /// Nothing on this device shows it, and why.
    Open(&'static str),
}

impl FaultOutcome {
    fn of(cell: &'static str) -> FaultOutcome {
        match cell {
            "`pass`: it is honest" => FaultOutcome::Passes,
            "as there, by the host device" => FaultOutcome::ByTwin,
            _ => match cell.strip_prefix("*open*: ") {
                Some(why) => FaultOutcome::Open(why),
                None => FaultOutcome::Is(cell.split(", ").map(|verdict| verdict.trim_matches('`')).collect()),
            },
        }
    }
}

words! {
    /// What is special about a row beside its source, by the row's name; all others are plain.
    FaultSetup {
        /// The good variant is the incumbent.
        Incumbent = "slow",
        /// The compiler gets `SHORT_COMPILE` instead of two minutes.
        ShortCompile = "compile_hang",
        /// The compiler gets `SMALL_COMPILE` bytes.
        SmallCompile = "compile_memory",
        /// What it shows ends with compiling, so it is not judged as a finalist.
        CompilerOnly = "compile_flood",
        /// The good variant's binary, handed out as another variant's.
        StaleBinary = "stale_binary",
        /// The good variant's binary for another target.
        ForeignBinary = "foreign_binary",
        /// The good variant at a problem that claims to move a thousand times its bytes.
        InflatedWork = "inflated_work",
    }
}

/// The deadline of a compiler that is kept busy.
pub const SHORT_COMPILE: Duration = Duration::from_secs(4);
/// The memory of a compiler that wants too much, bytes: enough for every other row.
pub const SMALL_COMPILE: u64 = 300 << 20;

#[derive(Clone, Debug)]
pub struct FaultRow {
    pub page: PageRow,
    pub says: &'static [String],
    pub setup: Option<FaultSetup>,
    pub catalogue: Vec<&'static str>,
}

impl FaultRow {
    fn of(words: &'static [String]) -> Option<FaultRow> {
        let (name, says) = words.split_first()?;
        let name = name.as_str();
        let rows: Vec<PageRow> = page().filter(|row| row.name == name).collect();
        let Some(first) = rows.first() else { panic!("docs/FAULTS.md has no `{name}`") };
        let catalogue = rows.iter().map(|row| row.number).collect();
        let says = if says == ["(remembers)"] { &WORDS.remembers[..] } else { says };
        Some(FaultRow { page: *first, says, setup: FaultSetup::named(name), catalogue })
    }

    /// Whether the row is the good variant, and what is wrong happens outside its source.
    pub fn is_outside(&self) -> bool {
        use FaultSetup::{ForeignBinary, InflatedWork, StaleBinary};
        matches!(self.setup, Some(StaleBinary | ForeignBinary | InflatedWork))
    }

    /// The verdicts of one that is refused on a kind of device; none for an honest one.
    pub fn verdicts(&self, kind: DeviceKind) -> Option<Vec<&'static str>> {
        match self.outcome(kind) {
            FaultOutcome::Is(wanted) => Some(wanted),
            FaultOutcome::ByTwin => self.verdicts(DeviceKind::Host),
            FaultOutcome::Passes | FaultOutcome::Open(_) => None,
        }
    }

    /// What must become of it on a kind of device.
    pub fn outcome(&self, kind: DeviceKind) -> FaultOutcome {
        FaultOutcome::of(if kind == DeviceKind::Cuda { self.page.cuda } else { self.page.host })
    }

    /// How long it may hold up everybody else: what is refused unseen costs nothing, a compiler ends at its
    /// deadline, a launch at its own. The rest is compiling, honest work and recovery, with room for a busy
    /// machine.
    pub fn delay_max(&self, kind: DeviceKind) -> Duration {
        let work = match kind {
            DeviceKind::Cuda | DeviceKind::Replay => Duration::from_secs(10),
            DeviceKind::Host => Duration::from_secs(30),
        };
        let unseen = |verdict: &&str| verdict.starts_with("static_reject") || *verdict == "compile_error";
        match self.outcome(kind) {
            // Evaluated twice, the second time as a finalist.
            FaultOutcome::Passes => 3 * work,
            FaultOutcome::Is(verdicts) if verdicts.iter().all(unseen) => work / 2,
            FaultOutcome::Is(_) if self.setup == Some(FaultSetup::ShortCompile) => SHORT_COMPILE + work / 2,
            // Compilers run at a low priority, and this one works until its memory is full.
            FaultOutcome::Is(_) if self.setup == Some(FaultSetup::SmallCompile) => 2 * work,
            _ => work,
        }
    }
}

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
