//! Order between the blocks of a cluster.
//!
//! Accesses of a run are numbered. Who passes the cluster's barrier, or a phase for which another block has arrived, knows
//! all accesses of its cluster up to the number of the last arrival. So a missing barrier is seen, and a thread that
//! goes on between its arrival and that of others may be claimed to be in order when it is not.

use std::collections::HashMap;

use super::shadow::{AccessRecord, ThreadPlace};

/// What a block knows of the others of its cluster.
#[derive(Debug, Default)]
pub struct ClusterOrder {
    pub blocks: Vec<u32>,
    pub(super) known: Option<u32>,
    pub(super) arrived: Option<u32>,
    /// By place of a transaction barrier, as an address and in its shared memory: the number at the latest arrival there
    /// in another block.
    pub(super) sent: HashMap<(bool, u32), u32>,
}

/// The later of two numbers, which may have begun anew.
pub(super) fn later(known: Option<u32>, new: u32) -> Option<u32> {
    Some(known.filter(|known| known.wrapping_sub(new).cast_signed() >= 0).unwrap_or(new))
}

pub(super) fn keys(place: &ThreadPlace, at: u32) -> [(bool, u32); 2] {
    [(false, at), (true, at.wrapping_sub(place.shared as u32))]
}

impl ClusterOrder {
    pub fn arrive(&mut self, now: u32) {
        self.arrived = Some(now);
    }

    pub fn arrive_there(&mut self, place: &ThreadPlace, at: u32, now: u32) {
        self.sent.extend(keys(place, at).map(|key| (key, now)));
    }

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
