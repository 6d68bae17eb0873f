//! What was measured, in the order in which it became known, and the targets that models learn from it.
//!
//! The target is `ln(1 + ln(t / best) / s)`, where `s` is half the median of `ln(t / best)`. Near the best
//! it is proportional to the relative time, far from it it is the logarithm of a logarithm. So a long tail
//! of slow variants does not take resolution away from the fast ones. The median makes this work on a space
//! whose better half lies within 5 % of the best as well as on one where it lies within 500 %, and it
//! shrinks as a search closes in. Until 2026-11-21 `s` was 1. Targets without the outer logarithm cost 0.06
//! of the score (docs/SEARCH.md, `evolve-squeeze`).

use evo_space::genome::Genome;
use indexmap::IndexMap;

/// In natural logarithms of time: a hundredth of a percent, below what timing can tell apart. The largest is 1.
const SCALE_MIN: f64 = 1e-4;

/// It waits for a quarter of all known, because each new scale changes all targets.
const SCALE_PAUSE: usize = 2;

#[derive(Debug, Default)]
pub(crate) struct Observations {
    pub(crate) objectives: IndexMap<Genome, f64>,
    pub(crate) best: Option<f64>,
    /// The distance from the best, in natural logarithms of time, where the outer logarithm begins to bend; 1 at first.
    scale: Option<f64>,
    next_scale: usize,
    stale: bool,
}

impl Observations {
    pub(crate) fn len(&self) -> usize {
        self.objectives.len()
    }

    /// Adds a point, or replaces its objective. Returns whether the point is new.
    pub(crate) fn put(&mut self, genome: &Genome, objective: f64) -> bool {
        if self.best.is_none_or(|best| objective < best) {
            self.best = Some(objective);
            self.stale = true;
        }
        let before = self.objectives.insert(genome.clone(), objective);
        self.stale |= before.is_some();
        if self.stale || self.len() >= self.next_scale {
            self.rescale();
        }
        before.is_none()
    }

    fn rescale(&mut self) {
        let best = self.best.unwrap_or_default();
        let mut distances: Vec<f64> =
            self.objectives.values().map(|objective| distance(*objective, best)).collect();
        let scale = scale_of(&mut distances);
        self.next_scale = self.len() + (self.len() / 4).max(SCALE_PAUSE);
        self.stale |= scale != self.scale();
        self.scale = Some(scale);
    }

    fn scale(&self) -> f64 {
        self.scale.unwrap_or(1.0)
    }

    pub(crate) fn objective(&self, target: f64) -> f64 {
        // The bounds keep the exponentials finite for whatever a model predicts.
        let log = target.clamp(-1.0, 14.0).exp_m1() * self.scale();
        self.best.unwrap_or(1.0).max(f64::MIN_POSITIVE) * log.min(50.0).exp()
    }

    pub(crate) fn targets(&self) -> Vec<f64> {
        let (best, scale) = (self.best.unwrap_or_default(), self.scale());
        self.objectives.values().map(|objective| (distance(*objective, best) / scale).ln_1p()).collect()
    }

    pub(crate) fn take_stale(&mut self) -> bool {
        std::mem::take(&mut self.stale)
    }
}

/// The natural logarithm of the ratio of an objective to the best, at least 0.
pub(crate) fn distance(objective: f64, best: f64) -> f64 {
    let log = |value: f64| value.max(f64::MIN_POSITIVE).ln();
    (log(objective) - log(best)).max(0.0)
}

/// The scale for these distances from the best: half their median.
pub(crate) fn scale_of(distances: &mut [f64]) -> f64 {
    if distances.is_empty() {
        return 1.0;
    }
    let middle = (distances.len() - 1) / 2;
    let (_, median, _) = distances.select_nth_unstable_by(middle, f64::total_cmp);
    (*median / 2.0).clamp(SCALE_MIN, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn genome(gene: u16) -> Genome {
        Genome::from(vec![gene])
    }

    #[test]
    fn targets_are_relative_to_the_best_and_a_point_that_is_told_again_keeps_its_place() {
        let mut record = Observations::default();
        assert!(record.put(&genome(0), 20.0));
        assert!(record.put(&genome(1), 10.0));
        assert!(record.take_stale() && !record.take_stale());
        let targets = record.targets();
        assert!(targets[1] == 0.0 && targets[0] > 0.4);
        assert!((record.objective(targets[0]) - 20.0).abs() < 1e-9);
        assert!(!record.put(&genome(0), 30.0));
        assert!(record.take_stale());
        assert!((record.objective(record.targets()[0]) - 30.0).abs() < 1e-9);
        assert_eq!((record.len(), record.best), (2, Some(10.0)));
    }

    #[test]
    fn objectives_that_are_no_times_give_targets_all_the_same() {
        let mut record = Observations::default();
        for (gene, objective) in [0.0, -3.0, 5.0, f64::MAX].into_iter().enumerate() {
            record.put(&genome(gene as u16), objective);
        }
        assert!(record.targets().iter().all(|target| target.is_finite() && *target >= 0.0));
        assert!(record.objective(f64::MAX).is_finite() && record.objective(-5.0).is_finite());
    }

    #[test]
    fn the_scale_follows_what_was_measured() {
        let spread = |factor: f64| {
            let mut record = Observations::default();
            (0..41u16).for_each(|gene| {
                record.put(&genome(gene), (factor * f64::from(gene)).exp());
            });
            record.targets()
        };
        // The same order at a tenth of the distances looks the same.
        let (wide, narrow) = (spread(0.02), spread(0.002));
        assert!(wide.iter().zip(&narrow).all(|(a, b)| (a - b).abs() < 1e-9));
        assert!((wide[20] - 2f64.ln_1p()).abs() < 0.3, "{}", wide[20]);
        assert!(spread(0.0).iter().all(|target| *target == 0.0));
        assert!(spread(10.0).iter().all(|target| target.is_finite()));
    }
}
