//! Two models that err differently learn the same observations: extremely randomized trees, which see products and
//! quotients of parameters and fit cliffs of any shape, and a Gaussian process, which is smooth and whose uncertainty
//! grows with the distance from what was measured. Their expected improvements are averaged, with more weight on the
//! process. A third model learns which points fail. All of them learn one observation at a time, in the order of tells.

use std::sync::Arc;

use evo_protocol::evaluation::Expectation;
use evo_space::genome::Genome;
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use rand_chacha::ChaCha8Rng;

use crate::evolve::encoder::Encoder;
use crate::evolve::observations::Observations;
use crate::evolve::process_member::ProcessMember;
use crate::model::acquisition::{expected_improvement, expected_improvements};
use crate::model::features::Features;
use crate::model::forest::{Forest, ForestOptions};
use crate::model::validity::ValidityModel;
use crate::model::{ModelPrediction, mixed};
use crate::strategy::PriorStudy;

/// More outcomes at once, as after a resume, are learned together: growing the forest once is then faster.
const BULK: usize = 64;

/// With no more than this in flight, all of it is taken back before an outcome is learned and taken in anew after it.
/// With more, what is measured is exchanged with the rest, the same to rounding and in a fraction of the time.
const FEW: usize = 8;

/// One in this many features is tried at a node: as good as all of them and three times as fast (2026-11-21).
const FEATURES_SHARE: usize = 3;

/// In a larger pool, updating the trees' predictions takes most of a proposal's time, so fewer trees are
/// grown (2026-11-21; times in docs/SEARCH.md).
const LARGE_POOL: usize = 1 << 16;
const TREES_OF_LARGE_POOL: usize = 12;

/// Weight of the trees where both models choose. It was 0.5 until 2026-11-21; of the weights tried, 0.2 was
/// best for the first fifty proposals and as good as any later.
const TREES_WEIGHT: f64 = 0.2;

/// Candidates without a pool that the process predicts, the best by the trees: each takes `O(n²)` time.
const SHORT_LIST: usize = 48;

/// Points that are more likely to fail are never chosen by the models, only at random (see `at_risk`).
const HOPELESS: f64 = 0.9;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Lesson {
    Time(f64),
    Failure,
    /// Nothing about the point, as when it was passed over.
    Nothing,
}

#[derive(Clone, Debug)]
pub(crate) struct ToldPoint {
    pub(crate) genome: Genome,
    pub(crate) lesson: Lesson,
    /// Its place among the points in flight that the models have taken in, the outcomes before it apart.
    pub(crate) place: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judges {
    All,
    Trees,
    Process,
}

#[derive(Debug)]
pub(crate) struct Ensemble {
    encoder: Encoder,
    observations: Observations,
    forest: Forest,
    process: ProcessMember,
    validity: ValidityModel,
    failed: Vec<Genome>,
    seed: u64,
    learned: u64,
    pool: usize,
}

impl Ensemble {
    pub(crate) fn new(
        space: &SearchSpace,
        pool: Option<&[Genome]>,
        prior: &[PriorStudy],
        seed: u64,
    ) -> Ensemble {
        let encoder = Encoder::new(space, prior, seed);
        let mut options = ForestOptions {
            features_at_node: Some(encoder.scales.len().div_ceil(FEATURES_SHARE)),
            ..ForestOptions::extra_trees()
        };
        if pool.is_some_and(|pool| pool.len() > LARGE_POOL) {
            options.trees = TREES_OF_LARGE_POOL;
        }
        let mut forest = Forest::new(options, Arc::clone(&encoder.scales));
        let mut validity = ValidityModel::new(Arc::clone(&encoder.scales));
        if let Some(pool) = pool {
            let codes = Arc::new(encoder.codes(pool));
            forest.watch(Arc::clone(&codes));
            validity.watch(codes);
        }
        // With a pool of 131,072 points and 20 features the rows take 20 MB.
        let rows = pool.map(|pool| encoder.process_matrix(pool));
        Ensemble {
            process: ProcessMember::new(encoder.process_columns(), rows),
            encoder,
            observations: Observations::default(),
            forest,
            validity,
            failed: Vec::new(),
            seed,
            learned: 0,
            pool: pool.map_or(0, <[Genome]>::len),
        }
    }

    pub(crate) fn features(&self) -> &Arc<Features> {
        &self.encoder.features
    }

    pub(crate) fn best(&self) -> Option<f64> {
        self.observations.best
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.observations.len() >= 2
    }

    #[cfg(test)]
    pub(crate) fn observations(&self) -> (usize, usize) {
        (self.observations.len(), self.process.in_flight())
    }

    pub(crate) fn learn(&mut self, outcomes: &[ToldPoint]) {
        if self.process.flight() <= FEW || outcomes.len() > BULK {
            self.process.land();
        }
        match outcomes.len() > BULK {
            true => self.learn_together(outcomes),
            false => outcomes.iter().for_each(|told| self.learn_told(told)),
        }
        self.process.relaunch();
    }

