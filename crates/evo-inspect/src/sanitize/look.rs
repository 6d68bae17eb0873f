//! The one way in which a candidate is looked at, so that a pass means the same everywhere.

use schemars::JsonSchema;
use serde::Serialize;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::{Gate, GateReport, GateState, SanitizerCheck, Verdict};
use serde_json::{Value, json};

use super::arguments::has_ports;
use super::finding::SanitizerFinding;
use super::outcome::{SHOWN, SanitizerOutcome};
use super::run::{run_check, run_without, shapes, small_shapes};
use crate::tool::{FoundTool, ToolFailure, ToolState};
use crate::twin::TwinAnswer;
use evo_supervise::job::Job;
use evo_supervise::lane::LaneOptions;
use evo_supervise::solo::SoloOrder;

/// With less time than this a check would only be started to be killed.
const LEAST: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub struct LookOrder<'a> {
    pub kind: DeviceKind,
    pub tool: Result<&'a FoundTool, &'a ToolFailure>,
    /// Made at once, where the tool takes a port for each; else in this order.
    pub checks: &'a [SanitizerCheck],
    pub options: &'a LaneOptions,
    pub job: &'a Job,
    /// Whether the small shapes are enough. Else the smallest problem is looked at too, which may take minutes.
    pub small_only: bool,
    pub limit: Duration,
    pub within: Option<Duration>,
}

/// One of evo's own checks on a device that compute-sanitizer does not know.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StandIn {
    pub name: &'static str,
    /// Whether it looked at every launch.
    pub ran: bool,
    /// What it looks for, or why it did not run.
    pub message: String,
}

#[derive(Clone, Debug, Default)]
pub struct SanitizerLook {
    pub version: Option<String>,
    pub shapes: Vec<String>,
    pub outcomes: Vec<SanitizerOutcome>,
    /// What evo itself saw without the tool, on the host device too.
    pub own: Vec<SanitizerFinding>,
    pub stand_ins: Vec<StandIn>,
    /// What the host device says of the same source; it is asked beside the tool.
    pub twin: Option<TwinAnswer>,
    pub elapsed: Duration,
}

pub fn not_on_host() -> ToolFailure {
    ToolFailure::new(
        ToolState::Incompatible,
        "`compute-sanitizer` looks at kernels of a GPU: on the host device it is not run",
    )
    .with_hint("guard pages and barrier detection stand in there, which is not a pass")
}

pub fn look(order: &LookOrder<'_>) -> SanitizerLook {
    let began = Instant::now();
    let plans = if order.small_only { small_shapes(order.job) } else { shapes(order.job) };
    if plans.is_empty() {
        let why = format!("no small shape: {}", order.job.tiny_notes.absent);
        return SanitizerLook::without(order.checks, &ToolFailure::new(ToolState::Incompatible, why));
    }
    let names = plans.iter().map(|plan| plan.name.clone()).collect();
    let made = |limit| SoloOrder::once(order.options, order.job, &plans, limit);
    let seen = match (order.tool, order.kind) {
        (Ok(tool), DeviceKind::Cuda) => {
            let one = |check: SanitizerCheck, place: usize| {
                let left = order.within.map(|within| within.saturating_sub(began.elapsed()));
                let limit = left.map_or(order.limit, |left| left.min(order.limit));
                match limit < LEAST && limit < order.limit {
                    true => {
                        let why = "no time was left for `compute-sanitizer`";
                        SanitizerOutcome::not_run(check, ToolFailure::new(ToolState::TimedOut, why))
                    }
                    false => run_check(tool, check, place, &made(limit)),
                }
            };
            let outcomes = match has_ports(tool) {
                true => together(order.checks, one),
                false => order.checks.iter().map(|check| one(*check, 0)).collect(),
            };
            SanitizerLook { version: Some(tool.version.to_string()), outcomes, ..SanitizerLook::default() }
        }
        // Nothing to wait for: without a tool there is no answer on a GPU.
        (Err(failure), DeviceKind::Cuda) => return SanitizerLook::without(order.checks, failure),
        (_, DeviceKind::Host | DeviceKind::Replay) => {
            let limit = order.within.map_or(order.limit, |within| within.min(order.limit));
            let seen = run_without(&made(limit));
            let why = seen.as_ref().err().map(ToString::to_string);
            let stand_ins = [
                ("guard_pages", "an access beyond a buffer's pages is a fault"),
                ("barrier_detection", "a barrier that not every thread of a block reaches is named"),
            ];
            let stand_ins = stand_ins.map(|(name, what)| {
                let message = why.clone().unwrap_or_else(|| what.to_string());
                StandIn { name, ran: why.is_none(), message }
            });
            let own = seen.ok().flatten().into_iter().collect();
            let without = SanitizerLook::without(order.checks, &not_on_host());
            SanitizerLook { stand_ins: stand_ins.into(), own, ..without }
        }
    };
    SanitizerLook { shapes: names, elapsed: began.elapsed(), ..seen }
}

