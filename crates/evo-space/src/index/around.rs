//! The valid points that differ from a given one in exactly one parameter.
//!
//! The given point's own path through each diagram is walked once. Another value at one slot then
//! starts at the node that the path already found, and ends as soon as it meets the path again: in a
//! reduced diagram most changes do so after a step or two.

use super::counted::Index;
use super::diagram::Edge;

/// No node: the path ended before.
const NONE: u32 = u32::MAX;

/// A point, valid or not, and its path through the diagrams.
#[derive(Debug)]
pub struct Around<'a> {
    index: &'a Index,
    positions: Vec<u16>,
    /// For each slot the node at which it is decided.
    nodes: Vec<u32>,
    /// Whether each group's part of the point is valid.
    valid: Vec<bool>,
    invalid: usize,
}

/// Where values are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Below,
    Above,
}

impl<'a> Around<'a> {
    /// Walks the path; `None` if the point has not as many positions as the space has parameters.
    pub fn new(index: &'a Index, positions: &[u16]) -> Option<Around<'a>> {
        if positions.len() != index.places.len() {
            return None;
        }
        let mut nodes = vec![NONE; positions.len()];
        let mut valid = Vec::with_capacity(index.diagrams.len());
        for diagram in index.diagrams.iter().filter(|_| !index.is_empty()) {
            let mut node = Some(0);
            for layer in &diagram.layers {
                let Some(at) = node else { break };
                nodes[layer.slot] = at;
                node = layer.find(at, positions[layer.slot]).map(|edge| edge.child);
            }
            valid.push(node.is_some());
        }
        let invalid = valid.iter().filter(|valid| !**valid).count();
        Some(Around { index, positions: positions.to_vec(), nodes, valid, invalid })
    }

    /// The ways to change one slot, on one side of the point's own value, ascending. Each has to be
    /// asked for with `accepts`.
    pub fn edges(&self, slot: usize, side: Side) -> &'a [Edge] {
        let (group, depth) = self.index.places[slot];
        let others_invalid = self.invalid - usize::from(self.valid.get(group) == Some(&false));
        // Where another group's part is invalid, no change of this slot can make the point valid.
        if self.nodes[slot] == NONE || others_invalid > 0 {
            return &[];
        }
        let edges = self.index.diagrams[group].layers[depth].edges_of(self.nodes[slot]);
        let own = self.positions[slot];
        match side {
            Side::Below => &edges[..edges.partition_point(|edge| edge.position < own)],
            Side::Above => &edges[edges.partition_point(|edge| edge.position <= own)..],
        }
    }

    /// Whether the point is valid with that change.
    pub fn accepts(&self, slot: usize, edge: &Edge) -> bool {
        let (group, depth) = self.index.places[slot];
        let mut node = edge.child;
        for layer in &self.index.diagrams[group].layers[depth + 1..] {
            // From here on the changed point runs along the original path, which is known to be valid.
            if self.valid[group] && self.nodes[layer.slot] == node {
                break;
            }
            match layer.find(node, self.positions[layer.slot]) {
                Some(edge) => node = edge.child,
                None => return false,
            }
        }
        self.index.is_exact() || {
            let mut positions = self.positions.clone();
            positions[slot] = edge.position;
            self.index.admits(&positions)
        }
    }
}
