//! The way through the diagrams in declared order, which the way between index and point follows. Groups interleave
//! there: what a step at one slot skips is multiplied by the completions of the other groups, a constant for groups that
//! have not begun, 1 for those that have ended, so that only groups that are under way are looked up.

use super::Index;
use super::diagram::{Diagram, Edge, Layer};

/// Nodes of so many groups are kept without allocating.
const FEW_GROUPS: usize = 32;

#[derive(Debug)]
pub struct Stop {
    group: usize,
    depth: usize,
    /// Other groups that are under way, and the layer that each is at.
    open: Vec<(usize, usize)>,
    /// Completions of the groups that have not begun; `u128::MAX` for that many or more.
    later: u128,
}

/// A slot that is to be decided.
pub struct Fork<'a> {
    diagrams: &'a [Diagram],
    pub slot: usize,
    stop: &'a Stop,
    nodes: &'a [u32],
}

impl<'a> Fork<'a> {
    #[inline]
    fn layer(&self) -> &'a Layer {
        &self.diagrams[self.stop.group].layers[self.stop.depth]
    }

    fn node(&self) -> u32 {
        self.nodes[self.stop.group]
    }

    pub fn split(&self, share: f64) -> Edge {
        self.diagrams[self.stop.group].split(self.stop.depth, self.node(), share)
    }

    /// Completions of all other groups from where they stand; `u128::MAX` for that many or more.
    #[inline]
    fn completions_elsewhere(&self) -> u128 {
        let counts =
            self.stop.open.iter().map(|(group, depth)| {
                self.diagrams[*group].layers[*depth].counts[self.nodes[*group] as usize]
            });
        counts.fold(self.stop.later, product)
    }
}

impl Index {
    /// The point that `choose` makes, which is asked for each parameter in declared order. The index must have a point.
    #[inline]
    pub fn descend(&self, mut choose: impl FnMut(&Fork<'_>) -> Edge) -> Vec<u16> {
        let mut positions = Vec::with_capacity(self.places.len());
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
        let diagrams = &self.diagrams;
        let stops = self.stops.get_or_init(|| stops(diagrams, &self.places));
        let mut walk = |nodes: &mut [u32]| {
            for (slot, stop) in stops.iter().enumerate() {
                nodes[stop.group] = choose(Fork { diagrams, slot, stop, nodes })?;
            }
            Some(())
        };
        match diagrams.len() {
            few @ 0..=FEW_GROUPS => walk(&mut [0; FEW_GROUPS][..few]),
            many => walk(&mut vec![0; many]),
        }
    }

    /// The point of the diagrams at an index, valid or not. The very last index of 128 bits is out of reach.
    pub fn candidate(&self, mut index: u128) -> Option<Vec<u16>> {
        if index >= self.count {
            return None;
        }
        Some(self.descend(|fork| {
            let edges = fork.layer().edges_of(fork.node());
            // A forced value has no completions before it.
            if let [only] = edges {
                return *only;
            }
            let rest = fork.completions_elsewhere();
            // A division costs more than the comparison, and spaces with one group always have a rest of 1.
            let rank = if rest == 1 { index } else { quotient(index, rest) };
            // Where each edge has one completion, the index is the number of the edge.
            let edge = match edges.get(rank as usize) {
                Some(edge) if edge.before == rank => edge,
                _ => &edges[edges.partition_point(|edge| edge.before <= rank) - 1],
            };
            index -= product(edge.before, rest);
            *edge
        }))
    }

    /// The index of a point of the diagrams; `None` if there is none or it does not fit 128 bits.
    pub(super) fn index_of_candidate(&self, positions: &[u16]) -> Option<u128> {
        let mut index = 0u128;
        self.walk(|fork| {
            let edge = fork.layer().find(fork.node(), positions[fork.slot])?;
            if edge.before > 0 {
                index = index.saturating_add(product(edge.before, fork.completions_elsewhere()));
            }
            Some(edge.child)
        })?;
        (index < u128::MAX).then_some(index)
    }
}

/// `u128::MAX` for that much or more. Nearly all numbers fit 64 bits, for which this takes a fraction of the time.
#[inline]
fn product(a: u128, b: u128) -> u128 {
    match (u64::try_from(a), u64::try_from(b)) {
        (Ok(a), Ok(b)) => u128::from(a) * u128::from(b),
        _ => a.saturating_mul(b),
    }
}

#[inline]
fn quotient(a: u128, b: u128) -> u128 {
    match (u64::try_from(a), u64::try_from(b)) {
        (Ok(a), Ok(b)) => u128::from(a / b),
        _ => a / b,
    }
}

fn stops(diagrams: &[Diagram], places: &[(usize, usize)]) -> Vec<Stop> {
    let stop = |(slot, (group, depth)): (usize, &(usize, usize))| {
        let mut stop = Stop { group: *group, depth: *depth, open: Vec::new(), later: 1 };
        for (other, diagram) in diagrams.iter().enumerate().filter(|(other, _)| other != group) {
            match diagram.layers.iter().position(|layer| layer.slot > slot) {
                None => {}
                Some(0) => stop.later = stop.later.saturating_mul(diagram.layers[0].counts[0]),
                Some(next) => stop.open.push((other, next)),
            }
        }
        stop
    };
    places.iter().enumerate().map(stop).collect()
}
