//! What a study came to, computed once from its records. Every file that shows a study is a template over this model, so
//! a number has one source whatever shows it.

use std::collections::BTreeMap;

use evo_journal::iterations::GateRun;
use evo_journal::iterations::Iteration;
use evo_journal::leaderboard::{repro, roofline_ns};
use evo_journal::record::{Confirmation, ProblemWork, RunEnd, StudyHeader};
use evo_protocol::device::Telemetry;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::{LeaderboardSection, RankedEntry};
use evo_protocol::verdict::VerdictClass;
use evo_search::insight::Insight;
use evo_space::genome::Configuration;
use evo_space::text::quote;
use serde::Serialize;
use serde_json::Value as Json;

use super::change::{self, SourcePair, SourceText};

use super::loaded::StudyNote;
use super::material::ReportMaterial;
use crate::columns::{Row, TriedParameter, device_seconds, has_stamps, tried};
use crate::known::{CLASSES, KnownTime, baseline, new_bests, refused_faster};
use crate::standing::Standing;
use crate::text::mix;

/// Rows that the page shows without its script.
const FASTEST: usize = 50;
/// Columns of the device lane: each is about as wide as two pixels.
const LANE_COLUMNS: usize = 440;
/// Dots of a telemetry chart.
const TELEMETRY_DOTS: usize = 1500;
/// Dots in a row of a strip plot, spread evenly over the evaluations.
const STRIP_DOTS: usize = 200;
/// Rows of a strip plot.
const STRIP_VALUES: usize = 16;
/// Values in a row or a column of the heat map.
const HEAT_VALUES: usize = 16;

/// A record with its configuration as text, in the order of the space.
#[derive(Debug, Serialize)]
struct Described<'a, R> {
    #[serde(flatten)]
    record: &'a R,
    variant: String,
    /// What it changes of the configuration before it: `BLOCK: 32 → 64`.
    change: Option<String>,
}

fn described<'a, R>(record: &'a R, configuration: &Configuration) -> Described<'a, R> {
    Described { record, variant: configuration.to_string(), change: None }
}

/// An evaluation that was faster than all correct ones before it.
#[derive(Debug, Serialize)]
struct BestStep<'a> {
    #[serde(flatten)]
    evaluation: Described<'a, Evaluation>,
    /// Position among the evaluations, from 0.
    order: usize,
    time_ns: f64,
}

/// An iteration with what it changes of the source that an iteration before it had.
#[derive(Debug, Serialize)]
struct Edit<'a> {
    #[serde(flatten)]
    iteration: Described<'a, Iteration>,
    rival: Option<u64>,
    diff: Option<String>,
    lines: usize,
}

/// A variant that was refused although it looked faster than the winner.
#[derive(Debug, Serialize)]
struct Refused {
    row: usize,
    /// Weighted geometric mean of the problems that were timed before it was refused.
    time_ns: f64,
    over_winner: f64,
    problems_timed: usize,
    problems: usize,
    message: String,
    evidence: String,
    repro: String,
}

/// What a problem takes, and the times of its variants.
#[derive(Debug, Serialize)]
struct Workload<'a> {
    problem: &'a str,
    half: bool,
    /// Operations per byte.
    intensity: f64,
    champion_ns: Option<f64>,
    /// What the device's peaks allow.
    roof_ns: Option<f64>,
    /// Operations per second of the champion.
    rate: Option<f64>,
    /// Intensity and operations per second of every correct variant.
    rates: Vec<(f64, f64)>,
}

/// A parameter with the times of each value, the most important parameter first.
#[derive(Debug, Serialize)]
struct ParameterTimes {
    name: String,
    is_varied: bool,
    /// Values that were tried less than those shown.
    left_out: usize,
    values: Vec<ValueTimes>,
}

#[derive(Debug, Default, Serialize)]
struct ValueTimes {
    value: String,
    evaluations: usize,
    best_ns: Option<f64>,
    median_ns: Option<f64>,
    /// Few enough to draw.
    measured: Vec<f64>,
    /// Times of variants that were given up as slower than that.
    beyond: Vec<f64>,
}

