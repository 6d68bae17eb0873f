//! Uniform random search without repetition: the honest baseline for every claim about search.
//!
//! The order is a seeded shuffle of the valid points, so a resumed run goes on where the first left.

use evo_space::rng::seeded;
use evo_space::space::SearchSpace;
use rand_chacha::ChaCha8Rng;

use super::strategy::{Outcome, Proposal, Strategy};
use super::unseen::Unseen;

/// Draws valid points uniformly.
#[derive(Debug)]
pub struct Random<'a> {
    unseen: Unseen<'a>,
    rng: ChaCha8Rng,
}

impl<'a> Random<'a> {
    /// Random search over `space`.
    pub fn new(space: &'a SearchSpace, seed: u64) -> Random<'a> {
        Random { unseen: Unseen::new(space, seed), rng: seeded(seed) }
    }
}

impl Strategy for Random<'_> {
    fn name(&self) -> &'static str {
        "random"
    }

    fn ask(&mut self, n: usize) -> Vec<Proposal> {
        let mut proposals = Vec::new();
        if n > 0 {
            proposals.extend(self.unseen.default());
        }
        while proposals.len() < n
            && let Some(genome) = self.unseen.next_in_order().or_else(|| self.unseen.draw(&mut self.rng))
        {
            proposals.push(Proposal::new(genome, "random"));
        }
        proposals
    }

    fn tell(&mut self, outcome: &Outcome) {
        self.unseen.note(&outcome.genome);
    }

    fn is_done(&self) -> bool {
        self.unseen.is_exhausted()
    }
}
