//! Samples of valid points: uniform, or spread evenly.
//!
//! An even spread is that of points that fill the unit cube, in any number of dimensions. The two-dimensional
//! sequence of Sobol' (USSR Comp. Math. 7, 1967) is used for each pair of dimensions, with its points in another
//! order for each pair ("padding"), and every coordinate scrambled as Owen describes (Randomly permuted
//! (t,m,s)-nets, 1995); shuffling and scrambling by hashes follows Burley (Practical hash-based Owen scrambling,
//! JCGT 9, 2020). The first 2^m points then put exactly one into each of 2^m equal intervals of every dimension,
//! and exactly one into each of 2^m equal rectangles of every pair, while each point by itself is uniform.
//! Sequences for all dimensions at once need tables and lose that quality in high dimensions, and Latin hypercubes
//! have no balanced pairs.

use indexmap::IndexSet;
use num_bigint::BigUint;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::genome::Genome;
pub use crate::index::seeded;
use crate::space::SearchSpace;

/// A space with holes is shuffled by index, which finds all points, up to this many indices.
const SHUFFLED_WITH_HOLES: u128 = 1 << 16;

const REPEATS: usize = 1 << 8;

/// Draws from a part of the canonical order before it is left out.
const TRIES: usize = 64;

impl SearchSpace {
    /// A uniform valid point; `None` for an empty space.
    ///
    /// If the space is not exact: by rejection and uniform, as long as valid points are frequent among
    /// those that were counted. Where 2^17 in a row are refused a bounded search follows; what it
    /// finds is valid but not uniform, and `None` also says that it found nothing.
    pub fn sample(&self, rng: &mut ChaCha8Rng) -> Option<Genome> {
        self.index.sample(rng).map(Genome::from)
    }

    /// Up to `n` distinct uniform valid points, in random order; all of them if there are no more. If
    /// the space is not exact there may be fewer, and they are as uniform as those of `sample`.
    pub fn sample_distinct(&self, n: usize, rng: &mut ChaCha8Rng) -> Vec<Genome> {
        let count = self.count();
        if count / 4 <= n as u128 || (!self.is_exact() && count <= SHUFFLED_WITH_HOLES) {
            return self.shuffled(n, rng);
        }
        // At most a quarter of an exact space is asked for, so that most draws are new.
        let mut points = Distinct::default();
        self.fill(&mut points, n, rng);
        points.into_iter().collect()
    }

    /// One uniform point from each of `n` equal parts of the canonical order, in that order; all points if there are no
    /// more. It spreads over what the first parameters decide; `quasi_random` spreads over each parameter.
    ///
    /// If the space is not exact, parts in which valid points are rare are left out and as many points
    /// are drawn from anywhere instead. Of 2^128 points and more the sample is `quasi_random`.
    pub fn sample_stratified(&self, n: usize, rng: &mut ChaCha8Rng) -> Vec<Genome> {
        if *self.valid() <= BigUint::from(n) {
            return self.iter().collect();
        }
        let count = self.count();
        let mut points = Distinct::default();
        if count == u128::MAX {
            points.extend(self.quasi_random(rng.random()).take(n));
        } else {
            for part in 0..n {
                let (start, end) = stratum(count, n, part);
                let point = (0..TRIES).find_map(|_| self.genome_at(rng.random_range(start..end)));
                points.extend(point);
            }
        }
        self.fill(&mut points, n, rng);
        points.sort_unstable();
        points.into_iter().collect()
    }

    /// Valid points that are spread evenly over the values of each parameter and of pairs of parameters that are
    /// declared side by side, each uniform by itself; without an end in a space that is exact and not empty. Points
    /// come again, the sooner the smaller the space is. The best numbers of points are powers of two.
    pub fn quasi_random(&self, seed: u64) -> QuasiRandom<'_> {
        let mut used = 0;
        // A parameter without a choice takes no dimension, which would break up pairs of its neighbors.
        let dimensions = self.index.domains().iter().map(|domain| {
            let dimension = used;
            used += usize::from(domain.len() > 1);
            dimension
        });
        let dimensions = dimensions.collect();
        QuasiRandom { space: self, seed, dimensions, number: 0 }
    }

    /// The first `n` points, of all indices in random order: a shuffle that stores only what it moved.
    fn shuffled(&self, n: usize, rng: &mut ChaCha8Rng) -> Vec<Genome> {
        let count = self.count();
        let mut moved: FxHashMap<u128, u128> = FxHashMap::default();
        let mut list = Vec::with_capacity(n.min(count as usize));
        for at in 0..count {
            if list.len() == n {
                break;
            }
            // A Fisher-Yates shuffle that stores displaced indices only.
            let other = rng.random_range(at..count);
            let drawn = moved.get(&other).copied().unwrap_or(other);
            let displaced = moved.get(&at).copied().unwrap_or(at);
            moved.insert(other, displaced);
            list.extend(self.genome_at(drawn));
        }
        list
    }

    fn fill(&self, points: &mut Distinct, n: usize, rng: &mut ChaCha8Rng) {
        let mut repeats = 0;
        while points.len() < n && repeats < REPEATS {
            let Some(point) = self.sample(rng) else { return };
            repeats = if points.insert(point) { 0 } else { repeats + 1 };
        }
        // Nearly all points are there: the missing ones are found by going through them.
        if points.len() < n && self.count() / 8 <= n as u128 {
            let mut all = self.shuffled(usize::MAX, rng).into_iter();
            while points.len() < n
                && let Some(point) = all.next()
            {
                points.insert(point);
            }
        }
    }
}