/// The best time for each pair of values of two parameters.
#[derive(Debug, Serialize)]
struct HeatMap {
    across: ParameterNames,
    down: ParameterNames,
    cells: Vec<Vec<HeatCell>>,
}

#[derive(Debug, Serialize)]
struct ParameterNames {
    name: String,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct HeatCell {
    time_ns: Option<f64>,
    is_bound: bool,
}

/// Something that was recorded of the device along the evaluations.
#[derive(Debug, Serialize)]
struct Series {
    id: &'static str,
    title: &'static str,
    points: Vec<(f64, f64)>,
}

/// A study for templates.
#[derive(Debug, Serialize)]
pub struct StudyModel<'a> {
    pub(super) header: &'a StudyHeader,
    damage: &'a [String],
    notes: &'a [StudyNote],
    insight: Option<&'a Insight>,
    /// The newest profile's result.
    profile: Option<&'a Json>,
    section: Option<&'a LeaderboardSection>,
    entries: Vec<Described<'a, RankedEntry>>,
    /// What tells the entries apart: the parameters whose values differ among them.
    entry_names: Vec<String>,
    /// Of the champion, MHz.
    clocks_confirming: Vec<u32>,
    winner: Option<Described<'a, Evaluation>>,
    /// The winner's values by name, and whether each differs from the baseline's.
    values: Vec<(String, String, bool)>,
    baseline: Option<Described<'a, Evaluation>>,
    baseline_ns: Option<f64>,
    /// What the search began from: the default configuration or the first that passed.
    start: Option<usize>,
    /// Why there is nothing to compare the winner's source with.
    source_unknown: Option<&'a str>,
    /// Against the baseline's source; nothing where they are equal.
    source_diff: Option<String>,
    repro: Option<String>,
    command: String,
    pub(super) rows: Vec<Row<'a>>,
    fastest: Vec<usize>,
    #[serde(skip)]
    pub(super) parameters: Vec<TriedParameter>,
    passed: usize,
    verdicts: String,
    /// Classes of verdicts with their words, in the order of legends.
    classes: Vec<(&'static str, &'static str)>,
    has_stamps: bool,
    /// Of the study's running time.
    seconds: f64,
    bests: Vec<BestStep<'a>>,
    confirmations: Vec<Described<'a, Confirmation>>,
    iterations: Vec<Edit<'a>>,
    gate_runs: Vec<Described<'a, GateRun>>,
    peers: Option<&'a Standing>,
    refused: Vec<Refused>,
    ends: Vec<(&'a RunEnd, &'static str)>,
    not_final: usize,
    times: Vec<ParameterTimes>,
    heat: Option<HeatMap>,
    workloads: Vec<Workload<'a>>,
    /// How long the device worked on variants; nothing where that is not known.
    worked_s: Option<f64>,
    /// Class, and the seconds from and to which the device worked mostly on variants of it.
    busy: Vec<(&'static str, f64, f64)>,
    /// Level, evaluation and seconds of each.
    recoveries: Vec<(&'static str, u64, f64)>,
    series: Vec<Series>,
    /// What slowed the clock down while variants were timed, and how often.
    throttled: BTreeMap<&'a str, usize>,
}

impl<'a> StudyModel<'a> {
    pub fn of(material: &'a ReportMaterial) -> StudyModel<'a> {
        let (study, evaluations) = (&material.study, material.evaluations());
        let (header, history) = (&study.header, &study.history);
        let rows = Row::all(evaluations);
        let (winner, base) = (material.winner(), material.baseline());
        let parameters = tried(header, evaluations);
        let important = by_importance(&parameters, study.insight.as_ref());
        let champion = material.section.as_ref().map(|section| section.champion.repro.clone());
        let begun = baseline(evaluations).map(|evaluation| evaluation.number);
        let (source_unknown, source_diff) = match &material.sources {
            SourcePair::Unknown { why } => (Some(why.as_str()), None),
            SourcePair::Known { baseline, champion } => (None, change::source(baseline, champion)),
        };
        let command: Vec<_> = header.environment.command.iter().map(|word| quote(word)).collect();
        StudyModel {
            header,
            damage: &study.damage,
            notes: &study.notes,
            insight: study.insight.as_ref(),
            profile: study.profile.as_ref().map(|profile| &profile["result"]),
            section: material.section.as_ref(),
            entries: material.section.iter().flat_map(LeaderboardSection::entries).map(entry).collect(),
            entry_names: entry_names(material.section.as_ref()),
            clocks_confirming: clocks(material.section.as_ref()),
            winner: winner.map(|winner| Described {
                change: base.map(|base| change::parameters(&base.configuration, &winner.configuration)),
                ..evaluation(winner)
            }),
            values: winner.map_or_else(Vec::new, |winner| winner_values(winner, base)),
            baseline: base.map(evaluation),
            baseline_ns: base.and_then(|base| KnownTime::of(base).value()),
            start: begun.and_then(|number| rows.iter().position(|row| row.number == number)),
            source_unknown,
            source_diff,
            repro: champion.or_else(|| Some(repro(header, &winner?.configuration))),
            command: command.join(" "),
            fastest: fastest(&rows),
            passed: evaluations.iter().filter(|evaluation| evaluation.verdict.is_pass()).count(),
            verdicts: mix(evaluations),
            classes: CLASSES.iter().map(|(_, name, words)| (*name, *words)).collect(),
            has_stamps: has_stamps(evaluations),
            seconds: history.last_ms.max(1) as f64 / 1e3,
            bests: bests(evaluations),
            confirmations: confirmations(material),
            iterations: edits(&material.iterations),
            gate_runs: material
                .gates
                .iter()
                .map(|run| described(run, &run.candidate.configuration))
                .collect(),
            peers: material.peers.as_ref(),
            refused: refused(material),
            ends: history.ends.iter().map(|end| (end, end.reason.describe())).collect(),
            not_final: history.not_final.len(),
            times: important.iter().map(|parameter| times_of(parameter, evaluations)).collect(),
            heat: heat_map(&important, evaluations),
            workloads: workloads(material),
            worked_s: worked(evaluations),
            busy: busy(evaluations, history.last_ms),
            recoveries: recoveries(evaluations),
            series: series(evaluations),
            throttled: throttled(evaluations),
            parameters,
            rows,
        }
    }
}

fn evaluation(evaluation: &Evaluation) -> Described<'_, Evaluation> {
    described(evaluation, &evaluation.configuration)
}

fn entry(entry: &RankedEntry) -> Described<'_, RankedEntry> {
    described(entry, &entry.configuration)
}

fn entry_names(section: Option<&LeaderboardSection>) -> Vec<String> {
    let entries: Vec<&RankedEntry> = section.into_iter().flat_map(LeaderboardSection::entries).collect();
    let differs = |name: &str| {
        entries.iter().any(|entry| entry.configuration.get(name) != entries[0].configuration.get(name))
    };
    let name = |entry: &&RankedEntry| {
        let values = entry.configuration.iter().filter(|(name, _)| entries.len() == 1 || differs(name));
        values.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    entries.iter().map(name).collect()
}

fn clocks(section: Option<&LeaderboardSection>) -> Vec<u32> {
    let results = section.into_iter().flat_map(|section| &section.champion.results);
    results.flat_map(|result| result.modes.values()).filter_map(|mode| mode.telemetry.clock_sm_mhz).collect()
}

fn winner_values(winner: &Evaluation, base: Option<&Evaluation>) -> Vec<(String, String, bool)> {
    let values = winner.configuration.iter().map(|(name, value)| {
        let differs = base.is_some_and(|base| base.configuration.get(name) != Some(value));
        (name.to_string(), value.to_string(), differs)
    });
    values.collect()
}

/// Positions of the fastest rows: what passed by time, then what has another time, then the rest.
fn fastest(rows: &[Row<'_>]) -> Vec<usize> {
    let key = |row: &Row<'_>| match row.time {
        Some(time) => (if row.class == "ok" { 0 } else { 1 }, time),
        None => (2, row.number as f64),
    };
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (key(&rows[*a]), key(&rows[*b]));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    order.truncate(FASTEST);
    order
}

fn bests(evaluations: &[Evaluation]) -> Vec<BestStep<'_>> {
    let found = new_bests(evaluations);
    let step = |at: usize| {
        let (best, mut shown) = (&found[at], evaluation(found[at].evaluation));
        let before = at.checked_sub(1).map(|at| &found[at].evaluation.configuration);
        shown.change = before.map(|before| change::parameters(before, &best.evaluation.configuration));
        BestStep { evaluation: shown, order: best.order, time_ns: best.time_ns }
    };
    (0..found.len()).map(step).collect()
}

fn confirmations(material: &ReportMaterial) -> Vec<Described<'_, Confirmation>> {
    let all = material.study.history.confirmations.iter().map(|confirmation| {
        let configuration = &confirmation.evaluation.configuration;
        let base = material.numbered(confirmation.baseline);
        let base = base.filter(|base| base.number != confirmation.number);
        let change = base.map(|base| change::parameters(&base.configuration, configuration));
        Described { change, ..described(confirmation, configuration) }
    });
    all.collect()
}

