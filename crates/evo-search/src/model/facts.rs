//! Whether a compiled variant is worth running, judged by what the compiler reported about it.
//!
//! A forest over the features of the space and the compiled facts learns logarithms of times. A variant is passed over
//! only if its expected time, less several standard deviations, still lies beyond a margin of the best. The
//! observations come from a search that avoids slow variants, so the forest's rejections are audited: some rejected
//! variants are run all the same, and each audit that proves the forest wrong makes it more careful.

use std::collections::HashSet;
use std::sync::Arc;

use evo_protocol::evaluation::Facts;
use evo_space::genome::Genome;
use evo_space::sample::seeded;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::features::Features;
use super::forest::{Forest, ForestOptions};
use crate::model::ModelPrediction;
use crate::model::matrix::ColumnScale;

/// Before the first variant is passed over. This and the next numbers were set on 2026-11-21.
const OBSERVATIONS_MIN: usize = 30;

/// A variant is passed over only if it is expected to take more than this many times the best.
const MARGIN: f64 = 1.5;

/// Standard deviations below the expected value that must still lie beyond the margin.
const SPREADS: f64 = 2.0;

/// What an audit adds to these deviations if the variant was good after all, and takes back if it was slow.
/// One wrong rejection weighs as much as eight right ones, because it may lose the optimum.
const SPREADS_FOR_WRONG: f64 = 1.0;
const SPREADS_FOR_RIGHT: f64 = 0.125;

/// One in this many variants that would be passed over is run all the same.
const AUDIT: u32 = 16;

/// In natural logarithms of time: leaves of one member have no deviation.
const SPREAD_MIN: f64 = 0.05;

const FORGETTING: f64 = 0.05;

/// Stands for a fact that is not known; below all known values.
const UNKNOWN: f64 = -1.0;

#[derive(Debug)]
pub struct FactsModel {
    features: Arc<Features>,
    scales: [ColumnScale; Facts::COUNT],
    forest: Forest,
    rng: ChaCha8Rng,
    /// Running mean of squared errors over predicted variances: above 1 if the model is overconfident.
    surprise: f64,
    spreads: f64,
    audits: HashSet<Genome>,
}

impl FactsModel {
    pub fn new(features: impl Into<Arc<Features>>) -> FactsModel {
        let features = features.into();
        let scales = scales();
        let all: Vec<ColumnScale> = features.scales().iter().chain(&scales).cloned().collect();
        FactsModel {
            features,
            scales,
            forest: Forest::new(ForestOptions::extra_trees(), all.into()),
            rng: seeded(0),
            surprise: 1.0,
            spreads: SPREADS,
            audits: HashSet::new(),
        }
    }

    pub fn observations(&self) -> usize {
        self.forest.observations()
    }

    /// `best` is the best objective so far, this one included. Objectives that are not finite and positive are ignored.
    pub fn learn(&mut self, genome: &Genome, facts: &Facts, objective: f64, best: f64) {
        // An audited variant without a time settles nothing, and must not be settled later.
        let audited = self.audits.remove(genome);
        if !(objective.is_finite() && objective > 0.0) {
            return;
        }
        if audited && objective <= best * MARGIN {
            self.spreads += SPREADS_FOR_WRONG;
        } else if audited {
            // Right rejections never make the model bolder than at the start.
            self.spreads = (self.spreads - SPREADS_FOR_RIGHT).max(SPREADS);
        }
        let row = self.row(genome, facts);
        // Scored before it is learned. The first predictions of a small forest would only distort the mean.
        if self.observations() >= OBSERVATIONS_MIN / 2 {
            let expected = self.predict_row(&row);
            let z = (objective.ln() - expected.mean) / expected.spread;
            // Bounded at 5 standard deviations: one outlier shows that there are outliers, not how large
            // the next is.
            self.surprise += FORGETTING * ((z * z).min(25.0) - self.surprise);
        }
        self.forest.add(&row, objective.ln(), &mut self.rng);
    }

    /// Predicts the natural logarithm of a compiled variant's time.
    pub fn predict(&self, genome: &Genome, facts: &Facts) -> ModelPrediction {
        let raw = self.predict_row(&self.row(genome, facts));
        // Errors only widen the spread. A run of lucky predictions must not make the model bolder.
        ModelPrediction { mean: raw.mean, spread: raw.spread * self.surprise.max(1.0).sqrt() }
    }

