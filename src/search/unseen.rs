//! What has been proposed or told already, and what is left.
//!
//! Every strategy goes through this one door, so "never measured twice", "only valid points" and
//! "ends when nothing is left" hold for all of them.

use std::collections::HashSet;

use rand_chacha::ChaCha8Rng;

use super::permutation::Permutation;
use super::strategy::Proposal;
use crate::genome::Genome;
use crate::space::space::SearchSpace;

/// Uniform draws before falling back to the walk over all points.
const DRAWS: u32 = 32;

/// Beyond this many points the walk by canonical index is not used: a run ends long before.
const WALKABLE: u128 = 1 << 100;

/// The points of a space that nobody has proposed.
#[derive(Debug)]
pub struct Unseen<'a> {
    space: &'a SearchSpace,
    seen: HashSet<Genome>,
    /// How many of `seen` are valid points.
    valid_seen: u128,
    count: u128,
    walk: Option<Permutation>,
    cursor: u128,
}

impl<'a> Unseen<'a> {
    /// All points of `space`; `seed` decides the order of `next_in_order`.
    pub fn new(space: &'a SearchSpace, seed: u64) -> Unseen<'a> {
        let count = space.count();
        let walk = (count <= WALKABLE).then(|| Permutation::new(count, seed));
        Unseen { space, seen: HashSet::new(), valid_seen: 0, count, walk, cursor: 0 }
    }

    /// The space itself.
    pub fn space(&self) -> &'a SearchSpace {
        self.space
    }

    /// Whether a point was claimed or told.
    pub fn is_seen(&self, genome: &Genome) -> bool {
        self.seen.contains(genome)
    }

    /// Takes a valid point that nobody took before; says whether that worked.
    pub fn claim(&mut self, genome: &Genome) -> bool {
        if self.seen.contains(genome) || !self.space.contains(genome) {
            return false;
        }
        self.valid_seen += 1;
        self.seen.insert(genome.clone())
    }

    /// The default configuration, claimed, unless somebody took it: what every search proposes first.
    pub fn default(&mut self) -> Option<Proposal> {
        let genome = self.space.default_genome();
        self.claim(&genome).then_some(Proposal { genome, origin: "default" })
    }

    /// Notes a point that somebody else evaluated, valid or not.
    pub fn note(&mut self, genome: &Genome) {
        if self.seen.insert(genome.clone()) && self.space.contains(genome) {
            self.valid_seen += 1;
        }
    }

    /// Whether every valid point was taken.
    pub fn is_exhausted(&self) -> bool {
        self.valid_seen >= self.count
    }

    /// The next unseen point in the seeded order, claimed.
    pub fn next_in_order(&mut self) -> Option<Genome> {
        while !self.is_exhausted() {
            let index = self.walk.as_ref()?.at(self.cursor)?;
            self.cursor += 1;
            if let Some(genome) = self.space.genome_at(index)
                && self.claim(&genome)
            {
                return Some(genome);
            }
        }
        None
    }

    /// A uniformly drawn unseen point, claimed; `None` only when nothing is left.
    pub fn draw(&mut self, rng: &mut ChaCha8Rng) -> Option<Genome> {
        if self.is_exhausted() {
            return None;
        }
        for _ in 0..DRAWS {
            let genome = self.space.sample(rng)?;
            if self.claim(&genome) {
                return Some(genome);
            }
        }
        self.next_in_order()
    }
}