/// Each iteration beside the newest earlier one that had a source of its own.
fn edits(iterations: &[Iteration]) -> Vec<Edit<'_>> {
    let text = |number: u64, source: &str| SourceText {
        name: format!("evaluation {number}"),
        text: source.to_string(),
    };
    let (mut all, mut newest) = (Vec::new(), None);
    for iteration in iterations {
        let source = iteration.candidate.source.as_deref().map(|source| text(iteration.number, source));
        let rival = newest.as_ref().filter(|_| source.is_some());
        all.push(Edit {
            iteration: described(iteration, &iteration.candidate.configuration),
            rival: rival.map(|(number, _)| *number),
            diff: rival.zip(source.as_ref()).and_then(|((_, before), after)| change::source(before, after)),
            lines: source.as_ref().map_or(0, |source| source.text.lines().count()),
        });
        newest = source.map(|source| (iteration.number, source)).or(newest);
    }
    all
}

fn refused(material: &ReportMaterial) -> Vec<Refused> {
    let Some(best_ns) = material.best_ns() else { return Vec::new() };
    let header = &material.study.header;
    let place = |number: u64| {
        material.evaluations().iter().position(|evaluation| evaluation.number == number).unwrap_or(0)
    };
    let all = refused_faster(header, &material.study.history, best_ns).into_iter().map(|refused| {
        let verdict = &refused.evaluation.verdict;
        let evidence: Vec<String> =
            verdict.evidence.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Refused {
            row: place(refused.evaluation.number),
            time_ns: refused.time_ns,
            over_winner: best_ns / refused.time_ns,
            problems_timed: refused.problems.0,
            problems: refused.problems.1,
            message: verdict.message.clone(),
            evidence: evidence.join(" "),
            repro: repro(header, &refused.evaluation.configuration),
        }
    });
    all.collect()
}

