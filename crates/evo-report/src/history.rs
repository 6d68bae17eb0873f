//! `evo history` and `evo summary`: what was tried and where it led, as JSON and as text. What is not known is null, with
//! its reason.

use std::collections::BTreeMap;

use evo_protocol::known::{Known, told};
use evo_space::genome::{Configuration, ContentHash};
use minijinja::value::Serde;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::standing::Standing;
use super::templates;
use evo_journal::ladder::{LadderStep, Rung, StepKind};

const DECISIONS: usize = 5;
/// Letters of a line of text.
const WIDTH: usize = 110;
const NO_PEERS: &str =
    "`evo bench --peer …` compares with peers, and no such run of this kernel on this device is kept";

/// The `result` of `evo history`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HistoryResult<'a> {
    /// Of all ladders, in the order of time.
    entries: Vec<HistoryStep<'a>>,
    standing: Vec<RungStanding<'a>>,
    notes: &'a [String],
}

/// One step of a ladder.
#[derive(Debug, Serialize, JsonSchema)]
struct HistoryStep<'a> {
    number: u64,
    at: &'a str,
    /// `champion`, `evaluation` or `gate`.
    kind: &'static str,
    kernel: &'a str,
    device_kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    study: Option<&'a str>,
    git_commit: Known<&'a str>,
    git_dirty: Known<bool>,
    hypothesis: Known<&'a str>,
    candidate: HistoryCandidate<'a>,
    problems: BTreeMap<&'a str, StepTime>,
    change_ratio: Known<f64>,
    against: &'a str,
    decision: &'a str,
    why: &'a str,
    is_best: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct HistoryCandidate<'a> {
    configuration: &'a Configuration,
    configuration_hash: ContentHash,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_hash: Option<&'a ContentHash>,
    has_own_source: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct StepTime {
    p50_ns: Known<f64>,
}

/// Where a kernel stands.
#[derive(Debug, Serialize, JsonSchema)]
struct RungStanding<'a> {
    kernel: &'a str,
    device_kind: &'a str,
    device: &'a str,
    steps: usize,
    best: Known<HistoryStep<'a>>,
    peers: Known<&'a Standing>,
}

impl<'a> HistoryStep<'a> {
    fn of(rung: &'a Rung, step: &'a LadderStep) -> HistoryStep<'a> {
        let no_git = "git said nothing of the folder that evo ran in";
        let problem = |(name, p50_ns): (&'a String, &Option<f64>)| {
            (name.as_str(), StepTime { p50_ns: Known::of(*p50_ns, "it was not timed") })
        };
        HistoryStep {
            number: step.number,
            at: &step.at,
            kind: step.kind.as_str(),
            kernel: &rung.kernel,
            device_kind: &rung.device_kind,
            study: step.study.as_deref(),
            git_commit: Known::of(step.git_commit.as_deref(), no_git),
            git_dirty: Known::of(step.git_dirty, no_git),
            hypothesis: Known::of(step.hypothesis.as_deref(), "none was given"),
            candidate: HistoryCandidate {
                configuration: &step.configuration,
                configuration_hash: step.configuration.hash(),
                source_hash: step.source_hash.as_ref(),
                has_own_source: step.has_own_source,
            },
            problems: step.p50_ns.iter().map(problem).collect(),
            change_ratio: Known::number(step.change_ratio, "it was not compared with what was there before"),
            against: &step.against,
            decision: &step.decision,
            why: &step.why,
            is_best: step.is_best,
        }
    }

    fn best_of(rung: &'a Rung) -> Known<HistoryStep<'a>> {
        let best = rung.best().map(|step| HistoryStep::of(rung, step));
        Known::of(best, "nothing was accepted or confirmed yet")
    }
}

pub fn history<'a>(ladders: &'a [(&'a Rung, Option<Standing>)], notes: &'a [String]) -> HistoryResult<'a> {
    let steps = |(rung, _): &'a (&'a Rung, _)| rung.steps.iter().map(move |step| (*rung, step));
    let mut steps: Vec<(&Rung, &LadderStep)> = ladders.iter().flat_map(steps).collect();
    // Stable, so that steps of one second stay in the order of their ladder.
    steps.sort_by(|a, b| a.1.at.cmp(&b.1.at));
    let standing = ladders.iter().map(|(rung, peers)| RungStanding {
        kernel: &rung.kernel,
        device_kind: &rung.device_kind,
        device: &rung.device,
        steps: rung.steps.len(),
        best: HistoryStep::best_of(rung),
        peers: Known::of(peers.as_ref(), NO_PEERS),
    });
    HistoryResult {
        entries: steps.into_iter().map(|(rung, step)| HistoryStep::of(rung, step)).collect(),
        standing: standing.collect(),
        notes,
    }
}

