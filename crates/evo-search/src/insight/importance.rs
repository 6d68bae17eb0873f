//! Which parameters decided the time.
//!
//! Permutation importance (Breiman 2001) on held-out data: a forest learns the logarithm of the time from
//! four fifths of the measured points, on all features of the space, and predicts the rest. Then the values
//! of one parameter at a time are shuffled among the held-out points. The shuffling happens in the genomes,
//! so that every product that contains the parameter changes too. A parameter is as important as the
//! predictions get worse.
//!
//! The result describes the points that were measured. A search looks where variants are fast, and a
//! parameter that it settled early varied too little to show its effect.
//!
//! The same forest, on all measured points, says what to expect of points that were never tried, whatever the strategy.

use std::collections::HashSet;

use evo_protocol::evaluation::Evaluation;
use evo_space::Neighborhood;
use evo_space::genome::{Configuration, Genome};
use evo_space::sample::seeded;
use evo_space::space::{Parameter, SearchSpace};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::insight::{Observation, observations, thinned, timed};
use crate::model::ModelPrediction;
use crate::model::features::Features;
use crate::model::forest::{Forest, ForestOptions};
use crate::model::matrix::Codes;

/// Most observations that are learned from, spread evenly over the study; it bounds the time that this takes.
const MOST: usize = 600;

const FOLDS: usize = 5;