/// Most of a check's time is the start of its process. One that gives no answer beside the others is made once more
/// by itself, because the device may have had no room for all of them.
fn together(
    checks: &[SanitizerCheck],
    one: impl Fn(SanitizerCheck, usize) -> SanitizerOutcome + Sync,
) -> Vec<SanitizerOutcome> {
    let first: Vec<SanitizerOutcome> = thread::scope(|scope| {
        let start = |(place, check): (usize, &SanitizerCheck)| {
            let (check, one) = (*check, &one);
            scope.spawn(move || one(check, place))
        };
        let running: Vec<_> = checks.iter().enumerate().map(start).collect();
        running.into_iter().map(|own| own.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let is_worth_it = |own: &SanitizerOutcome| {
        checks.len() > 1 && own.failure.as_ref().is_some_and(|failure| failure.state != ToolState::TimedOut)
    };
    first.into_iter().map(|own| if is_worth_it(&own) { one(own.check, 0) } else { own }).collect()
}

impl SanitizerLook {
    pub fn without(checks: &[SanitizerCheck], failure: &ToolFailure) -> SanitizerLook {
        let outcomes = checks.iter().map(|check| SanitizerOutcome::not_run(*check, failure.clone()));
        SanitizerLook { outcomes: outcomes.collect(), ..SanitizerLook::default() }
    }

    pub fn state(&self) -> GateState {
        let has = |state| self.outcomes.iter().any(|outcome| outcome.state == state);
        let found = has(GateState::Fail) || !self.own.is_empty() || self.twin_fault().is_some();
        match (found, has(GateState::NotRun)) {
            (true, _) => GateState::Fail,
            (false, true) => GateState::NotRun,
            // No check at all does not answer the question either.
            (false, false) if self.outcomes.is_empty() => GateState::NotRun,
            (false, false) => GateState::Pass,
        }
    }

    pub fn verdict(&self) -> Option<Verdict> {
        // What the GPU itself showed comes first.
        let own = || self.own.first().map(SanitizerFinding::verdict);
        let of_tool = self.outcomes.iter().find_map(SanitizerOutcome::verdict);
        of_tool.or_else(|| self.twin_fault().cloned()).or_else(own)
    }

    /// Where threads wait for flags, the host device decides about races: it knows what flags and fences order, and
    /// racecheck does not.
    pub fn beside(mut self, twin: Option<TwinAnswer>) -> SanitizerLook {
        let weighed: Option<fn(SanitizerOutcome) -> SanitizerOutcome> = match twin {
            Some(TwinAnswer::Clean { .. }) => Some(SanitizerOutcome::seen_with_flags),
            Some(TwinAnswer::Late) => Some(SanitizerOutcome::without_witness),
            _ => None,
        };
        if let Some(weighed) = weighed {
            self.outcomes = self.outcomes.into_iter().map(weighed).collect();
        }
        let fault = twin.as_ref().and_then(TwinAnswer::fault);
        self.own.extend(fault.map(|own| SanitizerFinding::of_worker(own.kind.as_str(), &own.message)));
        SanitizerLook { twin, ..self }
    }

    fn twin_fault(&self) -> Option<&Verdict> {
        self.twin.as_ref().and_then(TwinAnswer::fault)
    }

    pub fn failure(&self) -> Option<&ToolFailure> {
        self.outcomes.iter().find_map(|outcome| outcome.failure.as_ref())
    }

    pub fn is_late(&self) -> bool {
        let is_over = |failure: &ToolFailure| failure.state == ToolState::TimedOut;
        self.outcomes.iter().any(|outcome| outcome.failure.as_ref().is_some_and(is_over))
    }

    pub fn findings(&self) -> impl Iterator<Item = &SanitizerFinding> {
        self.outcomes.iter().flat_map(|outcome| &outcome.findings).chain(&self.own)
    }

    pub fn report(&self) -> GateReport {
        let (state, launches) = (self.state(), self.outcomes.iter().map(|own| own.launches).sum::<u64>());
        let mut message = match (self.verdict(), self.stand_ins.iter().find(|own| !own.ran)) {
            (Some(verdict), _) => verdict.message,
            (None, Some(own)) => format!("guard pages and barrier detection gave no answer: {}", own.message),
            _ if !self.stand_ins.is_empty() => {
                "compute-sanitizer looks at a GPU; guard pages and barrier detection found nothing"
                    .to_string()
            }
            _ if self.outcomes.is_empty() => "no check was made".to_string(),
            _ => self.failure().map_or_else(
                || {
                    let names: Vec<&str> = self.outcomes.iter().map(|own| own.check.as_str()).collect();
                    format!("{} found nothing", names.join(", "))
                },
                |failure| failure.message.clone(),
            ),
        };
        // The answer refuses, and never makes a pass of what the sanitizer left open.
        if let Some(twin @ TwinAnswer::Clean { .. }) = &self.twin
            && state != GateState::Fail
        {
            message = format!("{message}; {}", twin.said());
        }
        let mut report = GateReport { state, ..GateReport::not_run(Gate::Sanitize, message) };
        if state != GateState::NotRun {
            report.cases = u32::try_from(launches).unwrap_or(u32::MAX);
        }
        if let Some(twin) = &self.twin {
            report.evidence.insert(TwinAnswer::NAME, twin.said());
        }
        report.elapsed_ms = self.elapsed.as_secs_f64() * 1e3;
        report.evidence.insert("tool", "compute-sanitizer");
        if let Some(version) = &self.version {
            report.evidence.insert("version", version.as_str());
        }
        let brief = |outcome: &SanitizerOutcome| {
            json!({
                "tool": outcome.check,
                "state": outcome.state,
                "tool_state": outcome.failure.as_ref().map_or(ToolState::Ok, |failure| failure.state),
                "errors": outcome.errors,
                "warnings": outcome.warnings,
                "launches": outcome.launches,
                "elapsed_ms": outcome.elapsed.as_secs_f64() * 1e3,
            })
        };
        report.evidence.insert("checks", self.outcomes.iter().map(brief).collect::<Vec<Value>>());
        let mut findings: Vec<Value> = self.findings().take(SHOWN).map(|own| json!(own)).collect();
        // What is known of them: evidence has no place for reasons why something is not.
        let fields = findings.iter_mut().filter_map(Value::as_object_mut);
        fields.for_each(|fields| fields.retain(|_, field| !field.is_null()));
        if !findings.is_empty() {
            report.evidence.insert("findings", findings);
        }
        let ran: Vec<&str> = self.stand_ins.iter().filter(|own| own.ran).map(|own| own.name).collect();
        if !ran.is_empty() {
            report.evidence.insert("stand_ins", json!(ran));
        }
        report
    }
}

pub fn unlooked(why: &ToolFailure) -> GateReport {
    let mut report = GateReport::not_run(Gate::Sanitize, why.message.clone());
    // What to install is for the person who asked; what watches in its place is not.
    if let Some(hint) = why.hint.as_ref().filter(|_| why.state == ToolState::Incompatible) {
        report.message = format!("{}; {hint}", why.message);
    }
    report.evidence.insert("tool", "compute-sanitizer");
    report
}

#[cfg(test)]
mod tests {
    use evo_protocol::verdict::VerdictKind;

    use super::*;

    use GateState::{Fail, NotRun, Pass};

    fn outcome(state: GateState) -> SanitizerOutcome {
        let none = ToolFailure::new(ToolState::Missing, "it is not there");
        let not_run = SanitizerOutcome::not_run(SanitizerCheck::Racecheck, none);
        let failure = not_run.failure.clone().filter(|_| state == NotRun);
        let found =
            SanitizerFinding { tool: "racecheck".into(), ..SanitizerFinding::of_worker("", "a race") };
        let findings = if state == Fail { vec![found] } else { Vec::new() };
        SanitizerOutcome { state, failure, findings, launches: 3, ..not_run }
    }

    #[test]
    fn no_answer_is_never_a_pass_and_the_twin_refuses_and_never_vouches() {
        let fault = Verdict::new(VerdictKind::OobRead, "behind `s`");
        let (clean, silent) = (TwinAnswer::Clean { cases: 3 }, TwinAnswer::Silent("why".into()));
        let twins = [None, Some(clean), Some(silent), Some(TwinAnswer::Fault(Box::new(fault)))];
        let tools: [&[GateState]; 5] = [&[], &[NotRun], &[Pass, NotRun], &[Pass, Pass], &[NotRun, Fail]];
        let rows = tools.iter().flat_map(|states| twins.iter().map(move |twin| (states, twin)));
        let told = rows.map(|(states, twin)| {
            let outcomes = states.iter().copied().map(outcome).collect();
            let look = SanitizerLook { outcomes, ..SanitizerLook::default() }.beside(twin.clone());
            let report = look.report();
            assert_eq!((report.gate, report.state), (Gate::Sanitize, look.state()));
            let twin = twin.as_ref().map(TwinAnswer::said);
            assert_eq!(report.evidence.get(TwinAnswer::NAME).and_then(Value::as_str), twin.as_deref());
            let verdict = look.verdict().map(|verdict| verdict.label());
            let (state, cases, message) = (report.state, report.cases, report.message);
            format!("{states:?} {twin:?}\n  {state:?} of {cases}: {message} {verdict:?}")
        });
        insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn what_is_found_without_the_tool_fails_and_finding_nothing_is_no_pass() {
        let stand_in = StandIn { name: "guard_pages", ran: true, message: String::new() };
        let (outcomes, version) = (vec![outcome(NotRun), outcome(Pass)], Some("2025.3.1".into()));
        let stand_ins = vec![stand_in];
        let mut look = SanitizerLook { outcomes, stand_ins, version, ..SanitizerLook::default() };
        let report = look.report();
        assert_eq!((report.state, look.verdict()), (NotRun, None));
        let evidence = |name: &str| report.evidence.get(name).cloned();
        assert_eq!(evidence("stand_ins"), Some(json!(["guard_pages"])));
        assert_eq!((evidence("version"), evidence("findings")), (Some(json!("2025.3.1")), None));
        assert_eq!(evidence("checks").unwrap()[1]["state"], "pass");
        look.stand_ins[0].ran = false;
        assert!(look.report().message.contains("gave no answer") && look.state() == NotRun);
        look.own.push(SanitizerFinding::of_worker("oob_write", "behind y"));
        assert_eq!((look.report().state, look.state()), (Fail, Fail));
        assert_eq!(look.verdict().unwrap().label(), "oob_write");
    }

    #[test]
    fn races_over_flags_wait_for_the_host_devices_word() {
        let raced = |twin| {
            let outcome = SanitizerOutcome { has_flags: true, errors: 2, ..outcome(Fail) };
            SanitizerLook { outcomes: vec![outcome], ..SanitizerLook::default() }.beside(twin).state()
        };
        assert_eq!(raced(Some(TwinAnswer::Clean { cases: 3 })), Pass);
        assert_eq!(raced(Some(TwinAnswer::Late)), NotRun, "it may know that they are none");
        assert_eq!(raced(None), Fail, "nobody was asked");
        assert_eq!(raced(Some(TwinAnswer::Silent("why".into()))), Fail);
        let fault = Verdict::new(VerdictKind::Nondeterministic, "a race");
        assert_eq!(raced(Some(TwinAnswer::Fault(Box::new(fault)))), Fail);
    }
}
