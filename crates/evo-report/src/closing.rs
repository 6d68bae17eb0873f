//! The answer that a sweep ends on, below its table: what won, by how much and with what certainty, what the number is
//! worth, and the command that takes that configuration further; and what `--verbose` says before it.

use std::path::Path;
use std::time::Duration;

use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::{LeaderboardSection, PairedDecision, RankedEntry};
use evo_protocol::verdict::{Gate, GateReport, GateState, Verdict, VerdictKind};
use evo_search::insight::Insight;
use evo_space::genome::Configuration;
use evo_space::text::quote;
use minijinja::context;
use minijinja::value::{Serde, Value};
use serde::Serialize;

use super::failures;
use super::known::fastest;
use super::styled::{StyledLine, Tone};
use super::text::{compared_ns, least, mix, most_frequent, trade};
use super::width::wrapped;
use super::{insight, templates};
use evo_journal::record::{LaneAccount, RunEnd, StudyHeader};
use evo_journal::replay::History;

const LABEL: usize = 9;

/// The labels, and what stands behind each looks like.
const LABELS: [(&str, Tone); 8] = [
    ("winner", Tone::Good),
    ("best", Tone::Plain),
    ("speed", Tone::Strong),
    ("traded", Tone::Plain),
    ("time", Tone::Plain),
    ("note", Tone::Plain),
    ("champion", Tone::Warning),
    ("left", Tone::Warning),
];

/// The folder that commands look into by themselves.
const USUAL_OUT: &str = "evidence";

#[derive(Clone, Copy)]
pub struct Ending<'a> {
    pub header: &'a StudyHeader,
    pub history: &'a History,
    /// What the run confirmed.
    pub section: Option<&'a LeaderboardSection>,
    /// The leaderboard's section, where an earlier study keeps it.
    pub kept: Option<&'a LeaderboardSection>,
    /// Finalists that could still be confirmed.
    pub left_out: usize,
    /// Whether inputs such as NaN were tried.
    pub tries_special_values: bool,
    /// The evidence folder as the command line names it.
    pub out: &'a str,
}

/// The fastest of the screening that did not fail its confirmation.
pub fn best(history: &History) -> Option<&Evaluation> {
    let failed = |evaluation: &Evaluation| {
        let newest = history.confirmations.iter().rfind(|confirmed| confirmed.number == evaluation.number);
        newest.is_some_and(|confirmed| !confirmed.evaluation.may_rank())
    };
    let mut passing = fastest(&history.evaluations).into_iter().map(|(_, evaluation)| evaluation);
    passing.find(|evaluation| !failed(evaluation))
}

/// Whether a section has the baseline alone while something that screened faster was not compared with it.
pub fn is_undecided(section: &LeaderboardSection, history: &History) -> bool {
    let is_baseline = |number: u64| number == section.baseline.number;
    section.entries().all(|entry| is_baseline(entry.number))
        && best(history).is_some_and(|best| !is_baseline(best.number))
}

/// The lines, of which only commands may be wider than `width`: they are to be copied. Nothing where nothing passed.
pub fn answer(ending: &Ending<'_>, width: usize) -> Vec<StyledLine> {
    let (values, headline, command) = match (ending.section, best(ending.history)) {
        (Some(section), _) => ending.confirmed(section),
        (None, Some(best)) => ending.screened(best),
        (None, None) => return Vec::new(),
    };
    let lines = templates::paragraphs("closing.txt.j2", values);
    let mut lines: Vec<_> = lines.iter().flat_map(|line| paragraph(line, headline, width)).collect();
    lines.extend(command.map(|(name, command)| label(name).with(Tone::Plain, command)));
    lines
}

