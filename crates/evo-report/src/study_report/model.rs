//! What a study came to, computed once from its records. Every file that shows a study is a template over this model, so
//! a number has one source whatever shows it.

use std::collections::BTreeMap;

use evo_journal::iterations::{GateRun, Iteration};
use evo_journal::leaderboard::{repro, roofline_ns};
use evo_journal::record::{ProblemWork, StudyHeader};
use evo_protocol::device::Telemetry;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::{LeaderboardSection, RankedEntry};
use evo_protocol::verdict::VerdictClass;
use evo_search::insight::Insight;
use evo_space::genome::Configuration;
use evo_space::text::quote;
use minijinja::context;
use minijinja::value::{Serde, Value};
use serde::Serialize;
use serde_json::{Value as Json, json};
use similar::TextDiff;

use super::loaded::{ReportMaterial, SourceText};
use crate::columns::{Row, TriedParameter, device_seconds, has_stamps, tried};
use crate::failures::passed;
use crate::known::{CLASSES, KnownTime, NewBest, baseline, new_bests, refused_faster};
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
/// Lines of a diff that are shown; a rewrite is better read in the files themselves.
const DIFF_LINES: usize = 400;
const CONTEXT: usize = 3;

#[derive(Debug)]
pub struct StudyModel<'a> {
    pub(super) header: &'a StudyHeader,
    pub(super) rows: Vec<Row<'a>>,
    pub(super) parameters: Vec<TriedParameter>,
    /// Everything that a template names.
    pub(super) values: Value,
}

