//! What was measured, in the order in which it became known, and as targets for models.
//!
//! The target is `ln(1 + ln(t / best) / s)`, where `s` is half the median of `ln(t / best)`: near the best it
//! is the relative time, far from it the logarithm of a logarithm, so that a tail of bad variants does not take
//! the resolution away from the good. A median says where "far" begins on a space whose good half lies within
//! 5 % as well as on one where it lies within 500 %, and it shrinks as a search closes in.
//!
//! Points in flight stand in with what is expected of them (the kriging believer of Ginsbourger, Le Riche and
//! Carraro, 2010), so that several proposals at a time do not all go to the same place.

use std::collections::HashMap;

use evo_space::genome::Genome;

/// The scale is at least this, and at most 1, in natural logarithms of time.
const SCALE_MIN: f64 = 1e-4;

/// Observations before the scale is taken again: a quarter of all, and at least so many.
const SCALE_PAUSE: usize = 2;

/// Points and their objectives, measured or believed.
#[derive(Debug, Default)]
pub struct Record {
    genomes: Vec<Genome>,
    objectives: Vec<f64>,
    places: HashMap<Genome, usize>,
    best: Option<f64>,
    squeezed: bool,
    /// Where near ends and far begins, and from how many points on it is to be taken again.
    scale: f64,
    next_scale: usize,
    /// Whether targets changed since they were last taken.
    stale: bool,
}

impl Record {
    /// Nothing yet. `squeezed` targets are logarithms of logarithms, others logarithms.
    pub fn new(squeezed: bool) -> Record {
        Record { squeezed, scale: 1.0, ..Record::default() }
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.genomes.len()
    }

    /// The points.
    pub fn genomes(&self) -> &[Genome] {
        &self.genomes
    }

    /// The best measured objective.
    pub fn best(&self) -> Option<f64> {
        self.best
    }

    /// Adds a point, or puts a measurement in the place of a belief; returns whether it was added.
    pub fn put(&mut self, genome: &Genome, objective: f64, is_measured: bool) -> bool {
        let is_new = self.place(genome, objective, is_measured);
        if self.squeezed && (self.stale || self.len() >= self.next_scale) {
            self.rescale();
        }
        is_new
    }

    fn place(&mut self, genome: &Genome, objective: f64, is_measured: bool) -> bool {
        if is_measured && self.best.is_none_or(|best| objective < best) {
            self.best = Some(objective);
            self.stale = true;
        }
        if let Some(place) = self.places.get(genome) {
            self.objectives[*place] = objective;
            self.stale = true;
            return false;
        }
        self.places.insert(genome.clone(), self.len());
        self.genomes.push(genome.clone());
        self.objectives.push(objective);
        true
    }

    fn rescale(&mut self) {
        let mut distances: Vec<f64> =
            self.objectives.iter().map(|objective| self.distance(*objective)).collect();
        let scale = scale_of(&mut distances);
        self.next_scale = self.len() + (self.len() / 4).max(SCALE_PAUSE);
        self.stale |= scale != self.scale;
        self.scale = scale;
    }

    /// The natural logarithm of how many times the best an objective is.
    fn distance(&self, objective: f64) -> f64 {
        distance(objective, self.best.unwrap_or(objective))
    }

    /// Takes points away, as when a belief in them turned out to be about what does not run.
    pub fn remove(&mut self, gone: &[Genome]) {
        let kept = std::mem::take(&mut self.genomes).into_iter().zip(std::mem::take(&mut self.objectives));
        let kept = kept.filter(|(genome, _)| !gone.contains(genome));
        (self.genomes, self.objectives) = kept.unzip();
        self.places = self.genomes.iter().cloned().zip(0..).collect();
        self.stale = true;
    }

    /// The target of an objective.
    pub fn target(&self, objective: f64) -> f64 {
        let distance = self.distance(objective);
        if self.squeezed { (distance / self.scale).ln_1p() } else { distance }
    }

    /// The objective of a target.
    pub fn objective(&self, target: f64) -> f64 {
        let log = if self.squeezed { target.clamp(-1.0, 14.0).exp_m1() * self.scale } else { target };
        self.best.unwrap_or(1.0).max(f64::MIN_POSITIVE) * log.min(50.0).exp()
    }

    /// All targets.
    pub fn targets(&self) -> Vec<f64> {
        self.objectives.iter().map(|objective| self.target(*objective)).collect()
    }

    /// Whether targets of older points changed since the last call.
    pub fn take_stale(&mut self) -> bool {
        std::mem::take(&mut self.stale)
    }
}

/// The natural logarithm of how many times the best an objective is, not below 0.
pub fn distance(objective: f64, best: f64) -> f64 {
    let log = |value: f64| value.max(f64::MIN_POSITIVE).ln();
    (log(objective) - log(best)).max(0.0)
}

/// Where far begins for these distances from the best: at half their median.
pub fn scale_of(distances: &mut [f64]) -> f64 {
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
    fn targets_are_relative_to_the_best_and_can_be_turned_back() {
        for squeezed in [false, true] {
            let mut record = Record::new(squeezed);
            assert!(record.put(&genome(0), 20.0, true));
            assert!(record.put(&genome(1), 10.0, true));
            assert!(record.take_stale() && !record.take_stale());
            let targets = record.targets();
            assert!(targets[1] == 0.0 && targets[0] > 0.4);
            assert!((record.objective(targets[0]) - 20.0).abs() < 1e-9);
        }
    }

    #[test]
    fn a_measurement_takes_the_place_of_a_belief() {
        let mut record = Record::new(true);
        record.put(&genome(0), 10.0, true);
        record.take_stale();
        assert!(record.put(&genome(1), 5.0, false));
        assert!(record.targets()[1] == 0.0, "better than the best is as good as it");
        assert!(!record.take_stale(), "a belief is not the best");
        assert!(!record.put(&genome(1), 30.0, true));
        assert!(record.take_stale());
        assert!((record.objective(record.targets()[1]) - 30.0).abs() < 1e-9);
        assert_eq!(record.len(), 2);
    }

    #[test]
    fn objectives_that_are_no_times_give_targets_all_the_same() {
        let mut record = Record::new(true);
        for (gene, objective) in [0.0, -3.0, 5.0, f64::MAX].into_iter().enumerate() {
            record.put(&genome(gene as u16), objective, true);
        }
        assert!(record.targets().iter().all(|target| target.is_finite() && *target >= 0.0));
        assert!(record.objective(f64::MAX).is_finite() && record.objective(-5.0).is_finite());
    }

    #[test]
    fn what_is_removed_leaves_the_others_in_order() {
        let mut record = Record::new(true);
        (0..5u16).for_each(|gene| {
            record.put(&genome(gene), f64::from(10 + gene), gene == 0);
        });
        record.remove(&[genome(1), genome(3), genome(9)]);
        assert_eq!(record.genomes(), [genome(0), genome(2), genome(4)]);
        assert!(!record.put(&genome(4), 20.0, true) && record.put(&genome(1), 11.0, true));
        assert!((record.objective(record.targets()[2]) - 20.0).abs() < 1e-9);
    }

    #[test]
    fn the_scale_follows_what_was_measured() {
        let spread = |factor: f64| {
            let mut record = Record::new(true);
            (0..41u16).for_each(|gene| {
                record.put(&genome(gene), (factor * f64::from(gene)).exp(), true);
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