/// What a template says, the tone of a headline, and the command to go on with.
type Answer = (Value, Tone, Option<(&'static str, String)>);

impl Ending<'_> {
    fn confirmed(&self, section: &LeaderboardSection) -> Answer {
        let is_faster = |entry: &&RankedEntry| entry.decision == Some(PairedDecision::Faster);
        let winner = section.entries().find(is_faster);
        let entry = winner.unwrap_or(&section.champion);
        // What is faster in the mean and ranks behind for a problem on which it is slower.
        let mut traded = section.entries().filter(|entry| !entry.traded.is_empty());
        let traded = traded.find(|entry| entry.speedup_low.is_some_and(|low| low > 1.0));
        let slower = |entry: &RankedEntry| entry.traded.iter().map(trade).collect::<Vec<_>>();
        let values = context! {
            section => Serde(section),
            entry => Serde(entry),
            is_won => winner.is_some(),
            least => least(section),
            time_ns => compared_ns(section, entry),
            slower => slower(entry),
            traded => traded.map(|entry| context! {
                values => self.difference(&entry.configuration),
                speedup => entry.speedup,
                slower => slower(entry),
            }),
            kept => self.kept.map(|kept| context! {
                study => kept.study.name.as_str(),
                speedup => kept.champion.speedup,
                time_ns => compared_ns(kept, &kept.champion),
                values => self.difference(&kept.champion.configuration),
                is_same => kept.champion.configuration == entry.configuration,
            }),
            ..self.values(
                &entry.configuration,
                entry.gates.get(Gate::TinyShapes.as_str()) == Some(&GateState::NotRun),
            )
        };
        let name = match entry.number == section.champion.number {
            true => "@champion".to_string(),
            false => format!("@{}", entry.number),
        };
        let (space, study) = (quote(&self.header.space), quote(&self.header.study));
        let elsewhere =
            if self.out == USUAL_OUT { String::new() } else { format!(" --out {}", quote(self.out)) };
        let export = format!("evo export {space} {name} --study {study}{elsewhere} --to app");
        (values, Tone::Strong, Some(("export", export)))
    }

    fn screened(&self, best: &Evaluation) -> Answer {
        let is_replay = self.header.device.kind == DeviceKind::Replay;
        let mut evaluations = self.history.evaluations.iter();
        let default = evaluations.find(|evaluation| evaluation.is_default() && evaluation.is_timed());
        let lacks_tails = best.gate(Gate::TinyShapes).is_some_and(GateReport::lacks_shapes);
        let values = context! {
            is_replay,
            time_ns => best.objective_ns,
            default_ns => default.filter(|default| default.number != best.number)
                .and_then(|default| default.objective_ns),
            ..self.values(&best.configuration, lacks_tails)
        };
        (values, Tone::Warning, (!is_replay).then(|| ("confirm", self.resume())))
    }

    fn values(&self, configuration: &Configuration, lacks_tails: bool) -> Value {
        let default = failures::of_default(self.header, &self.history.evaluations);
        context! {
            header => Serde(self.header),
            left_out => self.left_out,
            tries_special_values => self.tries_special_values,
            lacks_tails,
            default_failure => default.map(|failure| failure.first.verdict.label()),
            values => self.difference(configuration),
        }
    }

    /// The values that differ from the default's.
    fn difference(&self, configuration: &Configuration) -> String {
        let default = self.history.evaluations.iter().find(|evaluation| evaluation.is_default());
        let usual = |name: &str| default.and_then(|default| default.configuration.get(name));
        let differing = configuration.iter().filter(|(name, value)| usual(name) != Some(value));
        let values: Vec<String> = differing.map(|(name, value)| format!("{name}={value}")).collect();
        if values.is_empty() { "the default configuration".to_string() } else { values.join(" ") }
    }

    /// The command again, so that it goes on with this study and confirms.
    fn resume(&self) -> String {
        let mut words = self.header.environment.command.iter().skip(1);
        let mut kept = vec!["evo".to_string()];
        while let Some(word) = words.next() {
            let name = word.split('=').next().unwrap_or_default();
            match name {
                "--finalists" | "--study" if !word.contains('=') => drop(words.next()),
                "--finalists" | "--study" | "--resume" => {}
                _ => kept.push(quote(word).into_owned()),
            }
        }
        format!("{} --study {} --resume", kept.join(" "), quote(&self.header.study))
    }
}

/// What a run did, how long its command took so far, and why it ended.
pub fn run_line(end: &RunEnd, wall: Duration, width: usize) -> String {
    let values =
        context! { end => Serde(end), seconds => wall.as_secs_f64(), reason => end.reason.describe() };
    templates::prose("run.txt.j2", values, width)
}

/// What `--verbose` says before the answer.
#[derive(Clone, Copy)]
pub struct Details<'a> {
    pub ending: Ending<'a>,
    pub run: &'a RunEnd,
    pub insight: Option<&'a Insight>,
    pub folder: &'a Path,
    /// A line on each problem, where they were searched apart.
    pub per_problem: &'a str,
}

