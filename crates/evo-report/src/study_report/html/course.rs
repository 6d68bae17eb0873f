//! What happened along a run: verdicts, the device lane, clocks and heat.

use evo_protocol::device::Telemetry;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::VerdictClass;

use super::chart::{Chart, legend, range, short};
use super::convergence::has_stamps;
use super::plot::{AxisScale, Plot, PlotBox, ScaleKind};
use crate::study_report::known::{CLASSES, chart_class};
use crate::study_report::material::ReportMaterial;

/// Bars of the verdict mix.
const BARS: usize = 60;
/// Columns of the lane: each is about as wide as two pixels.
const COLUMNS: usize = 440;
/// Dots of a telemetry chart.
const DOTS: usize = 1500;
/// The Gantt row of the device lane.
const LANE: PlotBox =
    PlotBox { width: 960.0, height: 130.0, left: 64.0, right: 16.0, top: 22.0, bottom: 38.0 };
const MIX: PlotBox =
    PlotBox { width: 960.0, height: 220.0, left: 64.0, right: 16.0, top: 22.0, bottom: 38.0 };

/// The share of each verdict over the evaluations.
pub fn verdict_mix(material: &ReportMaterial) -> Chart {
    let evaluations = material.evaluations();
    let title = "Verdicts over the run";
    if evaluations.is_empty() {
        return Chart::absent("verdicts", title, "Nothing was evaluated yet.");
    }
    let count = evaluations.len();
    let bars = BARS.min(count);
    let (width, height) = MIX.inner();
    let x = AxisScale::across(ScaleKind::Linear, (0.0, count as f64), width);
    let y = AxisScale::upward(ScaleKind::Linear, (0.0, 100.0), height);
    let mut plot = Plot::new(MIX, x, y);
    plot.x_axis("evaluation", 9, short);
    plot.y_axis("share, %", 4, short);
    for bar in 0..bars {
        let (from, to) = (bar * count / bars, (bar + 1) * count / bars);
        let slice = &evaluations[from..to];
        let mut base = 0.0;
        for class in CLASSES {
            let own = slice.iter().filter(|one| one.verdict.kind.class() == class).count();
            if own == 0 {
                continue;
            }
            let top = base + 100.0 * own as f64 / slice.len() as f64;
            let (name, word) = chart_class(class);
            let title = format!("{word}: {own} of evaluations {} to {to}", from + 1);
            plot.bar(&format!("fill {name}"), (from as f64, to as f64), (base, top), &title);
            base = top;
        }
    }
    let seen: Vec<(&str, &str)> = CLASSES
        .iter()
        .filter(|class| number_of(evaluations, **class) > 0)
        .map(|class| chart_class(*class))
        .collect();
    let told = CLASSES.iter().map(|class| (number_of(evaluations, *class), chart_class(*class).1));
    let told: Vec<String> = told.filter(|own| own.0 > 0).map(|(own, word)| format!("{own} {word}")).collect();
    let summary = format!("{count} evaluations: {}.", told.join(", "));
    let svg = plot.finish(&summary);
    let legend = legend(&seen.iter().map(|(class, word)| (*class, *word)).collect::<Vec<_>>());
    Chart { id: "verdicts".into(), title: title.into(), summary, svg, legend }
}

fn number_of(evaluations: &[Evaluation], class: VerdictClass) -> usize {
    evaluations.iter().filter(|one| one.verdict.kind.class() == class).count()
}

/// When the device lane worked, and on what.
pub fn lanes(material: &ReportMaterial) -> Chart {
    let title = "Device lane";
    let evaluations = material.evaluations();
    let measured: Vec<&Evaluation> = evaluations.iter().filter(|one| one.taken_over_from.is_none()).collect();
    if !has_stamps(evaluations) || measured.is_empty() {
        let why = "This journal has no time stamps, so when the device worked is not known.";
        return Chart::absent("lanes", title, why);
    }
    let end = material.study.history.last_ms.max(1) as f64 / 1e3;
    let (width, height) = LANE.inner();
    let x = AxisScale::across(ScaleKind::Linear, (0.0, end), width);
    let y = AxisScale::upward(ScaleKind::Linear, (0.0, 1.0), height);
    let mut plot = Plot::new(LANE, x, y);
    plot.x_axis("seconds since the command began", 9, short);
    plot.row_label(0.5, "device");
    let spans: Vec<(f64, f64, VerdictClass)> = measured.iter().map(|one| span(one)).collect();
    busy(&mut plot, &spans, end);
    for one in &material.study.history.confirmations {
        let Some(at) = one.at_ms else { continue };
        let (to, from) = (at as f64 / 1e3, (at as f64 - one.evaluation.device_ms.max(0.0)) / 1e3);
        plot.bar(
            "fill confirm",
            (from.max(0.0), to),
            (0.12, 0.88),
            &format!("confirmation of evaluation {}", one.number),
        );
    }
    let mut recovered = 0;
    for one in evaluations {
        let Some((recovery, at)) = one.recovery.zip(one.at_ms) else { continue };
        recovered += 1;
        let title = format!("recovery {} after evaluation {}", recovery.level.as_str(), one.number);
        plot.mark("crash", (at as f64 / 1e3, 0.96), &title);
    }
    let worked: f64 = spans.iter().map(|(from, to, _)| to - from).sum();
    let summary = format!(
        "The device worked on variants for {worked:.1} s of {end:.1} s; {} confirmed, {}.",
        material.study.history.confirmations.len(),
        match recovered {
            1 => "1 recovery".to_string(),
            count => format!("{count} recoveries"),
        }
    );
    let words = [
        ("ok", "correct"),
        ("slow", "too slow"),
        ("wrong", "refused"),
        ("confirm", "confirmation"),
        ("crash", "recovery"),
    ];
    let svg = plot.finish(&summary);
    Chart { id: "lanes".into(), title: title.into(), summary, svg, legend: legend(&words) }
}

