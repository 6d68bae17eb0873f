//! Runs the rows: a fixture with all checks, then with its check left out.

use std::time::Instant;

use evo_protocol::check::{CheckSet, GateCheck};
use serde::Serialize;

use super::bench::{GateBench, GateFinding};
use super::rows::{CheckWorth, GateRow, RowPlan};
use crate::cli::error::CliError;

/// What a row showed.
#[derive(Clone, Debug, Serialize)]
pub struct RowResult {
    pub check: &'static str,
    pub gate: &'static str,
    pub fixture: &'static str,
    /// The verdict with the check; none where the row does not run on this device.
    pub with_check: Option<String>,
    /// The verdict without it.
    pub without_check: Option<String>,
    /// `needed`, `names the cause`, …
    pub state: String,
    /// Whether the check is worth what the row says; `None` where the row does not run.
    pub passed: Option<bool>,
    pub message: String,
    pub elapsed_ms: f64,
}

/// Plays one row.
pub fn play(bench: &mut GateBench<'_>, row: &GateRow) -> Result<RowResult, CliError> {
    let began = Instant::now();
    let empty = RowResult {
        check: row.check.as_str(),
        gate: row.check.gate().as_str(),
        fixture: row.fixture,
        with_check: None,
        without_check: None,
        state: "not on this device".to_string(),
        passed: None,
        message: String::new(),
        elapsed_ms: 0.0,
    };
    let (least, behind) = match row.plan(bench.choice().kind) {
        RowPlan::Absent(why) => return Ok(RowResult { message: why.to_string(), ..empty }),
        RowPlan::Shows(least) => (least, None),
        RowPlan::Behind(other, why) => (CheckWorth::Needed, Some((other, why))),
    };
    let other = behind.map(|(other, _)| other);
    let with =
        bench.judge(row, other.map_or_else(CheckSet::default, |other| CheckSet::without(other, None)))?;
    let without = bench.judge(row, CheckSet::without(row.check, other))?;
    let label = with.verdict.label();
    let refused = row.verdicts.iter().any(|want| label == *want || with.verdict.kind.as_str() == *want);
    let worth = worth(&with, &without);
    let state = match behind {
        _ if !refused => "NOT REFUSED".to_string(),
        Some((other, _)) if worth != CheckWorth::Nothing => second_line(other, worth),
        _ => worth.as_str().to_string(),
    };
    let message = match behind {
        _ if !refused => format!("expected {}: {}", row.verdicts.join(" or "), with.verdict.message),
        Some((_, why)) if worth <= least => why.to_string(),
        Some((_, why)) => format!("{why}; without both checks: {}", without.verdict.message),
        None => without.verdict.message.clone(),
    };
    Ok(RowResult {
        with_check: Some(label),
        without_check: Some(without.verdict.label()),
        state,
        passed: Some(refused && worth <= least),
        message,
        elapsed_ms: began.elapsed().as_secs_f64() * 1e3,
        ..empty
    })
}

fn second_line(other: GateCheck, worth: CheckWorth) -> String {
    format!("{} behind {}", worth.as_str(), other.as_str())
}

/// What is lost without the check.
fn worth(with: &GateFinding, without: &GateFinding) -> CheckWorth {
    if without.verdict.is_pass() {
        CheckWorth::Needed
    } else if with.verdict.label() != without.verdict.label() {
        CheckWorth::NamesCause
    } else if with.gate < without.gate {
        CheckWorth::RefusesEarly
    } else {
        CheckWorth::Nothing
    }
}

#[cfg(test)]
mod tests {
    use evo_protocol::verdict::{Gate, Verdict, VerdictKind};

    use super::*;

    #[test]
    fn a_check_is_worth_what_is_lost_without_it() {
        let finding = |kind, cause: &str, gate| {
            let verdict = Verdict::new(kind, "").with_cause(cause);
            GateFinding { verdict, gate: Some(gate) }
        };
        let named = |cause: &str, gate| finding(VerdictKind::WrongAnswer, cause, gate);
        let pass = GateFinding { verdict: Verdict::pass(), gate: None };
        let with = named("bias", Gate::TinyShapes);
        assert_eq!(worth(&with, &pass), CheckWorth::Needed);
        assert_eq!(worth(&with, &named("value", Gate::TinyShapes)), CheckWorth::NamesCause);
        assert_eq!(worth(&with, &named("bias", Gate::FullShapes)), CheckWorth::RefusesEarly);
        assert_eq!(worth(&with, &named("bias", Gate::TinyShapes)), CheckWorth::Nothing);
    }
}