/// The parameters, the most important first where that is known.
fn by_importance<'a>(parameters: &'a [TriedParameter], insight: Option<&Insight>) -> Vec<&'a TriedParameter> {
    let mut sorted: Vec<&TriedParameter> = parameters.iter().collect();
    if let Some(importance) = insight.and_then(|insight| insight.importance.as_ref()) {
        let rank = |name: &str| importance.parameters.iter().position(|share| share.name == name);
        sorted.sort_by_key(|parameter| rank(&parameter.name).unwrap_or(usize::MAX));
    }
    sorted
}

fn times_of(parameter: &TriedParameter, evaluations: &[Evaluation]) -> ParameterTimes {
    let row =
        |value: &evo_space::value::Value| ValueTimes { value: value.to_string(), ..ValueTimes::default() };
    let mut values: Vec<ValueTimes> = parameter.values.iter().map(row).collect();
    for evaluation in evaluations {
        let Some(at) = parameter.position(&evaluation.configuration) else { continue };
        let row = &mut values[at];
        row.evaluations += 1;
        match KnownTime::of(evaluation) {
            KnownTime::Measured(time) => row.measured.push(time),
            KnownTime::AtLeast(time) => row.beyond.push(time),
            KnownTime::Unknown => {}
        }
    }
    let (is_varied, left_out) = (values.len() > 1, values.len().saturating_sub(STRIP_VALUES));
    if left_out > 0 {
        let mut counts: Vec<usize> = values.iter().map(|row| row.evaluations).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        values.retain(|row| row.evaluations >= counts[STRIP_VALUES - 1]);
        values.truncate(STRIP_VALUES);
    }
    for row in &mut values {
        let all = row.measured.iter().chain(&row.beyond).copied();
        row.median_ns = super::chart::quantile(all.collect(), 0.5);
        row.best_ns = row.measured.iter().copied().min_by(f64::total_cmp);
        for times in [&mut row.measured, &mut row.beyond] {
            *times = thinned(std::mem::take(times), STRIP_DOTS);
        }
    }
    ParameterTimes { name: parameter.name.clone(), is_varied, left_out, values }
}