/// The indices of one of `n` parts that differ by one in length at most. There are at least `n`.
fn stratum(count: u128, n: usize, part: usize) -> (u128, u128) {
    let n = n as u128;
    // `count * part / n` would overflow for counts near 2^128.
    let start = |part: u128| count / n * part + count % n * part / n;
    (start(part as u128), start(part as u128 + 1))
}

type Distinct = IndexSet<Genome, FxBuildHasher>;

/// Points in a row that constraints may refuse before the sequence of a space that is not exact ends.
const REFUSED: u32 = 1 << 12;

#[derive(Debug)]
pub struct QuasiRandom<'a> {
    space: &'a SearchSpace,
    seed: u64,
    /// The dimension that decides each slot: slots without a choice need none of their own.
    dimensions: Vec<usize>,
    number: u32,
}

impl Iterator for QuasiRandom<'_> {
    type Item = Genome;

    fn next(&mut self) -> Option<Genome> {
        if *self.space.valid() == BigUint::ZERO {
            return None;
        }
        (0..REFUSED).find_map(|_| {
            let number = self.number;
            self.number = number.wrapping_add(1);
            let share = |slot: usize| coordinate(self.seed, number, self.dimensions[slot]);
            let point = Genome::from(self.space.index.descend(|fork| fork.split(share(fork.slot))));
            self.space.contains(&point).then_some(point)
        })
    }
}

const BITS: u32 = 32;

/// A coordinate of a point of a sequence, from 0 to below 1.
fn coordinate(seed: u64, point: u32, dimension: usize) -> f64 {
    let pair = (dimension / 2) as u64;
    // A bit's flip depends on higher bits only, so that runs of 2^m points stay together.
    let order = scramble(point, mix(seed ^ mix(2 * pair)));
    let plain = if dimension.is_multiple_of(2) { order.reverse_bits() } else { second(order) };
    // Odd numbers here and even ones above: no coordinate shares its seed with the order of a pair.
    let scrambled = scramble(plain, mix(seed ^ mix(2 * dimension as u64 + 1)));
    f64::from(scrambled) / (1u64 << BITS) as f64
}

/// The second dimension: its generating matrix is Pascal's triangle modulo 2.
fn second(point: u32) -> u32 {
    let mut direction = 1u32 << (BITS - 1);
    let mut sum = 0;
    for bit in 0..BITS {
        if point >> bit & 1 == 1 {
            sum ^= direction;
        }
        // Pascal's rule modulo 2: each column is the one before plus the same, shifted by a row.
        direction ^= direction >> 1;
    }
    sum
}

/// Flips each bit or not, by chance but the same for equal higher bits.
fn scramble(word: u32, seed: u64) -> u32 {
    let flip = |bit: u32| {
        let higher = u64::from(word) >> bit >> 1;
        // The number of the bit keeps equal prefixes of different lengths apart.
        let prefix = higher ^ (u64::from(bit) << BITS);
        (mix(seed ^ prefix) >> 63) as u32
    };
    (0..BITS).fold(word, |all, bit| all ^ (flip(bit) << bit))
}

