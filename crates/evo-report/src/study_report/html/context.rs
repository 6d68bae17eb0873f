//! What the template shows: every word and number of the page, ready to be placed.

use evo_journal::leaderboard::repro;
use evo_protocol::leaderboard::{LeaderboardSection, PairedDecision};
use evo_protocol::verdict::{Gate, GateState};
use evo_space::text::counted;
use serde::Serialize;

use super::calibration::calibration;
use super::chart::Chart;
use super::convergence::convergence;
use super::course::{clocks, lanes, throttled, verdict_mix};
use super::parameters::{heat_map, strips};
use super::ranking::ranking;
use super::roofline::roofline;
use super::tables::{PageTable, environment, first_rows, problems, ranked, refused, runs};
use crate::study_report::findings::findings;
use crate::study_report::known::KnownTime;
use crate::study_report::material::ReportMaterial;
use crate::text::{is_one_cards, time};

/// A number with its name, large at the top of the page.
#[derive(Debug, Serialize)]
struct PageFact {
    name: String,
    value: String,
    more: String,
}

/// A command with what it does.
#[derive(Debug, Serialize)]
struct PageCommand {
    what: String,
    line: String,
}

/// A bar of the importance chart.
#[derive(Debug, Serialize)]
struct ImportanceBar {
    name: String,
    /// Of 100.
    percent: String,
    /// Of the chart's width of 300.
    width: String,
}

/// The page's content.
#[derive(Debug, Serialize)]
pub struct PageContext {
    kernel: String,
    device: String,
    study: String,
    /// `good`, `open` or `bad`.
    tone: &'static str,
    headline: String,
    subline: String,
    facts: Vec<PageFact>,
    values: Vec<(String, String, bool)>,
    commands: Vec<PageCommand>,
    not_run: Vec<String>,
    damage: Vec<String>,
    findings: Vec<String>,
    convergence: Vec<Chart>,
    problems: PageTable,
    ranking: Chart,
    ranked: PageTable,
    roofline: Chart,
    strips: Vec<Chart>,
    heat: Chart,
    importance: Vec<ImportanceBar>,
    importance_note: String,
    calibration: Chart,
    refused: PageTable,
    verdicts: Chart,
    lanes: Chart,
    clocks: Vec<Chart>,
    throttled: String,
    rows: PageTable,
    environment: PageTable,
    runs: PageTable,
    notes: Vec<(String, String)>,
    evo: String,
}

impl PageContext {
    pub fn of(material: &ReportMaterial) -> PageContext {
        let header = &material.study.header;
        let (tone, headline, subline) = verdict(material);
        let (importance, importance_note) = important(material);
        PageContext {
            kernel: header.kernel.clone(),
            device: header.device.name.clone(),
            study: header.study.clone(),
            tone,
            headline,
            subline,
            facts: facts(material),
            values: values(material),
            commands: commands(material),
            not_run: not_run(material),
            damage: material.study.damage.clone(),
            findings: findings(material).iter().map(|own| own.replace('`', "")).collect(),
            convergence: convergence(material),
            problems: problems(material),
            ranking: ranking(material),
            ranked: ranked(material),
            roofline: roofline(material),
            strips: strips(material),
            heat: heat_map(material),
            importance,
            importance_note,
            calibration: calibration(material),
            refused: refused(material),
            verdicts: verdict_mix(material),
            lanes: lanes(material),
            clocks: clocks(material),
            throttled: throttled_words(material),
            rows: first_rows(material),
            environment: environment(material),
            runs: runs(material),
            notes: material.study.notes.iter().map(|own| (own.at.clone(), own.message.clone())).collect(),
            evo: header.evo.clone(),
        }
    }
}

