//! How the search came to its best: the best so far over evaluations and over time, beside random search.

use evo_protocol::evaluation::Evaluation;
use evo_search::insight::{Basis, RandomSearch, RandomStep};

use super::chart::{Chart, TimeUnit, WIDE, legend, quantile, range};
use super::plot::{AxisScale, Plot, ScaleKind};
use crate::study_report::known::{KnownTime, NewBest, baseline, new_bests};
use crate::study_report::material::ReportMaterial;
use crate::text::time;

/// Both charts.
pub fn convergence(material: &ReportMaterial) -> Vec<Chart> {
    let evaluations = material.evaluations();
    let bests = new_bests(evaluations);
    let (Some(first), Some(best)) = (bests.first(), bests.last()) else {
        let why = "No variant passed, so there is no best to follow.";
        return vec![Chart::absent("convergence", "Best so far over evaluations", why)];
    };
    let random = material.study.insight.as_ref().and_then(|own| own.random.as_ref());
    let mut summary = format!(
        "The first variant that passed took {}; after {} new bests, evaluation {} took {} (order {} of {}).",
        time(first.time_ns),
        bests.len(),
        best.evaluation.number,
        time(best.time_ns),
        best.order + 1,
        evaluations.len()
    );
    summary += &random.map_or(String::new(), |own| random_words(own, best.time_ns));
    let axis = Axis {
        id: "convergence",
        title: "Best so far over evaluations",
        name: "evaluation",
        column: "order",
        at: (1..=evaluations.len()).map(|order| order as f64).collect(),
    };
    vec![chart(material, &bests, &axis, random, summary), over_time(material, &bests)]
}

/// What the x axis of one chart is.
struct Axis {
    id: &'static str,
    title: &'static str,
    name: &'static str,
    /// Of the rows.
    column: &'static str,
    /// Of each evaluation.
    at: Vec<f64>,
}

