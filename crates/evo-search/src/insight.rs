//! What a finished study says beyond its winner: which parameters decided the time, what was never
//! tried, when the best came, how random search would have done, and whether the model knew.
//!
//! Everything follows from the evaluations and the space, whatever strategy proposed them, and from a
//! seed, so the same journal gives the same record. Where there is too little to say, nothing is said.

mod baseline;
mod calibration;
mod importance;

use std::collections::BTreeMap;

use evo_protocol::evaluation::{Evaluation, Expectation};
use evo_protocol::verdict::VerdictClass;
use evo_space::genome::Genome;
use evo_space::space::SearchSpace;
use evo_space::value::Value;
use serde::{Deserialize, Serialize};

pub use self::baseline::{Basis, RandomSearch};
pub use self::calibration::Calibration;
pub use self::importance::{Importance, ParameterShare};

/// Passing evaluations below which models say nothing.
pub const ENOUGH: usize = 20;

/// The record of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Insight {
    /// Evaluations that say something about the kernel: all but those that failed by our own trouble and those
    /// that were not run.
    pub evaluations: usize,
    /// Those that are correct and measured.
    pub passing: usize,
    /// None where nothing passed.
    pub best: Option<Best>,
    /// None where there is too little to learn from.
    pub importance: Option<Importance>,
    /// Parameters that have values which some valid point has and no evaluation had.
    pub untried: Vec<Values>,
    /// Parameters that have values which were tried and never passed.
    pub never_passed: Vec<Values>,
    /// None where there is too little to learn from.
    pub random: Option<RandomSearch>,
    /// None where no proposal came from a model.
    pub calibration: Option<Calibration>,
    /// What each operator contributed, by name.
    pub operators: BTreeMap<String, Operator>,
}

/// The best of the screening, and when it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// The evaluation's number.
    pub number: u64,
    pub objective_ns: f64,
    pub origin: String,
    pub expected: Option<Expectation>,
    /// How many verdicts it took, with its own.
    pub after_evaluations: usize,
    /// The share of the time in compilers and on the device that was spent by then; none if no time was booked.
    pub after_cost_share: Option<f64>,
}

/// Some values of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Values {
    pub parameter: String,
    pub values: Vec<Value>,
}

/// What an operator of the strategy contributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operator {
    pub evaluations: usize,
    pub passing: usize,
    /// How often it found a new best.
    pub improvements: usize,
}

/// A told evaluation, as this module needs it.
struct Observation<'a> {
    genome: Genome,
    evaluation: &'a Evaluation,
    fate: Fate,
}

/// What became of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// Measured, nanoseconds.
    Measured(f64),
    /// Correct as far as checked and given up as slower than this.
    Beyond(f64),
    Failed,
}

impl Insight {
    /// The record of evaluations in the order of their verdicts. `seed` decides what models draw.
    pub fn of(space: &SearchSpace, evaluations: &[Evaluation], seed: u64) -> Insight {
        let known = observations(space, evaluations);
        let measured = known.iter().filter(|one| matches!(one.fate, Fate::Measured(_)));
        let (never_tried, never_passed) = untried(space, &known);
        Insight {
            evaluations: known.len(),
            passing: measured.count(),
            best: best(&known),
            importance: importance::importance(space, &known, seed),
            untried: never_tried,
            never_passed,
            random: baseline::random_search(space, &known, seed),
            calibration: calibration::calibration(&known),
            operators: operators(&known),
        }
    }
}

impl Observation<'_> {
    /// Natural logarithm of the time, or of the bound that is known of it.
    fn log_time(&self) -> Option<f64> {
        match self.fate {
            Fate::Measured(time) | Fate::Beyond(time) => Some(time.ln()),
            Fate::Failed => None,
        }
    }
}

fn observations<'a>(space: &SearchSpace, evaluations: &'a [Evaluation]) -> Vec<Observation<'a>> {
    let fate = |one: &Evaluation| {
        let time = one.objective_ns.filter(|time| time.is_finite() && *time > 0.0);
        match (one.verdict.kind.class(), time) {
            (VerdictClass::Harness | VerdictClass::PassedOver, _) => None,
            (VerdictClass::Ok, Some(time)) => Some(Fate::Measured(time)),
            (VerdictClass::Slow, Some(time)) => Some(Fate::Beyond(time)),
            _ => Some(Fate::Failed),
        }
    };
    let told = |evaluation| {
        let fate = fate(evaluation)?;
        Some(Observation { genome: space.genome(&evaluation.configuration)?, evaluation, fate })
    };
    evaluations.iter().filter_map(told).collect()
}

fn best(known: &[Observation<'_>]) -> Option<Best> {
    let measured = known.iter().enumerate().filter_map(|(at, one)| match one.fate {
        Fate::Measured(time) => Some((time, at)),
        _ => None,
    });
    let (objective_ns, at) = measured.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let cost = |part: &[Observation<'_>]| -> f64 {
        part.iter().map(|one| one.evaluation.compile_ms + one.evaluation.device_ms).sum()
    };
    let all = cost(known);
    let evaluation = known[at].evaluation;
    Some(Best {
        number: evaluation.number,
        objective_ns,
        origin: evaluation.origin.clone(),
        expected: evaluation.expected,
        after_evaluations: at + 1,
        after_cost_share: (all > 0.0).then(|| cost(&known[..=at]) / all),
    })
}

/// Values of valid points that nobody tried, and values that were tried and never passed.
fn untried(space: &SearchSpace, known: &[Observation<'_>]) -> (Vec<Values>, Vec<Values>) {
    let mut all = (Vec::new(), Vec::new());
    for (slot, positions) in space.effective_domains().into_iter().enumerate() {
        let parameter = &space.parameters()[slot];
        let (mut tried, mut passed) =
            (vec![false; parameter.values.len()], vec![false; parameter.values.len()]);
        for one in known {
            let position = usize::from(one.genome.positions()[slot]);
            tried[position] = true;
            passed[position] |= one.fate != Fate::Failed;
        }
        let values_where = |keep: &dyn Fn(usize) -> bool| {
            let kept = positions.iter().map(|at| usize::from(*at)).filter(|at| keep(*at));
            let values: Vec<Value> = kept.map(|at| parameter.values[at].clone()).collect();
            (!values.is_empty()).then(|| Values { parameter: parameter.name.to_string(), values })
        };
        all.0.extend(values_where(&|at| !tried[at]));
        all.1.extend(values_where(&|at| tried[at] && !passed[at]));
    }
    all
}

fn operators(known: &[Observation<'_>]) -> BTreeMap<String, Operator> {
    let (mut all, mut best) = (BTreeMap::<String, Operator>::new(), f64::INFINITY);
    for one in known {
        let operator = all.entry(one.evaluation.origin.clone()).or_default();
        operator.evaluations += 1;
        if let Fate::Measured(time) = one.fate {
            operator.passing += 1;
            operator.improvements += usize::from(time < best);
            best = best.min(time);
        }
    }
    all
}

/// At most `most` items, evenly spread over all of them.
fn thinned<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let count = all.len();
    let keeps = |at: usize| count <= most || at * most / count != (at + 1) * most / count;
    all.into_iter().enumerate().filter(|(at, _)| keeps(*at)).map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests;
