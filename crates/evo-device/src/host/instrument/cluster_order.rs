//! What the accesses of a cluster's blocks are numbered for: which are known to be over.

use std::collections::HashMap;

use super::shadow::AccessRecord;

/// What a block knows of the others of its cluster.
#[derive(Debug, Default)]
pub struct ClusterOrder {
    pub blocks: Vec<u32>,
    pub known: Option<u32>,
    pub arrived: Option<u32>,
    /// By place of a transaction barrier, as an address and in its shared memory: the number at the latest arrival there
    /// in another block.
    pub sent: HashMap<(bool, u32), u32>,
}

/// The later of two numbers, which may have begun anew.
pub fn later(one: Option<u32>, other: u32) -> Option<u32> {
    Some(one.filter(|one| one.wrapping_sub(other).cast_signed() >= 0).unwrap_or(other))
}

impl ClusterOrder {
    pub fn covers(&self, earlier: &AccessRecord) -> bool {
        let known = |known: u32| known.wrapping_sub(earlier.number).cast_signed() >= 0;
        self.known.is_some_and(known) && self.blocks.contains(&earlier.block)
    }
}

pub fn cluster_of([columns, rows, _]: [u32; 3], extents: [u32; 3], block: u32) -> Vec<u32> {
    let place = [block % columns, block / columns % rows, block / columns / rows];
    let first = [0, 1, 2].map(|axis| place[axis] / extents[axis] * extents[axis]);
    let [width, height, _] = extents;
    let within = |rank: u32| [rank % width, rank / width % height, rank / width / height];
    let number = |rank: u32| {
        let [x, y, z] = within(rank);
        first[0] + x + columns * (first[1] + y + rows * (first[2] + z))
    };
    (0..extents.iter().product()).map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_begin_anew_are_later() {
        assert_eq!(later(None, 7), Some(7));
        assert_eq!(later(Some(9), 7), Some(9));
        assert_eq!(later(Some(u32::MAX - 1), 3), Some(3));
        let order = ClusterOrder { blocks: vec![4, 5], known: Some(2), ..ClusterOrder::default() };
        let access = |block, number| AccessRecord { block, number, ..AccessRecord::default() };
        assert!(order.covers(&access(5, 2)) && order.covers(&access(4, u32::MAX)));
        assert!(!order.covers(&access(5, 3)) && !order.covers(&access(6, 1)));
    }
}