/// At most so many of them, evenly spread.
fn thinned<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let step = all.len().div_ceil(most).max(1);
    all.into_iter().step_by(step).collect()
}

/// Of the two most important parameters that have few enough values.
fn heat_map(parameters: &[&TriedParameter], evaluations: &[Evaluation]) -> Option<HeatMap> {
    let mut fitting =
        parameters.iter().filter(|parameter| (2..=HEAT_VALUES).contains(&parameter.values.len()));
    let (across, down) = (fitting.next()?, fitting.next()?);
    let empty = HeatCell { time_ns: None, is_bound: true };
    let mut cells = vec![vec![empty; across.values.len()]; down.values.len()];
    for evaluation in evaluations {
        let configuration = &evaluation.configuration;
        let place = across.position(configuration).zip(down.position(configuration));
        let Some((column, row)) = place else { continue };
        let known = KnownTime::of(evaluation);
        let Some(time) = known.value() else { continue };
        let (cell, is_bound) = (&mut cells[row][column], matches!(known, KnownTime::AtLeast(_)));
        // A measured time says more than any bound.
        if (is_bound, time) < (cell.is_bound, cell.time_ns.unwrap_or(f64::INFINITY)) {
            *cell = HeatCell { time_ns: Some(time), is_bound };
        }
    }
    let names = |parameter: &TriedParameter| ParameterNames {
        name: parameter.name.clone(),
        values: parameter.values.iter().map(ToString::to_string).collect(),
    };
    Some(HeatMap { across: names(across), down: names(down), cells })
}

/// The problems of the champion that say what they take.
fn workloads<'a>(material: &'a ReportMaterial) -> Vec<Workload<'a>> {
    let Some(section) = &material.section else { return Vec::new() };
    let mut confirmations = material.study.history.confirmations.iter().rev();
    let Some(champion) = confirmations.find(|own| own.number == section.champion.number) else {
        return Vec::new();
    };
    let (header, is_sound) = (&material.study.header, |value: f64| value.is_finite() && value > 0.0);
    let mode = section.ranking.timing();
    let times = |evaluation: &Evaluation, problem: &str| -> Vec<f64> {
        let timed = evaluation.measurements.iter();
        let timed = timed.filter(|timed| timed.mode == mode && timed.problem == problem);
        timed.map(|timed| timed.p50_ns).filter(|time| is_sound(*time)).collect()
    };
    let workload = |work: &'a ProblemWork| {
        let (flops, bytes) = (work.flops?, work.bytes?);
        let (intensity, rate) = (flops / bytes, |time_ns: f64| flops / time_ns * 1e9);
        let passed = material.evaluations().iter().filter(|evaluation| evaluation.verdict.is_pass());
        let times_ns = passed.flat_map(|evaluation| times(evaluation, &work.problem));
        let champion_ns = times(&champion.evaluation, &work.problem).first().copied();
        (is_sound(flops) && is_sound(bytes)).then(|| Workload {
            problem: &work.problem,
            half: work.half,
            intensity,
            champion_ns,
            roof_ns: roofline_ns(&header.device, work),
            rate: champion_ns.map(rate),
            rates: times_ns.map(|time_ns| (intensity, rate(time_ns))).collect(),
        })
    };
    champion.work.iter().filter_map(workload).collect()
}

