//! How likely a variant is to fail, learned from variants that failed and variants that did not.
//!
//! A forest learns 0 and 1; its mean estimates the probability. Trees that are grown to single members are sure after
//! one failure, so the estimate is shrunk toward the overall rate of failures with the weight of one observation (the
//! m-estimate of Cestnik 1990; Provost and Domingos, "Tree induction for probability-based ranking", 2003).

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;

use super::forest::{Forest, ForestOptions};
use crate::model::matrix::{Codes, Scales};

/// One variant in twenty is expected to fail, and one measurement counts as much as this assumption (2026-11-21).
const PRIOR_FAILURES: f64 = 0.05;
const PRIOR_OBSERVATIONS: f64 = 1.0;

/// The weight of the overall rate against the forest, in observations.
const RATE_WEIGHT: f64 = 1.0;

#[derive(Debug)]
pub struct ValidityModel {
    forest: Forest,
    failures: usize,
}

impl ValidityModel {
    /// 16 trees, half of what the model of times has, to save time.
    pub fn new(scales: Scales) -> ValidityModel {
        let options = ForestOptions { trees: 16, min_split: 2, ..ForestOptions::extra_trees() };
        ValidityModel { forest: Forest::new(options, scales), failures: 0 }
    }

    pub fn watch(&mut self, points: Arc<Codes>) {
        self.forest.watch(points);
    }

    pub fn learn(&mut self, codes: Codes, failed: &[bool], rng: &mut ChaCha8Rng) {
        let targets: Vec<f64> = failed.iter().map(|failed| f64::from(u8::from(*failed))).collect();
        self.failures = failed.iter().filter(|failed| **failed).count();
        self.forest.learn(codes, &targets, rng);
    }

    pub fn add(&mut self, row: &[u16], failed: bool, rng: &mut ChaCha8Rng) {
        self.failures += usize::from(failed);
        self.forest.add(row, f64::from(u8::from(failed)), rng);
    }

    fn rate(&self) -> f64 {
        let observations = self.forest.observations() as f64;
        (self.failures as f64 + PRIOR_FAILURES) / (observations + PRIOR_OBSERVATIONS)
    }

    pub fn failure(&self, row: &[u16]) -> f64 {
        self.calibrated(self.forest.predict_codes(row).mean)
    }

    pub fn watched(&self) -> impl ExactSizeIterator<Item = f64> + '_ {
        self.forest.watched().map(|prediction| self.calibrated(prediction.mean))
    }

    fn calibrated(&self, mean: f64) -> f64 {
        let observations = self.forest.observations() as f64;
        let drawn = (mean * observations + self.rate() * RATE_WEIGHT) / (observations + RATE_WEIGHT);
        drawn.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use evo_space::sample::seeded;

    use super::*;
    use crate::model::matrix::ColumnScale;

    fn scales() -> Scales {
        (0..3).map(|_| ColumnScale::new((0..10).map(f64::from).collect())).collect()
    }

    #[test]
    fn nothing_seen_and_no_failure_seen_are_nearly_safe() {
        let mut model = ValidityModel::new(scales());
        assert!(model.failure(&[1, 2, 3]) < 0.06);
        let mut rng = seeded(1);
        (0..20).for_each(|step| model.add(&[step % 10, step / 2, 3], false, &mut rng));
        let safe = model.failure(&[1, 2, 3]);
        assert!(safe > 0.0 && safe < 0.005, "{safe}");
    }

    #[test]
    fn a_region_that_fails_is_learned_and_so_is_its_border() {
        let mut model = ValidityModel::new(scales());
        let all = Codes::of_rows(3, (0..1000).map(|at| vec![at % 10, at / 10 % 10, at / 100]));
        let fails = |row: &[u16]| row[0] >= 6 && row[2] < 5;
        model.watch(Arc::new(all.clone()));
        let mut rng = seeded(2);
        for step in 0..120usize {
            let row = all.row(step * 397 % 1000);
            model.add(&row, fails(&row), &mut rng);
        }
        let watched: Vec<f64> = model.watched().collect();
        let right = (0..1000).filter(|at| (watched[*at] > 0.5) == fails(&all.row(*at))).count();
        assert!(right > 930, "{right} of 1000");
        assert!((watched[5] - model.failure(&all.row(5))).abs() < 1e-9);
    }

    #[test]
    fn where_all_fails_the_probability_is_high_and_below_one() {
        let mut model = ValidityModel::new(scales());
        model.learn(Codes::of_rows(3, (0..10).map(|at| vec![at; 3])), &[true; 10], &mut seeded(3));
        let sure = model.failure(&[4, 4, 4]);
        assert!(sure > 0.9 && sure < 1.0, "{sure}");
    }
}
