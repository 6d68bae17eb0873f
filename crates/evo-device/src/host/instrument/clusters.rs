//! What a block learns of the others of its cluster when it passes a barrier.

use super::checker::AccessChecker;
use super::cluster_order::{ClusterOrder, keys, later};
use super::shadow::ThreadPlace;

impl AccessChecker {
    pub(super) fn pass_barrier_of_cluster(&mut self, place: &ThreadPlace) {
        self.learn(place, |cluster| cluster.arrived);
    }

    pub(super) fn pass_phase_of_cluster(&mut self, place: &ThreadPlace, at: u32) {
        self.learn(place, |cluster| keys(place, at).iter().find_map(|key| cluster.sent.get(key).copied()));
    }

    fn learn(&mut self, place: &ThreadPlace, left: impl Fn(&ClusterOrder) -> Option<u32>) {
        let Some(at) = self.blocks.iter().position(|block| block.runner == place.runner) else { return };
        let members = std::mem::take(&mut self.blocks[at].order.cluster().blocks);
        if members.len() > 1 {
            for other in 0..self.blocks.len() {
                let order = &mut self.blocks[other].order;
                if other == at || !members.contains(&order.block()) {
                    continue;
                }
                if let Some(new) = left(order.cluster()) {
                    let cluster = self.blocks[at].order.cluster();
                    cluster.known = later(cluster.known, new);
                }
            }
        }
        self.blocks[at].order.cluster().blocks = members;
    }
}