    /// Whether a variant is to run. One that does not seem worth it is audited by chance.
    pub fn judge(&mut self, genome: &Genome, facts: &Facts, best: f64, rng: &mut ChaCha8Rng) -> bool {
        // On the host most facts are unknown; without any there is nothing to judge by beyond the parameters.
        if self.observations() < OBSERVATIONS_MIN
            || facts.is_empty()
            || would_run(self.predict(genome, facts), best, self.spreads)
        {
            return true;
        }
        let is_audited = rng.random_ratio(1, AUDIT);
        if is_audited {
            self.audits.insert(genome.clone());
        }
        is_audited
    }

    fn row(&self, genome: &Genome, facts: &Facts) -> Vec<u16> {
        let mut row = self.features.code_row(genome);
        let value = |(value, name): (Option<f64>, &str)| match value {
            Some(value) if name.ends_with("_bytes") => (value.max(0.0) + 1.0).log2(),
            value => value.unwrap_or(UNKNOWN),
        };
        let values = facts.values().into_iter().zip(Facts::NAMES).map(value);
        row.extend(values.zip(&self.scales).map(|(value, scale)| scale.code(value)));
        row
    }

    fn predict_row(&self, row: &[u16]) -> ModelPrediction {
        let expected = self.forest.predict_codes(row);
        ModelPrediction { mean: expected.mean, spread: expected.spread.max(SPREAD_MIN) }
    }
}

/// Not if even `spreads` standard deviations below the expected logarithm of its time it takes more than `MARGIN` times
/// the best. Without a best, or with a prediction of NaN, it may.
fn would_run(expected: ModelPrediction, best: f64, spreads: f64) -> bool {
    let optimistic = expected.mean - spreads * expected.spread;
    let is_beyond = optimistic > best.ln() + MARGIN.ln();
    !is_beyond || best <= 0.0
}

/// Fixed, so that the forest can grow by one observation at a time.
fn scales() -> [ColumnScale; Facts::COUNT] {
    Facts::NAMES.map(|name| {
        // The steps, and how many there are in a unit.
        let (steps, per_unit) = match name {
            // Of a thread: whole numbers.
            "registers" => (256, 1),
            // Resident warps over the device's maximum: 64 or, on some devices, 48; 192 is the least common multiple.
            "occupancy" => (192, 192),
            // Bytes up to 4 GB, in steps of a sixteenth of a doubling.
            _ => (32 * 16, 16),
        };
        let known = (0..=steps).map(|step| f64::from(step) / f64::from(per_unit));
        ColumnScale::new(std::iter::once(UNKNOWN).chain(known).collect())
    })
}

#[cfg(test)]
mod tests {
    //! The model of compiled facts on an invented kernel whose registers explain a cliff.

    use std::collections::HashSet;

    use evo_space::space::SearchSpace;

    use super::*;
    use crate::conformance::space_of;

    fn space() -> SearchSpace {
        let values = (0..16).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
        space_of(&format!("[parameters]\nA = [{values}]\nB = [{values}]\nC = [{values}]\n"))
    }

    /// Registers that no product of parameters explains, as those of a real compiler.
    fn registers(genome: &Genome) -> f64 {
        let [a, b, c] = [0, 1, 2].map(|slot| u64::from(genome.positions()[slot]));
        16.0 + ((a * 131 + b * 71 + c * 37) * 2_654_435_761 / 1024 % 200) as f64
    }

    fn facts(genome: &Genome) -> Facts {
        let registers = registers(genome);
        Facts {
            registers: Some(registers),
            binary_bytes: Some(4096.0 + 16.0 * registers),
            ..Facts::default()
        }
    }

    /// Smooth in two parameters, four times as long where `slow` says so.
    fn time(genome: &Genome, slow: bool) -> f64 {
        let [a, b] = [0, 1].map(|slot| f64::from(genome.positions()[slot]));
        let smooth = 1000.0 * (1.0 + 0.02 * (a - 5.0).abs() + 0.02 * (b - 9.0).abs());
        if slow { 4.0 * smooth } else { smooth }
    }

    fn is_beyond_the_cliff(genome: &Genome) -> bool {
        registers(genome) > 128.0
    }

    fn trained(space: &SearchSpace, count: usize, facts: fn(&Genome) -> Facts) -> (FactsModel, f64) {
        let mut model = FactsModel::new(Features::new(space));
        let mut best = f64::INFINITY;
        for genome in space.sample_distinct(count, &mut seeded(4)) {
            let objective = time(&genome, is_beyond_the_cliff(&genome));
            best = best.min(objective);
            model.learn(&genome, &facts(&genome), objective, best);
        }
        (model, best)
    }

