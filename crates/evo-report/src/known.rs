//! What an evaluation says of a variant's time, and what follows from the order in which times became known.

use std::collections::BTreeMap;

use evo_journal::record::StudyHeader;
use evo_journal::replay::History;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::measurement::Measurement;
use evo_protocol::verdict::VerdictClass;

use super::judged::geometric_mean;

/// What is known of a time, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KnownTime {
    Measured(f64),
    /// It was given up because it takes longer than this.
    AtLeast(f64),
    Unknown,
}

impl KnownTime {
    pub fn of(one: &Evaluation) -> KnownTime {
        let time = one.objective_ns.filter(|time| time.is_finite() && *time > 0.0);
        match time {
            Some(time) if one.is_timed() => KnownTime::Measured(time),
            Some(time) if one.verdict.kind.class() == VerdictClass::Slow => KnownTime::AtLeast(time),
            _ => KnownTime::Unknown,
        }
    }

    pub fn value(self) -> Option<f64> {
        match self {
            KnownTime::Measured(time) | KnownTime::AtLeast(time) => Some(time),
            KnownTime::Unknown => None,
        }
    }
}

/// An evaluation that was faster than all correct ones before it.
#[derive(Clone, Copy, Debug)]
pub struct NewBest<'a> {
    /// Position among the evaluations, from 0.
    pub order: usize,
    pub time_ns: f64,
    pub evaluation: &'a Evaluation,
}

/// Each new best of the screening, in order.
pub fn new_bests(evaluations: &[Evaluation]) -> Vec<NewBest<'_>> {
    let mut found: Vec<NewBest<'_>> = Vec::new();
    for (order, one) in evaluations.iter().enumerate().filter(|(_, one)| one.verdict.is_pass()) {
        let KnownTime::Measured(time_ns) = KnownTime::of(one) else { continue };
        if found.last().is_none_or(|best| time_ns < best.time_ns) {
            found.push(NewBest { order, time_ns, evaluation: one });
        }
    }
    found
}

/// What passed with its time, the fastest first; of equals the earlier, so that the order does not depend on the sort.
pub fn fastest(evaluations: &[Evaluation]) -> Vec<(f64, &Evaluation)> {
    let timed = |evaluation: &'_ Evaluation| evaluation.objective_ns.filter(|_| evaluation.verdict.is_pass());
    let passing = evaluations.iter().filter_map(|evaluation| Some((timed(evaluation)?, evaluation)));
    let mut passing: Vec<_> = passing.collect();
    passing.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.number.cmp(&b.1.number)));
    passing
}

/// The default configuration's evaluation, or the first one that passed.
pub fn baseline(evaluations: &[Evaluation]) -> Option<&Evaluation> {
    let passed = |one: &&Evaluation| one.verdict.is_pass() && one.objective_ns.is_some();
    evaluations.iter().find(|one| one.is_default()).or_else(|| evaluations.iter().find(passed))
}

/// The weight of each timed problem, where a record says it; 1 otherwise.
pub fn weights(header: &StudyHeader, history: &History) -> BTreeMap<String, f64> {
    let mut weights: BTreeMap<String, f64> = header.problems.iter().map(|name| (name.clone(), 1.0)).collect();
    let defined = header.definition.iter().flat_map(|own| &own.problems).map(|own| (&own.name, own.weight));
    let worked = history.confirmations.iter().flat_map(|own| &own.work).map(|own| (&own.problem, own.weight));
    for (name, weight) in defined.chain(worked).filter(|(_, weight)| weight.is_finite() && *weight > 0.0) {
        weights.entry(name.clone()).and_modify(|own| *own = weight);
    }
    weights
}

/// The refused variants whose time beat `best_ns`, the fastest first: weighted geometric mean of the problems that were
/// timed before, their number, and the variant. A time that was taken before the refusal proves nothing: it shows what a
/// tuner without these gates would have reported.
pub fn refused_faster<'a>(
    header: &StudyHeader,
    history: &'a History,
    best_ns: f64,
) -> Vec<(f64, usize, &'a Evaluation)> {
    let weights = weights(header, history);
    let not_refused = [VerdictClass::Ok, VerdictClass::Slow, VerdictClass::PassedOver, VerdictClass::Harness];
    let refused = history.evaluations.iter().filter(|one| !not_refused.contains(&one.verdict.kind.class()));
    let timed = refused.filter_map(|evaluation| {
        let (time_ns, timed) = mean_time(header, &weights, evaluation)?;
        (time_ns < best_ns).then_some((time_ns, timed, evaluation))
    });
    let mut found: Vec<_> = timed.collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.2.number.cmp(&b.2.number)));
    found
}

fn mean_time(
    header: &StudyHeader,
    weights: &BTreeMap<String, f64>,
    one: &Evaluation,
) -> Option<(f64, usize)> {
    let mode = header.ranking.timing();
    let is_timed = |own: &&Measurement| own.mode == mode && own.p50_ns.is_finite() && own.p50_ns > 0.0;
    let timed = one.measurements.iter().filter(is_timed);
    let timed = timed.filter_map(|own| Some((*weights.get(&own.problem)?, Some(own.p50_ns))));
    if let Some(mean) = geometric_mean(timed.clone()) {
        return Some((mean, timed.count()));
    }
    let time = one.objective_ns.filter(|time| time.is_finite() && *time > 0.0)?;
    Some((time, header.problems.len()))
}

/// Classes of verdicts in charts, few enough to tell apart by color: their names and their words, in the order of legends.
pub const CLASSES: [(VerdictClass, &str, &str); 12] = [
    (VerdictClass::Ok, "ok", "correct"),
    (VerdictClass::Slow, "slow", "too slow"),
    (VerdictClass::Wrong, "wrong", "wrong answer"),
    (VerdictClass::Timing, "timing", "time not believed"),
    (VerdictClass::Crash, "crash", "crash"),
    (VerdictClass::Hang, "hang", "hang"),
    (VerdictClass::Launch, "launch", "launch refused"),
    (VerdictClass::Compile, "compile", "compile error"),
    (VerdictClass::Reject, "reject", "rejected before compiling"),
    (VerdictClass::PassedOver, "passed", "passed over"),
    (VerdictClass::Noisy, "noisy", "noisy"),
    (VerdictClass::Harness, "harness", "no verdict"),
];

/// The name of a verdict's class in charts.
pub fn chart_class(class: VerdictClass) -> &'static str {
    CLASSES.iter().find(|(known, ..)| *known == class).map_or("harness", |(_, name, _)| name)
}
