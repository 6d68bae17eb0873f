//! What was hoped of the proposals in flight, so that one that a newer outcome made pointless need not be compiled.
//!
//! The bound of a proposal is fixed when it is made. The models cannot be asked again: they hold its expectation for
//! a measurement by then, and would be too sure of it.

use std::collections::HashMap;

use evo_protocol::evaluation::Expectation;
use evo_space::genome::Genome;
use evo_space::sample::seeded;
use rand::RngExt;

use crate::model::facts::{AUDIT, MARGIN};

#[derive(Debug, Default)]
pub(super) struct Hopes {
    bounds: HashMap<Genome, f64>,
    best: Option<f64>,
    audited: u64,
}

impl Hopes {
    /// A proposal that is far from the best already is there to explore, and no outcome can make it pointless.
    pub(super) fn propose(&mut self, genome: &Genome, expected: &Expectation) {
        let bound = expected.low_ns * (expected.low_ns / expected.objective_ns);
        if bound.is_finite() && !self.is_beyond(bound) {
            self.bounds.insert(genome.clone(), bound);
        }
    }

    pub(super) fn tell(&mut self, genome: &Genome, objective: Option<f64>) {
        self.bounds.remove(genome);
        self.best = objective.into_iter().chain(self.best).min_by(f64::total_cmp);
    }

    pub(super) fn is_worth_compiling(&mut self, genome: &Genome, seed: u64) -> bool {
        if self.bounds.get(genome).is_none_or(|bound| !self.is_beyond(*bound)) {
            return true;
        }
        // Some are compiled all the same, so that a wrong model finds out.
        self.audited += 1;
        // A generator of its own, so that these questions do not change later proposals.
        let mut rng = seeded(seed ^ self.audited.wrapping_mul(0xd1b5_4a32_d192_ed03));
        rng.random_ratio(1, AUDIT)
    }

    /// Whether even two standard deviations below its expected time a proposal takes longer than compiled variants that
    /// are passed over.
    fn is_beyond(&self, bound: f64) -> bool {
        self.best.is_some_and(|best| bound > best * MARGIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn genome(at: u32) -> Genome {
        Genome(Box::new([at as _]))
    }

    fn expected(objective_ns: f64, low_ns: f64) -> Expectation {
        Expectation { objective_ns, low_ns, high_ns: 2.0 * objective_ns, risk: 0.0 }
    }

    #[test]
    fn only_a_newer_best_makes_a_proposal_pointless() {
        let mut hopes = Hopes::default();
        hopes.tell(&genome(0), Some(100.0));
        hopes.propose(&genome(1), &expected(120.0, 110.0));
        hopes.propose(&genome(2), &expected(400.0, 390.0));
        hopes.propose(&genome(3), &expected(120.0, 20.0));
        let worth = |hopes: &mut Hopes| [1, 2, 3, 4].map(|at| hopes.is_worth_compiling(&genome(at), 7));
        assert_eq!(worth(&mut hopes), [true; 4]);
        hopes.tell(&genome(4), Some(50.0));
        // The first was near the best of before; the second was to explore; the third is uncertain.
        assert_eq!(worth(&mut hopes), [false, true, true, true]);
        let kept = (0..800).filter(|_| hopes.is_worth_compiling(&genome(1), 7)).count();
        assert!((20..=90).contains(&kept), "{kept} of 800 are compiled all the same");
        hopes.tell(&genome(1), None);
        // It is no longer in flight, and nonsense does not bound anything.
        hopes.propose(&genome(2), &expected(0.0, 0.0));
        hopes.propose(&genome(3), &expected(f64::INFINITY, f64::NAN));
        assert_eq!(worth(&mut hopes), [true; 4]);
    }
}
