//! How fast a candidate is, as an answer tells it: only of one that passed, and with what it is relative to.

use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::PairedProblem;
use serde_json::{Value, json};

use crate::report::judged::EvaluatedProblem;

/// A baseline that was measured in the same run and not side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct BaselineTime {
    /// As messages name it.
    pub name: String,
    pub objective_ns: f64,
}

/// What is known of a candidate's speed.
#[derive(Debug, Default)]
pub struct KnownTimes<'a> {
    pub problems: Vec<EvaluatedProblem<'a>>,
    /// What both sides of a paired comparison are called, where there was one.
    pub against: Option<String>,
    /// Whether both were timed side by side.
    pub is_paired: bool,
    /// The machine code and the launches are the baseline's.
    pub is_same_code: bool,
    /// Relative difference between the baseline and itself.
    pub noise_floor: Option<f64>,
    /// Where nothing was compared side by side.
    pub baseline: Option<BaselineTime>,
    /// Why there is neither.
    pub not_compared: String,
    pub is_screening: bool,
}

/// A speed-up and how it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredSpeedup {
    pub value: f64,
    /// 95 %; only of a paired comparison.
    pub bounds: Option<(f64, f64)>,
    pub method: &'static str,
}

/// The `performance` of an answer and why parts of it are null.
pub fn performance(evaluation: &Evaluation, times: &KnownTimes<'_>) -> (Value, Vec<(String, String)>) {
    let mut reasons = Vec::new();
    let mut missing = |name: &str, why: &str| reasons.push((format!("performance.{name}"), why.to_string()));
    let bounds = interval(times);
    if evaluation.objective_ns.is_none() {
        missing("objective_ns", "nothing was timed");
    }
    if bounds.is_none() {
        ["low", "high"].iter().for_each(|name| missing(name, "not every problem has an interval"));
    }
    if times.noise_floor.is_none() {
        missing("noise_floor", "only the paired comparison of the level `confirm` measures it");
    }
    let speedup = speedup(evaluation, times);
    if speedup.is_none() {
        missing("speedup", &times.not_compared);
    }
    let decision = decision(times);
    if decision.is_none() {
        missing("decision", "only the paired comparison of the level `confirm` decides");
    }
    let share = roofline_share(times);
    if share.is_none() {
        missing("roofline_share", "the work of a call or the peaks of the device are not known");
    }
    let against = times.against.as_ref().or(times.baseline.as_ref().map(|own| &own.name));
    let speedup = speedup.map(|own| {
        if own.bounds.is_none() {
            let why = "candidate and baseline were not measured side by side";
            for name in ["low", "high"] {
                reasons.push((format!("performance.speedup.{name}"), why.to_string()));
            }
        }
        let (low, high) = (own.bounds.map(|own| own.0), own.bounds.map(|own| own.1));
        json!({ "value": own.value, "low": low, "high": high, "against": against, "method": own.method })
    });
    let problems: Vec<Value> = times.problems.iter().filter_map(problem).collect();
    let own = json!({
        "objective_ns": evaluation.objective_ns,
        "low": bounds.map(|own| own.0),
        "high": bounds.map(|own| own.1),
        "noise_floor": times.noise_floor,
        "speedup": speedup,
        "decision": decision,
        "roofline_share": share,
        "method": if times.is_screening { "screening" } else { "measurement" },
        "problems": problems,
    });
    (own, reasons)
}

fn problem(one: &EvaluatedProblem<'_>) -> Option<Value> {
    let time = one.time?;
    Some(json!({ "problem": one.plan.name, "p50_ns": time.p50_ns, "p90_ns": time.p90_ns, "mode": time.mode,
        "canonical": one.canonical }))
}

/// The speed-up, side by side where that was measured.
pub fn speedup(evaluation: &Evaluation, times: &KnownTimes<'_>) -> Option<MeasuredSpeedup> {
    let canonical: Vec<_> = times.problems.iter().filter(|one| one.canonical).collect();
    let mean = |ratio: fn(&PairedProblem) -> f64| {
        let parts = canonical.iter().map(|one| Some((one.plan.weight, 1.0 / ratio(one.pair?))));
        geometric(parts.collect::<Option<Vec<_>>>()?)
    };
    // A ratio is the candidate's time over the baseline's, so its upper end is the speed-up's lower one.
    if let (Some(value), Some(low), Some(high)) =
        (mean(|own| own.ratio), mean(|own| own.ratio_high), mean(|own| own.ratio_low))
    {
        return Some(MeasuredSpeedup { value, bounds: Some((low, high)), method: "paired" });
    }
    if times.is_same_code {
        return Some(MeasuredSpeedup { value: 1.0, bounds: Some((1.0, 1.0)), method: "same_code" });
    }
    let value = times.baseline.as_ref()?.objective_ns / evaluation.objective_ns?;
    let method = if times.is_screening { "screening" } else { "unpaired" };
    (value.is_finite() && value > 0.0).then_some(MeasuredSpeedup { value, bounds: None, method })
}

/// `faster`, `slower`, `same` or `ambiguous`; nothing where no comparison was made side by side.
fn decision(times: &KnownTimes<'_>) -> Option<&'static str> {
    if times.is_same_code {
        return Some("same");
    }
    let floor = times.noise_floor.unwrap_or(0.0);
    let compared = times.problems.iter().filter(|one| one.canonical);
    let pairs: Vec<_> = compared.map(|one| one.pair).collect::<Option<Vec<_>>>()?;
    if pairs.is_empty() {
        return None;
    }
    let is_faster = pairs.iter().all(|own| own.ratio_high < 1.0 - floor);
    let is_slower = pairs.iter().all(|own| own.ratio_low > 1.0 + floor);
    Some(match (is_faster, is_slower) {
        (true, _) => "faster",
        (_, true) => "slower",
        _ => "ambiguous",
    })
}

/// The share of the least possible time, over the timed problems.
pub fn roofline_share(times: &KnownTimes<'_>) -> Option<f64> {
    let parts = times.problems.iter().map(|one| Some((one.plan.weight, one.roofline_ratio?)));
    geometric(parts.collect::<Option<Vec<_>>>()?)
}

fn interval(times: &KnownTimes<'_>) -> Option<(f64, f64)> {
    let low = times.problems.iter().map(|one| Some((one.plan.weight, one.time?.ci_low_ns)));
    let high = times.problems.iter().map(|one| Some((one.plan.weight, one.time?.ci_high_ns)));
    Some((geometric(low.collect::<Option<Vec<_>>>()?)?, geometric(high.collect::<Option<Vec<_>>>()?)?))
}

/// A weighted geometric mean of numbers above 0.
fn geometric(parts: Vec<(f64, f64)>) -> Option<f64> {
    let weights: f64 = parts.iter().map(|(weight, _)| weight).sum();
    let sum: f64 = parts.iter().map(|(weight, value)| weight * value.ln()).sum();
    let mean = (sum / weights).exp();
    (!parts.is_empty() && mean.is_finite() && mean > 0.0).then_some(mean)
}
