//! Order between the blocks of a cluster.
//!
//! Accesses of a run are numbered. Who passes the cluster's barrier, or a phase for which another block has arrived, knows
//! all accesses of its cluster up to the number of the last arrival. So a missing barrier is seen, and a thread that
//! goes on between its arrival and that of others may be claimed to be in order when it is not.

use super::access::ThreadPlace;
use super::checker::{AccessChecker, SyncMoment};
use super::cluster_order::{ClusterOrder, later};
use super::regions::RegionKind;

impl AccessChecker {
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

    pub(super) fn pass_phase_of_cluster(&mut self, place: &ThreadPlace, at: u32) {
        let keys = [(false, at), (true, at.wrapping_sub(place.shared as u32))];
        self.learn(place, |own, _| keys.iter().find_map(|key| own.sent.get(key).copied()));
    }

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
