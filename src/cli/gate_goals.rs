//! `evo gate --goals`: whether a candidate reaches what `[goals]` of the space file asks for. What nothing could judge is
//! not run, and does not pass.

use std::path::Path;

use evo_protocol::envelope::{ErrorCode, ErrorPlace};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::measurement::Measurement;
use evo_protocol::plan::ProblemPlan;
use evo_space::diagnostic::nearest;
use serde_json::Value;

use super::counters::{CounterLook, CounterOrder, CounterSubject, error_of, look};
use super::error::CliError;
use super::gate_args::GateArgs;
use super::gate_judge::JudgedGate;
use super::gate_peers::{self, PeerFinding};
use super::peers;
use super::trial::AskedCandidate;
use crate::inspect::profile::{KnownSources, MetricSet};
use crate::kernel::spec::{FasterGoal, GoalsSpec, KernelSpec, MetricGoal};
use crate::peer::SHIPPED;
use crate::report::gate::{GoalState, JudgedGoal, percent};
use crate::report::profile::fields;
use crate::timing::acceptance::tail_ratio;
use crate::timing::paired::claimable;

/// Refuses goals that nothing could ever reach, before the candidate is judged.
pub fn check(kernel: &KernelSpec, space: &str) -> Result<(), CliError> {
    let Some(goals) = &kernel.goals else {
        let text = format!("`{space}` has no `[goals]`");
        return Err(CliError::usage(text).with_hint("add [goals] to the space file, or leave `--goals` out"));
    };
    let unknown = goals.faster_than.iter().find(|own| peers::named(&own.peer, &kernel.peers).is_none());
    let Some(FasterGoal { peer, .. }) = unknown else { return Ok(()) };
    let known = kernel.peers.iter().map(|own| own.name.as_str()).chain(SHIPPED.iter().copied());
    let hint = match nearest(peer, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}; [[peers]] adds others", known.collect::<Vec<_>>().join(", ")),
    };
    let text = format!("`faster_than` in [goals] of `{space}` names the peer `{peer}`, which nobody has");
    Err(CliError::usage(text)
        .with_hint(hint)
        .with_code(ErrorCode::BadFile)
        .at(ErrorPlace::file(Path::new(space))))
}

/// Judges all goals.
///
/// # Errors
/// evo's own folders and files. What a tool does not answer is in the goals.
pub fn judge(
    arguments: &GateArgs,
    asked: &AskedCandidate,
    goals: &GoalsSpec,
    judged: &JudgedGate,
) -> Result<Vec<JudgedGoal>, CliError> {
    let mut found = faster_than(arguments, asked, &goals.faster_than, judged)?;
    found.extend(goals.p90_not_worse.then(|| p90(judged, asked.seed)));
    found.extend(metrics(arguments, asked.kernel()?, &goals.metrics, judged)?);
    for goal in &mut found {
        goal.is_allowed =
            goal.state == GoalState::NotRun && arguments.allow_not_run.iter().any(|own| own == goal.name);
    }
    Ok(found)
}

fn goal(name: &'static str, goal: String, state: GoalState, why: impl Into<String>) -> JudgedGoal {
    JudgedGoal { name, goal, state, why: why.into(), is_allowed: false }
}

/// Whether the candidate is faster than peers.
fn faster_than(
    arguments: &GateArgs,
    asked: &AskedCandidate,
    goals: &[FasterGoal],
    judged: &JudgedGate,
) -> Result<Vec<JudgedGoal>, CliError> {
    let none = |_| (GoalState::NotRun, "the candidate did not pass its gates".to_string());
    let found = match judged.is_correct() {
        true => gate_peers::judge(arguments, asked, goals)?,
        false => goals.iter().map(none).collect(),
    };
    let one = |(own, (state, why)): (&FasterGoal, PeerFinding)| {
        let text = format!("faster_than {} by {} on {} problems", own.peer, percent(own.by), own.problems);
        goal("faster_than", text, state, why)
    };
    Ok(goals.iter().zip(found).map(one).collect())
}

