//! Strategies that learn nothing from outcomes.
//!
//! Uniform random search without repetition is the baseline that every other search is compared with. Its order is
//! a seeded shuffle of the valid points, so a resumed run continues where the first one stopped.
//!
//! Exhaustive search proposes every valid point once: the default configuration first, the rest in a seeded order
//! that spreads over the space, so that a sweep that is stopped early is a uniform sample. Random draws take over
//! where the order cannot continue: in a space that is not counted exactly, when the order meets only holes, and in
//! a space that is too large to walk.

use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use rand_chacha::ChaCha8Rng;

use crate::memory::Unseen;
use crate::strategy::{Origin, Outcome, Proposal, Strategy};

#[derive(Debug)]
pub(crate) struct Unguided<'a> {
    origin: Origin,
    unseen: Unseen<'a>,
    /// Draws what the order does not reach.
    rng: ChaCha8Rng,
}

impl<'a> Unguided<'a> {
    /// Named as its origin.
    pub(crate) fn new(origin: Origin, space: &'a SearchSpace, seed: u64) -> Unguided<'a> {
        Unguided { origin, unseen: Unseen::new(space, seed), rng: seeded(seed) }
    }
}

impl Strategy for Unguided<'_> {
    fn name(&self) -> &'static str {
        self.origin.0
    }

    fn ask(&mut self, n: usize) -> Vec<Proposal> {
        let mut proposals = Vec::new();
        // Claiming the default uses it up, so this waits until somebody asks for a point.
        if n > 0 {
            proposals.extend(self.unseen.default());
        }
        while proposals.len() < n {
            let next = self.unseen.next_in_order().or_else(|| self.unseen.draw(&mut self.rng));
            let Some(genome) = next else { break };
            proposals.push(Proposal::new(genome, self.origin));
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
