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
use crate::index::diagram::{Diagram, Edge};
use crate::index::parts::{CheckScratch, Checks, Part};
use crate::index::route::Route;

pub use crate::index::diagram::Allowed;
pub use crate::index::nearest::{Around, Side};
pub use crate::index::sample::Size;

#[derive(Debug)]
pub struct Index {
    diagrams: Vec<Diagram>,
    /// Group and layer of each slot.
    places: Vec<(usize, usize)>,
    total: BigUint,
    /// Positions that occur in the diagrams, for each slot, computed on first use.
    domains: OnceLock<Vec<Vec<u16>>>,
    /// The short way between index and point where there is one, computed on first use.
    route: OnceLock<Option<Route>>,
    checks: Arc<Checks>,
    closes: Vec<Vec<usize>>,
    /// What is independent of each other; only kept if there are checks.
    parts: Vec<Part>,
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
                Ok(layers) => diagrams.push(Diagram::new(layers)),
                Err(_) => {
                    let (relaxed, conjuncts) = relax(problem, group, limits.relax);
                    diagrams.extend(relaxed.into_iter().map(Diagram::new));
                    left_out.extend(conjuncts);
                }
            }
        }
        let checks = Checks::new(problem, left_out);
        Index::of(diagrams, problem.values.len(), problem.impossible, Arc::new(checks))
    }

    pub fn listed(layers: Layers, slots: usize) -> Index {
        Index::of(vec![Diagram::new(layers)], slots, slots == 0, Arc::default())
    }

    /// Diagrams that decide all `slots` together, and checks on their points; of nothing when it is `impossible`.
    fn of(diagrams: Vec<Diagram>, slots: usize, impossible: bool, checks: Arc<Checks>) -> Index {
        let mut places = vec![(0, 0); slots];
        let mut total = BigUint::from(u8::from(!impossible));
        for (group, diagram) in diagrams.iter().enumerate() {
            total *= &diagram.total;
            for (depth, layer) in diagram.layers.iter().enumerate() {
                places[layer.slot] = (group, depth);
            }
        }
        let checks = if total == BigUint::ZERO { Arc::default() } else { checks };
        let (mut closes, mut parts) = (vec![Vec::new(); slots], Vec::new());
        if !checks.is_empty() {
            (0..checks.len()).for_each(|check| closes[checks.last_slot(check)].push(check));
            parts = parts::parts(&diagrams, &places, &checks);
        }
        Index {
            diagrams,
            places,
            total,
            domains: OnceLock::new(),
            route: OnceLock::new(),
            checks,
            closes,
            parts,
        }
    }

    /// Points of the diagrams: an upper bound if the space is not exact.
    pub fn total(&self) -> &BigUint {
        &self.total
    }

    fn route(&self) -> Option<&Route> {
        // On first use: it copies all tables, and the small index of a neighborhood never needs it.
        let new = || if self.is_empty() { None } else { Route::new(&self.diagrams, &self.places) };
        self.route.get_or_init(new).as_ref()
    }

    /// Each group's diagram; none if a constraint refuses all points.
    pub fn diagrams(&self) -> &[Diagram] {
        &self.diagrams
    }

    pub fn is_exact(&self) -> bool {
        self.checks.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.total == BigUint::ZERO
    }

    /// The sum of `weight(slot, position)` over all slots of all points of the diagrams.
    pub fn weighted_sum(&self, weight: impl Fn(usize, u16) -> BigUint) -> BigUint {
        let mut sum = BigUint::ZERO;
        for diagram in self.diagrams.iter().filter(|_| !self.is_empty()) {
            // Each point of a group occurs once with every combination of the other groups' points.
            let others = &self.total / &diagram.total;
            sum += diagram.weighted_sum(&weight) * others;
        }
        sum
    }
}

impl Index {
    /// The very last index of 128 bits is out of reach. If the space is not exact, `None` also for a hole.
    pub fn point(&self, index: u128) -> Option<Vec<u16>> {
        self.candidate(index).filter(|positions| self.admits(positions))
    }

    /// The point of the diagrams at an index, valid or not.
    fn candidate(&self, index: u128) -> Option<Vec<u16>> {
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

    fn wide_point(&self, mut index: u128) -> Vec<u16> {
        let mut walk = IndexWalk::new(self);
        for slot in 0..self.places.len() {
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

    fn wide_index(&self, positions: &[u16]) -> Option<u128> {
        let mut walk = IndexWalk::new(self);
        let mut index = 0u128;
        for (slot, position) in positions.iter().enumerate() {
            let edge = walk.find(slot, *position)?;
            let skipped = edge.before.saturating_mul(walk.completions_elsewhere(slot));
            index = index.saturating_add(skipped);
            walk.follow(slot, edge);
        }
        (index < u128::MAX).then_some(index)
    }

    pub fn admits(&self, positions: &[u16]) -> bool {
        self.checks.all_hold(positions)
    }

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

struct IndexWalk<'a> {
    index: &'a Index,
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
    /// In canonical order. If the space is not exact, the way from one to the next can be long.
    pub fn iter(&self) -> Points<&Index> {
        Points::new(self)
    }
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
        let index = self.index.borrow();
        let (group, depth) = index.places[slot];
        index.diagrams[group].layers[depth].edges_of(node)
    }

    fn node(&self, slot: usize) -> u32 {
        let index = self.index.borrow();
        let (group, depth) = index.places[slot];
        let Some(above) = depth.checked_sub(1) else { return 0 };
        // Groups interleave, so the group's previous layer need not decide the previous slot.
        let previous = index.diagrams[group].layers[above].slot;
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
