//! The models of a search and what they believe together.
//!
//! Two models that fail differently learn the same observations: extremely randomized trees, which see
//! products and quotients of parameters and take cliffs of any shape, and a Gaussian process, which is
//! smooth and knows how far it is from what it has seen. Both are heard, the process more. A
//! third model learns what fails. All learn one observation at a time, in the order of tells.

use std::sync::Arc;

use evo_protocol::evaluation::Expectation;
use evo_space::genome::Genome;
use evo_space::rng::seeded;
use evo_space::space::SearchSpace;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::encoder::Encoder;
use super::ingredients::Ingredients;
use super::process_member::ProcessMember;
use super::record::Record;
use crate::model::acquisition::{expected_improvement, expected_improvements};
use crate::model::features::Features;
use crate::model::forest::{Forest, ForestOptions};
use crate::model::validity::ValidityModel;
use crate::model::{Prediction, mixed};
use crate::prior::PriorStudy;

/// More outcomes than this at once are learned together, as after a resume.
const BULK: usize = 64;

/// One in so many features is tried at a node: as good as all, and three times as fast.
const FEATURES_SHARE: usize = 3;

/// Beyond so many points of a pool, keeping up what the trees say of each takes most of a proposal's time, and
/// fewer trees are grown.
const LARGE_POOL: usize = 1 << 16;
const TREES_OF_LARGE_POOL: usize = 12;

/// Weight of the trees where both judge: of what was tried, best for the first fifty proposals and no worse
/// later.
const TREES_WEIGHT: f64 = 0.2;

/// Beliefs are taken back together, once they are one in so many of all points: that means learning anew.
const WITHDRAWN_SHARE: usize = 16;

/// Points that the process looks at, of those that the trees like best, where there is no pool.
const SHORT_LIST: usize = 48;

/// The risk above which a point is left to chance.
const HOPELESS: f64 = 0.9;

/// Who judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judges {
    All,
    Trees,
    Process,
}

/// Models that have learned the same outcomes.
#[derive(Debug)]
pub struct Ensemble {
    ingredients: Ingredients,
    encoder: Encoder,
    record: Record,
    forest: Forest,
    process: ProcessMember,
    validity: ValidityModel,
    /// Which points failed, in order.
    failed: Vec<Genome>,
    /// Points that were believed in and never measured, to be forgotten.
    withdrawn: Vec<Genome>,
    seed: u64,
    /// Outcomes learned.
    learned: u64,
    /// Points of the pool.
    pool: usize,
}

impl Ensemble {
    /// Knows nothing; keeps what it believes of the points of `pool` up to date.
    pub fn new(
        space: &SearchSpace,
        pool: Option<&[Genome]>,
        ingredients: Ingredients,
        prior: &[PriorStudy],
        seed: u64,
    ) -> Ensemble {
        let encoder = Encoder::new(space, ingredients, prior, seed);
        let mut options = ForestOptions {
            features_at_node: Some(encoder.scales().len().div_ceil(FEATURES_SHARE)),
            ..ForestOptions::extra_trees()
        };
        if pool.is_some_and(|pool| pool.len() > LARGE_POOL) {
            options.trees = TREES_OF_LARGE_POOL;
        }
        let mut forest = Forest::new(options, Arc::clone(encoder.scales()));
        let mut validity = ValidityModel::new(Arc::clone(encoder.scales()));
        if let Some(pool) = pool {
            let codes = Arc::new(encoder.codes(pool));
            forest.watch(Arc::clone(&codes));
            validity.watch(codes);
        }
        let rows = pool.filter(|_| ingredients.process).map(|pool| encoder.process_matrix(pool));
        Ensemble {
            process: ProcessMember::new(encoder.process_columns(), rows),
            ingredients,
            encoder,
            record: Record::new(ingredients.squeeze),
            forest,
            validity,
            failed: Vec::new(),
            withdrawn: Vec::new(),
            seed,
            learned: 0,
            pool: pool.map_or(0, <[Genome]>::len),
        }
    }

    /// The features of the space.
    pub fn features(&self) -> &Arc<Features> {
        self.encoder.features()
    }

    /// The best objective that was measured.
    pub fn best(&self) -> Option<f64> {
        self.record.best()
    }

    /// Whether its beliefs rest on anything.
    pub fn is_ready(&self) -> bool {
        self.record.len() >= 2 && (self.ingredients.trees || self.process.is_ready())
    }

    /// Points that worked, measured or believed.
    #[cfg(test)]
    pub fn observations(&self) -> usize {
        self.record.len()
    }

