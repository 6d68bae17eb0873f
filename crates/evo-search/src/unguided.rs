//! Strategies that learn nothing from outcomes.
//!
//! Random search is the baseline that every other search is compared with: a seeded shuffle of the valid points, so a
//! resumed run continues where the first one stopped. Exhaustive search proposes the default configuration first, then
//! the same kind of order, so that a sweep that is stopped early is a uniform sample. Random draws take over where the
//! order cannot continue: in a space that is not counted exactly, when the order meets only holes, and in a space that
//! is too large to walk. Quasi-random search covers every parameter, and pairs of them, evenly at any time, where
//! uniform draws leave gaps and clusters.

use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use rand_chacha::ChaCha8Rng;

use crate::memory::{Spread, Unseen};
use crate::strategy::{Origin, Outcome, Proposal, Strategy};

#[derive(Debug)]
pub(crate) struct Unguided<'a> {
    name: &'static str,
    origin: Origin,
    unseen: Unseen<'a>,
    /// The order of quasi-random search; the others follow the shuffle.
    spread: Option<Spread<'a>>,
    rng: ChaCha8Rng,
}

impl<'a> Unguided<'a> {
    pub(crate) fn random(space: &'a SearchSpace, seed: u64) -> Unguided<'a> {
        let (unseen, rng) = (Unseen::new(space, seed), seeded(seed));
        Unguided { name: "random", origin: Origin::Random, unseen, spread: None, rng }
    }

    pub(crate) fn exhaustive(space: &'a SearchSpace, seed: u64) -> Unguided<'a> {
        Unguided { name: "exhaustive", origin: Origin::Exhaustive, ..Unguided::random(space, seed) }
    }

    pub(crate) fn quasi_random(space: &'a SearchSpace, seed: u64) -> Unguided<'a> {
        let spread = Some(Spread::new(space, seed));
        Unguided {
            name: "quasi_random",
            origin: Origin::QuasiRandom,
            spread,
            ..Unguided::random(space, seed)
        }
    }
}

impl Strategy for Unguided<'_> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn ask(&mut self, n: usize) -> Vec<Proposal> {
        let mut proposals = Vec::new();
        // Claiming the default uses it up, so this waits until somebody asks for a point.
        if n > 0 {
            proposals.extend(self.unseen.default());
        }
        while proposals.len() < n {
            let next = match &mut self.spread {
                Some(spread) => spread.next(&mut self.unseen),
                None => self.unseen.next_in_order(),
            };
            let Some(genome) = next.or_else(|| self.unseen.draw(&mut self.rng)) else { break };
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