impl<'a> StudyModel<'a> {
    pub fn of(material: &'a ReportMaterial) -> StudyModel<'a> {
        let (study, evaluations) = (&material.study, material.evaluations());
        let (header, history, section) = (&study.header, &study.history, material.section.as_ref());
        let rows = Row::all(evaluations);
        let gate_run = |run: &GateRun| described(run, &run.candidate.configuration);
        let (winner, base) = (material.winner(), material.baseline());
        let parameters = tried(header, evaluations);
        let important = by_importance(&parameters, study.insight.as_ref());
        let entries = || section.into_iter().flat_map(LeaderboardSection::entries);
        let change = winner.zip(base);
        let change = change.map(|(new, old)| parameter_change(&old.configuration, &new.configuration));
        let begun = baseline(evaluations).map(|evaluation| evaluation.number);
        let champion = section.map(|section| section.champion.repro.clone());
        let command: Vec<_> = header.environment.command.iter().map(|word| quote(word)).collect();
        let ends: Vec<_> = history.ends.iter().map(|end| (end, end.reason.describe())).collect();
        let values = context! {
            header => Serde(header),
            damage => Serde(&study.damage),
            notes => Serde(&study.notes),
            insight => Serde(&study.insight),
            // The newest profile's result.
            profile => Serde(study.profile.as_ref().map(|profile| &profile["result"])),
            section => Serde(section),
            entries => Serde(entries().map(|entry| described(entry, &entry.configuration)).collect::<Vec<_>>()),
            entry_names => entry_names(entries().collect()),
            // Of the champion, MHz.
            clocks_confirming => clocks(section),
            winner => Serde(winner.map(|winner| with(evaluation(winner), json!({ "change": change })))),
            // The winner's values by name, and whether each differs from the baseline's.
            values => Serde(winner.map_or_else(Vec::new, |winner| winner_values(winner, base))),
            baseline => Serde(base.map(evaluation)),
            baseline_ns => base.and_then(|base| KnownTime::of(base).value()),
            // What the search began from: the default configuration or the first that passed.
            start => begun.and_then(|number| rows.iter().position(|row| row.number == number)),
            // Why there is nothing to compare the winner's source with.
            source_unknown => material.sources.as_ref().err().map(String::as_str),
            // Against the baseline's source; nothing where they are equal.
            source_diff => material.sources.as_ref().ok().and_then(|[before, after]| source_change(before, after)),
            repro => champion.or_else(|| Some(repro(header, &winner?.configuration))),
            command => command.join(" "),
            rows => Serde(&rows),
            fastest => fastest(&rows),
            passed => passed(evaluations),
            verdicts => mix(evaluations),
            // Classes of verdicts with their words, in the order of legends.
            classes => Serde(CLASSES.map(|(_, name, words)| (name, words))),
            has_stamps => has_stamps(evaluations),
            // Of the study's running time.
            seconds => history.last_ms.max(1) as f64 / 1e3,
            bests => Serde(bests(evaluations)),
            confirmations => Serde(confirmations(material)),
            iterations => Serde(edits(&material.iterations)),
            gate_runs => Serde(material.gates.iter().map(gate_run).collect::<Vec<_>>()),
            peers => Serde(&material.peers),
            refused => Serde(refused(material)),
            ends => Serde(ends),
            not_final => history.not_final.len(),
            // The most important parameter first.
            times => Serde(important.iter().map(|own| times_of(own, evaluations)).collect::<Vec<_>>()),
            heat => Serde(heat_map(&important, evaluations)),
            workloads => Serde(workloads(material)),
            // How long the device worked on variants; nothing where that is not known.
            worked_s => worked(evaluations),
            // Class, and the seconds from and to which the device worked mostly on variants of it.
            busy => Serde(busy(evaluations, history.last_ms)),
            // Level, evaluation and seconds of each.
            recoveries => Serde(recoveries(evaluations)),
            series => Serde(series(evaluations)),
            // What slowed the clock down while variants were timed, and how often.
            throttled => Serde(throttled(evaluations)),
        };
        StudyModel { header, rows, parameters, values }
    }
}

/// A record with its configuration as text, in the order of the space.
fn described(record: impl Serialize, configuration: &Configuration) -> Json {
    with(json!(record), json!({ "variant": configuration.to_string() }))
}

fn evaluation(evaluation: &Evaluation) -> Json {
    described(evaluation, &evaluation.configuration)
}

fn with(mut object: Json, more: Json) -> Json {
    if let (Json::Object(object), Json::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}

/// `BLOCK: 32 → 64, VEC: 1 → 4`; empty where nothing differs.
fn parameter_change(before: &Configuration, after: &Configuration) -> String {
    let changed = after.iter().filter(|(name, value)| before.get(name) != Some(*value));
    let told = changed.map(|(name, value)| match before.get(name) {
        Some(old) => format!("{name}: {old} → {value}"),
        None => format!("{name}: {value} (new)"),
    });
    told.collect::<Vec<_>>().join(", ")
}

/// A unified diff; `None` where the texts are equal.
fn source_change(before: &SourceText, after: &SourceText) -> Option<String> {
    let diff = TextDiff::from_lines(&before.text, &after.text);
    let text = diff.unified_diff().context_radius(CONTEXT).header(&before.name, &after.name).to_string();
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return None;
    }
    let shown = lines[..lines.len().min(DIFF_LINES)].join("\n");
    Some(match lines.len().saturating_sub(DIFF_LINES) {
        0 => shown + "\n",
        more => format!("{shown}\n… {more} more lines\n"),
    })
}

/// What tells the entries apart: the parameters whose values differ among them.
fn entry_names(entries: Vec<&RankedEntry>) -> Vec<String> {
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

/// Each new best with its position among the evaluations, from 0, and what it changes of the best before it.
fn bests(evaluations: &[Evaluation]) -> Vec<Json> {
    let found = new_bests(evaluations);
    let before = std::iter::once(None).chain(found.iter().map(|best| Some(&best.evaluation.configuration)));
    let step = |(best, before): (&NewBest<'_>, Option<&Configuration>)| {
        let change = before.map(|before| parameter_change(before, &best.evaluation.configuration));
        let more = json!({ "change": change, "order": best.order, "time_ns": best.time_ns });
        with(evaluation(best.evaluation), more)
    };
    found.iter().zip(before).map(step).collect()
}

fn confirmations(material: &ReportMaterial) -> Vec<Json> {
    let all = material.study.history.confirmations.iter().map(|confirmation| {
        let configuration = &confirmation.evaluation.configuration;
        let base = material.numbered(confirmation.baseline);
        let base = base.filter(|base| base.number != confirmation.number);
        let change = base.map(|base| parameter_change(&base.configuration, configuration));
        with(described(confirmation, configuration), json!({ "change": change }))
    });
    all.collect()
}

/// Each iteration with what it changes of the newest earlier one that had a source of its own.
fn edits(iterations: &[Iteration]) -> Vec<Json> {
    let text = |number: u64, source: &str| SourceText {
        name: format!("evaluation {number}"),
        text: source.to_string(),
    };
    let (mut all, mut newest) = (Vec::new(), None);
    for iteration in iterations {
        let source = iteration.candidate.source.as_deref().map(|source| text(iteration.number, source));
        let rival = newest.as_ref().filter(|_| source.is_some());
        let more = json!({
            "rival": rival.map(|(number, _)| number),
            "diff": rival.zip(source.as_ref()).and_then(|((_, before), after)| source_change(before, after)),
            "lines": source.as_ref().map_or(0, |source| source.text.lines().count()),
        });
        all.push(with(described(iteration, &iteration.candidate.configuration), more));
        newest = source.map(|source| (iteration.number, source)).or(newest);
    }
    all
}

fn refused(material: &ReportMaterial) -> Vec<Json> {
    let Some(best_ns) = material.best_ns() else { return Vec::new() };
    let header = &material.study.header;
    let place = |number: u64| {
        material.evaluations().iter().position(|evaluation| evaluation.number == number).unwrap_or(0)
    };
    let refused = refused_faster(header, &material.study.history, best_ns);
    let all = refused.into_iter().map(|(time_ns, timed, evaluation)| {
        let verdict = &evaluation.verdict;
        let evidence = verdict.evidence.iter().map(|(name, value)| format!("{name}={value}"));
        json!({
            "row": place(evaluation.number),
            "time_ns": time_ns,
            "over_winner": best_ns / time_ns,
            "problems_timed": timed,
            "problems": header.problems.len(),
            "message": verdict.message,
            "evidence": evidence.collect::<Vec<_>>().join(" "),
            "repro": repro(header, &evaluation.configuration),
        })
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

#[derive(Debug, Default, Serialize)]
struct ValueTimes {
    value: String,
    evaluations: usize,
    best_ns: Option<f64>,
    median_ns: Option<f64>,
    /// Few enough to draw.
    measured: Vec<f64>,
    /// Of variants that were given up as slower than that.
    beyond: Vec<f64>,
}

fn times_of(parameter: &TriedParameter, evaluations: &[Evaluation]) -> Json {
    let row = |value: &evo_space::value::Value| ValueTimes { value: value.to_string(), ..Default::default() };
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
        // Those that were tried most.
        let mut counts: Vec<usize> = values.iter().map(|row| row.evaluations).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        values.retain(|row| row.evaluations >= counts[STRIP_VALUES - 1]);
        values.truncate(STRIP_VALUES);
    }
    for row in &mut values {
        let all = row.measured.iter().chain(&row.beyond).copied();
        row.median_ns = crate::chart::quantile(all.collect(), 0.5);
        row.best_ns = row.measured.iter().copied().min_by(f64::total_cmp);
        for times in [&mut row.measured, &mut row.beyond] {
            *times = thinned(std::mem::take(times), STRIP_DOTS);
        }
    }
    json!({ "name": parameter.name, "is_varied": is_varied, "left_out": left_out, "values": values })
}

/// At most so many of them, evenly spread.
fn thinned<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let step = all.len().div_ceil(most).max(1);
    all.into_iter().step_by(step).collect()
}

/// The best time for each pair of values, of the two most important parameters that have few enough.
fn heat_map(parameters: &[&TriedParameter], evaluations: &[Evaluation]) -> Option<Json> {
    let mut fitting =
        parameters.iter().filter(|parameter| (2..=HEAT_VALUES).contains(&parameter.values.len()));
    let (across, down) = (fitting.next()?, fitting.next()?);
    let mut cells = vec![vec![(true, f64::INFINITY); across.values.len()]; down.values.len()];
    for evaluation in evaluations {
        let configuration = &evaluation.configuration;
        let place = across.position(configuration).zip(down.position(configuration));
        let Some((column, row)) = place else { continue };
        let known = KnownTime::of(evaluation);
        let Some(time) = known.value() else { continue };
        let (cell, time) = (&mut cells[row][column], (matches!(known, KnownTime::AtLeast(_)), time));
        // A measured time says more than any bound.
        if time < *cell {
            *cell = time;
        }
    }
    // Where nothing is known, the time is null.
    let cell = |(is_bound, time_ns): &(bool, f64)| json!({ "time_ns": time_ns, "is_bound": is_bound });
    let cells: Vec<Vec<Json>> = cells.iter().map(|row| row.iter().map(cell).collect()).collect();
    Some(json!({ "across": across.named(), "down": down.named(), "cells": cells }))
}

/// The problems of the champion that say what they take.
fn workloads(material: &ReportMaterial) -> Vec<Json> {
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
    let workload = |work: &ProblemWork| {
        let (flops, bytes) = (work.flops?, work.bytes?);
        let (intensity, rate) = (flops / bytes, |time_ns: f64| flops / time_ns * 1e9);
        let passed = material.evaluations().iter().filter(|evaluation| evaluation.verdict.is_pass());
        let times_ns = passed.flat_map(|evaluation| times(evaluation, &work.problem));
        let champion_ns = times(&champion.evaluation, &work.problem).first().copied();
        let rates: Vec<_> = times_ns.map(|time_ns| (intensity, rate(time_ns))).collect();
        (is_sound(flops) && is_sound(bytes)).then(|| {
            json!({
                "problem": work.problem,
                "half": work.half,
                // Operations per byte.
                "intensity": intensity,
                "champion_ns": champion_ns,
                // What the device's peaks allow.
                "roof_ns": roofline_ns(&header.device, work),
                // Operations per second of the champion.
                "rate": champion_ns.map(rate),
                // Intensity and operations per second of every correct variant.
                "rates": rates,
            })
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
fn series(evaluations: &[Evaluation]) -> Vec<Json> {
    let sample = |(order, evaluation): (usize, &'_ Evaluation)| {
        Some(((order + 1) as f64, evaluation.measurements.first()?.telemetry.clone()))
    };
    let samples = thinned(evaluations.iter().enumerate().filter_map(sample).collect(), TELEMETRY_DOTS);
    type Recorded = (&'static str, &'static str, fn(&Telemetry) -> Option<f64>);
    let series = |(id, title, value): &Recorded| {
        let points = samples.iter().filter_map(|(order, telemetry)| Some((*order, value(telemetry)?)));
        let points: Vec<_> = points.filter(|point| point.1.is_finite() && point.1 > 0.0).collect();
        (!points.is_empty()).then(|| json!({ "id": id, "title": title, "points": points }))
    };
    let recorded: [Recorded; 3] = [
        ("clock", "SM clock, MHz", |telemetry| telemetry.clock_sm_mhz.map(f64::from)),
        ("power", "Power, W", |telemetry| telemetry.power_w),
        ("heat-c", "Temperature, °C", |telemetry| telemetry.temperature_c.map(f64::from)),
    ];
    recorded.iter().filter_map(series).collect()
}

fn throttled(evaluations: &[Evaluation]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    let measured = evaluations.iter().flat_map(|evaluation| &evaluation.measurements);
    for reason in measured.flat_map(|measurement| &measurement.telemetry.throttle_reasons) {
        *counts.entry(reason.as_str()).or_default() += 1;
    }
    counts
}
