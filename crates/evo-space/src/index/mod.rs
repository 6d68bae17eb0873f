//! The index of valid points: exact counts, and index ⇄ point in canonical order, which is lexicographic in the
//! declared order of all parameters. Groups of linked parameters may interleave there: a step at one parameter
//! therefore skips its group's completions times those of every other group from where it stands.
//!
//! A group that takes too much work is counted with some conjuncts left out (`relax`). Those become checks: the points
//! of the diagrams are then a superset of the valid points, and indices run over the superset, with holes.

pub mod diagram;
mod nearest;
mod parts;
mod route;
mod sample;

use std::borrow::Borrow;
use std::sync::{Arc, OnceLock};

use num_bigint::BigUint;

use crate::count::merge::Layers;
use crate::count::problem::Problem;
use crate::count::{RelaxLimits, order, relax};
use crate::index::diagram::{Diagram, Edge, Layer};
use crate::index::parts::{CheckScratch, Checks, Part};
use crate::index::route::Stop;

pub use crate::index::diagram::Allowed;
pub use crate::index::nearest::Around;
pub use crate::index::sample::{Size, float, seeded};

#[derive(Debug)]
pub struct Index {
    /// Each group's; none if a constraint refuses all points.
    pub diagrams: Vec<Diagram>,
    /// By slot; without edges where nothing is valid.
    layers: Vec<Layer>,
    /// Points of the diagrams: an upper bound if the space is not exact.
    pub total: BigUint,
    /// As `total`; `u128::MAX` for that many or more.
    pub count: u128,
    /// Positions that occur in the diagrams, for each slot, computed on first use.
    domains: OnceLock<Vec<Vec<u16>>>,
    /// Where each slot stands between the groups, computed on first use: the small index of a neighborhood never needs it.
    stops: OnceLock<Vec<Stop>>,
    checks: Arc<Checks>,
    closes: Vec<Vec<usize>>,
    /// Diagrams that checks link.
    parts: Vec<Part>,
    /// The others.
    free: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Values tried for each group before conjuncts are left out.
    pub steps: u64,
    pub relax: RelaxLimits,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { steps: order::MAX_STEPS, relax: RelaxLimits::default() }
    }
}

impl Index {
    pub fn new(problem: &Problem, limits: Limits) -> Index {
        let groups = if problem.impossible { Vec::new() } else { problem.groups() };
        let (mut diagrams, mut left_out) = (Vec::new(), Vec::new());
        for group in &groups {
            match order::diagram(problem, group, limits.steps) {
                Ok(layers) => diagrams.push(layers),
                Err(_) => {
                    let (relaxed, conjuncts) = relax(problem, group, limits.relax);
                    diagrams.extend(relaxed);
                    left_out.extend(conjuncts);
                }
            }
        }
        let checks = Checks::new(problem, left_out);
        Index::of(diagrams, problem.values.len(), problem.impossible, Arc::new(checks))
    }

    pub fn listed(layers: Layers, slots: usize) -> Index {
        Index::of(vec![layers], slots, slots == 0, Arc::default())
    }

    /// Diagrams that decide all `slots` together, and checks on their points; of nothing when it is `impossible`.
    fn of(sources: Vec<Layers>, slots: usize, impossible: bool, checks: Arc<Checks>) -> Index {
        let mut layers: Vec<Layer> = std::iter::repeat_with(Layer::default).take(slots).collect();
        let diagram = |(group, source)| Diagram::new(group, source, &mut layers);
        let diagrams: Vec<Diagram> = sources.into_iter().enumerate().map(diagram).collect();
        let mut total = BigUint::from(u8::from(!impossible));
        diagrams.iter().for_each(|diagram| total *= &diagram.total);
        let count = u128::try_from(&total).unwrap_or(u128::MAX);
        let checks = if count == 0 { Arc::default() } else { checks };
        let mut closes = vec![Vec::new(); slots];
        let last_slot = |check: usize| checks.slots(check).last().copied().unwrap_or(0);
        (0..checks.len()).for_each(|check| closes[last_slot(check)].push(check));
        let (parts, free) = parts::parts(&diagrams, &layers, &checks);
        let (domains, stops) = (OnceLock::new(), OnceLock::new());
        Index { diagrams, layers, total, domains, stops, count, checks, closes, parts, free }
    }

    pub fn nodes(&self) -> usize {
        self.layers.iter().map(|layer| layer.counts.len()).sum()
    }

    pub fn is_exact(&self) -> bool {
        self.checks.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// If the space is not exact, `None` also for a hole.
    pub fn point(&self, index: u128) -> Option<Vec<u16>> {
        self.candidate(index).filter(|positions| self.admits(positions))
    }

    /// The index of a point; `None` if it is not valid or its index does not fit 128 bits.
    pub fn index(&self, positions: &[u16]) -> Option<u128> {
        if self.is_empty() || positions.len() != self.layers.len() {
            return None;
        }
        self.index_of_candidate(positions).filter(|_| self.admits(positions))
    }

    pub fn admits(&self, positions: &[u16]) -> bool {
        self.checks.all_hold(positions)
    }

    pub fn contains(&self, positions: &[u16]) -> bool {
        // Checks come last: a position that the diagrams refuse has no value that a check could read.
        let fits = !self.is_empty() && positions.len() == self.layers.len();
        fits && self.diagrams.iter().all(|diagram| {
            let mut slots = diagram.slots.iter();
            slots.try_fold(0, |node, slot| self.layers[*slot].find(node, positions[*slot])).is_some()
        }) && self.admits(positions)
    }
}

/// All valid points of a borrowed or an owned index in canonical order. If the space is not exact, the way from one to
/// the next can be long.
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

impl<I: Borrow<Index>> Points<I> {
    pub fn new(index: I) -> Points<I> {
        let state = if index.borrow().is_empty() { PointsState::Done } else { PointsState::Fresh };
        let scratch = index.borrow().checks.scratch();
        Points { index, chosen: Vec::new(), scratch, state }
    }

    /// Those from a point of the diagrams on.
    pub fn starting_at(index: I, first: u128) -> Points<I> {
        let mut points = Points::new(index);
        let Some(positions) = points.index.borrow().candidate(first) else {
            return Points { state: PointsState::Done, ..points };
        };
        for (slot, position) in positions.into_iter().enumerate() {
            let node = points.node(slot);
            let edge = points.edges(slot, node).partition_point(|edge| edge.position < position);
            points.chosen.push((node, edge as u32));
            // Where a check refuses the point already, `next` goes on from here.
            if !points.passes() {
                break;
            }
        }
        points
    }

    fn edges(&self, slot: usize, node: u32) -> &[Edge] {
        self.index.borrow().layers[slot].edges_of(node)
    }

    fn node(&self, slot: usize) -> u32 {
        let index = self.index.borrow();
        let Layer { group, depth, .. } = index.layers[slot];
        let Some(above) = depth.checked_sub(1) else { return 0 };
        // Groups interleave, so the group's previous layer need not decide the previous slot.
        let previous = index.diagrams[group].slots[above];
        let (node, edge) = self.chosen[previous];
        self.edges(previous, node)[edge as usize].child
    }

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
            if !self.passes() {
                going = self.advance();
            } else if self.chosen.len() < self.index.borrow().layers.len() {
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
