//! Points that fill the unit cube evenly, in any number of dimensions.
//!
//! The two-dimensional sequence of Sobol' (USSR Comp. Math. 7, 1967) is used for each pair of dimensions,
//! with its points in another order for each pair ("padding"), and every coordinate scrambled as Owen
//! describes (Randomly permuted (t,m,s)-nets, 1995); shuffling and scrambling by hashes follows Burley
//! (Practical hash-based Owen scrambling, JCGT 9, 2020). The first 2^m points then put exactly one into
//! each of 2^m equal intervals of every dimension, and exactly one into each of 2^m equal rectangles of
//! every pair, while each point by itself is uniform. Sequences for all dimensions at once need tables and
//! lose that quality in high dimensions, and Latin hypercubes have no balanced pairs.

/// Bits of a coordinate.
const BITS: u32 = 32;

/// A sequence of points; the same for the same seed.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    seed: u64,
}

impl Sequence {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Sequence {
        Sequence { seed }
    }

    /// A coordinate of a point, from 0 to below 1.
    pub fn coordinate(self, point: u32, dimension: usize) -> f64 {
        let pair = (dimension / 2) as u64;
        // A bit's flip depends on higher bits only, so that runs of 2^m points stay together.
        let order = scramble(point, mix(self.seed ^ mix(2 * pair)));
        let plain = if dimension.is_multiple_of(2) { order.reverse_bits() } else { second(order) };
        // Odd numbers here and even ones above: no coordinate shares its seed with the order of a pair.
        let scrambled = scramble(plain, mix(self.seed ^ mix(2 * dimension as u64 + 1)));
        f64::from(scrambled) / (1u64 << BITS) as f64
    }
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

    /// How many of the first `points` fall into each cell of a grid over two dimensions.
    fn cells(seed: u64, points: u32, dimensions: (usize, usize), grid: (u32, u32)) -> Vec<u32> {
        let sequence = Sequence::new(seed);
        let mut cells = vec![0; (grid.0 * grid.1) as usize];
        for point in 0..points {
            let cell =
                |dimension, size: u32| (sequence.coordinate(point, dimension) * f64::from(size)) as u32;
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
        let sequence = Sequence::new(3);
        let same = (0..1000)
            .filter(|point| (sequence.coordinate(*point, 0) - sequence.coordinate(*point, 4)).abs() < 0.01);
        assert!(same.count() < 60);
    }

    #[test]
    fn one_point_is_uniform_over_seeds() {
        let mut cells = [0f64; 16];
        for seed in 0..8000 {
            let sequence = Sequence::new(seed);
            let (x, y) = (sequence.coordinate(5, 2), sequence.coordinate(5, 3));
            cells[(x * 4.0) as usize * 4 + (y * 4.0) as usize] += 1.0;
        }
        assert!(crate::testing::is_uniform(&cells), "{cells:?}");
    }
}
