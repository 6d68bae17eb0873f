//! What each constraint removes, which ones leave nothing, and what they link.

use num_bigint::BigUint;
use rand::RngExt;
use rustc_hash::FxHashMap;

use crate::count::RelaxLimits;
use crate::count::problem::Problem;
use crate::index::{Index, Limits, float};
use crate::sample::seeded;
use crate::space::{Constraint, Parameter, SearchSpace, cartesian};
use crate::watch::SpaceWatch;

pub(crate) const STEPS: u64 = 1 << 20;

/// Values tried for the answers about all constraints of a space together.
const ALL_STEPS: u64 = 1 << 26;

/// Random points for a share that is not counted, and for finding points without a value.
const SAMPLES: u64 = 4096;

/// The same where a constraint is so long, or there are so many, that trying all of them would take minutes.
const FEWEST_SAMPLES: u64 = 32;

#[derive(Clone, Debug, PartialEq)]
pub struct Removal {
    /// The share of all points that it refuses, 0 to 1.
    pub share: f64,
    pub exact: bool,
    /// Why it has no value at some point (there it refuses), and at which, if one was met.
    pub failure: Option<String>,
}

impl SearchSpace {
    /// Constraints that are left when `watch` ends the work are sampled with few points.
    pub fn removals(&self, watch: &SpaceWatch) -> Vec<Removal> {
        let share = ALL_STEPS / (self.constraints().len() as u64).max(1);
        let of = |constraint| removal(self.parameters(), constraint, share, watch);
        self.constraints().iter().map(of).collect()
    }

    pub fn shape(&self) -> SpaceShape {
        let sizes = self.index.diagrams.iter().map(|diagram| diagram.slots.len());
        let linked: Vec<usize> = sizes.filter(|parameters| *parameters > 1).collect();
        let largest = linked.iter().copied().max().unwrap_or(0);
        SpaceShape { groups: linked.len(), largest, nodes: self.index.nodes() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceShape {
    pub groups: usize,
    pub largest: usize,
    /// Nodes of all diagrams, those of single parameters too.
    pub nodes: usize,
}

pub(crate) fn removal(
    parameters: &[Parameter],
    constraint: &Constraint,
    steps: u64,
    watch: &SpaceWatch,
) -> Removal {
    // The parameters that it does not read multiply both numbers alike.
    let read: Vec<Parameter> = constraint.parameters.iter().map(|slot| parameters[*slot].clone()).collect();
    let most = if watch.is_over() { FEWEST_SAMPLES } else { SAMPLES };
    let samples = (steps / constraint.expr.size() as u64).clamp(FEWEST_SAMPLES, most);
    let (refused, failure) = try_random_points(&read, constraint, samples);
    let relax = RelaxLimits { steps: 0, trials: 0, edges: 0 };
    let counted = index(&read, &[constraint], Limits { steps: steps.min(STEPS), relax }, watch);
    match counted.filter(Index::is_exact) {
        Some(index) => {
            let all = cartesian(&read);
            Removal { share: ratio(&(&all - &index.total), &all), exact: true, failure }
        }
        None => Removal { share: refused as f64 / samples as f64, exact: false, failure },
    }
}

fn try_random_points(read: &[Parameter], constraint: &Constraint, samples: u64) -> (u64, Option<String>) {
    // A fixed seed, because the same file must get the same message each time.
    let mut rng = seeded(0);
    let (mut refused, mut failure) = (0, None);
    let places: FxHashMap<&str, usize> =
        read.iter().enumerate().map(|(at, parameter)| (&*parameter.name, at)).collect();
    for _ in 0..samples {
        let chosen: Vec<_> =
            read.iter().map(|parameter| rng.random_range(0..parameter.values.len())).collect();
        let lookup = |name: &str| places.get(name).map(|at| read[*at].values[chosen[*at]].clone());
        match constraint.evaluate(&lookup) {
            Ok(holds) => refused += u64::from(!holds),
            Err(error) => {
                refused += 1;
                failure = failure.or_else(|| {
                    let at = read.iter().zip(&chosen).map(|(p, at)| format!("{}={}", p.name, p.values[*at]));
                    Some(format!("{} at {}", error.message, at.collect::<Vec<_>>().join(" ")))
                });
            }
        }
    }
    (refused, failure)
}

/// Each constraint that leaves no point alone, else a set of which every member is needed. Empty if the space is not
/// empty, or too entangled to tell, and where `watch` ended the work.
pub fn conflict(parameters: &[Parameter], constraints: &[Constraint], watch: &SpaceWatch) -> Vec<usize> {
    // A part of the constraints may prove it where all together are too entangled to count.
    let limits = Limits { steps: STEPS, relax: RelaxLimits { trials: 24, ..RelaxLimits::default() } };
    let empty = |chosen: &[usize]| {
        let chosen: Vec<&Constraint> = chosen.iter().map(|at| &constraints[*at]).collect();
        index(parameters, &chosen, limits, watch).is_some_and(|index| index.is_empty())
    };
    let mut needed: Vec<usize> = (0..constraints.len()).collect();
    let alone: Vec<usize> = needed.iter().copied().filter(|at| empty(&[*at])).collect();
    if !alone.is_empty() {
        return alone;
    }
    if !empty(&needed) {
        return Vec::new();
    }
    // The result is minimal, which need not be the smallest set.
    for at in 0..constraints.len() {
        let without: Vec<usize> = needed.iter().copied().filter(|other| *other != at).collect();
        if empty(&without) {
            needed = without;
        }
    }
    // What is left would be called needed although nobody tried to do without it.
    if watch.is_over() { Vec::new() } else { needed }
}

/// `None` where `watch` ended the work.
fn index(
    parameters: &[Parameter],
    constraints: &[&Constraint],
    limits: Limits,
    watch: &SpaceWatch,
) -> Option<Index> {
    let new = || Index::new(&Problem::new(parameters, constraints, watch), limits);
    (!watch.is_over()).then(new).filter(|_| !watch.is_over())
}

/// `part / whole`, for numbers of any size.
pub fn ratio(part: &BigUint, whole: &BigUint) -> f64 {
    // A float holds about 1000 bits; what is cut off does not show.
    let cut = whole.bits().saturating_sub(1000);
    float(&(part >> cut)) / float(&(whole >> cut))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::space;

    #[test]
    fn ratios_of_any_size() {
        let check = |part: BigUint, whole: BigUint, expected: f64| assert_eq!(ratio(&part, &whole), expected);
        let ten = |power: u32| BigUint::from(10u8).pow(power);
        check(BigUint::from(1u8), BigUint::from(3u8), 1.0 / 3.0);
        check(ten(20), ten(40), 1e-20);
        check(ten(1999) * 5u8, ten(2000), 0.5);
        check(BigUint::ZERO, ten(5), 0.0);
    }

    #[test]
    fn groups_are_what_constraints_link() {
        let check = |constraints: &str, groups: usize, largest: usize, nodes: usize| {
            let parameters =
                "parameters = { A = [1, 2, 3], B = [1, 2, 3], C = [1, 2], D = [1, 2], E = [1, 2] }";
            let space = space(&format!("{parameters}\nconstraints = [{constraints}]"));
            assert_eq!(space.shape(), SpaceShape { groups, largest, nodes }, "{constraints}");
        };
        check("", 0, 0, 5);
        check("'A > 1'", 0, 0, 5);
        check("'A == B'", 1, 2, 7);
        check("'A == B', 'C != E'", 2, 2, 8);
        check("'A == B', 'C != A'", 1, 3, 9);
    }
}
