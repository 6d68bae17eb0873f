//! Quasi-random search. A low-discrepancy sequence covers every parameter, and pairs of them, evenly at any
//! time, where uniform draws leave gaps and clusters. The order does not depend on outcomes.

use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use rand_chacha::ChaCha8Rng;

use super::origin::Origin;
use super::spread::Spread;
use super::strategy::{Outcome, Proposal, Strategy};
use super::unseen::Unseen;

/// Proposes evenly spread points.
#[derive(Debug)]
pub(crate) struct QuasiRandomSearch<'a> {
    unseen: Unseen<'a>,
    spread: Spread<'a>,
    /// Draws the last points, which the sequence would take too long to reach.
    rng: ChaCha8Rng,
}

impl<'a> QuasiRandomSearch<'a> {
    /// Quasi-random search over `space`.
    pub(crate) fn new(space: &'a SearchSpace, seed: u64) -> QuasiRandomSearch<'a> {
        QuasiRandomSearch {
            unseen: Unseen::new(space, seed),
            spread: Spread::new(space, seed),
            rng: seeded(seed),
        }
    }
}

impl Strategy for QuasiRandomSearch<'_> {
    fn name(&self) -> &'static str {
        "quasi_random"
    }

    fn ask(&mut self, n: usize) -> Vec<Proposal> {
        let mut proposals = Vec::new();
        if n > 0 {
            proposals.extend(self.unseen.default());
        }
        while proposals.len() < n {
            let next = self.spread.next(&mut self.unseen).or_else(|| self.unseen.draw(&mut self.rng));
            let Some(genome) = next else { break };
            proposals.push(Proposal::new(genome, Origin::QuasiRandom));
        }
        proposals
    }

    fn learns(&self) -> bool {
        false
    }

    fn tell(&mut self, outcome: &Outcome) {
        self.unseen.note(&outcome.genome);
    }

    fn is_done(&self) -> bool {
        self.unseen.is_exhausted()
    }
}