/// Tone, headline and the line below it.
fn verdict(material: &ReportMaterial) -> (&'static str, String, String) {
    let Some(section) = &material.section else { return unconfirmed(material) };
    let champion = &section.champion;
    let than = if section.baseline.is_default { "the default configuration" } else { "the baseline" };
    if champion.number == section.baseline.number {
        let text = "The baseline stays the champion".to_string();
        return ("open", text, "No variant was confirmed to be faster beyond the noise.".into());
    }
    if champion.decision == Some(PairedDecision::Same) {
        let text = format!("A tie with {than}");
        return ("open", text, format!("Evaluation {} is as fast, within the noise floor.", champion.number));
    }
    let everywhere = match champion.decision {
        Some(PairedDecision::Faster) => "",
        _ => " It is not faster on every problem.",
    };
    let again = match is_one_cards(champion) {
        true => " A second card does not repeat the win, so it holds for this card only.",
        false => "",
    };
    let speed = champion.speedup.map_or("Confirmed".to_string(), |own| format!("{own:.2}× faster"));
    let range = champion.speedup_low.zip(champion.speedup_high);
    let range = range.map_or(String::new(), |(low, high)| format!(" 95 % interval {low:.3}× to {high:.3}×,"));
    let text = format!(
        "Evaluation {} against {than}.{range} paired in fresh processes; every gate ran again at full depth.{everywhere}{again}",
        champion.number
    );
    ("good", format!("{speed} than {than}"), text)
}

fn unconfirmed(material: &ReportMaterial) -> (&'static str, String, String) {
    let count = material.evaluations().len();
    match material.winner() {
        None if count == 0 => ("open", "Nothing was evaluated yet".into(), "The study has begun.".into()),
        None => {
            let text = format!("None of {} passed", counted(count, "evaluation"));
            ("bad", text, "What they failed of is below, with the evidence.".into())
        }
        Some(best) => {
            let shown = best.objective_ns.map_or("unknown".to_string(), time);
            let text = format!("Best so far: {shown}");
            let more = match material.study.header.device.kind {
                evo_protocol::device::DeviceKind::Replay => {
                    "A replay of a recording: nothing was measured here."
                }
                _ => "From the screening; nothing is confirmed yet.",
            };
            ("open", text, format!("Evaluation {}. {more}", best.number))
        }
    }
}

fn facts(material: &ReportMaterial) -> Vec<PageFact> {
    let header = &material.study.header;
    let fact = |name: &str, value: String, more: String| PageFact { name: name.into(), value, more };
    let mut facts = Vec::new();
    if let Some(best) = material.winner() {
        let own = material.section.as_ref().map(|own| own.champion.objective_ns).or(best.objective_ns);
        let base = material.baseline().and_then(|one| KnownTime::of(one).value());
        let base = base.map_or(String::new(), |base| format!("baseline {} (screened)", time(base)));
        facts.push(fact("time", own.map_or("unknown".into(), time), base));
    }
    let floor = material.section.as_ref().and_then(|own| own.noise_floor);
    facts.push(match floor {
        Some(own) => {
            fact("noise floor", format!("{:.2} %", 100.0 * own), "A against A, in the same run".into())
        }
        None => fact("noise floor", "not measured".into(), String::new()),
    });
    facts.push(fact(
        "device",
        header.device.name.clone(),
        format!("{} · {}", header.device.arch, header.device.driver),
    ));
    let passed = material.evaluations().iter().filter(|one| one.verdict.is_pass()).count();
    let all = material.evaluations().len();
    facts.push(fact(
        "evaluations",
        all.to_string(),
        format!("{passed} passed, of {} valid points", header.valid),
    ));
    let seconds = material.study.history.ends.iter().map(|own| own.throughput.search_seconds).sum::<f64>();
    if seconds > 0.0 {
        let rate =
            material.study.history.ends.last().map_or(0.0, |own| own.throughput.evaluations_per_second);
        facts.push(fact(
            "search",
            time(seconds * 1e9),
            format!("{rate:.1} evaluations/s, {}", header.strategy),
        ));
    }
    facts
}

/// The winner's values, and whether each differs from the baseline's.
fn values(material: &ReportMaterial) -> Vec<(String, String, bool)> {
    let Some(winner) = material.winner() else { return Vec::new() };
    let base = material.baseline();
    let of = |(name, value): (&str, &evo_space::value::Value)| {
        let is_changed = base.is_some_and(|base| base.configuration.get(name) != Some(value));
        (name.to_string(), value.to_string(), is_changed)
    };
    winner.configuration.iter().map(of).collect()
}

