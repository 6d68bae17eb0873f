//! Order between the blocks of a cluster.
//!
//! Accesses of a run are numbered. Who passes the cluster's barrier, or a phase for which another block has arrived, knows
//! all accesses of its cluster up to the number of the last arrival. So a missing barrier is seen, and a thread that
//! goes on between its arrival and that of others may be claimed to be in order when it is not.

use std::collections::HashMap;

use super::access::ThreadPlace;
use super::checker::{AccessChecker, LaunchShape, SyncMoment};
use super::regions::RegionKind;
use super::shadow::AccessRecord;

/// What a block knows of the others of its cluster.
#[derive(Debug, Default)]
pub struct ClusterOrder {
    /// Linear numbers of all of them.
    pub blocks: Vec<u32>,
    /// The number of the latest access that is known.
    known: Option<u32>,
    /// The number at its latest arrival at the cluster's barrier.
    arrived: Option<u32>,
    /// By place of a transaction barrier, as an address and in its shared memory: the number at the latest arrival there
    /// in another block.
    sent: HashMap<(bool, u32), u32>,
}

/// The later of two numbers, which may have begun anew.
fn later(one: Option<u32>, other: u32) -> Option<u32> {
    Some(one.filter(|one| one.wrapping_sub(other).cast_signed() >= 0).unwrap_or(other))
}

impl ClusterOrder {
    /// Whether an access of another block is known to be over.
    pub fn covers(&self, earlier: &AccessRecord) -> bool {
        let known = |known: u32| known.wrapping_sub(earlier.number).cast_signed() >= 0;
        self.known.is_some_and(known) && self.blocks.contains(&earlier.block)
    }
}

/// The blocks of the cluster that has a block.
pub fn cluster_of(shape: &LaunchShape, block: u32) -> Vec<u32> {
    let ([columns, rows, _], extents) = (shape.grid, shape.cluster);
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

impl AccessChecker {
    /// A thread comes to something that orders accesses of its cluster.
    pub(super) fn sync_cluster(&mut self, place: &ThreadPlace, moment: SyncMoment) {
        let now = self.accesses as u32;
        if moment == SyncMoment::Cluster {
            return self.learn(place, |own, _| own.arrived);
        }
        let Some(block) = self.blocks.iter_mut().find(|own| own.runner == place.runner) else { return };
        let cluster = block.order.cluster();
        match moment {
            SyncMoment::ClusterArrive => cluster.arrived = Some(now),
            SyncMoment::ArriveThere { place: at } => {
                cluster.sent.insert((false, at), now);
                cluster.sent.insert((true, at.wrapping_sub(place.shared as u32)), now);
            }
            _ => {}
        }
    }

    /// A thread has waited for a phase: it knows what blocks had done that have arrived there.
    pub(super) fn pass_phase_of_cluster(&mut self, place: &ThreadPlace, at: u32) {
        let keys = [(false, at), (true, at.wrapping_sub(place.shared as u32))];
        self.learn(place, |own, _| keys.iter().find_map(|key| own.sent.get(key).copied()));
    }

    /// A block takes over numbers that the others of its cluster have left.
    fn learn(&mut self, place: &ThreadPlace, left: impl Fn(&ClusterOrder, u32) -> Option<u32>) {
        let Some(at) = self.blocks.iter().position(|own| own.runner == place.runner) else { return };
        let members = std::mem::take(&mut self.blocks[at].order.cluster().blocks);
        if members.len() > 1 {
            for other in 0..self.blocks.len() {
                let order = &mut self.blocks[other].order;
                let number = order.block();
                if other == at || !members.contains(&number) {
                    continue;
                }
                if let Some(new) = left(order.cluster(), number) {
                    let own = self.blocks[at].order.cluster();
                    own.known = later(own.known, new);
                }
            }
        }
        self.blocks[at].order.cluster().blocks = members;
    }

    /// Static shared memory of a block changes places, because another of its cluster has its turn.
    pub fn moves(&mut self, runner: usize, (from, to, bytes): (usize, usize, usize)) {
        self.settle();
        self.regions.moves(runner, from, to, bytes);
    }
}

impl super::regions::Regions {
    /// Shared memory of an owner lies elsewhere from now on.
    fn moves(&mut self, owner: usize, from: usize, to: usize, bytes: usize) {
        self.change(|own| {
            let shared = matches!(own.kind, RegionKind::Shared | RegionKind::Guard);
            let offset = own.start.wrapping_sub(from);
            if shared && own.owner == owner && offset < bytes {
                own.start = to + offset;
            }
        });
    }
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