/// When a variant was on the device, seconds; nothing for results of another study.
fn on_device(evaluation: &Evaluation) -> Option<(f64, f64)> {
    let to = evaluation.at_ms.unwrap_or(0) as f64 / 1e3;
    evaluation.taken_over_from.is_none().then(|| ((to - device_seconds(evaluation)).max(0.0), to))
}

fn worked(evaluations: &[Evaluation]) -> Option<f64> {
    let spans: Vec<f64> = evaluations.iter().filter_map(on_device).map(|(from, to)| to - from).collect();
    (has_stamps(evaluations) && !spans.is_empty()).then(|| spans.iter().sum())
}

fn recoveries(evaluations: &[Evaluation]) -> Vec<(&'static str, u64, f64)> {
    let all = evaluations.iter().filter_map(|evaluation| {
        let (recovery, at_ms) = evaluation.recovery.zip(evaluation.at_ms)?;
        Some((recovery.level.as_str(), evaluation.number, at_ms as f64 / 1e3))
    });
    all.collect()
}

/// The device lane in columns by the class that took most of each, joined where neighbors are alike.
fn busy(evaluations: &[Evaluation], last_ms: u64) -> Vec<(&'static str, f64, f64)> {
    const CLASSES: [&str; 3] = ["ok", "slow", "wrong"];
    let step = last_ms.max(1) as f64 / 1e3 / LANE_COLUMNS as f64;
    let mut columns = vec![[0.0f64; 3]; LANE_COLUMNS];
    for evaluation in evaluations {
        let Some((from, to)) = on_device(evaluation) else { continue };
        let class = match evaluation.verdict.kind.class() {
            VerdictClass::Ok => 0,
            VerdictClass::Slow => 1,
            _ => 2,
        };
        let column = |at: f64| ((at / step) as usize).min(LANE_COLUMNS - 1);
        for (at, column) in columns.iter_mut().enumerate().take(column(to) + 1).skip(column(from)) {
            let (left, right) = (at as f64 * step, (at + 1) as f64 * step);
            column[class] += (to.min(right) - from.max(left)).max(0.0);
        }
    }
    let class_of = |column: &[f64; 3]| {
        let most = (0..3).max_by(|a, b| column[*a].total_cmp(&column[*b])).unwrap_or(0);
        (column.iter().sum::<f64>() > 0.2 * step).then_some(CLASSES[most])
    };
    let (mut spans, mut at) = (Vec::new(), 0);
    for run in columns.chunk_by(|a, b| class_of(a) == class_of(b)) {
        let (from, to) = (at as f64 * step, (at + run.len()) as f64 * step);
        spans.extend(class_of(&run[0]).map(|class| (class, from, to)));
        at += run.len();
    }
    spans
}

/// Clock, power and heat while variants were timed, as far as they were recorded.
fn series(evaluations: &[Evaluation]) -> Vec<Series> {
    let sample = |(order, evaluation): (usize, &'_ Evaluation)| {
        Some(((order + 1) as f64, evaluation.measurements.first()?.telemetry.clone()))
    };
    let samples = thinned(evaluations.iter().enumerate().filter_map(sample).collect(), TELEMETRY_DOTS);
    let of = |id, title, value: fn(&Telemetry) -> Option<f64>| {
        let points = samples.iter().filter_map(|(order, telemetry)| Some((*order, value(telemetry)?)));
        Series { id, title, points: points.filter(|point| point.1.is_finite() && point.1 > 0.0).collect() }
    };
    let mut all = vec![
        of("clock", "SM clock, MHz", |telemetry| telemetry.clock_sm_mhz.map(f64::from)),
        of("power", "Power, W", |telemetry| telemetry.power_w),
        of("heat-c", "Temperature, °C", |telemetry| telemetry.temperature_c.map(f64::from)),
    ];
    all.retain(|series| !series.points.is_empty());
    all
}

fn throttled(evaluations: &[Evaluation]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    let measured = evaluations.iter().flat_map(|evaluation| &evaluation.measurements);
    for reason in measured.flat_map(|measurement| &measurement.telemetry.throttle_reasons) {
        *counts.entry(reason.as_str()).or_default() += 1;
    }
    counts
}