/// A hash of a word: rounds of multiplication and shifts, as splitmix64 ends.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{is_uniform, space};

    const COUPLED: &str = "parameters = { A = [1, 2, 3, 4, 5, 6], B = [1, 2, 3, 4, 5, 6], C = [0, 1, 2, 3], D = [0, 1], E = [1, 2, 4, 8] }\n\
                       constraints = ['A * B <= 18', 'C + D != 2']";

    #[test]
    fn strata_have_one_point_each() {
        let space = space(COUPLED);
        let count = space.count();
        for n in [1, 2, 7, 64, 100] {
            for seed in 0..20 {
                let sample = space.sample_stratified(n, &mut seeded(seed));
                assert_eq!(sample.len(), n);
                for (part, genome) in sample.iter().enumerate() {
                    let (start, end) = stratum(count, n, part);
                    assert!((start..end).contains(&space.index_of(genome).unwrap()));
                }
            }
        }
        let strata = [0, 1, 2, 3, 4].map(|part| stratum(13, 5, part));
        assert_eq!(strata, [(0, 2), (2, 5), (5, 7), (7, 10), (10, 13)]);
        assert_eq!(stratum(u128::MAX - 1, usize::MAX, usize::MAX - 1).1, u128::MAX - 1);
    }

    #[test]
    fn each_point_of_an_even_sample_is_uniform() {
        let space = space(
            "parameters = { A = [1, 2, 3, 4], B = [1, 2, 3, 4], C = [1, 2], D = [1, 2] }\nconstraints = ['A * B <= 6']",
        );
        let mut seen = vec![[0f64; 2]; space.count() as usize];
        let mut numbers = seeded(7);
        for seed in 0..300 * space.count() as u64 {
            let even = &space.quasi_random(seed).nth(numbers.random_range(0..6)).unwrap();
            seen[space.index_of(even).unwrap() as usize][0] += 1.0;
            let one = &space.sample_stratified(1, &mut seeded(seed))[0];
            seen[space.index_of(one).unwrap() as usize][1] += 1.0;
        }
        for kind in 0..2 {
            let seen: Vec<f64> = seen.iter().map(|seen| seen[kind]).collect();
            assert!(is_uniform(&seen), "{seen:?}");
        }
    }

    fn distinct(space: &SearchSpace, n: usize, seed: u64) -> Vec<Genome> {
        let mut points = Distinct::default();
        for genome in space.quasi_random(seed).take(4 * n) {
            assert!(space.contains(&genome));
            points.insert(genome);
        }
        points.into_iter().take(n).collect()
    }

    fn imbalance(space: &SearchSpace, sample: &[Genome]) -> f64 {
        let share = |points: &mut dyn Iterator<Item = Genome>, slot: usize, position: u16| {
            let (mut all, mut with) = (0.0, 0.0);
            points.for_each(|genome| {
                all += 1.0;
                with += f64::from(u8::from(genome.positions()[slot] == position));
            });
            with / all
        };
        let domains = space.effective_domains();
        let values = domains.iter().enumerate().flat_map(|(slot, own)| own.iter().map(move |at| (slot, *at)));
        let error =
            |(slot, at)| share(&mut sample.iter().cloned(), slot, at) - share(&mut space.iter(), slot, at);
        values.map(error).map(|error: f64| error * error).sum()
    }

    #[test]
    fn quasi_random_samples_are_balanced() {
        let space = space(COUPLED);
        let (mut even, mut random) = (0.0, 0.0);
        for seed in 0..20 {
            even += imbalance(&space, &distinct(&space, 32, seed));
            random += imbalance(&space, &space.sample_distinct(32, &mut seeded(seed)));
        }
        assert!(even < random / 3.0, "{even} against {random}");
        let empty = space.fixed(&[(0, 9)]);
        assert_eq!(empty.quasi_random(1).next(), None);
    }

    #[test]
    fn spaces_beyond_128_bits_are_spread_too() {
        let free = (0..50).map(|at| format!("P{at} = [1, 2, 3, 4, 5, 6, 7, 8]\n")).collect::<String>();
        let space = space(&format!("constraints = ['P0 <= P40']\n[parameters]\n{free}"));
        let sample = space.sample_stratified(36, &mut seeded(2));
        assert!(sample.is_sorted_by(|a, b| a < b) && sample.len() == 36);
        assert!(sample.iter().all(|genome| space.contains(genome)));
        let sample = distinct(&space, 64, 2);
        let count = |position: u16| sample.iter().filter(|genome| genome.positions()[20] == position).count();
        assert_eq!((0..8).map(count).collect::<Vec<_>>(), [8; 8]);
    }

    fn cells(seed: u64, points: u32, dimensions: (usize, usize), grid: (u32, u32)) -> Vec<u32> {
        let mut cells = vec![0; (grid.0 * grid.1) as usize];
        for point in 0..points {
            let cell = |dimension, size: u32| (coordinate(seed, point, dimension) * f64::from(size)) as u32;
            let (x, y) = (cell(dimensions.0, grid.0), cell(dimensions.1, grid.1));
            cells[(x * grid.1 + y) as usize] += 1;
        }
        cells
    }

    #[test]
    fn powers_of_two_fill_every_interval_and_every_rectangle_of_a_pair() {
        for seed in 0..8 {
            for pair in [0, 2, 18] {
                for grid in [(64, 1), (1, 64), (8, 8), (2, 32), (16, 4)] {
                    assert_eq!(cells(seed, 64, (pair, pair + 1), grid), [1; 64], "{seed} {pair} {grid:?}");
                }
            }
        }
    }

    #[test]
    fn dimensions_of_different_pairs_are_unrelated() {
        // A quarter of the points in each quadrant, but not exactly: pairs are in an order of their own.
        let cells = cells(1, 4096, (1, 2), (2, 2));
        assert!(cells.iter().all(|n| (900..1150).contains(n)), "{cells:?}");
        let same =
            (0..1000).filter(|point| (coordinate(3, *point, 0) - coordinate(3, *point, 4)).abs() < 0.01);
        assert!(same.count() < 60);
    }
}
