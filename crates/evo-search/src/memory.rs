//! Which points were proposed or told, and where new ones come from.
//!
//! All strategies claim their points in [`Unseen`], so that none of them repeats a point, proposes an invalid one,
//! or goes on when nothing is left.
//!
//! Openings and restarts are spread evenly ([`Spread`]). A search that starts from 4 to 8 points should not have two
//! of them side by side, which uniform draws often give. A low-discrepancy sequence avoids that.

use std::collections::HashSet;

use evo_space::QuasiRandom;
use evo_space::genome::Genome;
use evo_space::space::SearchSpace;
use rand_chacha::ChaCha8Rng;

use crate::strategy::{Origin, Proposal};

/// Before falling back to the walk over all points. With a tenth of the points left, 32 draws find one 97 times in 100.
const DRAWS: u32 = 32;

/// Most indices in a row without a valid point. In a space that is not counted exactly, such holes may
/// outnumber the points by any factor; after this many, points are drawn instead.
const HOLES: u32 = 1 << 14;

/// Larger spaces are not walked by canonical index: a run ends long before.
const WALKABLE: u128 = 1 << 100;

#[derive(Debug)]
pub struct Unseen<'a> {
    space: &'a SearchSpace,
    seen: HashSet<Genome>,
    valid_seen: u128,
    count: u128,
    walk: Option<Permutation>,
    cursor: u128,
    /// Whether nothing new could be found in a space that is not counted exactly.
    given_up: bool,
}

impl<'a> Unseen<'a> {
    pub fn new(space: &'a SearchSpace, seed: u64) -> Unseen<'a> {
        let count = space.count();
        let walk = (count <= WALKABLE).then(|| Permutation::new(count, seed));
        Unseen { space, seen: HashSet::new(), valid_seen: 0, count, walk, cursor: 0, given_up: false }
    }

    pub fn is_seen(&self, genome: &Genome) -> bool {
        self.seen.contains(genome)
    }

    /// Claims a point and returns whether that worked: it must be valid and new.
    pub fn claim(&mut self, genome: &Genome) -> bool {
        // Known points first, because a lookup costs less than a walk through the space's diagrams.
        if self.seen.contains(genome) || !self.space.contains(genome) {
            return false;
        }
        self.valid_seen += 1;
        self.seen.insert(genome.clone())
    }

    /// The default configuration, claimed, which every search proposes first; `None` if it was claimed
    /// before or the space has none.
    pub fn default(&mut self) -> Option<Proposal> {
        if !self.space.has_default() {
            return None;
        }
        let genome = self.space.default_genome();
        self.claim(&genome).then_some(Proposal::new(genome, Origin::DEFAULT))
    }

    /// Notes a point that was told, valid or not.
    pub fn note(&mut self, genome: &Genome) {
        // An earlier run may tell points that this space does not hold. If they counted, the search would
        // take itself for exhausted too early.
        if self.seen.insert(genome.clone()) && self.space.contains(genome) {
            self.valid_seen += 1;
        }
    }

    /// Whether every valid point is known, or no other could be found in a space that is not counted exactly.
    pub fn is_exhausted(&self) -> bool {
        self.valid_seen >= self.count || self.given_up
    }

    /// The next unseen point in the seeded order, claimed; `None` if nothing is left or the space is too
    /// large to walk.
    pub fn next_in_order(&mut self) -> Option<Genome> {
        let mut holes = 0;
        while !self.is_exhausted() && holes < HOLES {
            let walk = self.walk.as_ref()?;
            let Some(index) = walk.at(self.cursor) else {
                // The walk has passed every index, so nothing is left whatever the count says.
                self.given_up = true;
                break;
            };
            self.cursor += 1;
            match self.space.genome_at(index) {
                Some(genome) if self.claim(&genome) => return Some(genome),
                Some(_) => {}
                None => holes += 1,
            }
        }
        None
    }

    /// A uniformly drawn unseen point, claimed; `None` if nothing is left, or nothing new was found in a
    /// space that is not counted exactly.
    pub fn draw(&mut self, rng: &mut ChaCha8Rng) -> Option<Genome> {
        if self.is_exhausted() {
            return None;
        }
        let space = self.space;
        let mut drawn = (0..DRAWS).map_while(|_| space.sample(rng));
        if let Some(genome) = drawn.find(|genome| self.claim(genome)) {
            return Some(genome);
        }
        // When nearly all points are known, draws keep meeting known ones; walking finds the rest for sure.
        let last = self.next_in_order();
        self.given_up |= last.is_none() && !self.space.is_exact();
        last
    }
}

/// Known points in a row that are skipped at least.
const PATIENCE: usize = 32;

#[derive(Debug)]
pub struct Spread<'a> {
    points: QuasiRandom<'a>,
    spent: bool,
}

