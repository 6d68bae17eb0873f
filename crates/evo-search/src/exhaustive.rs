//! Every valid point once: the default configuration first, the rest in a seeded order that spreads over the
//! space, so that a sweep that is stopped early is a uniform sample. Random draws take over where the order
//! cannot continue: in a space that is not counted exactly, when the order meets only holes, and in a space
//! that is too large to walk.

use evo_space::genome::Genome;
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use rand_chacha::ChaCha8Rng;

use super::origin::Origin;
use super::strategy::{Outcome, Proposal, Strategy};
use super::unseen::Unseen;

/// Sweeps the whole space.
#[derive(Debug)]
pub(crate) struct Exhaustive<'a> {
    unseen: Unseen<'a>,
    rng: ChaCha8Rng,
}

impl<'a> Exhaustive<'a> {
    /// A sweep of `space` in the order that `seed` names.
    pub(crate) fn new(space: &'a SearchSpace, seed: u64) -> Exhaustive<'a> {
        Exhaustive { unseen: Unseen::new(space, seed), rng: seeded(seed) }
    }

    fn next(&mut self) -> Option<Genome> {
        self.unseen.next_in_order().or_else(|| self.unseen.draw(&mut self.rng))
    }
}

impl Strategy for Exhaustive<'_> {
    fn name(&self) -> &'static str {
        "exhaustive"
    }

    fn ask(&mut self, n: usize) -> Vec<Proposal> {
        let mut proposals = Vec::new();
        if n > 0 {
            proposals.extend(self.unseen.default());
        }
        while proposals.len() < n
            && let Some(genome) = self.next()
        {
            proposals.push(Proposal::new(genome, Origin::Exhaustive));
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