/// When a variant was in the lane, seconds.
fn span(one: &Evaluation) -> (f64, f64, VerdictClass) {
    let to = one.at_ms.unwrap_or(0) as f64 / 1e3;
    let used = if one.device_ms.is_finite() { one.device_ms.max(0.0) / 1e3 } else { 0.0 };
    ((to - used).max(0.0), to, one.verdict.kind.class())
}

/// Draws columns by the class that took most of each, joined where neighbors are alike.
fn busy(plot: &mut Plot, spans: &[(f64, f64, VerdictClass)], end: f64) {
    let step = end / COLUMNS as f64;
    let mut columns = vec![[0.0f64; 3]; COLUMNS];
    for (from, to, class) in spans {
        let group = match class {
            VerdictClass::Ok => 0,
            VerdictClass::Slow => 1,
            _ => 2,
        };
        let first = ((from / step) as usize).min(COLUMNS - 1);
        let last = ((to / step) as usize).min(COLUMNS - 1);
        for (at, column) in columns.iter_mut().enumerate().take(last + 1).skip(first) {
            let (left, right) = (at as f64 * step, (at + 1) as f64 * step);
            column[group] += (to.min(right) - from.max(left)).max(0.0);
        }
    }
    let class_of = |column: &[f64; 3]| {
        let all: f64 = column.iter().sum();
        let most = (0..3).max_by(|a, b| column[*a].total_cmp(&column[*b])).unwrap_or(0);
        (all > 0.2 * step).then_some(["ok", "slow", "wrong"][most])
    };
    let mut at = 0;
    while at < COLUMNS {
        let class = class_of(&columns[at]);
        let run = columns[at..].iter().take_while(|own| class_of(own) == class).count();
        if let Some(class) = class {
            let x = (at as f64 * step, (at + run) as f64 * step);
            plot.bar(&format!("fill {class}"), x, (0.12, 0.88), "");
        }
        at += run;
    }
}

/// Clock, power and heat while variants were timed.
pub fn clocks(material: &ReportMaterial) -> Vec<Chart> {
    let evaluations = material.evaluations();
    let samples: Vec<(f64, &Telemetry)> = evaluations
        .iter()
        .enumerate()
        .filter_map(|(order, one)| Some(((order + 1) as f64, &one.measurements.first()?.telemetry)))
        .collect();
    let step = samples.len().div_ceil(DOTS).max(1);
    let kept: Vec<(f64, &Telemetry)> = samples.into_iter().step_by(step).collect();
    let of = |id: &str, title: &str, value: &dyn Fn(&Telemetry) -> Option<f64>| {
        let points: Vec<(f64, f64)> = kept.iter().filter_map(|(at, own)| Some((*at, value(own)?))).collect();
        series(id, title, &points, evaluations.len())
    };
    let all = [
        of("clock", "SM clock, MHz", &|own| own.clock_sm_mhz.map(f64::from)),
        of("power", "Power, W", &|own| own.power_w),
        of("heat-c", "Temperature, °C", &|own| own.temperature_c.map(f64::from)),
    ];
    all.into_iter().flatten().collect()
}

/// What slowed the clock down while variants were timed, by name, with how often.
pub fn throttled(material: &ReportMaterial) -> Vec<(String, usize)> {
    let measured = material.evaluations().iter().flat_map(|one| &one.measurements);
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for reason in measured.flat_map(|one| &one.telemetry.throttle_reasons) {
        *counts.entry(reason.clone()).or_default() += 1;
    }
    counts.into_iter().collect()
}

fn series(id: &str, title: &str, points: &[(f64, f64)], count: usize) -> Option<Chart> {
    let (low, high) = range(points.iter().map(|own| own.1))?;
    let place = PlotBox { width: 470.0, height: 170.0, left: 52.0, right: 14.0, top: 10.0, bottom: 38.0 };
    let (width, height) = place.inner();
    let margin = (high - low).max(1.0) * 0.08;
    let x = AxisScale::across(ScaleKind::Linear, (1.0, count.max(2) as f64), width);
    let y = AxisScale::upward(ScaleKind::Linear, (low - margin, high + margin), height);
    let mut plot = Plot::new(place, x, y);
    plot.x_axis("evaluation", 5, short);
    plot.y_axis("", 4, short);
    plot.dots("ok small", points.iter().copied());
    let summary = format!("{title}: {} to {} while variants were timed.", short(low), short(high));
    let svg = plot.finish(&summary);
    Some(Chart { id: id.into(), title: title.into(), summary, svg, legend: Vec::new() })
}