/// Whether the slowest calls are no slower than the baseline's, beyond noise.
fn p90(judged: &JudgedGate, seed: u64) -> JudgedGoal {
    let text = "p90 not worse".to_string();
    let (Some(baseline), Some(job)) = (&judged.baseline, &judged.job) else {
        return goal("p90", text, GoalState::NotRun, "nothing was compared");
    };
    let mut worst: Option<(String, f64)> = None;
    for (at, plan) in job.timed.iter().enumerate() {
        let floor = judged.compared.get(at).and_then(|own| own.finding).map(|found| found.floor);
        let own = samples(&judged.single.evaluation, plan, judged);
        let tail = tail_ratio(&own, &samples(baseline, plan, judged), seed);
        let (Some(tail), Some(floor)) = (tail, floor.filter(|floor| floor.is_finite())) else {
            let why = format!("`{}` has too few samples to compare its p90", plan.name);
            return goal("p90", text, GoalState::NotRun, why);
        };
        let loss = tail.low - 1.0;
        if loss > claimable(floor) && worst.as_ref().is_none_or(|(_, most)| loss > *most) {
            worst = Some((plan.name.clone(), loss));
        }
    }
    match worst {
        Some((name, loss)) => {
            let why = format!("the p90 of `{name}` is worse by {} at least", percent(loss));
            goal("p90", text, GoalState::Unmet, why)
        }
        None => goal("p90", text, GoalState::Met, "no p90 is worse beyond the noise"),
    }
}

fn samples(evaluation: &Evaluation, plan: &ProblemPlan, judged: &JudgedGate) -> Vec<f64> {
    let is_own = |one: &&Measurement| one.problem == plan.name && one.mode == judged.mode;
    evaluation.measurements.iter().find(is_own).map(|one| one.raw_ns.clone()).unwrap_or_default()
}

/// Whether a profiler's counters keep to their bounds, in every launch of every canonical problem.
fn metrics(
    arguments: &GateArgs,
    kernel: &KernelSpec,
    goals: &[MetricGoal],
    judged: &JudgedGate,
) -> Result<Vec<JudgedGoal>, CliError> {
    if goals.is_empty() {
        return Ok(Vec::new());
    }
    let all = |state: GoalState, why: &str| -> Vec<JudgedGoal> {
        goals.iter().map(|own| goal("metrics", own.text.clone(), state, why)).collect()
    };
    let (Some(job), Some(device), Some(options)) = (&judged.job, &judged.device, &judged.options) else {
        return Ok(all(GoalState::NotRun, "the candidate did not reach the device"));
    };
    if !judged.is_correct() {
        return Ok(all(GoalState::NotRun, "the candidate did not pass its gates"));
    }
    let is_canonical =
        |plan: &&ProblemPlan| kernel.problems.iter().any(|own| own.name == plan.name && own.canonical);
    let mut seen: Vec<(String, Value)> = Vec::new();
    for plan in job.timed.iter().filter(is_canonical) {
        let sources = KnownSources {
            device,
            plan,
            resources: &judged.single.evaluation.resources,
            attributes: &[],
            time_ns: None,
            mode: judged.mode,
        };
        let order = CounterOrder {
            set: MetricSet::Wide,
            further: &[],
            ncu: None,
            keep_report: false,
            limit: arguments.run.limits.limit_tool,
        };
        let CounterLook { profile, .. } = look(&CounterSubject { options, job, sources }, &order)?;
        if let Err(none) = &profile.counters {
            return Ok(all(GoalState::NotRun, &error_of(none).to_string()));
        }
        seen.push((plan.name.clone(), fields(&profile).fields));
    }
    if seen.is_empty() {
        return Ok(all(GoalState::NotRun, "no canonical problem was timed"));
    }
    Ok(goals.iter().map(|own| metric(own, &seen)).collect())
}

fn metric(own: &MetricGoal, seen: &[(String, Value)]) -> JudgedGoal {
    let text = own.text.clone();
    let mut values = Vec::new();
    for (problem, profile) in seen {
        let launches = profile["launches"].as_array().map(Vec::as_slice).unwrap_or_default();
        for launch in launches {
            let Some(value) = launch["metrics"][&own.metric].as_f64() else {
                let why = format!("`{}` of `{problem}` has no value", own.metric);
                return goal("metrics", text, GoalState::NotRun, why);
            };
            values.push((problem, value));
        }
    }
    match values.iter().find(|(_, value)| !own.holds(*value)) {
        Some((problem, value)) => {
            goal("metrics", text, GoalState::Unmet, format!("it is {value} on `{problem}`"))
        }
        None if values.is_empty() => goal("metrics", text, GoalState::NotRun, "no launch was profiled"),
        None => goal("metrics", text, GoalState::Met, "it holds in every launch"),
    }
}
