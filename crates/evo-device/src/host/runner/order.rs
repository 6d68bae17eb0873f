//! In which order blocks, warps and lanes take turns.
//!
//! Without a seed they ascend, which is fast and hides missing barriers: whoever reads comes after whoever
//! wrote. With a seed each block draws an order of its warps and lanes, and neighboring blocks change places. Seeds
//! `2k` and `2k + 1` give exactly opposite orders, so of two things whose order matters and is not enforced, each
//! comes first under one of the two seeds.

#[derive(Clone, Debug)]
pub struct TurnOrder {
    seed: Option<u64>,
    warps: [u8; 32],
    lanes: [u8; 32],
}

impl TurnOrder {
    pub fn of(seed: Option<u64>) -> TurnOrder {
        let ascending = std::array::from_fn(|index| index as u8);
        TurnOrder { seed, warps: ascending, lanes: ascending }
    }

    pub fn begin_block(&mut self, block: u64, warps: usize) {
        let Some(seed) = self.seed else { return };
        let mut state = mix((seed / 2) ^ mix(block));
        *self = TurnOrder::of(Some(seed));
        shuffle(&mut self.warps[..warps], seed, &mut state);
        shuffle(&mut self.lanes, seed, &mut state);
    }

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

fn shuffle<T>(order: &mut [T], seed: u64, state: &mut u64) {
    for last in (1..order.len()).rev() {
        *state = mix(*state);
        order.swap(last, (*state % (last as u64 + 1)) as usize);
    }
    if seed % 2 == 1 {
        order.reverse();
    }
}

/// Blocks that change places with each other. A GPU starts blocks in ascending order and runs many at once, so kernels
/// may wait for an earlier block; were all blocks permuted, that block might never get a processor thread.
pub const WINDOW: u64 = 16;

/// In which order `count` blocks take turns that follow each other, the first of them number `first`.
pub fn of_neighbors(seed: Option<u64>, first: u64, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    if let Some(seed) = seed {
        shuffle(&mut order, seed, &mut mix((seed / 2) ^ mix(!first)));
    }
    order
}

/// The finalizer of SplitMix64: every bit of the result depends on every bit of the input.
pub(super) fn mix(value: u64) -> u64 {
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
    fn neighbors_are_permuted_and_neighboring_seeds_are_opposite() {
        assert_eq!(of_neighbors(None, 4, 3), [0, 1, 2]);
        for (seed, count) in
            [0, 2, 40, u64::MAX - 1].into_iter().flat_map(|seed| (1..=16).map(move |count| (seed, count)))
        {
            let [mut order, mut back] = [seed, seed + 1].map(|seed| of_neighbors(Some(seed), 32, count));
            assert!(count < 7 || order != of_neighbors(Some(seed), 48, count) && !order.is_sorted());
            back.reverse();
            assert_eq!(order, back);
            order.sort_unstable();
            assert!(order.into_iter().eq(0..count));
        }
    }
}
