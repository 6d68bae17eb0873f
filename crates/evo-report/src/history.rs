//! `evo history` and `evo summary`: what was tried and where it led, as JSON and as text. What is not known is null, with
//! its reason.

use std::collections::BTreeMap;

use evo_protocol::known::{Known, told};
use evo_space::text::counted;
use serde_json::{Map, Value, json};

use super::standing::{self, Standing};
use evo_journal::ladder::{LadderStep, Rung, StepKind};

/// Objects and why some of their fields are null, by dotted path below `result`.
type Reasoned = (Value, BTreeMap<String, String>);

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

/// The result of `evo history`; `peers` is where each of the ladders stands beside peers.
pub fn history(rungs: &[&Rung], peers: &[Option<Standing>], notes: &[String]) -> Reasoned {
    let mut reasons = BTreeMap::new();
    let mut steps: Vec<(&Rung, &LadderStep)> =
        rungs.iter().flat_map(|rung| rung.steps.iter().map(|step| (*rung, step))).collect();
    // Stable, so that steps of one second stay in the order of their ladder.
    steps.sort_by(|a, b| a.1.at.cmp(&b.1.at));
    let mut entries = Vec::new();
    for (at, (rung, step)) in steps.into_iter().enumerate() {
        entries.push(entry(rung, step, &format!("entries.{at}"), &mut reasons));
    }
    let mut standing = Vec::new();
    for (at, rung) in rungs.iter().enumerate() {
        let peers = peers.get(at).and_then(Option::as_ref);
        standing.push(stand(rung, peers, &format!("standing.{at}"), &mut reasons));
    }
    (json!({ "entries": entries, "standing": standing, "notes": notes }), reasons)
}

/// One step; `path` is where it stands.
fn entry(rung: &Rung, step: &LadderStep, path: &str, reasons: &mut BTreeMap<String, String>) -> Value {
    let no_git = "git said nothing of the folder that evo ran in";
    let problem = |(name, p50_ns): (&String, &Option<f64>)| {
        (name.clone(), json!({ "p50_ns": Known::of(*p50_ns, "it was not timed") }))
    };
    let mut fields = json!({
        "number": step.number,
        "at": step.at,
        "kind": step.kind.as_str(),
        "kernel": rung.kernel,
        "device_kind": rung.device_kind.as_str(),
        "git_commit": Known::of(step.git_commit.as_deref(), no_git),
        "git_dirty": Known::of(step.git_dirty, no_git),
        "hypothesis": Known::of(step.hypothesis.as_deref(), "none was given"),
        "candidate": candidate(step),
        "problems": step.p50_ns.iter().map(problem).collect::<Map<_, _>>(),
        "change_ratio": Known::number(step.change_ratio, "it was not compared with what was there before"),
        "against": step.against,
        "decision": step.decision.as_str(),
        "why": step.why,
        "is_best": step.is_best,
    });
    if let Some(study) = &step.study {
        fields["study"] = study.as_str().into();
    }
    let (fields, unknown) = told(&fields);
    reasons.extend(unknown.into_iter().map(|(name, why)| (format!("result.{path}.{name}"), why)));
    fields
}

/// What it was; what it does not have is left out.
fn candidate(step: &LadderStep) -> Value {
    let mut fields = Map::new();
    fields.insert("configuration".into(), json!(step.configuration));
    fields.insert("configuration_hash".into(), json!(step.configuration.hash()));
    if let Some(hash) = &step.source_hash {
        fields.insert("source_hash".into(), json!(hash));
    }
    fields.insert("has_own_source".into(), step.has_own_source.into());
    fields.into()
}

/// Where a kernel stands.
fn stand(rung: &Rung, peers: Option<&Standing>, path: &str, reasons: &mut BTreeMap<String, String>) -> Value {
    let best = rung.best().map(|step| entry(rung, step, &format!("{path}.best"), reasons));
    let mut null = |name: &str, why: &str| reasons.insert(format!("result.{path}.{name}"), why.to_string());
    if best.is_none() {
        null("best", "nothing was accepted or confirmed yet");
    }
    if peers.is_none() {
        null("peers", NO_PEERS);
    }
    json!({
        "kernel": rung.kernel,
        "device_kind": rung.device_kind,
        "device": rung.device,
        "steps": rung.steps.len(),
        "best": best,
        "peers": peers,
    })
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

    /// The result.
    pub fn fields(&self) -> Reasoned {
        let mut reasons = BTreeMap::new();
        let best = self.rung.best().map(|step| entry(self.rung, step, "best", &mut reasons));
        if best.is_none() {
            reasons.insert("result.best".into(), "nothing was accepted or confirmed yet".into());
        }
        let mut decisions = Vec::new();
        for (at, step) in self.decisions().into_iter().enumerate() {
            decisions.push(entry(self.rung, step, &format!("last_decisions.{at}"), &mut reasons));
        }
        let other = |rung: &&Rung| json!({ "kernel": rung.kernel, "device_kind": rung.device_kind });
        let result = json!({
            "kernel": self.rung.kernel,
            "device_kind": self.rung.device_kind,
            "device": self.rung.device,
            "steps": self.rung.steps.len(),
            "best": best,
            "last_decisions": decisions,
            "open_findings": self.findings(),
            "tried_and_failed": self.failures(),
            "others": self.others.iter().map(other).collect::<Vec<_>>(),
            "notes": self.notes,
        });
        (result, reasons)
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