    /// Learns outcomes: a point and its objective, none if it failed.
    pub fn learn(&mut self, outcomes: &[(Genome, Option<f64>)]) {
        if outcomes.len() > BULK {
            return self.learn_together(outcomes);
        }
        for (genome, objective) in outcomes {
            let mut rng = self.turn();
            let codes = self.encoder.code_row(genome);
            self.learn_validity(genome, &codes, objective.is_none(), &mut rng);
            if let Some(objective) = objective {
                self.learn_one(genome, &codes, *objective, true, &mut rng);
            }
        }
    }

    /// Takes what it expects of a point in flight for a measurement, until that comes.
    pub fn believe(&mut self, genome: &Genome) {
        let objective = self.record.objective(self.expect(genome).mean);
        let codes = self.encoder.code_row(genome);
        let mut rng = self.turn();
        self.learn_one(genome, &codes, objective, false, &mut rng);
    }

    /// Takes back the belief in a point that was not measured: it failed, or was not run.
    pub fn withdraw(&mut self, genome: Genome) {
        self.withdrawn.push(genome);
        if self.withdrawn.len() * WITHDRAWN_SHARE < self.record.len() {
            return;
        }
        let mut rng = self.turn();
        self.record.remove(&std::mem::take(&mut self.withdrawn));
        self.record.take_stale();
        let (genomes, targets) = (self.record.genomes(), self.record.targets());
        if self.ingredients.trees {
            self.forest.learn(self.encoder.codes(genomes), &targets, None, &mut rng);
        }
        if self.ingredients.process {
            self.process.relearn(self.encoder.process_matrix(genomes), &targets, &mut rng);
        }
    }

    /// What it expects of a point, as a target.
    pub fn expect(&self, genome: &Genome) -> Prediction {
        let trees = self.forest.predict_codes(&self.encoder.code_row(genome));
        match self.process.predict(&self.encoder.process_row(genome)) {
            Some(process) => mixed(&[trees, process], &self.weights(Judges::All)),
            None => trees,
        }
    }

    /// The same in units of the objective, with the probability to fail.
    pub fn expectation(&self, genome: &Genome) -> Expectation {
        let Prediction { mean, spread } = self.expect(genome);
        let codes = self.encoder.code_row(genome);
        Expectation {
            objective_ns: self.record.objective(mean),
            low_ns: self.record.objective(mean - spread),
            high_ns: self.record.objective(mean + spread),
            risk: self.risk_of(&codes),
        }
    }

    /// How likely a point is to fail.
    pub fn risk(&self, genome: &Genome) -> f64 {
        self.risk_of(&self.encoder.code_row(genome))
    }

    fn risk_of(&self, codes: &[u16]) -> f64 {
        let is_known = self.ingredients.validity && !self.failed.is_empty();
        if is_known { self.validity.failure(codes) } else { 0.0 }
    }

    /// The worth of measuring each point of the pool: the expected improvement, less where it may fail and
    /// negative where it surely will.
    pub fn worth_of_pool(&self, judges: Judges, worth: &mut Vec<f64>) {
        let [trees, process] = self.weights(judges);
        expected_improvements(self.forest.watched(), 0.0, worth);
        worth.resize(self.pool, 0.0);
        if process > 0.0 {
            let (mut places, mut improvements) = (Vec::new(), Vec::new());
            let predictions = self.process.screened().map(|(place, prediction)| {
                places.push(place);
                prediction
            });
            expected_improvements(predictions, 0.0, &mut improvements);
            if places.len() < worth.len() {
                // What is not screened did not look good.
                worth.iter_mut().for_each(|worth| *worth *= trees);
                places.iter().zip(&improvements).for_each(|(place, own)| worth[*place] += process * own);
            } else {
                let both = worth.iter_mut().zip(&improvements);
                both.for_each(|(worth, own)| *worth = trees * *worth + process * own);
            }
        }
        if self.ingredients.validity && !self.failed.is_empty() {
            let risks = self.validity.watched();
            worth.iter_mut().zip(risks).for_each(|(worth, risk)| *worth = at_risk(*worth, risk));
        }
    }

    /// The worth of measuring each of some points; the process looks at the short list of the trees only.
    pub fn worth_of(&self, points: &[Genome], judges: Judges) -> Vec<f64> {
        let [trees, process] = self.weights(judges);
        let codes: Vec<Vec<u16>> = points.iter().map(|genome| self.encoder.code_row(genome)).collect();
        let mut worth: Vec<f64> =
            codes.iter().map(|codes| expected_improvement(self.forest.predict_codes(codes), 0.0)).collect();
        if process > 0.0 {
            let mut order: Vec<usize> = (0..points.len()).collect();
            order.sort_by(|a, b| worth[*b].total_cmp(&worth[*a]).then(a.cmp(b)));
            worth.iter_mut().for_each(|worth| *worth *= trees);
            for at in order.into_iter().take(SHORT_LIST) {
                if let Some(own) = self.process.predict(&self.encoder.process_row(&points[at])) {
                    worth[at] += process * expected_improvement(own, 0.0);
                }
            }
        }
        if self.ingredients.validity && !self.failed.is_empty() {
            let risks = codes.iter().map(|codes| self.validity.failure(codes));
            worth.iter_mut().zip(risks).for_each(|(worth, risk)| *worth = at_risk(*worth, risk));
        }
        worth
    }

