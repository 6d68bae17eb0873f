//! A shuffle of indices that needs no memory, for sweeps that may be stopped early: canonical order explores the last
//! parameters long before the first. A Feistel network over the next even power of two is a bijection for any round
//! function. A result beyond `count` is encrypted again until it falls inside (cycle walking: Black and Rogaway,
//! "Ciphers with arbitrary finite domains", 2002), which takes at most four steps on average.

/// Rounds of the network. Four make a pseudorandom permutation of a good round function (Luby and Rackoff
/// 1988); the halves are small here, so there are two more.
const ROUNDS: u32 = 6;

#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    count: u128,
    half_bits: u32,
    keys: [u64; ROUNDS as usize],
}

impl Permutation {
    /// Panics if `count` is larger than 2^126.
    pub(crate) fn new(count: u128, seed: u64) -> Permutation {
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

    pub(crate) fn at(&self, index: u128) -> Option<u128> {
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
