//! `evo history` and `evo summary`: what was tried and where it led, as JSON and as text. What is not known is null, with
//! its reason.

use std::collections::BTreeMap;

use evo_protocol::known::Known;
use evo_protocol::schema::{ConfigurationObject, HashText};
use evo_space::genome::{Configuration, ContentHash};
use evo_space::text::counted;
use schemars::JsonSchema;
use serde::Serialize;

use super::standing::{self, Standing};
use evo_journal::ladder::{LadderStep, Rung, StepKind};

/// Decisions that `evo summary` shows.
const DECISIONS: usize = 5;
/// Failures that `evo summary` shows.
const FAILURES: usize = 8;
/// Findings that `evo summary` shows.
const FINDINGS: usize = 6;
/// Other kernels that `evo summary` names.
const OTHERS: usize = 6;
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
    #[schemars(with = "ConfigurationObject")]
    configuration: &'a Configuration,
    #[schemars(with = "HashText")]
    configuration_hash: ContentHash,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<HashText>")]
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

/// `peers` is where each of the ladders stands beside peers.
pub fn history<'a>(
    rungs: &[&'a Rung],
    peers: &'a [Option<Standing>],
    notes: &'a [String],
) -> HistoryResult<'a> {
    let mut steps: Vec<(&Rung, &LadderStep)> =
        rungs.iter().flat_map(|rung| rung.steps.iter().map(|step| (*rung, step))).collect();
    // Stable, so that steps of one second stay in the order of their ladder.
    steps.sort_by(|a, b| a.1.at.cmp(&b.1.at));
    let standing = rungs.iter().enumerate().map(|(at, rung)| RungStanding {
        kernel: &rung.kernel,
        device_kind: &rung.device_kind,
        device: &rung.device,
        steps: rung.steps.len(),
        best: HistoryStep::best_of(rung),
        peers: Known::of(peers.get(at).and_then(Option::as_ref), NO_PEERS),
    });
    let standing = standing.collect();
    HistoryResult {
        entries: steps.into_iter().map(|(rung, step)| HistoryStep::of(rung, step)).collect(),
        standing,
        notes,
    }
}

/// The ladders for people.
pub fn history_text(rungs: &[&Rung], peers: &[Option<Standing>]) -> String {
    let mut text = String::new();
    for (at, rung) in rungs.iter().enumerate() {
        text += &format!(
            "{} on {} ({}), {}\n",
            rung.kernel,
            rung.device,
            rung.device_kind,
            counted(rung.steps.len(), "step")
        );
        text += "  at                    what             decision    change  candidate\n";
        for step in &rung.steps {
            text += &format!("{}\n", line(step));
        }
        text += &format!("{}\n", best_line(rung));
        text += &peers.get(at).and_then(Option::as_ref).map(standing::text).unwrap_or_default();
    }
    if text.is_empty() { "nothing was tried yet\n".into() } else { text + "* the best so far at that time\n" }
}

fn line(step: &LadderStep) -> String {
    let mark = if step.is_best { '*' } else { ' ' };
    let name = step_name(step);
    let change =
        step.change_ratio.map(|ratio| format!("{:+.1} %", (ratio - 1.0) * 100.0)).unwrap_or_default();
    let own = if step.has_own_source { " (own source)" } else { "" };
    let idea = step.hypothesis.as_ref().map(|text| format!(": {}", first_line(text))).unwrap_or_default();
    let text = format!(
        "{mark} {:<20}  {name:<15}  {:<8}  {change:>8}  {}{own}{idea}",
        step.at, step.decision, step.configuration
    );
    cut(&text)
}

/// `evaluation 7`, `champion 12`, `gate 3`.
fn step_name(step: &LadderStep) -> String {
    format!("{} {}", step.kind.as_str(), step.number)
}

fn best_line(rung: &Rung) -> String {
    match rung.best() {
        None => "best so far: nothing was accepted or confirmed yet".into(),
        Some(step) => {
            let own = if step.has_own_source { " (own source)" } else { "" };
            cut(&format!("best so far: {}, {}{own}", step_name(step), step.configuration))
        }
    }
}

/// What `evo summary` says of one kernel on one device.
pub struct Summary<'a> {
    pub rung: &'a Rung,
    /// The newest profile's findings, a line each.
    pub profile_findings: Vec<String>,
    /// Other ladders.
    pub others: Vec<&'a Rung>,
    pub notes: &'a [String],
}

/// The `result` of `evo summary`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SummaryResult<'a> {
    kernel: &'a str,
    device_kind: &'a str,
    device: &'a str,
    steps: usize,
    best: Known<HistoryStep<'a>>,
    last_decisions: Vec<HistoryStep<'a>>,
    open_findings: Vec<String>,
    tried_and_failed: Vec<String>,
    others: Vec<OtherRung>,
    notes: &'a [String],
}

#[derive(Debug, Serialize, JsonSchema)]
struct OtherRung {
    kernel: String,
    device_kind: String,
}

