//! The whole insight into a study: the best, the values without success, the operators, and the parts that
//! have files of their own.

use std::collections::BTreeMap;

use evo_protocol::evaluation::{Evaluation, Expectation};
use evo_space::space::SearchSpace;
use evo_space::value::Value;
use serde::{Deserialize, Serialize};

use super::baseline::{RandomSearch, random_search};
use super::calibration::{ModelCalibration, calibration};
use super::dead::{DeadParameter, dead};
use super::importance::{Importance, importance};
use super::micro::micro;
use super::observation::{Fate, Observation, observations};
use crate::micro::MicroAgreement;

/// What a study says beyond its winner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Insight {
    /// Evaluations that say something about the kernel: all but the ones that failed by our own trouble and
    /// the ones that were not run.
    pub evaluations: usize,
    /// Evaluations among them that are correct and measured.
    pub passing: usize,
    /// The best measured evaluation; `None` if nothing passed.
    pub best: Option<Best>,
    /// Which parameters decided the time; `None` if there is too little to learn from.
    pub importance: Option<Importance>,
    /// Values that some valid point has and no evaluation had, by parameter.
    pub untried: Vec<Values>,
    /// Values that were tried and never passed, by parameter.
    pub never_passed: Vec<Values>,
    /// Parameters that change neither the machine code nor the launches.
    #[serde(default)]
    pub dead: Vec<DeadParameter>,
    /// How random search would have done; `None` if there is too little to learn from.
    pub random: Option<RandomSearch>,
    /// How good the model's expectations were; `None` if no proposal came from a model.
    pub calibration: Option<ModelCalibration>,
    /// Whether a cheap ranking that the search began with holds here; `None` if it began with none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro: Option<MicroAgreement>,
    /// What each operator contributed, by name.
    pub operators: BTreeMap<String, OperatorCounts>,
}

/// The best evaluation of the screening, and when it came. Confirmation may choose another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// The evaluation's number.
    pub number: u64,
    /// Its measured time, nanoseconds.
    pub objective_ns: f64,
    /// The operator that proposed it.
    pub origin: String,
    /// What the model expected of it, if a model was asked.
    pub expected: Option<Expectation>,
    /// How many verdicts it took, its own included.
    pub after_evaluations: usize,
    /// The share of all compile and device time that was spent by then, 0 to 1; `None` if no time was booked.
    pub after_cost_share: Option<f64>,
}

/// Some values of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Values {
    /// The parameter's name.
    pub parameter: String,
    /// The values, in the order of the space.
    pub values: Vec<Value>,
}

/// What an operator of the strategy contributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorCounts {
    /// Evaluations that it proposed.
    pub evaluations: usize,
    /// Evaluations among them that are correct and measured.
    pub passing: usize,
    /// How often it found a new best.
    pub improvements: usize,
}

impl Insight {
    /// Computes the insight from evaluations in the order of their verdicts. `seed` seeds the models' draws.
    pub fn of(space: &SearchSpace, evaluations: &[Evaluation], seed: u64) -> Insight {
        let known = observations(space, evaluations);
        let measured = known.iter().filter(|one| matches!(one.fate, Fate::Measured(_)));
        let (never_tried, never_passed) = untried(space, &known);
        Insight {
            evaluations: known.len(),
            passing: measured.count(),
            best: best(&known),
            importance: importance(space, &known, seed),
            untried: never_tried,
            never_passed,
            dead: dead(space.parameters().iter().map(|parameter| &*parameter.name), &known),
            random: random_search(space, &known, seed),
            calibration: calibration(&known),
            micro: micro(evaluations),
            operators: operators(&known),
        }
    }
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

/// Values of valid points that were never tried, and values that were tried and never passed.
fn untried(space: &SearchSpace, known: &[Observation<'_>]) -> (Vec<Values>, Vec<Values>) {
    let mut all = (Vec::new(), Vec::new());
    for (slot, positions) in space.effective_domains().into_iter().enumerate() {
        let parameter = &space.parameters()[slot];
        let (mut tried, mut passed) =
            (vec![false; parameter.values.len()], vec![false; parameter.values.len()]);
        for one in known {
            let position = usize::from(one.genome.positions()[slot]);
            tried[position] = true;
            // A variant that was given up as slow was correct as far as it was checked.
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

fn operators(known: &[Observation<'_>]) -> BTreeMap<String, OperatorCounts> {
    let (mut all, mut best) = (BTreeMap::<String, OperatorCounts>::new(), f64::INFINITY);
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
