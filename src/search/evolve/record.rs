//! What was measured, in the order in which it became known, and as targets for models.
//!
//! The target is `ln(1 + ln(t / best))`: near the best it is the relative time, far from it the logarithm of
//! a logarithm, so that a tail of bad variants does not take the resolution away from the good.
//!
//! Points in flight stand in with what is expected of them (the kriging believer of Ginsbourger, Le Riche and
//! Carraro, 2010), so that several proposals at a time do not all go to the same place.

use std::collections::HashMap;

use crate::genome::Genome;

/// Points and their objectives, measured or believed.
#[derive(Debug, Default)]
pub struct Record {
    genomes: Vec<Genome>,
    objectives: Vec<f64>,
    places: HashMap<Genome, usize>,
    best: Option<f64>,
    squeezed: bool,
    /// Whether targets changed since they were last taken.
    stale: bool,
}

impl Record {
    /// Nothing yet. `squeezed` targets are logarithms of logarithms, others logarithms.
    pub fn new(squeezed: bool) -> Record {
        Record { squeezed, ..Record::default() }
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

    /// The target of an objective.
    pub fn target(&self, objective: f64) -> f64 {
        let log = |value: f64| value.max(f64::MIN_POSITIVE).ln();
        let log = (log(objective) - log(self.best.unwrap_or(objective))).max(0.0);
        if self.squeezed { log.ln_1p() } else { log }
    }

    /// The objective of a target.
    pub fn objective(&self, target: f64) -> f64 {
        let log = if self.squeezed { target.clamp(-1.0, 4.0).exp_m1() } else { target };
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
}
