//! The way through the diagrams in declared order, which the way between index and point follows. Groups interleave
//! there: what a step at one slot skips is multiplied by the completions of the other groups, a constant for groups that
//! have not begun, 1 for those that have ended, so that only groups that are under way are looked up.

use super::Index;
use super::diagram::{Count, Diagram, Edge, Layer};

/// Nodes of so many groups are kept without allocating.
const FEW_GROUPS: usize = 32;

#[derive(Debug)]
pub struct Stop {
    /// Other groups that are under way, and the slot that each decides next.
    open: Vec<(usize, usize)>,
    /// Completions of the groups that have not begun; `u128::MAX` for that many or more.
    later: u128,
}

/// A slot that is to be decided.
pub struct Fork<'a> {
    layers: &'a [Layer],
    pub slot: usize,
    layer: &'a Layer,
    stop: &'a Stop,
    nodes: &'a [u32],
}

impl Fork<'_> {
    fn node(&self) -> u32 {
        self.nodes[self.layer.group]
    }

    pub fn split(&self, share: f64) -> Edge {
        self.layer.split(self.node(), share)
    }

    /// Completions of all other groups from where they stand.
    #[inline]
    fn completions_elsewhere<N: Count>(&self) -> N {
        let counts =
            self.stop.open.iter().map(|(group, slot)| self.layers[*slot].counts[self.nodes[*group] as usize]);
        counts.map(N::of).fold(N::of(self.stop.later), N::times)
    }
}

impl Index {
    /// The point that `choose` makes, which is asked for each parameter in declared order. The index must have a point.
    #[inline]
    pub fn descend(&self, mut choose: impl FnMut(&Fork<'_>) -> Edge) -> Vec<u16> {
        let mut positions = Vec::with_capacity(self.layers.len());
        let _ = self.walk(|fork| {
            let edge = choose(&fork);
            positions.push(edge.position);
            Some(edge.child)
        });
        positions
    }

    /// `choose` gives the next node of each parameter's group; the walk ends where there is none.
    #[inline]
    fn walk(&self, mut choose: impl FnMut(Fork<'_>) -> Option<u32>) -> Option<()> {
        let layers = &self.layers;
        let stops = self.stops.get_or_init(|| stops(&self.diagrams, layers));
        let mut walk = |nodes: &mut [u32]| {
            for (slot, (layer, stop)) in layers.iter().zip(stops).enumerate() {
                nodes[layer.group] = choose(Fork { layers, slot, layer, stop, nodes })?;
            }
            Some(())
        };
        match self.diagrams.len() {
            few @ 0..=FEW_GROUPS => walk(&mut [0; FEW_GROUPS][..few]),
            many => walk(&mut vec![0; many]),
        }
    }

    /// The point of the diagrams at an index, valid or not. The very last index of 128 bits is out of reach.
    pub fn candidate(&self, index: u128) -> Option<Vec<u16>> {
        if index >= self.count {
            return None;
        }
        // Every count of a node or an edge is at most that of all points.
        Some(if self.is_narrow() { self.candidate_at(index as u64) } else { self.candidate_at(index) })
    }

    fn candidate_at<N: Count>(&self, mut index: N) -> Vec<u16> {
        self.descend(|fork| {
            let mut rest = N::from(1);
            let (edge, before) = fork.layer.at(fork.node(), || {
                rest = fork.completions_elsewhere();
                // A division costs more than the comparison, and spaces with one group always have a rest of 1.
                if rest == N::from(1) { index } else { index / rest }
            });
            index = index - before.times(rest);
            edge
        })
    }

    /// The index of a point of the diagrams; `None` if there is none or it does not fit 128 bits.
    pub(super) fn index_of_candidate(&self, positions: &[u16]) -> Option<u128> {
        if self.is_narrow() {
            return self.index_at::<u64>(positions).map(u128::from);
        }
        self.index_at(positions).filter(|index| *index < u128::MAX)
    }

    fn index_at<N: Count>(&self, positions: &[u16]) -> Option<N> {
        let mut index = N::from(0);
        self.walk(|fork| {
            let (child, before) = fork.layer.find_with_before::<N>(fork.node(), positions[fork.slot])?;
            if before > N::from(0) {
                index = index.plus(before.times(fork.completions_elsewhere()));
            }
            Some(child)
        })?;
        Some(index)
    }

    fn is_narrow(&self) -> bool {
        self.count <= u128::from(u64::MAX)
    }
}

fn stops(diagrams: &[Diagram], layers: &[Layer]) -> Vec<Stop> {
    let stop = |(slot, layer): (usize, &Layer)| {
        let mut stop = Stop { open: Vec::new(), later: 1 };
        for (other, diagram) in diagrams.iter().enumerate().filter(|(other, _)| *other != layer.group) {
            match diagram.slots.iter().find(|next| **next > slot) {
                None => {}
                Some(first) if *first == diagram.slots[0] => {
                    stop.later = stop.later.saturating_mul(layers[*first].counts[0]);
                }
                Some(next) => stop.open.push((other, *next)),
            }
        }
        stop
    };
    layers.iter().enumerate().map(stop).collect()
}
