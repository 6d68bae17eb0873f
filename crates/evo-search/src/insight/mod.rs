//! What a finished study says beyond its winner. Everything follows from the evaluations, the space and a seed,
//! whatever strategy proposed the points, so the same journal gives the same result. Parts that rest on too few
//! evaluations are left out.

mod baseline;
mod importance;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use evo_protocol::evaluation::{Evaluation, Expectation};
use evo_protocol::verdict::VerdictClass;
use evo_space::genome::Genome;
use evo_space::space::SearchSpace;
use evo_space::value::Value;
use serde::{Deserialize, Serialize};

use crate::insight::baseline::random_search;
use crate::insight::importance::importance;
use crate::seeded::counted_time;
use crate::strategy::Origin;

pub use crate::insight::baseline::{Basis, RandomSearch, RandomStep};
pub use crate::insight::importance::{ExpectedPoint, Importance, ParameterShare, expected_points};
pub use crate::seeded::MicroAgreement;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Insight {
    /// All but the ones that failed by our own trouble and the ones that were not run.
    pub evaluations: usize,
    pub passing: usize,
    pub best: Option<Best>,
    pub importance: Option<Importance>,
    /// Values that some valid point has and no evaluation had, by parameter.
    pub untried: Vec<Values>,
    pub never_passed: Vec<Values>,
    #[serde(default)]
    pub dead: Vec<DeadParameter>,
    pub random: Option<RandomSearch>,
    /// How good the model's expectations were; `None` if no proposal came from a model.
    pub calibration: Option<ModelCalibration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro: Option<MicroAgreement>,
    pub operators: BTreeMap<String, OperatorCounts>,
}

/// The best evaluation of the screening, and when it came. Confirmation may choose another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    pub number: u64,
    pub objective_ns: f64,
    pub origin: String,
    pub expected: Option<Expectation>,
    /// How many verdicts it took, its own included.
    pub after_evaluations: usize,
    /// The share of all compile and device time that was spent by then, 0 to 1; `None` if no time was booked.
    pub after_cost_share: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Values {
    pub parameter: String,
    pub values: Vec<Value>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorCounts {
    pub evaluations: usize,
    pub passing: usize,
    pub improvements: usize,
}

impl Insight {
    /// Computes the insight from evaluations in the order of their verdicts. `seed` seeds the models' draws.
    pub fn of(space: &SearchSpace, evaluations: &[Evaluation], seed: u64) -> Insight {
        let known = observations(space, evaluations);
        let (never_tried, never_passed) = untried(space, &known);
        Insight {
            evaluations: known.len(),
            passing: known.iter().filter_map(Observation::measured).count(),
            best: best(&known),
            importance: importance(space, &known, seed),
            untried: never_tried,
            never_passed,
            dead: dead(space, &known),
            random: random_search(space, &known, seed),
            calibration: calibration(&known),
            micro: micro(evaluations),
            operators: operators(&known),
        }
    }
}

fn best(known: &[Observation<'_>]) -> Option<Best> {
    let measured = known.iter().enumerate().filter_map(|(at, one)| Some((one.measured()?, at)));
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
        if let Some(time) = one.measured() {
            operator.passing += 1;
            operator.improvements += usize::from(time < best);
            best = best.min(time);
        }
    }
    all
}

/// Fewest measured evaluations that a model learns from; with fewer, the parts that need one are left out.
pub const ENOUGH: usize = 20;

struct Observation<'a> {
    genome: Genome,
    evaluation: &'a Evaluation,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Measured(f64),
    /// Correct as far as it was checked, and given up because it takes longer than this, nanoseconds.
    Beyond(f64),
    Failed,
}

impl Observation<'_> {
    fn measured(&self) -> Option<f64> {
        if let Fate::Measured(time) = self.fate { Some(time) } else { None }
    }

    /// Natural logarithm of the time, or of the lower bound that is known of it.
    fn log_time(&self) -> Option<f64> {
        match self.fate {
            Fate::Measured(time) | Fate::Beyond(time) => Some(time.ln()),
            Fate::Failed => None,
        }
    }
}

