//! A descent through all diagrams in declared order that goes by shares: a number from 0 to below 1
//! picks the value under which that share of a node's completions lies.
//!
//! With an independent uniform number for each parameter this gives uniform points (the inverse of
//! Rosenblatt's transformation, Ann. Math. Stat. 23, 1952), and numbers that are spread evenly give
//! points that are.

use super::counted::Index;
use super::diagram::{Diagram, Edge};

/// A node on the way down.
#[derive(Clone, Copy, Debug)]
pub struct Fork<'a> {
    diagram: &'a Diagram,
    depth: usize,
    node: u32,
}

/// The edge at some share of a node's completions.
#[derive(Clone, Copy, Debug)]
pub struct ForkChoice {
    pub edge: Edge,
    /// The edge's own part of the completions.
    pub width: f64,
    /// The share within that part, from 0 to below 1.
    pub inside: f64,
}

impl Index {
    /// The point that `choose` leads to, asked for each parameter in declared order. The space must
    /// have a point.
    pub fn descend(&self, mut choose: impl FnMut(usize, Fork<'_>) -> Edge) -> Vec<u16> {
        let mut nodes = vec![0; self.diagrams.len()];
        let mut positions = Vec::with_capacity(self.places.len());
        for (slot, (group, depth)) in self.places.iter().enumerate() {
            let fork = Fork { diagram: &self.diagrams[*group], depth: *depth, node: nodes[*group] };
            let edge = choose(slot, fork);
            nodes[*group] = edge.child;
            positions.push(edge.position);
        }
        positions
    }
}

impl Fork<'_> {
    /// The edge at a share of the completions, from 0 to below 1.
    pub fn split(&self, share: f64) -> ForkChoice {
        let edges = self.diagram.layers[self.depth].edges_of(self.node);
        // A forced value uses up none of the share, so its random bits remain for later parameters.
        if edges.len() == 1 {
            return ForkChoice { edge: edges[0], width: 1.0, inside: share };
        }
        let end = |at: usize| self.diagram.end(self.depth, self.node, at);
        let all = end(edges.len() - 1);
        let wanted = share * all;
        // The first edge that ends beyond; rounding may leave none.
        let (mut at, mut size) = (0, edges.len() - 1);
        while size > 0 {
            let half = size / 2;
            if end(at + half) <= wanted {
                at += half + 1;
                size -= half + 1;
            } else {
                size = half;
            }
        }
        let start = if at == 0 { 0.0 } else { end(at - 1) };
        let width = end(at) - start;
        let inside = if width > 0.0 { (wanted - start) / width } else { 0.0 };
        ForkChoice { edge: edges[at], width: width / all, inside: inside.clamp(0.0, 1.0 - f64::EPSILON) }
    }
}
