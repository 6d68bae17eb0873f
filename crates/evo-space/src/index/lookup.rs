//! Index to point and back: one descent through all diagrams in declared order.

use num_bigint::BigUint;

use super::counted::Index;
use super::diagram::Edge;

impl Index {
    /// The point at an index below the total; the very last index of 128 bits is out of reach. If the
    /// space is not exact, `None` also where the diagrams have a point that is not valid.
    pub fn point(&self, index: u128) -> Option<Vec<u16>> {
        self.candidate(index).filter(|positions| self.admits(positions))
    }

    /// The point of the diagrams at an index, valid or not.
    pub fn candidate(&self, index: u128) -> Option<Vec<u16>> {
        if let Some(route) = self.route() {
            return route.point(index);
        }
        let below = index < u128::MAX && BigUint::from(index) < self.total;
        below.then(|| self.wide_point(index))
    }

    /// The index of a point; `None` if it is not valid or its index does not fit 128 bits.
    pub fn index(&self, positions: &[u16]) -> Option<u128> {
        if self.is_empty() || positions.len() != self.places.len() {
            return None;
        }
        let index = match self.route() {
            Some(route) => route.index(positions)?.into(),
            None => self.wide_index(positions)?,
        };
        self.admits(positions).then_some(index)
    }

    /// The point at an index below the total and the largest number.
    fn wide_point(&self, mut index: u128) -> Vec<u16> {
        let mut walk = IndexWalk::new(self);
        for slot in 0..self.places.len() {
            // Groups may interleave in the declared order: a step at this slot skips its own completions
            // times those of every other group.
            let rest = walk.completions_elsewhere(slot);
            let edges = walk.edges(slot);
            // Products beyond 128 bits saturate, which is as good as exact: the index is below.
            let after = edges.partition_point(|edge| edge.before.saturating_mul(rest) <= index);
            let edge = edges[after - 1];
            index -= edge.before * rest;
            walk.follow(slot, edge);
        }
        walk.positions
    }

    /// The index of a point, below the largest number.
    fn wide_index(&self, positions: &[u16]) -> Option<u128> {
        let mut walk = IndexWalk::new(self);
        let mut index = 0u128;
        for (slot, position) in positions.iter().enumerate() {
            let edge = walk.find(slot, *position)?;
            // What does not fit 128 bits saturates, and stays so.
            let skipped = edge.before.saturating_mul(walk.completions_elsewhere(slot));
            index = index.saturating_add(skipped);
            walk.follow(slot, edge);
        }
        (index < u128::MAX).then_some(index)
    }

    /// Whether a point of the diagrams is valid.
    pub fn admits(&self, positions: &[u16]) -> bool {
        self.checks.all_hold(positions)
    }

    /// Whether a point is valid.
    pub fn contains(&self, positions: &[u16]) -> bool {
        // Checks come last: a position that the diagrams refuse has no value that a check could read.
        let fits = !self.is_empty() && positions.len() == self.places.len();
        fits && self.diagrams.iter().all(|diagram| {
            let mut layers = diagram.layers.iter();
            let found = layers
                .try_fold(0, |node, layer| layer.find(node, positions[layer.slot]).map(|edge| edge.child));
            found.is_some()
        }) && self.admits(positions)
    }
}

/// A descent through all diagrams in declared order.
struct IndexWalk<'a> {
    index: &'a Index,
    /// The next layer and the node there, for each diagram.
    at: Vec<(usize, u32)>,
    positions: Vec<u16>,
}

impl<'a> IndexWalk<'a> {
    fn new(index: &'a Index) -> IndexWalk<'a> {
        IndexWalk {
            index,
            at: vec![(0, 0); index.diagrams.len()],
            positions: Vec::with_capacity(index.places.len()),
        }
    }

    fn edges(&self, slot: usize) -> &'a [Edge] {
        let (group, depth) = self.index.places[slot];
        self.index.diagrams[group].layers[depth].edges_of(self.at[group].1)
    }

    fn find(&self, slot: usize, position: u16) -> Option<Edge> {
        let (group, depth) = self.index.places[slot];
        self.index.diagrams[group].layers[depth].find(self.at[group].1, position)
    }

    fn follow(&mut self, slot: usize, edge: Edge) {
        let (group, depth) = self.index.places[slot];
        self.at[group] = (depth + 1, edge.child);
        self.positions.push(edge.position);
    }

    /// Completions of all other groups from where they stand; `u128::MAX` for that many or more.
    fn completions_elsewhere(&self, slot: usize) -> u128 {
        let (own, _) = self.index.places[slot];
        let groups = self.index.diagrams.iter().zip(&self.at).enumerate().filter(|(group, _)| *group != own);
        groups
            .map(|(_, (diagram, (depth, node)))| diagram.node_count(*depth, *node))
            .fold(1, u128::saturating_mul)
    }
}
