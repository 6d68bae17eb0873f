//! What each constraint removes, and which ones leave nothing.

use num_bigint::BigUint;
use rand::RngExt;

use crate::constraint::Constraint;
use crate::count::problem::Problem;
use crate::count::relax::RelaxLimits;
use crate::index::{Index, Limits};
use crate::parameter::Parameter;
use crate::rng::seeded;
use crate::space::{SearchSpace, cartesian};

/// Values tried for one answer; a constraint that needs more is sampled.
const MAX_STEPS: u64 = 1 << 20;

/// Random points for a share that is not counted, and for finding points without a value.
const SAMPLES: u32 = 4096;

/// What one constraint does on its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Removal {
    /// The share of all points that it refuses, 0 to 1.
    pub share: f64,
    /// Counted, not sampled.
    pub exact: bool,
    /// Why it has no value at some point (there it refuses), and at which, if one was met.
    pub failure: Option<String>,
}

impl SearchSpace {
    /// What each constraint removes on its own, in declared order.
    pub fn removals(&self) -> Vec<Removal> {
        self.constraints().iter().map(|constraint| removal(self.parameters(), constraint)).collect()
    }
}

/// What one constraint removes on its own.
pub(crate) fn removal(parameters: &[Parameter], constraint: &Constraint) -> Removal {
    let (refused, failure) = try_random_points(parameters, constraint);
    match count(parameters, &[constraint]) {
        Some(valid) => {
            let all = cartesian(parameters);
            Removal { share: ratio(&(&all - valid), &all), exact: true, failure }
        }
        None => Removal { share: f64::from(refused) / f64::from(SAMPLES), exact: false, failure },
    }
}

/// How many of the samples are refused, and why and where one has no value.
fn try_random_points(parameters: &[Parameter], constraint: &Constraint) -> (u32, Option<String>) {
    // A fixed seed, because the same file must get the same message each time.
    let mut rng = seeded(0);
    let (mut refused, mut failure) = (0, None);
    for _ in 0..SAMPLES {
        let chosen: Vec<_> = constraint
            .parameters
            .iter()
            .map(|slot| (&parameters[*slot], rng.random_range(0..parameters[*slot].values.len())))
            .collect();
        let lookup = |name: &str| {
            chosen.iter().find(|(parameter, _)| &*parameter.name == name).map(|(p, at)| p.values[*at].clone())
        };
        match constraint.evaluate(&lookup) {
            Ok(holds) => refused += u32::from(!holds),
            Err(error) => {
                refused += 1;
                failure = failure.or_else(|| {
                    let at = chosen.iter().map(|(p, at)| format!("{}={}", p.name, p.values[*at]));
                    Some(format!("{} at {}", error.message, at.collect::<Vec<_>>().join(" ")))
                });
            }
        }
    }
    (refused, failure)
}

/// Positions of constraints that together leave no point: each that does so alone, else a set of
/// which every member is needed. Empty if the space is not
/// empty, or too entangled to tell.
pub fn conflict(parameters: &[Parameter], constraints: &[Constraint]) -> Vec<usize> {
    let empty = |chosen: &[usize]| {
        let chosen: Vec<&Constraint> = chosen.iter().map(|at| &constraints[*at]).collect();
        is_empty(parameters, &chosen)
    };
    let mut needed: Vec<usize> = (0..constraints.len()).collect();
    let alone: Vec<usize> = needed.iter().copied().filter(|at| empty(&[*at])).collect();
    if !alone.is_empty() {
        return alone;
    }
    if !empty(&needed) {
        return Vec::new();
    }
    // Deletion: a constraint without which the rest is still empty is not needed. The result is minimal,
    // which need not be the smallest set.
    for at in 0..constraints.len() {
        let without: Vec<usize> = needed.iter().copied().filter(|other| *other != at).collect();
        if empty(&without) {
            needed = without;
        }
    }
    needed
}

/// The number of points that satisfy the constraints, if that can be told quickly.
fn count(parameters: &[Parameter], constraints: &[&Constraint]) -> Option<BigUint> {
    let index = Index::exact(&Problem::new(parameters, constraints), MAX_STEPS)?;
    Some(index.total().clone())
}

/// Whether it can be proven quickly that no point satisfies the constraints. A part of them may prove
/// it where all together are too entangled to count.
fn is_empty(parameters: &[Parameter], constraints: &[&Constraint]) -> bool {
    let relax = RelaxLimits { trials: 24, ..RelaxLimits::default() };
    Index::new(&Problem::new(parameters, constraints), Limits { steps: MAX_STEPS, relax }).is_empty()
}

/// `part / whole`, for numbers of any size.
pub fn ratio(part: &BigUint, whole: &BigUint) -> f64 {
    // A float holds about 1000 bits; what is cut off does not show.
    let cut = whole.bits().saturating_sub(1000);
    let float = |number: &BigUint| (number >> cut).to_string().parse::<f64>().unwrap_or(f64::INFINITY);
    float(part) / float(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_of_any_size() {
        let check = |part: BigUint, whole: BigUint, expected: f64| assert_eq!(ratio(&part, &whole), expected);
        let ten = |power: u32| BigUint::from(10u8).pow(power);
        check(BigUint::from(1u8), BigUint::from(3u8), 1.0 / 3.0);
        check(ten(20), ten(40), 1e-20);
        check(ten(1999) * 5u8, ten(2000), 0.5);
        check(BigUint::ZERO, ten(5), 0.0);
    }
}