fn commands(material: &ReportMaterial) -> Vec<PageCommand> {
    let header = &material.study.header;
    let command = |what: &str, line: String| PageCommand { what: what.into(), line };
    let mut all = Vec::new();
    match (&material.section, material.winner()) {
        (Some(section), _) => all.push(command("Judge the champion again", section.champion.repro.clone())),
        (None, Some(best)) => all.push(command("Judge the best again", repro(header, &best.configuration))),
        (None, None) => {}
    }
    let words = header.environment.command.iter().map(|word| evo_space::text::quote(word).into_owned());
    let line = words.collect::<Vec<_>>().join(" ");
    if !line.is_empty() {
        all.push(command("The command of this study", line));
    }
    all
}

/// What did not run: gates of the champion, and what a reader would otherwise take for done.
fn not_run(material: &ReportMaterial) -> Vec<String> {
    let mut all = Vec::new();
    match &material.section {
        None if material.evaluations().is_empty() => {}
        None => all.push("confirmation: no finalist was compared in fresh processes".to_string()),
        Some(section) => all.extend(gates_not_run(material, section)),
    }
    if material.peers.is_empty() {
        all.push("peers: no benchmark with other people's implementations is beside this study".to_string());
    }
    if material.study.profile.is_none() {
        all.push("profile: no profiler looked at a candidate of this study".to_string());
    }
    let left = material.study.history.ends.last().map_or(0, |own| own.finalists_left);
    if left > 0 {
        all.push(format!("{} not confirmed, because the wall time was used up", counted(left, "finalist")));
    }
    if !material.study.history.not_final.is_empty() {
        let count = material.study.history.not_final.len();
        all.push(format!("{} without a verdict; `--resume` tries again", counted(count, "variant")));
    }
    all
}

fn gates_not_run(material: &ReportMaterial, section: &LeaderboardSection) -> Vec<String> {
    let champion = &section.champion;
    let deep = material.study.history.confirmations.iter().rev().find(|own| own.number == champion.number);
    let why = |gate: &str| {
        let reports = deep.into_iter().flat_map(|own| &own.evaluation.gates);
        let own = reports.filter(|own| own.gate.as_str() == gate).map(|own| own.message.as_str()).next();
        own.filter(|own| !own.is_empty()).map_or(String::new(), |own| format!(": {own}"))
    };
    let states = champion.gates.iter().filter(|(_, state)| **state == GateState::NotRun);
    let mut all: Vec<String> = states.map(|(gate, _)| format!("gate {gate}{}", why(gate))).collect();
    if !champion.gates.contains_key(Gate::Sanitize.as_str()) {
        all.push("gate sanitize: compute-sanitizer did not look at the champion".to_string());
    }
    all
}

fn important(material: &ReportMaterial) -> (Vec<ImportanceBar>, String) {
    let own = material.study.insight.as_ref().and_then(|own| own.importance.as_ref());
    let Some(own) = own else {
        let why = "Too few measurements, or none that differ, to say what decides the time.";
        return (Vec::new(), why.to_string());
    };
    let bars = own.parameters.iter().map(|one| ImportanceBar {
        name: one.name.clone(),
        percent: format!("{:.0}", 100.0 * one.share),
        width: format!("{:.1}", 300.0 * one.share.clamp(0.0, 1.0)),
    });
    let note = format!(
        "Permutation importance of a forest on {} points. It explains {:.0} % of the variance of log time{}.",
        own.observations,
        100.0 * own.explained.max(0.0),
        if own.explained < 0.1 { ", too little to mean anything" } else { "" }
    );
    (bars.collect(), note)
}

fn throttled_words(material: &ReportMaterial) -> String {
    let all = throttled(material);
    if all.is_empty() {
        return "No clock-event reason was recorded while variants were timed.".to_string();
    }
    let told: Vec<String> =
        all.iter().map(|(reason, times)| format!("{reason} ({times} measurements)")).collect();
    format!("Clock-event reasons while variants were timed: {}.", told.join(", "))
}