/// Per parameter, about: small studies are shuffled more often, because one shuffle of few points is noisy.
const SHUFFLED: usize = 600;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Importance {
    pub observations: usize,
    /// The share of the variance of log time that the forest explains on held-out points (R²). At 0 or below
    /// it explains nothing, and then the shares mean nothing.
    pub explained: f64,
    /// All parameters, the most important first. Shares sum to 1, or are all 0.
    pub parameters: Vec<ParameterShare>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParameterShare {
    pub name: String,
    pub share: f64,
}

/// Computes the importance; `None` if there are too few observations or all took the same time.
pub(super) fn importance(space: &SearchSpace, known: &[Observation<'_>], seed: u64) -> Option<Importance> {
    let mut points = timed(known)?;
    let observations = points.len();
    let mut rng = seeded(seed);
    points = thinned(points, MOST);
    // Folds are taken by position, so the order of the study, which depends on the search, is shuffled first.
    for at in (1..points.len()).rev() {
        points.swap(at, rng.random_range(0..=at));
    }
    let mean = points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64;
    let scatter: f64 = points.iter().map(|point| (point.1 - mean).powi(2)).sum();
    // Times that differ by rounding only have nothing to explain.
    if scatter <= 1e-12 * points.len() as f64 {
        return None;
    }
    let features = Features::new(space);
    let (mut own, mut shuffled) = (0.0, vec![0.0; space.parameters().len()]);
    let repeats = (SHUFFLED / points.len()).max(1);
    for fold in 0..FOLDS {
        let part = |held: bool| -> (Vec<&Genome>, Vec<f64>) {
            let mine = points.iter().enumerate().filter(|(at, _)| (at % FOLDS == fold) == held);
            mine.map(|(_, point)| *point).unzip()
        };
        let ((genomes, targets), (held, truth)) = (part(false), part(true));
        let forest = forest(&features, features.codes(genomes), &targets, &mut rng);
        let error = squares(&forest, &features.codes(held.iter().copied()), &truth);
        own += error;
        for (slot, sum) in shuffled.iter_mut().enumerate() {
            if held.iter().all(|genome| genome.positions()[slot] == held[0].positions()[slot]) {
                *sum += error;
                continue;
            }
            for _ in 0..repeats {
                let codes = features.codes(with_shuffled(&held, slot, &mut rng));
                *sum += squares(&forest, &codes, &truth) / repeats as f64;
            }
        }
    }
    // A parameter whose shuffling helps by chance has no importance.
    let worse: Vec<f64> = shuffled.iter().map(|sum| (sum - own).max(0.0)).collect();
    let total: f64 = worse.iter().sum();
    let share = |(parameter, worse): (&Parameter, f64)| ParameterShare {
        name: parameter.name.to_string(),
        share: if total > 0.0 { worse / total } else { 0.0 },
    };
    let mut parameters: Vec<ParameterShare> = space.parameters().iter().zip(worse).map(share).collect();
    parameters.sort_by(|a, b| b.share.total_cmp(&a.share));
    Some(Importance { observations, explained: 1.0 - own / scatter, parameters })
}

/// A forest for log times. It tries a third of the features at each node, the usual share for regression
/// (Breiman 2001), which keeps the trees different and the time short.
pub(super) fn forest(features: &Features, codes: Codes, targets: &[f64], rng: &mut ChaCha8Rng) -> Forest {
    let scales = features.scales();
    let options =
        ForestOptions { features_at_node: Some(scales.len().div_ceil(3)), ..ForestOptions::extra_trees() };
    let mut forest = Forest::new(options, scales.clone());
    forest.learn(codes, targets, rng);
    forest
}

fn squares(forest: &Forest, codes: &Codes, truth: &[f64]) -> f64 {
    let rows = truth.iter().enumerate();
    rows.map(|(row, truth)| (forest.predict_codes(&codes.row(row)).mean - truth).powi(2)).sum()
}

fn with_shuffled(points: &[&Genome], slot: usize, rng: &mut ChaCha8Rng) -> Vec<Genome> {
    let mut column: Vec<u16> = points.iter().map(|genome| genome.positions()[slot]).collect();
    for at in (1..column.len()).rev() {
        column.swap(at, rng.random_range(0..=at));
    }
    let with = |(genome, position): (&&Genome, u16)| {
        let mut positions = genome.positions().to_vec();
        positions[slot] = position;
        Genome::from(positions)
    };
    points.iter().zip(column).map(with).collect()
}

const POINTS_MOST: usize = 600;
const LISTED: u128 = 1 << 12;
const DRAWN: usize = 1 << 11;
const ELITE: usize = 8;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExpectedPoint {
    pub configuration: Configuration,
    /// Nanoseconds: the middle of what is expected.
    pub objective_ns: f64,
    /// One standard deviation below, nanoseconds.
    pub low_ns: f64,
    pub high_ns: f64,
}

/// Points that no evaluation had, the one that is expected to be fastest first; none where there is too little to learn
/// from. Of a large space a sample is looked at, with the neighbors of the fastest points.
pub fn expected_points(
    space: &SearchSpace,
    evaluations: &[Evaluation],
    seed: u64,
    most: usize,
) -> Vec<ExpectedPoint> {
    let known = observations(space, evaluations);
    let Some(points) = timed(&known) else { return Vec::new() };
    let (genomes, targets): (Vec<&Genome>, Vec<f64>) = thinned(points, POINTS_MOST).into_iter().unzip();
    let mut rng = seeded(seed);
    let features = Features::new(space);
    let forest = forest(&features, features.codes(genomes), &targets, &mut rng);
    let untried = untried(space, evaluations, &known, seed).into_iter();
    let expected = untried.map(|genome| (forest.predict_codes(&features.code_row(&genome)), genome));
    let mut expected: Vec<(ModelPrediction, Genome)> = expected.collect();
    // Of equal times the earlier point of the space, so that the same study gives the same list.
    expected.sort_by(|(a, one), (b, other)| {
        a.mean.exp().total_cmp(&b.mean.exp()).then_with(|| one.positions().cmp(other.positions()))
    });
    let point = |(own, genome): (ModelPrediction, Genome)| ExpectedPoint {
        configuration: space.configuration(&genome),
        objective_ns: own.mean.exp(),
        low_ns: (own.mean - own.spread).exp(),
        high_ns: (own.mean + own.spread).exp(),
    };
    expected.into_iter().take(most).map(point).collect()
}

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
