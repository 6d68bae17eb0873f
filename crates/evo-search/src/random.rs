//! Uniform random search without repetition: the baseline that every other search is compared with.
//!
//! The order is a seeded shuffle of the valid points, so a resumed run continues where the first one stopped.

use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use rand_chacha::ChaCha8Rng;

use super::origin::Origin;
use super::strategy::{Outcome, Proposal, Strategy};
use super::unseen::Unseen;

/// Draws valid points uniformly.
#[derive(Debug)]
pub(crate) struct Random<'a> {
    unseen: Unseen<'a>,
    rng: ChaCha8Rng,
}

impl<'a> Random<'a> {
    /// Random search over `space`.
    pub(crate) fn new(space: &'a SearchSpace, seed: u64) -> Random<'a> {
        Random { unseen: Unseen::new(space, seed), rng: seeded(seed) }
    }
}

impl Strategy for Random<'_> {
    fn name(&self) -> &'static str {
        "random"
    }

    fn ask(&mut self, n: usize) -> Vec<Proposal> {
        let mut proposals = Vec::new();
        // Claiming the default uses it up, so this waits until somebody asks for a point.
        if n > 0 {
            proposals.extend(self.unseen.default());
        }
        while proposals.len() < n
            && let Some(genome) = self.unseen.next_in_order().or_else(|| self.unseen.draw(&mut self.rng))
        {
            proposals.push(Proposal::new(genome, Origin::Random));
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
