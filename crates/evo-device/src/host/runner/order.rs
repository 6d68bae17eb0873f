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
    pub fn ascending() -> TurnOrder {
        let ascending = std::array::from_fn(|index| index as u8);
        TurnOrder { seed: None, warps: ascending, lanes: ascending }
    }

    pub fn of(seed: Option<u64>) -> TurnOrder {
        TurnOrder { seed, ..TurnOrder::ascending() }
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

/// In which order the blocks of a cluster take turns, by rank: `first` is the number of its first block.
pub fn of_cluster(seed: Option<u64>, first: u64, blocks: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..blocks).collect();
    if let Some(seed) = seed {
        shuffle(&mut order, seed, &mut mix((seed / 2) ^ mix(!first)));
    }
    order
}

/// Blocks that change places with each other.
pub const WINDOW: u64 = 16;

/// A permutation of each 16 blocks that follow each other. A GPU starts blocks in ascending order and runs many at
/// once, so kernels may wait for an earlier block; were all blocks permuted, that block might never get a processor
/// thread.
#[derive(Clone, Copy, Debug)]
pub struct BlockSequence {
    blocks: u64,
    seed: Option<u64>,
}

impl BlockSequence {
    pub fn new(blocks: u64, seed: Option<u64>) -> BlockSequence {
        BlockSequence { blocks, seed }
    }

    pub fn at(&self, position: u64) -> u64 {
        let Some(seed) = self.seed else { return position };
        let first = position - position % WINDOW;
        let size = WINDOW.min(self.blocks - first);
        let place = position - first;
        let mut number = if seed % 2 == 1 { size - 1 - place } else { place };
        // The network permutes 16 numbers; what falls outside the range walks on until it is inside.
        loop {
            number = network(mix((seed / 2) ^ mix(first)), number);
            if number < size {
                return first + number;
            }
        }
    }
}

/// A Feistel network over 4 bits.
fn network(key: u64, number: u64) -> u64 {
    let (mut left, mut right) = (number >> 2, number & 3);
    for round in 0..6 {
        (left, right) = (right, left ^ (mix(key ^ mix(right << 3 | round)) & 3));
    }
    left << 2 | right
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
            let mut blocks = of_cluster(Some(seed), 8, 8);
            assert_ne!(blocks, of_cluster(Some(seed), 16, 8));
            blocks.reverse();
            assert_eq!(blocks, of_cluster(Some(seed + 1), 8, 8));
            let sorted = |mut order: Vec<usize>| (order.sort_unstable(), order).1;
            assert_eq!(sorted(warps), (0..8).collect::<Vec<_>>());
        }
    }

    #[test]
    fn blocks_are_permuted_near_their_place_and_neighboring_seeds_are_opposite() {
        for blocks in [1u64, 2, 3, 7, 16, 17, 1000] {
            let order = |seed| -> Vec<u64> {
                (0..blocks).map(|at| BlockSequence::new(blocks, Some(seed)).at(at)).collect()
            };
            let (forward, back) = (order(8), order(9));
            for (forward, back) in forward.chunks(16).zip(back.chunks(16)) {
                assert!(forward.iter().eq(back.iter().rev()));
                let mut sorted = forward.to_vec();
                sorted.sort_unstable();
                assert!(sorted.iter().map(|block| block % 16).eq(0..forward.len() as u64));
            }
            assert!(blocks < 7 || (0..blocks).ne(forward));
        }
        let most = u64::from(u32::MAX) * 65_535;
        assert!(BlockSequence::new(most, Some(4)).at(most - 1) < most);
        assert_eq!(BlockSequence::new(9, None).at(4), 4);
    }
}
