//! What all checks together mean for a candidate: the state of the gate, and the verdict of a finding.

use evo_protocol::verdict::{Gate, GateReport, GateState, Verdict, VerdictKind};
use serde_json::json;

use super::finding::SanitizerFinding;
use super::outcome::{SanitizerOutcome, SanitizerState};

pub(super) const SHOWN: usize = 5;

/// Where the worker alone blames the kernel, the verdict is the worker's.
pub fn sanitizer_verdict(outcomes: &[SanitizerOutcome]) -> Option<Verdict> {
    let failed = outcomes.iter().find(|outcome| outcome.state == SanitizerState::Fail)?;
    let errors: Vec<&SanitizerFinding> = failed.findings.iter().filter(|one| one.is_error()).collect();
    let first = errors.first()?;
    if first.tool == SanitizerFinding::OF_EVO {
        return Some(worker_verdict(first));
    }
    let check = failed.check.as_str();
    let more = failed.errors.saturating_sub(1);
    let more = if more > 0 { format!(", and {more} more findings") } else { String::new() };
    let message = format!("{check}: {}{more}", first.what);
    let shown: Vec<&&SanitizerFinding> = errors.iter().take(SHOWN).collect();
    let verdict = match out_of_bounds(first) {
        Some((kind, None)) => Verdict::new(kind, message),
        Some((kind, Some(space))) => Verdict::new(kind, message).with_cause(space),
        None => Verdict::new(VerdictKind::Sanitizer, message).with_cause(check),
    };
    Some(verdict.with("findings", json!(shown)))
}

/// The name that an access outside of a buffer has whoever sees it, and the memory that it was meant for.
fn out_of_bounds(finding: &SanitizerFinding) -> Option<(VerdictKind, Option<&'static str>)> {
    let kind = match finding.access.as_deref()? {
        _ if !finding.what.contains("out of bounds") => return None,
        "read" => VerdictKind::OobRead,
        _ => VerdictKind::OobWrite,
    };
    Some((kind, ["shared", "local"].into_iter().find(|space| finding.what.contains(&format!("__{space}__")))))
}

pub fn worker_verdict(finding: &SanitizerFinding) -> Verdict {
    let named = VerdictKind::ALL.iter().find(|kind| Some(kind.as_str()) == finding.kind.as_deref());
    // The kind was written from this list.
    Verdict::new(named.copied().unwrap_or(VerdictKind::CrashOther), finding.what.clone())
}

pub fn sanitizer_report(outcomes: &[SanitizerOutcome]) -> GateReport {
    let not_run = outcomes.iter().find_map(|outcome| outcome.failure.as_ref());
    let launches: u64 = outcomes.iter().map(|outcome| outcome.launches).sum();
    let of = |state, message: String| GateReport {
        state,
        cases: u32::try_from(launches).unwrap_or(u32::MAX),
        ..GateReport::not_run(Gate::Sanitize, message)
    };
    match (sanitizer_verdict(outcomes), not_run) {
        (Some(verdict), _) => of(GateState::Fail, verdict.message),
        (None, Some(failure)) => GateReport::not_run(Gate::Sanitize, failure.message.clone()),
        (None, None) if outcomes.is_empty() => GateReport::not_run(Gate::Sanitize, "no check was made"),
        (None, None) => {
            let names: Vec<&str> = outcomes.iter().map(|outcome| outcome.check.as_str()).collect();
            of(GateState::Pass, format!("{} found nothing", names.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sanitize::SanitizerCheck;
    use crate::tool::{ToolFailure, ToolState};

    fn outcome(state: SanitizerState, findings: Vec<SanitizerFinding>) -> SanitizerOutcome {
        let failure = ToolFailure::new(ToolState::Missing, "it is not there");
        let errors = findings.len() as u64;
        let failure = (state == SanitizerState::NotRun).then_some(failure);
        let none = ToolFailure::new(ToolState::Broken, "");
        let plain = SanitizerOutcome::not_run(SanitizerCheck::Racecheck, none);
        SanitizerOutcome { state, failure, findings, errors, launches: 3, ..plain }
    }

    fn finding(tool: &str, kind: &str) -> SanitizerFinding {
        SanitizerFinding { tool: tool.to_string(), ..SanitizerFinding::of_worker(kind, "a race") }
    }

    use SanitizerState::{Fail, NotRun, Pass};

    #[test]
    fn a_finding_is_a_verdict_with_its_check_as_cause() {
        let outcomes = [
            outcome(NotRun, vec![]),
            outcome(Fail, vec![finding("racecheck", "Race"), finding("racecheck", "Race")]),
        ];
        let verdict = sanitizer_verdict(&outcomes).unwrap();
        assert_eq!(verdict.label(), "sanitizer:racecheck");
        assert_eq!(verdict.message, "racecheck: a race, and 1 more findings");
        let report = sanitizer_report(&outcomes);
        assert_eq!((report.gate, report.state, report.cases), (Gate::Sanitize, GateState::Fail, 6));
    }

    #[test]
    fn an_access_outside_of_a_buffer_has_one_name() {
        let label = |what: &str, access: &str| {
            let found = SanitizerFinding {
                what: format!("Invalid {what} of size 4 bytes"),
                access: Some(access.into()),
                ..finding("memcheck", "Precise")
            };
            sanitizer_verdict(&[outcome(Fail, vec![found])]).unwrap().label()
        };
        assert_eq!(label("__global__ read is out of bounds: 4 bytes", "read"), "oob_read");
        assert_eq!(label("__global__ write is out of bounds: 4 bytes", "write"), "oob_write");
        assert_eq!(label("__shared__ atomic is out of bounds: 4 bytes", "atomic"), "oob_write:shared");
        assert_eq!(label("__global__ read is misaligned: 4 bytes", "read"), "sanitizer:racecheck");
    }

    #[test]
    fn what_the_worker_alone_saw_is_its_own_verdict() {
        let own = outcome(Fail, vec![finding("evo", "crash_trap")]);
        assert_eq!(sanitizer_verdict(&[own]).unwrap().label(), "crash_trap");
    }

    #[test]
    fn no_answer_is_never_a_pass() {
        let state = |outcomes: &[SanitizerOutcome]| sanitizer_report(outcomes).state;
        assert_eq!(state(&[]), GateState::NotRun);
        assert_eq!(state(&[outcome(Pass, vec![]), outcome(NotRun, vec![])]), GateState::NotRun);
        assert_eq!(state(&[outcome(Pass, vec![]), outcome(Pass, vec![])]), GateState::Pass);
    }
}
