//! All points in canonical order, one after the other. Checks are made as soon as their last
//! parameter is decided, so that what they refuse is skipped whole.

use std::borrow::Borrow;

use super::checks::CheckScratch;
use super::counted::Index;
use super::diagram::Edge;

/// All valid points of a borrowed or an owned index, one after the other.
pub struct Points<I> {
    index: I,
    /// For each slot the node it is decided at and the number of the chosen edge.
    chosen: Vec<(u32, u32)>,
    scratch: CheckScratch,
    state: PointsState,
}

enum PointsState {
    Fresh,
    Running,
    Done,
}

impl Index {
    /// All valid points in canonical order. If the space is not exact, the way from one to the next
    /// can be long.
    pub fn iter(&self) -> Points<&Index> {
        Points::new(self)
    }
}

impl<I: Borrow<Index>> Points<I> {
    /// The points of `index`.
    pub fn new(index: I) -> Points<I> {
        let state = if index.borrow().is_empty() { PointsState::Done } else { PointsState::Fresh };
        let scratch = index.borrow().checks.scratch();
        Points { index, chosen: Vec::new(), scratch, state }
    }

    fn edges(&self, slot: usize, node: u32) -> &[Edge] {
        let index = self.index.borrow();
        let (group, depth) = index.places[slot];
        index.diagrams[group].layers[depth].edges_of(node)
    }

    /// The node at which `slot` is decided, given the choices at earlier slots.
    fn node(&self, slot: usize) -> u32 {
        let index = self.index.borrow();
        let (group, depth) = index.places[slot];
        let Some(above) = depth.checked_sub(1) else { return 0 };
        // Groups interleave, so the group's previous layer need not decide the previous slot.
        let previous = index.diagrams[group].layers[above].slot;
        let (node, edge) = self.chosen[previous];
        self.edges(previous, node)[edge as usize].child
    }

    /// Moves the last slot that can move; the later ones start over.
    fn advance(&mut self) -> bool {
        // Later slots are dropped and chosen again by `next`, because their nodes depend on this choice.
        while let Some((node, edge)) = self.chosen.pop() {
            if (edge as usize) + 1 < self.edges(self.chosen.len(), node).len() {
                self.chosen.push((node, edge + 1));
                return true;
            }
        }
        false
    }

    /// Whether the checks hold that the last choice completes.
    fn passes(&mut self) -> bool {
        let index = self.index.borrow();
        let Some((node, edge)) = self.chosen.last().filter(|_| !index.is_exact()) else { return true };
        let slot = self.chosen.len() - 1;
        let position = self.edges(slot, *node)[*edge as usize].position;
        index.checks.set(&mut self.scratch, slot, position);
        index.closes[slot].iter().all(|check| index.checks.holds(*check, &mut self.scratch))
    }
}

impl<I: Borrow<Index>> Iterator for Points<I> {
    type Item = Vec<u16>;

    fn next(&mut self) -> Option<Vec<u16>> {
        let mut going = match self.state {
            PointsState::Fresh => true,
            PointsState::Running => self.advance(),
            PointsState::Done => false,
        };
        while going {
            // A failed check rules out every completion of the prefix, so the search moves on at this slot.
            if !self.passes() {
                going = self.advance();
            } else if self.chosen.len() < self.index.borrow().places.len() {
                let node = self.node(self.chosen.len());
                self.chosen.push((node, 0));
            } else {
                break;
            }
        }
        self.state = if going { PointsState::Running } else { PointsState::Done };
        let position =
            |(slot, (node, edge)): (usize, &(u32, u32))| self.edges(slot, *node)[*edge as usize].position;
        going.then(|| self.chosen.iter().enumerate().map(position).collect())
    }
}