/// The evaluations that say something about the kernel, in their order. Left out are those that failed
/// by our own trouble, those that were not run, and points that the space no longer holds.
fn observations<'a>(space: &SearchSpace, evaluations: &'a [Evaluation]) -> Vec<Observation<'a>> {
    let fate = |one: &Evaluation| {
        let time = one.objective_ns.filter(|time| time.is_finite() && *time > 0.0);
        match (one.verdict.kind.class(), time) {
            (VerdictClass::Harness | VerdictClass::PassedOver, _) => None,
            (VerdictClass::Ok, Some(time)) => Some(Fate::Measured(time)),
            // A race measures as well as a full measurement does; a screening stops as soon as it can.
            (VerdictClass::Slow, Some(time)) if one.is_raced() => Some(Fate::Measured(time)),
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

/// Points with the logarithms of their times, for a model to learn from; `None` if there are too few.
fn timed<'o>(known: &'o [Observation<'_>]) -> Option<Vec<(&'o Genome, f64)>> {
    let points = known.iter().filter_map(|one| Some((&one.genome, one.log_time()?)));
    Some(points.collect::<Vec<_>>()).filter(|points| points.len() >= ENOUGH)
}

fn thinned<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let count = all.len();
    // The scaled position steps up `most` times, at equal distances.
    let keeps = |at: usize| count <= most || at * most / count != (at + 1) * most / count;
    all.into_iter().enumerate().filter(|(at, _)| keeps(*at)).map(|(_, one)| one).collect()
}

/// Fewer pairs say little, since a parameter may matter in one branch of the source alone.
const PAIRS_MIN: usize = 3;

/// A parameter without effect: whichever of its values is taken, the machine code and the launches are the
/// same. Either the source does not read it, or the compiler makes the same of all values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeadParameter {
    pub parameter: String,
    pub pairs: usize,
}

fn dead(space: &SearchSpace, known: &[Observation<'_>]) -> Vec<DeadParameter> {
    // What was refused before it compiled has no code, and says nothing here.
    let built: Vec<&Observation<'_>> =
        known.iter().filter(|one| one.evaluation.code_hash.is_some()).collect();
    let dead = space.parameters().iter().enumerate().filter_map(|(slot, parameter)| {
        let pairs = equal_pairs(slot, &built)?;
        (pairs >= PAIRS_MIN).then(|| DeadParameter { parameter: parameter.name.to_string(), pairs })
    });
    dead.collect()
}

/// How many pairs differ in one parameter alone; `None` where a pair has different code or launches.
fn equal_pairs(slot: usize, built: &[&Observation<'_>]) -> Option<usize> {
    // By all other positions: the variant that ran for the first of a group, and the size of the group.
    let mut groups: HashMap<Vec<u16>, (u64, usize)> = HashMap::new();
    for one in built {
        let mut others = one.genome.positions().to_vec();
        others.remove(slot);
        // Equal code alone is not enough: a parameter may decide the launches. The engine takes a variant for
        // another's twin only where both are equal.
        let ran = one.evaluation.duplicate_of.unwrap_or(one.evaluation.number);
        let group = groups.entry(others).or_insert((ran, 0));
        if group.0 != ran {
            return None;
        }
        group.1 += 1;
    }
    Some(groups.values().map(|(_, size)| size * (size - 1) / 2).sum())
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelCalibration {
    pub expected: usize,
    pub measured: usize,
    /// The share of measured evaluations inside the interval of one spread: 0.68 if spreads are right,
    /// less if the model is overconfident. `None` if nothing was measured.
    pub inside: Option<f64>,
    /// The median factor, up or down, between the measured time and the expected one.
    pub typical_factor: Option<f64>,
    pub risk_expected: f64,
    pub risk_came: f64,
}

fn calibration(known: &[Observation<'_>]) -> Option<ModelCalibration> {
    let all: Vec<_> = known.iter().filter_map(|one| Some((one.evaluation.expected?, one.fate))).collect();
    if all.is_empty() {
        return None;
    }
    let count = all.len() as f64;
    let mut inside = 0;
    let mut misses = Vec::new();
    for (expected, fate) in &all {
        if let Fate::Measured(time) = fate {
            inside += usize::from((expected.low_ns..=expected.high_ns).contains(time));
            let miss = (time / expected.objective_ns).ln().abs();
            // An expected time that is not positive is off by an infinite factor.
            misses.push(if miss.is_nan() { f64::INFINITY } else { miss });
        }
    }
    misses.sort_by(f64::total_cmp);
    let typical = misses.get(misses.len() / 2).map(|miss| miss.exp());
    let failed = all.iter().filter(|(_, fate)| *fate == Fate::Failed).count() as f64;
    Some(ModelCalibration {
        expected: all.len(),
        measured: misses.len(),
        inside: (!misses.is_empty()).then(|| inside as f64 / misses.len() as f64),
        typical_factor: typical.filter(|factor| factor.is_finite()),
        risk_expected: all.iter().map(|(expected, _)| expected.risk).sum::<f64>() / count,
        risk_came: failed / count,
    })
}

/// `None` where nothing was proposed from a ranking. Its configurations are proposed in its order, so their numbers
/// tell their places.
fn micro(evaluations: &[Evaluation]) -> Option<MicroAgreement> {
    let own: Vec<&Evaluation> = evaluations.iter().filter(|one| one.origin == Origin::MICRO.0).collect();
    let time = |one: &&Evaluation| {
        let place = own.iter().filter(|other| other.number < one.number).count();
        Some((place, counted_time(one.verdict.kind.class(), one.objective_ns)?))
    };
    let outcomes: Vec<(usize, f64)> = own.iter().filter_map(time).collect();
    (!own.is_empty()).then(|| MicroAgreement::of(&outcomes))
}