impl Details<'_> {
    pub fn text(&self, width: usize) -> String {
        let Ending { header, history, .. } = self.ending;
        let evaluations = &history.evaluations;
        let is_replay = header.device.kind == DeviceKind::Replay;
        let values = context! {
            run => Serde(self.run),
            insight => self.insight.and_then(insight::line),
            default_failure => failures::of_default(header, evaluations).map(|failure| failure.text()),
            recorded => is_replay.then(|| Value::from(Serde(RecordedCost::of(evaluations)))),
            verdicts => mix(evaluations),
            most_failed => most_failed(evaluations),
            folder => self.folder.display().to_string(),
            per_problem => self.per_problem,
            lanes => Serde(placed(&self.run.lanes)),
        };
        templates::prose("details.txt.j2", values, width) + "\n"
    }
}

/// What the variants of a recording took when they were measured.
#[derive(Debug, Serialize)]
pub struct RecordedCost {
    pub compile_ms: f64,
    pub device_ms: f64,
}

impl RecordedCost {
    pub fn of(evaluations: &[Evaluation]) -> RecordedCost {
        let sum = |of: fn(&Evaluation) -> f64| evaluations.iter().map(of).sum::<f64>();
        RecordedCost { compile_ms: sum(|one| one.compile_ms), device_ms: sum(|one| one.device_ms) }
    }
}

fn most_failed(evaluations: &[Evaluation]) -> Option<String> {
    use VerdictKind::{Pass, PassedOver, TooSlow};
    let verdicts = evaluations.iter().map(|evaluation| &evaluation.verdict);
    let failed = verdicts.filter(|verdict| !matches!(verdict.kind, Pass | PassedOver | TooSlow));
    most_frequent(failed.map(Verdict::label)).into_iter().next().map(|(label, _)| label)
}

fn placed(lanes: &[LaneAccount]) -> Vec<(String, &LaneAccount)> {
    lanes.iter().map(|lane| (lane.place(), lane)).collect()
}

fn label(name: &str) -> StyledLine {
    StyledLine::new(Tone::Faint, format!("{name:<LABEL$}"))
}

/// A line, broken where it is too wide. Only lines that fit keep their colors.
fn paragraph(text: &str, headline: Tone, width: usize) -> Vec<StyledLine> {
    let labelled = text.split_once(": ").and_then(|(name, text)| {
        let (name, tone) = LABELS.iter().find(|(known, _)| *known == name)?;
        // The interval behind a speed is not strong.
        let end = text.find(" (").filter(|_| *tone == Tone::Strong).unwrap_or(text.len());
        Some(label(name).with(*tone, &text[..end]).with(Tone::Plain, &text[end..]))
    });
    let line = labelled.unwrap_or_else(|| StyledLine::new(headline, text));
    if line.width() <= width {
        return vec![line];
    }
    wrapped(&line.text(false), width).lines().map(|line| StyledLine::new(Tone::Plain, line)).collect()
}

#[cfg(test)]
mod tests {
    use evo_protocol::leaderboard::Throughput;

    use super::*;

    #[test]
    fn a_lane_without_a_worker_is_told_with_what_it_cost() {
        let check = |out: Option<&str>, given_back: u64, absent_seconds: f64, more: &str| {
            let lane = LaneAccount {
                lane: 1,
                name: "ray".into(),
                host: "node1".into(),
                device_uuid: "GPU-5f3a1c2e-8d4b-0000-0000-000000000000".into(),
                evaluations: 10,
                given_back,
                absent_seconds,
                ratio: 1.0,
                out: out.map(String::from),
                ..LaneAccount::default()
            };
            let throughput = Throughput { search_seconds: 10.0, ..Throughput::default() };
            let run = serde_json::json!({ "throughput": throughput });
            let values = context! {
                run => Serde(run), verdicts => "", folder => "", per_problem => "", insight => "",
                lanes => Serde(placed(&[lane])),
            };
            let lines = templates::paragraphs("details.txt.j2", values);
            let expected = format!("lane 1 (ray on node1, GPU-5f3a1c2e): 10 evaluations, busy 0 %{more}");
            assert_eq!(*lines.last().unwrap(), expected);
        };
        check(None, 0, 0.05, "");
        let lost = ", 6.0 s without a worker, 2 variants begun anew on another lane, out: gone";
        check(Some("gone"), 2, 6.0, lost);
    }
}