    /// Of a model that learned 120 points: the share of the slow ones that are passed over, how many of the best twentieth
    /// are, and the share of audits.
    fn passed_over(facts: fn(&Genome) -> Facts) -> [f64; 3] {
        let space = space();
        let (mut model, best) = trained(&space, 120, facts);
        let mut all: Vec<Genome> = space.iter().collect();
        let objective = |genome: &Genome| time(genome, is_beyond_the_cliff(genome));
        all.sort_by(|a, b| objective(a).total_cmp(&objective(b)));
        let fastest: HashSet<&Genome> = all.iter().take(all.len() / 20).collect();
        let (mut rng, mut counts, mut slow) = (seeded(5), [0.0; 3], 0.0);
        for genome in &all {
            let passed = f64::from(u8::from(!model.judge(genome, &facts(genome), best, &mut rng)));
            let is_slow = f64::from(u8::from(is_beyond_the_cliff(genome)));
            slow += is_slow;
            counts[0] += passed * is_slow;
            counts[1] += if fastest.contains(genome) { passed } else { 0.0 };
        }
        counts[2] = model.audits.len() as f64;
        [counts[0] / slow, counts[1], counts[2] / (counts[2] + counts[0]).max(1.0)]
    }

    #[test]
    fn a_cliff_of_registers_is_seen_before_running_and_the_best_are_run() {
        let [bad, good, audited] = passed_over(facts);
        assert!(bad > 0.6, "only {bad} of the slow ones are passed over");
        assert_eq!(good, 0.0, "points of the best twentieth are passed over");
        assert!((0.03..0.1).contains(&audited), "{audited} of those that seem slow are audited");
    }

    #[test]
    fn without_the_fact_that_explains_nearly_everything_is_run() {
        let [bad, good, _] = passed_over(|_| Facts { stack_bytes: Some(0.0), ..Facts::default() });
        assert!(bad < 0.05 && good == 0.0, "{bad} {good}");
    }

    #[test]
    fn it_says_nothing_of_what_it_has_not_seen() {
        let space = space();
        let (mut model, best) = trained(&space, OBSERVATIONS_MIN - 1, facts);
        let runs_all = |model: &mut FactsModel, facts: fn(&Genome) -> Facts| {
            let mut rng = seeded(6);
            space.iter().all(|genome| model.judge(&genome, &facts(&genome), best, &mut rng))
                && model.audits.is_empty()
        };
        assert!(runs_all(&mut model, facts), "too few observations");
        let (mut model, _) = trained(&space, 120, facts);
        assert!(runs_all(&mut model, |_| Facts::default()), "no facts");
        let before = model.observations();
        for bad in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            model.learn(&space.default_genome(), &Facts::default(), bad, best);
        }
        assert_eq!(model.observations(), before);
        let mut rng = seeded(7);
        for best in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            let genome = space.default_genome();
            assert!(model.judge(&genome, &facts(&genome), best, &mut rng), "best {best}");
        }
        assert!(model.audits.is_empty());
    }

    /// A model that learned the cliff from a world that is gone: the audits tell it, and it stops.
    #[test]
    fn audits_teach_a_model_that_is_wrong() {
        let space = space();
        let (mut model, best) = trained(&space, 120, facts);
        let mut rng = seeded(8);
        let mut passed = [0; 4];
        let unseen = space.sample_distinct(2000, &mut seeded(9));
        for (step, genome) in unseen.iter().enumerate() {
            if model.judge(genome, &facts(genome), best, &mut rng) {
                model.learn(genome, &facts(genome), time(genome, false), best);
            } else {
                passed[step / 500] += 1;
            }
        }
        assert!(passed[0] > 20, "{passed:?}");
        assert!(passed[3] < passed[0] / 4, "{passed:?}");
        assert!(model.spreads > SPREADS, "no audit was wrong");
    }

    #[test]
    fn the_rule_needs_the_margin_and_the_spreads() {
        let check = |times: f64, spread: f64, expected: bool| {
            let prediction = ModelPrediction { mean: (100.0 * times).ln(), spread };
            assert_eq!(would_run(prediction, 100.0, 2.0), expected, "{times} {spread}");
        };
        check(1.4, 0.0, true);
        check(1.6, 0.0, false);
        check(1.6, 0.1, true);
        check(2.0, 0.1, false);
        check(2.0, 0.2, true);
        check(f64::NAN, 0.1, true);
    }
}