fn over_time(material: &ReportMaterial, bests: &[NewBest<'_>]) -> Chart {
    let evaluations = material.evaluations();
    let (axis, word) = match has_stamps(evaluations) {
        true => {
            let at = evaluations.iter().map(|one| one.at_ms.unwrap_or(0) as f64 / 1e3).collect();
            let (title, name) = ("Best so far over wall time", "seconds since the command began");
            (Axis { id: "convergence-time", title, name, column: "at_s", at }, "wall time")
        }
        false => {
            let (title, name) = ("Best so far over device time", "seconds of device time");
            let at = device_seconds(evaluations);
            (
                Axis { id: "convergence-time", title, name, column: "at_s", at },
                "device time (this journal has no stamps)",
            )
        }
    };
    let (best, all) = (&bests[bests.len() - 1], axis.at.last().copied().unwrap_or(0.0));
    let summary =
        format!("The best variant was found after {:.1} s of {all:.1} s of {word}.", axis.at[best.order]);
    chart(material, bests, &axis, None, summary)
}

/// Whether every evaluation says when it was done.
pub fn has_stamps(evaluations: &[Evaluation]) -> bool {
    !evaluations.is_empty() && evaluations.iter().all(|one| one.at_ms.is_some())
}

/// The device time that was used up to each evaluation, seconds.
pub fn device_seconds(evaluations: &[Evaluation]) -> Vec<f64> {
    let mut sum = 0.0;
    let step = |one: &Evaluation| {
        sum += if one.device_ms.is_finite() { one.device_ms.max(0.0) / 1e3 } else { 0.0 };
        sum
    };
    evaluations.iter().map(step).collect()
}

fn chart(
    material: &ReportMaterial,
    bests: &[NewBest<'_>],
    axis: &Axis,
    random: Option<&RandomSearch>,
    summary: String,
) -> Chart {
    let evaluations = material.evaluations();
    let known: Vec<KnownTime> = evaluations.iter().map(KnownTime::of).collect();
    let measured: Vec<f64> = known.iter().filter_map(|own| own.value()).collect();
    let (low, _) = range(measured.iter().copied()).unwrap_or((1.0, 2.0));
    // The slowest variants would squeeze what matters.
    let most = quantile(measured, 0.6).unwrap_or(low);
    let start = baseline(evaluations).and_then(|one| KnownTime::of(one).value()).unwrap_or(low);
    let high = most.max(bests[0].time_ns).max(start).max(low * 1.2);
    let (width, height) = WIDE.inner();
    let unit = TimeUnit::of(low);
    let end = axis.at.last().copied().unwrap_or(1.0);
    let from = if axis.column == "order" { 1.0 } else { 0.0 };
    let x = AxisScale::across(ScaleKind::Linear, (from, end.max(from)), width);
    let y = AxisScale::upward(ScaleKind::Log, (low * 0.94, high * 1.06), height);
    let mut plot = Plot::new(WIDE, x, y);
    plot.x_axis(axis.name, 9, super::chart::short);
    plot.y_axis(&format!("time, {}", unit.name), 6, |value| unit.number(value));
    random.iter().for_each(|own| draw_random(&mut plot, own));
    let points = |wanted: fn(&KnownTime) -> bool| {
        let all = known.iter().zip(&axis.at).filter(move |(own, _)| wanted(own));
        all.filter_map(|(own, at)| Some((*at, own.value()?)))
    };
    plot.dots(
        "slow",
        points(|own| matches!(own, KnownTime::AtLeast(_))).filter(|(_, own)| *own <= high * 1.06),
    );
    plot.dots("ok", points(|own| matches!(own, KnownTime::Measured(_))));
    if let Some(base) =
        baseline(evaluations).filter(|one| one.verdict.is_pass()).and_then(|one| one.objective_ns)
    {
        plot.line("baseline", &[(from, base), (end, base)], false);
    }
    draw_bests(&mut plot, bests, axis, end);
    plot.hoverable(axis.column, "time");
    let mut words = vec![
        ("best", "best so far"),
        ("baseline", "baseline"),
        ("ok", "measured"),
        ("slow", "given up: at least"),
    ];
    if random.is_some_and(|own| !own.course.is_empty()) {
        words.push(("random", "random search: half of all runs"));
    }
    let svg = plot.finish(&summary);
    Chart { id: axis.id.into(), title: axis.title.into(), summary, svg, legend: legend(&words) }
}

/// What random search reaches: the median, and the middle half of all runs.
fn draw_random(plot: &mut Plot, random: &RandomSearch) {
    let kept = |own: &RandomStep| Some((own.evaluations as f64, own.quarter_ns?, own.three_quarters_ns?));
    plot.band("random", &random.course.iter().filter_map(kept).collect::<Vec<_>>());
    let median = random.course.iter().filter_map(|own| Some((own.evaluations as f64, own.median_ns?)));
    plot.line("random", &median.collect::<Vec<_>>(), false);
}

/// The best so far, with a mark at each new one.
fn draw_bests(plot: &mut Plot, bests: &[NewBest<'_>], axis: &Axis, end: f64) {
    let mut steps: Vec<(f64, f64)> = bests.iter().map(|best| (axis.at[best.order], best.time_ns)).collect();
    steps.extend(steps.last().map(|(_, time)| (end, *time)));
    plot.line("best", &steps, true);
    for best in bests {
        let one = best.evaluation;
        let title = format!(
            "evaluation {}: {}, by {}\n{}",
            one.number,
            time(best.time_ns),
            one.origin,
            one.configuration
        );
        plot.mark("best", (axis.at[best.order], best.time_ns), &title);
    }
}

fn random_words(random: &RandomSearch, best_ns: f64) -> String {
    let basis = match random.basis {
        Basis::WholeSpace => "from all valid points",
        Basis::OwnDraws => "from this study's random draws",
        Basis::Model => "estimated by a model",
    };
    match random.median_ns {
        None => format!(" Random search with the same budget would find nothing that passes ({basis})."),
        Some(median) => format!(
            " Random search with the same budget would end at {} ({:+.1} %, {basis}).",
            time(median),
            100.0 * (median / best_ns - 1.0)
        ),
    }
}
