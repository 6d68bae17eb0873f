//! In which order blocks, warps and lanes take turns.
//!
//! Without a seed they ascend, which is fast and hides missing barriers: whoever reads comes after whoever
//! wrote. With a seed each block draws an order of its warps and lanes, and the launch one of its blocks. Seeds
//! `2k` and `2k + 1` give exactly opposite orders, so of two things whose order matters and is not enforced, each
//! comes first under one of the two seeds.

/// Turns inside a block.
#[derive(Clone, Debug)]
pub struct TurnOrder {
    seed: Option<u64>,
    warps: [u8; 32],
    lanes: [u8; 32],
}

impl TurnOrder {
    /// Everything in ascending order.
    pub fn ascending() -> TurnOrder {
        let ascending = std::array::from_fn(|index| index as u8);
        TurnOrder { seed: None, warps: ascending, lanes: ascending }
    }

    /// The order of a launch; `begin_block` draws that of each block.
    pub fn of(seed: Option<u64>) -> TurnOrder {
        TurnOrder { seed, ..TurnOrder::ascending() }
    }

    /// Draws the order of a block with so many warps.
    pub fn begin_block(&mut self, block: u64, warps: usize) {
        let Some(seed) = self.seed else { return };
        let mut state = mix(seed / 2 ^ mix(block));
        *self = TurnOrder::of(Some(seed));
        for order in [&mut self.warps[..warps], &mut self.lanes[..]] {
            for last in (1..order.len()).rev() {
                state = mix(state);
                order.swap(last, (state % (last as u64 + 1)) as usize);
            }
            if seed % 2 == 1 {
                order.reverse();
            }
        }
    }

    /// The warp whose turn is at a position.
    #[inline]
    pub fn warp(&self, position: usize) -> usize {
        usize::from(self.warps[position])
    }

    /// The lane of a set, which is not empty, whose turn comes first.
    #[inline]
    pub fn first(&self, set: u32) -> u32 {
        if self.seed.is_none() {
            return set.trailing_zeros();
        }
        let mut lanes = self.lanes.iter().map(|lane| u32::from(*lane));
        lanes.find(|lane| set >> lane & 1 == 1).unwrap_or_else(|| set.trailing_zeros())
    }
}

/// The order of a launch's blocks: a permutation of `0..blocks` that is computed, not stored.
#[derive(Clone, Copy, Debug)]
pub struct BlockOrder {
    blocks: u64,
    seed: Option<u64>,
    /// Half of the bits that a block's number takes.
    half: u32,
}

impl BlockOrder {
    /// The order of so many blocks.
    pub fn new(blocks: u64, seed: Option<u64>) -> BlockOrder {
        let bits = u64::BITS - blocks.saturating_sub(1).leading_zeros();
        BlockOrder { blocks, seed, half: bits.div_ceil(2).max(1) }
    }

    /// The block at a position, which is less than the number of blocks.
    pub fn at(&self, position: u64) -> u64 {
        let Some(seed) = self.seed else { return position };
        let mut number = if seed % 2 == 1 { self.blocks - 1 - position } else { position };
        // The network permutes a power of two; what falls outside the range walks on until it is inside.
        loop {
            number = self.network(seed / 2, number);
            if number < self.blocks {
                return number;
            }
        }
    }

    /// A Feistel network over `2 · half` bits.
    fn network(&self, key: u64, number: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        let (mut left, mut right) = (number >> self.half, number & mask);
        for round in 0..4 {
            (left, right) = (right, left ^ (mix(key ^ mix(right << 3 | round)) & mask));
        }
        left << self.half | right
    }
}

/// The finalizer of SplitMix64: every bit of the result depends on every bit of the input.
fn mix(value: u64) -> u64 {
    let mut value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(seed: Option<u64>, block: u64, warps: usize) -> (Vec<usize>, Vec<u32>) {
        let mut order = TurnOrder::of(seed);
        order.begin_block(block, warps);
        let mut set = u32::MAX;
        let lanes = std::iter::from_fn(|| {
            let lane = (set != 0).then(|| order.first(set))?;
            set &= !(1 << lane);
            Some(lane)
        });
        ((0..warps).map(|position| order.warp(position)).collect(), lanes.collect())
    }

    #[test]
    fn turns_are_permutations_and_neighboring_seeds_are_opposite() {
        assert_eq!(turns(None, 5, 8), ((0..8).collect(), (0..32).collect()));
        for seed in [0, 2, 40, u64::MAX - 1] {
            let (warps, lanes) = turns(Some(seed), 5, 8);
            let (mut back_warps, mut back_lanes) = turns(Some(seed + 1), 5, 8);
            back_warps.reverse();
            back_lanes.reverse();
            assert_eq!((&warps, &lanes), (&back_warps, &back_lanes));
            assert_ne!(lanes, turns(Some(seed), 6, 8).1);
            assert_ne!(lanes, (0..32).collect::<Vec<_>>());
            let sorted = |mut order: Vec<usize>| (order.sort_unstable(), order).1;
            assert_eq!(sorted(warps), (0..8).collect::<Vec<_>>());
        }
    }

    #[test]
    fn blocks_are_permuted_and_neighboring_seeds_are_opposite() {
        for blocks in [1u64, 2, 3, 7, 64, 1000] {
            let forward: Vec<u64> = (0..blocks).map(|at| BlockOrder::new(blocks, Some(8)).at(at)).collect();
            let mut back: Vec<u64> = (0..blocks).map(|at| BlockOrder::new(blocks, Some(9)).at(at)).collect();
            back.reverse();
            assert_eq!(forward, back);
            let mut sorted = forward.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..blocks).collect::<Vec<_>>());
            assert!(blocks < 7 || forward != sorted);
        }
        let most = u64::from(u32::MAX) * 65_535;
        assert!(BlockOrder::new(most, Some(4)).at(most - 1) < most);
        assert_eq!(BlockOrder::new(9, None).at(4), 4);
    }
}