impl<'a> Spread<'a> {
    pub fn new(space: &'a SearchSpace, seed: u64) -> Spread<'a> {
        Spread { points: space.quasi_random(seed), spent: false }
    }

    /// The next point that is not known, claimed; `None` once nearly all points are known.
    pub fn next(&mut self, unseen: &mut Unseen) -> Option<Genome> {
        // A resumed search meets all points that were told in a row at the beginning, so at least that many
        // are skipped.
        let patience = PATIENCE + 2 * unseen.seen.len();
        if self.spent || unseen.is_exhausted() {
            return None;
        }
        let next = self.points.by_ref().take(patience).find(|genome| unseen.claim(genome));
        self.spent = next.is_none();
        next
    }
}

/// Rounds of the network. Four make a pseudorandom permutation of a good round function (Luby and Rackoff
/// 1988); the halves are small here, so there are two more.
const ROUNDS: u32 = 6;

/// A shuffle of indices that needs no memory, for sweeps that may be stopped early: canonical order explores the last
/// parameters long before the first. A Feistel network over the next even power of two is a bijection for any round
/// function. A result beyond `count` is encrypted again until it falls inside (cycle walking: Black and Rogaway,
/// "Ciphers with arbitrary finite domains", 2002), which takes at most four steps on average.
#[derive(Clone, Debug)]
struct Permutation {
    count: u128,
    half_bits: u32,
    keys: [u64; ROUNDS as usize],
}

impl Permutation {
    fn new(count: u128, seed: u64) -> Permutation {
        assert!(count <= 1 << 126, "a permutation covers at most 2^126 indices");
        let bits = 128 - count.saturating_sub(1).leading_zeros();
        // Halves of equal width, which may double the range. Cycle walking skips what lies beyond `count`.
        let half_bits = bits.div_ceil(2).max(1);
        let mut state = seed;
        let keys = std::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            scramble(state)
        });
        Permutation { count, half_bits, keys }
    }

    fn at(&self, index: u128) -> Option<u128> {
        if index >= self.count {
            return None;
        }
        let mut value = self.encrypt(index);
        while value >= self.count {
            value = self.encrypt(value);
        }
        Some(value)
    }

    fn encrypt(&self, value: u128) -> u128 {
        let mask = (1u128 << self.half_bits) - 1;
        let (mut left, mut right) = ((value >> self.half_bits) as u64, (value & mask) as u64);
        for key in self.keys {
            let mixed = left ^ (scramble(right ^ key) & mask as u64);
            (left, right) = (right, mixed);
        }
        (u128::from(left) << self.half_bits) | u128::from(right)
    }
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators).
fn scramble(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::conformance::space_of;
    use crate::registry;

    /// They cannot be, for one constraint links all ten parameters; about one in 10,007 is valid.
    #[test]
    fn strategies_go_on_where_points_are_not_counted() {
        let values: Vec<String> = (1..=60i64).map(|value| (value * 7919 % 10_007).to_string()).collect();
        let parameters = (0..10).map(|at| format!("P{at} = [{}]\n", values.join(", "))).collect::<String>();
        let sum = (0..10).map(|at| format!("P{at} * P{} * {}", (at + 3) % 10, at + 2)).collect::<Vec<_>>();
        let sum = sum.join(" + ");
        let space = space_of(&format!("constraints = ['({sum}) % 10007 == 17']\n[parameters]\n{parameters}"));
        assert!(!space.is_exact());
        for name in registry::names() {
            let mut strategy = registry::create(name, &space, 1).unwrap();
            let proposals = strategy.ask(3);
            assert_eq!(proposals.len(), 3, "{name}");
            assert!(proposals.iter().all(|proposal| space.contains(&proposal.genome)), "{name}");
        }
    }

    #[test]
    fn it_is_a_bijection_at_every_small_size() {
        for count in 0..70u128 {
            let permutation = Permutation::new(count, 7);
            let image: BTreeSet<u128> = (0..count).map(|index| permutation.at(index).unwrap()).collect();
            assert_eq!(image, (0..count).collect());
            assert_eq!(permutation.at(count), None);
        }
    }

    #[test]
    fn seeds_give_different_orders_and_large_counts_work() {
        let first = |seed| (0..20).map(|i| Permutation::new(1000, seed).at(i).unwrap()).collect::<Vec<_>>();
        assert_ne!(first(1), first(2));
        assert_eq!(first(1), first(1));
        let wide = Permutation::new((1 << 100) + 3, 1);
        assert!(wide.at(1 << 99).is_some_and(|value| value < (1 << 100) + 3));
    }
}
