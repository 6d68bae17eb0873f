//! What a model of the evaluations expects of points that were never tried.
//!
//! The model is the forest of the importance, on all measured points: it learns the logarithm of the time, and its mean
//! and spread of a point become a time with an interval. It does not depend on the strategy, which may have no model.

use std::collections::HashSet;

use evo_protocol::evaluation::Evaluation;
use evo_space::Neighborhood;
use evo_space::genome::{Configuration, Genome};
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;

use super::importance::forest;
use super::observation::{ENOUGH, Observation, observations, thinned};
use crate::model::features::Features;

/// Most observations that are learned from; it bounds the time that this takes.
const MOST: usize = 600;
/// Most points that are all candidates.
const LISTED: u128 = 1 << 12;
/// Points that are drawn from a larger space.
const DRAWN: usize = 1 << 11;
/// How many of the fastest points add their neighbors to those.
const ELITE: usize = 8;

/// A point that was never tried, and its expected time.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpectedPoint {
    /// The point.
    pub configuration: Configuration,
    /// Nanoseconds: the middle of what is expected.
    pub objective_ns: f64,
    /// One standard deviation below, nanoseconds.
    pub low_ns: f64,
    /// One standard deviation above, nanoseconds.
    pub high_ns: f64,
}

/// Up to `most` points that no evaluation had, the one that is expected to be fastest first; none where there is too
/// little to learn from. Of a large space a sample is looked at, with the neighbors of the fastest points. `seed` seeds
/// the model's draws.
pub fn expected_points(
    space: &SearchSpace,
    evaluations: &[Evaluation],
    seed: u64,
    most: usize,
) -> Vec<ExpectedPoint> {
    let known = observations(space, evaluations);
    let mut points: Vec<(&Genome, f64)> =
        known.iter().filter_map(|one| Some((&one.genome, one.log_time()?))).collect();
    if points.len() < ENOUGH {
        return Vec::new();
    }
    points = thinned(points, MOST);
    let (genomes, targets): (Vec<&Genome>, Vec<f64>) = points.into_iter().unzip();
    let mut rng = seeded(seed);
    let features = Features::new(space);
    let forest = forest(&features, features.codes(genomes), &targets, &mut rng);
    let mut expected: Vec<(ExpectedPoint, Genome)> = untried(space, evaluations, &known, seed)
        .into_iter()
        .map(|genome| {
            let own = forest.predict_codes(&features.code_row(&genome));
            let point = ExpectedPoint {
                configuration: space.configuration(&genome),
                objective_ns: own.mean.exp(),
                low_ns: (own.mean - own.spread).exp(),
                high_ns: (own.mean + own.spread).exp(),
            };
            (point, genome)
        })
        .collect();
    // Of equal times the earlier point of the space, so that the same study gives the same list.
    expected.sort_by(|(a, one), (b, other)| {
        a.objective_ns.total_cmp(&b.objective_ns).then_with(|| one.positions().cmp(other.positions()))
    });
    expected.into_iter().take(most).map(|(point, _)| point).collect()
}

/// Points to look at: of no evaluation, whatever became of it.
fn untried(
    space: &SearchSpace,
    evaluations: &[Evaluation],
    known: &[Observation<'_>],
    seed: u64,
) -> Vec<Genome> {
    let mut seen: HashSet<Genome> =
        evaluations.iter().filter_map(|one| space.genome(&one.configuration)).collect();
    let mut candidates: Vec<Genome> = match space.is_exact() && space.count() <= LISTED {
        true => space.iter().collect(),
        false => space.sample_distinct(DRAWN, &mut seeded(seed)),
    };
    let mut fastest: Vec<&Observation<'_>> = known.iter().filter(|one| one.log_time().is_some()).collect();
    fastest.sort_by(|a, b| a.log_time().unwrap_or(f64::MAX).total_cmp(&b.log_time().unwrap_or(f64::MAX)));
    for one in fastest.into_iter().take(ELITE) {
        candidates.extend(space.iter_neighbors(&one.genome, Neighborhood::Hamming));
    }
    candidates.retain(|genome| seen.insert(genome.clone()));
    candidates
}