impl Summary<'_> {
    /// The last decisions, the newest first.
    fn decisions(&self) -> Vec<&LadderStep> {
        self.rung.steps.iter().rev().take(DECISIONS).collect()
    }

    /// What asks for something to be done.
    fn findings(&self) -> Vec<String> {
        let mut found = Vec::new();
        let gate = self.rung.steps.iter().rev().find(|step| step.kind == StepKind::Gate);
        if let Some(step) = gate.filter(|step| step.decision != "pass") {
            found.push(format!(
                "the last gate run did not pass ({}): {}",
                step.decision,
                first_line(&step.why)
            ));
        }
        let last = self.rung.steps.iter().rev().find(|step| step.kind == StepKind::Evaluation);
        if let Some(step) = last.filter(|step| step.decision == "revert") {
            found.push(format!("evaluation {} asks to go back: {}", step.number, first_line(&step.why)));
        }
        if let Some(step) = last.filter(|step| self.is_cut_off(step)) {
            found.push(format!(
                "evaluation {} was not judged to its end: {}",
                step.number,
                first_line(&step.why)
            ));
        }
        found.extend(self.profile_findings.iter().map(|text| format!("profile: {text}")));
        found.extend(self.notes.iter().cloned());
        found
    }

    /// Whether a time limit, evo or the machine ended an evaluation, which says nothing of its candidate.
    fn is_cut_off(&self, step: &LadderStep) -> bool {
        let mut own = self.rung.iterations.iter().filter(|own| own.number == step.number);
        let nobodys = ["interrupted", "harness_error", "device_lost"];
        step.kind == StepKind::Evaluation && own.any(|own| nobodys.contains(&own.verdict.as_str()))
    }

    /// Evaluations that led nowhere, the newest first; one of each kind.
    fn failures(&self) -> Vec<String> {
        let mut seen: Vec<(String, String)> = Vec::new();
        let steps = self.rung.steps.iter().rev().filter(|step| !self.is_cut_off(step));
        for step in steps.filter(|step| matches!(step.decision.as_str(), "reject" | "revert")) {
            let idea = match &step.hypothesis {
                Some(text) => first_line(text).to_string(),
                None => step.configuration.to_string(),
            };
            if !seen.iter().any(|(known, _)| *known == idea) {
                let text = format!(
                    "evaluation {}: {idea}: {}: {}",
                    step.number,
                    step.decision,
                    first_line(&step.why)
                );
                seen.push((idea, text));
            }
        }
        seen.into_iter().map(|(_, text)| text).collect()
    }

    pub fn result(&self) -> SummaryResult<'_> {
        let other = |rung: &&'_ Rung| OtherRung {
            kernel: rung.kernel.clone(),
            device_kind: rung.device_kind.clone(),
        };
        SummaryResult {
            kernel: &self.rung.kernel,
            device_kind: &self.rung.device_kind,
            device: &self.rung.device,
            steps: self.rung.steps.len(),
            best: HistoryStep::best_of(self.rung),
            last_decisions: (self.decisions().into_iter())
                .map(|step| HistoryStep::of(self.rung, step))
                .collect(),
            open_findings: self.findings(),
            tried_and_failed: self.failures(),
            others: self.others.iter().map(other).collect(),
            notes: self.notes,
        }
    }

    /// At most 40 lines for people.
    pub fn text(&self) -> String {
        let rung = self.rung;
        let mut lines = vec![
            format!(
                "{} on {} ({}), {}",
                rung.kernel,
                rung.device,
                rung.device_kind,
                counted(rung.steps.len(), "step")
            ),
            best_line(rung),
        ];
        if let Some(step) = rung.best() {
            let times = step
                .p50_ns
                .iter()
                .filter_map(|(name, time)| Some(format!("{name} {:.1} µs", (*time)? / 1e3)));
            let times: Vec<String> = times.collect();
            lines.extend((!times.is_empty()).then(|| format!("  {}", times.join(", "))));
        }
        lines.push("last decisions:".into());
        lines.extend(
            self.decisions()
                .into_iter()
                .map(|step| format!("  {}", line(step).trim_start_matches(['*', ' ']))),
        );
        section(&mut lines, "open findings:", &self.findings(), FINDINGS);
        section(&mut lines, "tried and failed:", &self.failures(), FAILURES);
        let others: Vec<String> =
            self.others.iter().map(|own| format!("{} ({})", own.kernel, own.device_kind)).collect();
        if !others.is_empty() {
            section(&mut lines, "also here, with `evo summary KERNEL`:", &others, OTHERS);
        }
        lines.iter().map(|line| format!("{}\n", cut(line))).collect()
    }
}

fn section(lines: &mut Vec<String>, title: &str, items: &[String], most: usize) {
    lines.push(if items.is_empty() { format!("{title} none") } else { title.to_string() });
    lines.extend(items.iter().take(most).map(|item| format!("  {}", first_line(item))));
    let more = items.len().saturating_sub(most);
    lines.extend((more > 0).then(|| format!("  … and {more} more")));
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(WIDTH) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_string(),
    }
}