    fn learn_told(&mut self, told: &ToldPoint) {
        let ToldPoint { genome, lesson, place } = told;
        if *lesson == Lesson::Nothing {
            return self.abandon(*place);
        }
        // As slow times, failures would make the models of time see cliffs where the fastest variants may be.
        let mut rng = self.turn();
        let codes = self.encoder.code_row(genome);
        self.learn_validity(genome, &codes, *lesson == Lesson::Failure, &mut rng);
        match lesson {
            Lesson::Time(objective) => self.learn_one((genome, *place), &codes, *objective, &mut rng),
            _ => self.abandon(*place),
        }
    }

    fn abandon(&mut self, place: Option<usize>) {
        place.into_iter().for_each(|place| self.process.abandon(place));
    }

    pub(crate) fn launch(&mut self, genomes: &[Genome]) {
        if !genomes.is_empty() {
            let rows = self.encoder.process_matrix(genomes);
            self.process.launch(rows.iter());
        }
    }

    #[cfg(test)]
    pub(crate) fn relaunch(&mut self) {
        self.process.land();
        self.process.relaunch();
    }

    pub(crate) fn expect(&self, genome: &Genome) -> ModelPrediction {
        let trees = self.forest.predict_codes(&self.encoder.code_row(genome));
        match self.process.predict(&self.encoder.process_row(genome)) {
            Some((process, _)) => mixed(&[trees, process], &self.weights(Judges::All)),
            None => trees,
        }
    }

    /// The prediction in units of the objective, with the probability to fail. The interval is one standard
    /// deviation of the target wide on each side.
    pub(crate) fn expectation(&self, genome: &Genome) -> Expectation {
        let ModelPrediction { mean, spread } = self.expect(genome);
        let codes = self.encoder.code_row(genome);
        Expectation {
            objective_ns: self.observations.objective(mean),
            low_ns: self.observations.objective(mean - spread),
            high_ns: self.observations.objective(mean + spread),
            risk: self.risk_of(&codes),
        }
    }

    pub(crate) fn risk(&self, genome: &Genome) -> f64 {
        self.risk_of(&self.encoder.code_row(genome))
    }

    fn risk_of(&self, codes: &[u16]) -> f64 {
        if self.failed.is_empty() { 0.0 } else { self.validity.failure(codes) }
    }

    /// Expected improvement, reduced by the probability to fail, and negative if the point is almost sure to fail.
    /// Targets are 0 at the best, so 0 is the value to improve.
    pub(crate) fn worth_of_pool(&self, judges: Judges, worth: &mut Vec<f64>) {
        // Not predictions: one model that sees a chance is enough to look.
        let [trees, process] = self.weights(judges);
        let shares = self.shares_of_pool();
        let of_trees = self.forest.watched().enumerate();
        let of_trees = of_trees.map(|(place, expected)| narrowed(expected, shares.get(place)));
        expected_improvements(of_trees, 0.0, worth);
        worth.resize(self.pool, 0.0);
        if process > 0.0 {
            let (mut places, mut improvements) = (Vec::new(), Vec::new());
            let predictions = self.process.screened().map(|(place, prediction)| {
                places.push(place);
                narrowed(prediction, shares.get(place))
            });
            expected_improvements(predictions, 0.0, &mut improvements);
            worth.iter_mut().for_each(|worth| *worth *= trees);
            places.iter().zip(&improvements).for_each(|(place, gain)| worth[*place] += process * gain);
        }
        if !self.failed.is_empty() {
            let risks = self.validity.watched();
            worth.iter_mut().zip(risks).for_each(|(worth, risk)| *worth = at_risk(*worth, risk));
        }
    }

    /// The worth of measuring each of some points. The process predicts only the trees' short list.
    pub(crate) fn worth_of(&self, points: &[Genome], judges: Judges) -> Vec<f64> {
        let [trees, process] = self.weights(judges);
        let codes: Vec<Vec<u16>> = points.iter().map(|genome| self.encoder.code_row(genome)).collect();
        let mut worth: Vec<f64> =
            codes.iter().map(|codes| expected_improvement(self.forest.predict_codes(codes), 0.0)).collect();
        if process > 0.0 {
            let mut order: Vec<usize> = (0..points.len()).collect();
            order.sort_by(|a, b| worth[*b].total_cmp(&worth[*a]).then(a.cmp(b)));
            worth.iter_mut().for_each(|worth| *worth *= trees);
            for at in order.into_iter().take(SHORT_LIST) {
                if let Some((now, then)) = self.process.predict(&self.encoder.process_row(&points[at])) {
                    let share = if now.spread > 0.0 { then.spread / now.spread } else { 1.0 };
                    let of_trees = narrowed(self.forest.predict_codes(&codes[at]), Some(&share));
                    worth[at] = trees * expected_improvement(of_trees, 0.0)
                        + process * expected_improvement(then, 0.0);
                }
            }
        }
        if !self.failed.is_empty() {
            let risks = codes.iter().map(|codes| self.validity.failure(codes));
            worth.iter_mut().zip(risks).for_each(|(worth, risk)| *worth = at_risk(*worth, risk));
        }
        worth
    }

