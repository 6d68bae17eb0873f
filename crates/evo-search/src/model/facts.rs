//! What compiled facts say of a variant before it runs, and whether it is worth running then.
//!
//! A forest over the features of the space and the facts together learns logarithms of times. It is
//! asked about variants that are compiled already, so a yes costs a run, and a no must be sure: only
//! what is expected beyond a margin of the best, by more spreads than the forest's own errors justify,
//! is passed over. The search that trains it visits what it likes, so the forest is checked where it
//! says no: some of those are run all the same, and each that turns out good makes it more careful.

use std::collections::HashSet;
use std::sync::Arc;

use evo_protocol::facts::Facts;
use evo_space::genome::Genome;
use evo_space::rng::seeded;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::Prediction;
use super::codes::Scale;
use super::features::Features;
use super::forest::{Forest, ForestOptions};

/// Compiled and measured variants before the first no.
const OBSERVATIONS_MIN: usize = 30;

/// Times the best that a variant must be expected to exceed.
pub const MARGIN: f64 = 1.5;

/// Spreads below the expected value that must still lie beyond the margin.
const SPREADS: f64 = 2.0;

/// What a wrong no adds to these, and a right one takes back.
const SPREADS_FOR_WRONG: f64 = 1.0;
const SPREADS_FOR_RIGHT: f64 = 0.125;

/// One in so many that would be passed over is run all the same.
const AUDIT: u32 = 16;

/// Least spread that is believed, in natural logarithms: leaves of one member claim none.
const SPREAD_MIN: f64 = 0.05;

/// Share of the last surprise in the running mean of squared errors.
const FORGETTING: f64 = 0.05;

/// Codes of facts that are bytes: their logarithm to the base 2, in steps of a sixteenth.
const STEPS_PER_DOUBLING: u32 = 16;
const DOUBLINGS: u32 = 32;

/// The code of a fact that is not known lies below all that are.
const UNKNOWN: f64 = -1.0;

/// What to do with a compiled variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgment {
    /// Run it.
    Run,
    /// It is not worth running.
    PassOver,
    /// It does not seem worth running; run it to see whether that is right.
    Audit,
}

impl Judgment {
    /// Whether it is run.
    pub fn runs(self) -> bool {
        self != Judgment::PassOver
    }
}

/// Learns times from features and facts.
#[derive(Debug)]
pub struct FactsModel {
    features: Arc<Features>,
    scales: [Scale; Facts::COUNT],
    forest: Forest,
    rng: ChaCha8Rng,
    /// Mean of squared errors over expected ones: above 1 where spreads are too small.
    surprise: f64,
    spreads: f64,
    audits: HashSet<Genome>,
    audits_wrong: usize,
    audits_right: usize,
}

impl FactsModel {
    /// A model that has seen nothing.
    pub fn new(features: impl Into<Arc<Features>>) -> FactsModel {
        let features = features.into();
        let scales = scales();
        let all: Vec<Scale> = features.scales().iter().chain(&scales).cloned().collect();
        FactsModel {
            features,
            scales,
            forest: Forest::new(ForestOptions::extra_trees(), all.into()),
            rng: seeded(0),
            surprise: 1.0,
            spreads: SPREADS,
            audits: HashSet::new(),
            audits_wrong: 0,
            audits_right: 0,
        }
    }

    /// Number of observations.
    pub fn observations(&self) -> usize {
        self.forest.observations()
    }

    /// Audits that turned out within the margin of the best, and beyond it.
    pub fn audits(&self) -> (usize, usize) {
        (self.audits_wrong, self.audits_right)
    }

    /// Learns a measured variant. `best` is the best objective so far, this one included; times that
    /// are no positive numbers are ignored.
    pub fn learn(&mut self, genome: &Genome, facts: &Facts, objective: f64, best: f64) {
        let audited = self.audits.remove(genome);
        if !(objective.is_finite() && objective > 0.0) {
            return;
        }
        if audited {
            self.settle_audit(objective <= best * MARGIN);
        }
        let row = self.row(genome, facts);
        if self.observations() >= OBSERVATIONS_MIN / 2 {
            let expected = self.predict_row(&row);
            let z = (objective.ln() - expected.mean) / expected.spread;
            // One outlier says that there are outliers, not how large the next one is.
            self.surprise += FORGETTING * ((z * z).min(25.0) - self.surprise);
        }
        self.forest.add(&row, objective.ln(), 1.0, &mut self.rng);
    }