    /// The weights of trees and process.
    fn weights(&self, judges: Judges) -> [f64; 2] {
        let Ingredients { trees, process, .. } = self.ingredients;
        match (judges, trees, process && self.process.is_ready()) {
            (_, _, false) => [1.0, 0.0],
            (_, false, true) | (Judges::Process, ..) => [0.0, 1.0],
            (Judges::Trees, ..) => [1.0, 0.0],
            _ => [TREES_WEIGHT, 1.0 - TREES_WEIGHT],
        }
    }

    /// Whatever is learned at a turn is learned with the same numbers after a resume.
    fn turn(&mut self) -> ChaCha8Rng {
        self.learned += 1;
        seeded(self.seed ^ self.learned.wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    fn learn_validity(&mut self, genome: &Genome, codes: &[u16], fails: bool, rng: &mut ChaCha8Rng) {
        if fails {
            if self.failed.is_empty() {
                let worked = self.encoder.codes(self.record.genomes());
                self.validity.learn(worked, &vec![false; self.record.len()], rng);
            }
            self.failed.push(genome.clone());
        }
        if !self.failed.is_empty() {
            self.validity.add(codes, fails, rng);
        }
    }

    fn learn_one(
        &mut self,
        genome: &Genome,
        codes: &[u16],
        objective: f64,
        is_measured: bool,
        rng: &mut ChaCha8Rng,
    ) {
        let row = self.encoder.process_row(genome);
        let is_new = self.record.put(genome, objective, is_measured);
        let targets = self.record.targets();
        if self.record.take_stale() {
            let old = &targets[..targets.len() - usize::from(is_new)];
            if self.ingredients.trees {
                self.forest.retarget(old);
            }
            self.process.retarget(old);
        }
        if is_new {
            let target = targets[targets.len() - 1];
            if self.ingredients.trees {
                self.forest.add(codes, target, 1.0, rng);
            }
            if self.ingredients.process {
                self.process.push(&row);
            }
        }
        self.learn_process(&targets, rng);
    }

    fn learn_process(&mut self, targets: &[f64], rng: &mut ChaCha8Rng) {
        if self.ingredients.process {
            let forest = &self.forest;
            let pool = self.pool;
            let promise = |rng: &mut ChaCha8Rng| -> Vec<f64> {
                let promise: Vec<f64> =
                    forest.watched().map(|expected| expected.mean - 2.0 * expected.spread).collect();
                if promise.is_empty() { (0..pool).map(|_| rng.random()).collect() } else { promise }
            };
            self.process.learn(targets, promise, rng);
        }
    }

    fn learn_together(&mut self, outcomes: &[(Genome, Option<f64>)]) {
        let mut rng = self.turn();
        self.learned += outcomes.len() as u64 - 1;
        for (genome, objective) in outcomes {
            match objective {
                None => self.failed.push(genome.clone()),
                Some(objective) => {
                    if self.record.put(genome, *objective, true) {
                        self.process.push(&self.encoder.process_row(genome));
                    }
                }
            }
        }
        self.record.take_stale();
        let targets = self.record.targets();
        let genomes = self.record.genomes();
        if self.ingredients.trees {
            self.forest.learn(self.encoder.codes(genomes), &targets, None, &mut rng);
        }
        if !self.failed.is_empty() {
            let all = self.encoder.codes(genomes.iter().chain(&self.failed));
            let fails: Vec<bool> = (0..all.rows()).map(|row| row >= genomes.len()).collect();
            self.validity.learn(all, &fails, &mut rng);
        }
        self.process.retarget(&targets);
        self.learn_process(&targets, &mut rng);
    }
}

/// The worth of a point that may fail: less the higher the risk, and negative where there is no hope.
///
/// A factor alone would not do: once the best is found, what a process expects of the points around it
/// is so little that the promise of a region where all fails and nothing is known is above it times any factor.
fn at_risk(worth: f64, risk: f64) -> f64 {
    if risk > HOPELESS { -1.0 } else { worth * (1.0 - risk) * (1.0 - risk) }
}