    /// The share of each point's spread that is left once the points in flight are measured; empty if there are
    /// none, and 1 for points that the process does not screen.
    fn shares_of_pool(&self) -> Vec<f64> {
        if self.process.in_flight() == 0 {
            return Vec::new();
        }
        let mut shares = vec![1.0; self.pool];
        self.process.remaining().for_each(|(place, variance)| shares[place] = variance.sqrt());
        shares
    }

    fn weights(&self, judges: Judges) -> [f64; 2] {
        match judges {
            _ if !self.process.is_ready() => [1.0, 0.0],
            Judges::Trees => [1.0, 0.0],
            Judges::Process => [0.0, 1.0],
            Judges::All => [TREES_WEIGHT, 1.0 - TREES_WEIGHT],
        }
    }

    /// Seeded by the number of outcomes before it, so that a resumed search learns with the same numbers.
    fn turn(&mut self) -> ChaCha8Rng {
        self.learned += 1;
        seeded(self.seed ^ self.learned.wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    fn learn_validity(&mut self, genome: &Genome, codes: &[u16], fails: bool, rng: &mut ChaCha8Rng) {
        if fails {
            // Until the first failure there is nothing to tell apart, so the model of failures stays empty
            // and takes no time. It then catches up with all points that worked.
            if self.failed.is_empty() {
                let worked = self.encoder.codes(self.observations.objectives.keys());
                self.validity.learn(worked, &vec![false; self.observations.len()], rng);
            }
            self.failed.push(genome.clone());
        }
        if !self.failed.is_empty() {
            self.validity.add(codes, fails, rng);
        }
    }

    fn learn_one(
        &mut self,
        (genome, place): (&Genome, Option<usize>),
        codes: &[u16],
        objective: f64,
        rng: &mut ChaCha8Rng,
    ) {
        let row = self.encoder.process_row(genome);
        let is_new = self.observations.put(genome, objective);
        let targets = self.observations.targets();
        if self.observations.take_stale() {
            // The best or the scale changed, and with it every target. Only leaf means and whitened targets depend on
            // that.
            let old = &targets[..targets.len() - usize::from(is_new)];
            self.forest.retarget(old);
            self.process.retarget(old);
        }
        if is_new {
            let target = targets[targets.len() - 1];
            self.forest.add(codes, target, rng);
            self.process.push(&row, place);
        } else {
            self.abandon(place);
        }
        self.learn_process(&targets, rng);
    }

    fn learn_process(&mut self, targets: &[f64], rng: &mut ChaCha8Rng) {
        // The lower confidence bound at two standard deviations keeps points in the screen that are uncertain and may be
        // good.
        let promise =
            || self.forest.watched().map(|expected| expected.mean - 2.0 * expected.spread).collect();
        self.process.learn(targets, promise, rng);
    }

    fn learn_together(&mut self, outcomes: &[ToldPoint]) {
        // The count goes on as if each outcome had been learned by itself, as in an uninterrupted search.
        let mut rng = self.turn();
        let taught = outcomes.iter().filter(|told| told.lesson != Lesson::Nothing).count();
        self.learned += (taught as u64).saturating_sub(1);
        for ToldPoint { genome, lesson, place } in outcomes {
            match lesson {
                Lesson::Time(objective) if self.observations.put(genome, *objective) => {
                    self.process.push(&self.encoder.process_row(genome), *place);
                    continue;
                }
                Lesson::Failure => self.failed.push(genome.clone()),
                Lesson::Time(_) | Lesson::Nothing => {}
            }
            self.abandon(*place);
        }
        self.observations.take_stale();
        let targets = self.observations.targets();
        let genomes = self.observations.objectives.keys();
        self.forest.learn(self.encoder.codes(genomes.clone()), &targets, &mut rng);
        if !self.failed.is_empty() {
            let all = self.encoder.codes(genomes.chain(&self.failed));
            let fails: Vec<bool> = (0..all.rows()).map(|row| row >= targets.len()).collect();
            self.validity.learn(all, &fails, &mut rng);
        }
        self.process.retarget(&targets);
        self.learn_process(&targets, &mut rng);
    }
}

fn narrowed(prediction: ModelPrediction, share: Option<&f64>) -> ModelPrediction {
    ModelPrediction { spread: prediction.spread * share.copied().unwrap_or(1.0), ..prediction }
}

/// Multiplied by the square of the chance to work, and negative if the risk is above `HOPELESS`: a factor alone is not
/// enough. Once the best is found, the expected improvement around it is tiny, while in a region where everything fails
/// the process stays uncertain.
fn at_risk(worth: f64, risk: f64) -> f64 {
    if risk > HOPELESS { -1.0 } else { worth * (1.0 - risk) * (1.0 - risk) }
}