    /// What is expected of a compiled variant: the natural logarithm of its time.
    pub fn predict(&self, genome: &Genome, facts: &Facts) -> Prediction {
        let raw = self.predict_row(&self.row(genome, facts));
        Prediction { mean: raw.mean, spread: raw.spread * self.surprise.max(1.0).sqrt() }
    }

    /// Whether to run a compiled variant, where `best` is the best objective so far.
    pub fn judge(&mut self, genome: &Genome, facts: &Facts, best: f64, rng: &mut ChaCha8Rng) -> Judgment {
        if self.observations() < OBSERVATIONS_MIN || facts.is_empty() {
            return Judgment::Run;
        }
        if would_run(self.predict(genome, facts), best, MARGIN, self.spreads) {
            return Judgment::Run;
        }
        if rng.random_ratio(1, AUDIT) {
            self.audits.insert(genome.clone());
            return Judgment::Audit;
        }
        Judgment::PassOver
    }

    /// Shares of the facts, in the order of `Facts::NAMES`, in the variance that the forest explains; the
    /// rest of 1 is the parameters'.
    pub fn importance(&self) -> [f64; Facts::COUNT] {
        let all = self.forest.importance();
        let own = &all[all.len() - Facts::COUNT..];
        std::array::from_fn(|fact| own[fact])
    }

    fn settle_audit(&mut self, was_wrong: bool) {
        if was_wrong {
            self.audits_wrong += 1;
            self.spreads += SPREADS_FOR_WRONG;
        } else {
            self.audits_right += 1;
            self.spreads = (self.spreads - SPREADS_FOR_RIGHT).max(SPREADS);
        }
    }

    fn row(&self, genome: &Genome, facts: &Facts) -> Vec<u16> {
        let mut row = self.features.code_row(genome);
        let value = |(fact, value): (usize, Option<f64>)| value.map_or(UNKNOWN, |value| scaled(fact, value));
        let values = facts.values().into_iter().enumerate().map(value);
        row.extend(values.zip(&self.scales).map(|(value, scale)| scale.code(value)));
        row
    }

    fn predict_row(&self, row: &[u16]) -> Prediction {
        let expected = self.forest.predict_codes(row);
        Prediction { mean: expected.mean, spread: expected.spread.max(SPREAD_MIN) }
    }
}

/// Whether a variant may be worth its run: not where even `spreads` below the expected logarithm of its
/// time it takes more than `margin` times the best. Without a best, or with an expectation that is no
/// number, everything may.
pub fn would_run(expected: Prediction, best: f64, margin: f64, spreads: f64) -> bool {
    let optimistic = expected.mean - spreads * expected.spread;
    let is_beyond = optimistic > best.ln() + margin.ln();
    !is_beyond || best <= 0.0
}

/// Facts by their place in `Facts::NAMES`: registers and occupancy as they are, bytes by logarithm.
fn scaled(fact: usize, value: f64) -> f64 {
    match Facts::NAMES[fact] {
        "registers" | "occupancy" => value,
        _ => (value.max(0.0) + 1.0).log2(),
    }
}

/// The values that facts are rounded to; fixed, so that the forest can grow one observation at a time.
fn scales() -> [Scale; Facts::COUNT] {
    let grid = |steps: u32, per_unit: u32| -> Vec<f64> {
        let own = (0..=steps).map(|step| f64::from(step) / f64::from(per_unit));
        std::iter::once(UNKNOWN).chain(own).collect()
    };
    std::array::from_fn(|fact| {
        Scale::new(match Facts::NAMES[fact] {
            "registers" => grid(256, 1),
            // Warps of a multiprocessor, at most 64, and 48 on some.
            "occupancy" => grid(192, 192),
            _ => grid(DOUBLINGS * STEPS_PER_DOUBLING, STEPS_PER_DOUBLING),
        })
    })
}

#[cfg(test)]
mod tests;