impl HistoryResult<'_> {
    pub fn text(&self) -> String {
        rendered("history.txt.j2", told(self).0)
    }
}

/// The `result` of `evo summary`: what it says of one kernel on one device.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SummaryResult<'a> {
    kernel: &'a str,
    device_kind: &'a str,
    device: &'a str,
    steps: usize,
    best: Known<HistoryStep<'a>>,
    /// The newest first.
    last_decisions: Vec<HistoryStep<'a>>,
    /// What asks for something to be done.
    open_findings: Vec<String>,
    tried_and_failed: Vec<String>,
    others: Vec<OtherRung<'a>>,
    notes: &'a [String],
}

#[derive(Debug, Serialize, JsonSchema)]
struct OtherRung<'a> {
    kernel: &'a str,
    device_kind: &'a str,
}

/// `profile_findings` are the newest profile's, a line each.
pub fn summary<'a>(
    rung: &'a Rung,
    profile_findings: &[String],
    others: &[&'a Rung],
    notes: &'a [String],
) -> SummaryResult<'a> {
    let other = |rung: &&'a Rung| OtherRung { kernel: &rung.kernel, device_kind: &rung.device_kind };
    let profile = profile_findings.iter().map(|finding| format!("profile: {finding}"));
    SummaryResult {
        kernel: &rung.kernel,
        device_kind: &rung.device_kind,
        device: &rung.device,
        steps: rung.steps.len(),
        best: HistoryStep::best_of(rung),
        last_decisions: rung
            .steps
            .iter()
            .rev()
            .take(DECISIONS)
            .map(|step| HistoryStep::of(rung, step))
            .collect(),
        open_findings: asked_for(rung).into_iter().chain(profile).chain(notes.iter().cloned()).collect(),
        tried_and_failed: failures(rung),
        others: others.iter().map(other).collect(),
        notes,
    }
}

/// What the last gate run and the last evaluation ask for.
fn asked_for(rung: &Rung) -> Vec<String> {
    let last = |kind: StepKind| rung.steps.iter().rev().find(|step| step.kind == kind);
    let mut found = Vec::new();
    if let Some(step) = last(StepKind::Gate).filter(|step| step.decision != "pass") {
        let (decision, why) = (&step.decision, first_line(&step.why));
        found.push(format!("the last gate run did not pass ({decision}): {why}"));
    }
    if let Some(step) = last(StepKind::Evaluation) {
        let (number, why) = (step.number, first_line(&step.why));
        if step.decision == "revert" {
            found.push(format!("evaluation {number} asks to go back: {why}"));
        }
        if is_cut_off(rung, step) {
            found.push(format!("evaluation {number} was not judged to its end: {why}"));
        }
    }
    found
}

/// Whether a time limit, evo or the machine ended an evaluation, which says nothing of its candidate.
fn is_cut_off(rung: &Rung, step: &LadderStep) -> bool {
    let mut iterations = rung.iterations.iter().filter(|iteration| iteration.number == step.number);
    let nobodys = ["interrupted", "harness_error", "device_lost"];
    step.kind == StepKind::Evaluation
        && iterations.any(|iteration| nobodys.contains(&iteration.verdict.as_str()))
}

fn failures(rung: &Rung) -> Vec<String> {
    let mut ideas: Vec<String> = Vec::new();
    let mut failures = Vec::new();
    for step in rung.steps.iter().rev().filter(|step| matches!(step.decision.as_str(), "reject" | "revert")) {
        let idea = match &step.hypothesis {
            Some(text) => first_line(text).to_string(),
            None => step.configuration.to_string(),
        };
        if !is_cut_off(rung, step) && !ideas.contains(&idea) {
            let (number, why) = (step.number, first_line(&step.why));
            failures.push(format!("evaluation {number}: {idea}: {}: {why}", step.decision));
            ideas.push(idea);
        }
    }
    failures
}

impl SummaryResult<'_> {
    /// At most 40 lines for people.
    pub fn text(&self) -> String {
        rendered("summary.txt.j2", told(self).0)
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// A text whose lines are no longer than people read them.
fn rendered(template: &str, mut values: Value) -> String {
    with_texts(&mut values);
    let line = |line: &str| match line.char_indices().nth(WIDTH) {
        Some((at, _)) => format!("{}…\n", &line[..at]),
        None => format!("{line}\n"),
    };
    templates::lines(template, Serde(values).into()).lines().map(line).collect()
}

/// Has configurations as texts, whose parameters keep their order.
fn with_texts(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match (name.as_str(), field) {
                    // Names of problems are the user's.
                    ("problems", _) => {}
                    ("configuration", field @ Value::Object(_)) => {
                        let own = std::mem::take(field).as_object().cloned().unwrap_or_default();
                        *field = Configuration::from(own).to_string().into();
                    }
                    (_, field) => with_texts(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(with_texts),
        _ => {}
    }
}
