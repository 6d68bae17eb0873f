//! The valid points nearest to a given one: of least cost, and with one parameter changed.
//!
//! A diagram alone gives the point of least cost in one pass from the end. Where checks are left to be made, that pass
//! gives the least cost that any completion may have, and the search is iterative deepening A* (Korf 1985): depth first
//! under a limit on the estimated cost that grows until a point is found. It needs no memory, and with steps enough its
//! answer is the cheapest.
//!
//! For the valid points that differ in exactly one parameter the given point's own path through each diagram is
//! walked once. Another value at one slot then starts at the node that the path already found, and ends as soon as
//! it meets the path again: in a reduced diagram most changes do so after a step or two.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::count::merge::OverBudget;
use crate::index::Index;
use crate::index::diagram::{Diagram, Edge, Layer};
use crate::index::parts::{CheckScratch, Part};

/// Edges looked at in search of the cheapest point of a part; following one counts as several.
const STEPS: u64 = 1 << 21;
const STEPS_TO_FOLLOW: u64 = 8;

impl Index {
    /// Of least total `cost(slot, position)`; ties are broken by `rng`. `None` for an empty space.
    ///
    /// If the space is not exact the search is bounded: beyond that it takes the cheapest point that
    /// it met, and `None` also if it met none.
    pub fn cheapest(&self, cost: impl Fn(usize, u16) -> u64, rng: &mut ChaCha8Rng) -> Option<Vec<u16>> {
        if self.is_empty() {
            return None;
        }
        let mut positions = vec![0; self.layers.len()];
        self.free.iter().for_each(|at| self.diagrams[*at].cheapest(&self.layers, &cost, rng, &mut positions));
        for part in &self.parts {
            let mut search = CheapestSearch::new(self, part, &cost, positions.clone());
            let tried_all = search.deepen(rng).is_ok();
            if !tried_all && search.best.is_none() {
                // First come, first served: nearby values first, without a limit.
                (search.limit, search.steps_left) = (u64::MAX, STEPS);
                let _ = search.go(0, 0, 0, rng);
            }
            // If everything was tried, the part is empty. Otherwise a random draw may still hit a point.
            let is_found = search.write(&mut positions)
                || (!tried_all && self.draw(part, rng, &mut positions, &mut self.checks.scratch()));
            if !is_found {
                return None;
            }
        }
        Some(positions)
    }
}

impl Diagram {
    fn cheapest(
        &self,
        layers: &[Layer],
        cost: &impl Fn(usize, u16) -> u64,
        rng: &mut ChaCha8Rng,
        positions: &mut [u16],
    ) {
        let costs = self.least_costs(layers, cost);
        let mut node = 0;
        for (depth, slot) in self.slots.iter().enumerate() {
            let through = |edge: &Edge| cost(*slot, edge.position) + costs[depth + 1][edge.child as usize];
            let least = costs[depth][node as usize];
            let best: Vec<&Edge> =
                layers[*slot].edges_of(node).iter().filter(|edge| through(edge) == least).collect();
            // Draws only for real ties, so that spaces without any leave the generator untouched.
            let edge = best[if best.len() > 1 { rng.random_range(0..best.len()) } else { 0 }];
            positions[*slot] = edge.position;
            node = edge.child;
        }
    }
}

pub(super) struct CheapestSearch<'a, C> {
    index: &'a Index,
    part: &'a Part,
    cost: &'a C,
    /// For each step, the least cost from each node of the layer after it to its diagram's end, and
    /// that of all later diagrams.
    least: Vec<(Vec<u64>, u64)>,
    /// What costs more is not looked at.
    limit: u64,
    /// The least cost beyond the limit that was met.
    beyond: u64,
    pub best: Option<(u64, Vec<u16>)>,
    positions: Vec<u16>,
    scratch: CheckScratch,
    pub steps_left: u64,
}

impl<'a, C: Fn(usize, u16) -> u64> CheapestSearch<'a, C> {
    /// Without a limit at first.
    pub fn new(index: &'a Index, part: &'a Part, cost: &'a C, positions: Vec<u16>) -> CheapestSearch<'a, C> {
        let mut least = Vec::with_capacity(part.steps.len());
        let mut later = 0;
        for diagram in part.diagrams.iter().rev() {
            let mut costs = index.diagrams[*diagram].least_costs(&index.layers, cost);
            let own = costs[0][0];
            costs.drain(1..).rev().for_each(|costs| least.push((costs, later)));
            later += own;
        }
        least.reverse();
        let (scratch, steps_left) = (index.checks.scratch(), STEPS);
        let (limit, beyond, best) = (u64::MAX, later, None);
        CheapestSearch { index, part, cost, least, limit, beyond, best, positions, scratch, steps_left }
    }

    fn deepen(&mut self, rng: &mut ChaCha8Rng) -> Result<(), OverBudget> {
        while self.best.is_none() && self.beyond < u64::MAX {
            // A little more than necessary, because costs come close together; the best point within
            // the limit is the best of all.
            self.limit = self.beyond.saturating_add(self.beyond / 16);
            self.beyond = u64::MAX;
            self.go(0, 0, 0, rng)?;
        }
        Ok(())
    }

    /// Writes what was found to the part's slots; whether anything was.
    pub fn write(&self, positions: &mut [u16]) -> bool {
        let Some((_, point)) = &self.best else { return false };
        self.part.steps.iter().for_each(|step| positions[step.slot] = point[step.slot]);
        true
    }

    pub fn go(&mut self, step: usize, node: u32, spent: u64, rng: &mut ChaCha8Rng) -> Result<(), OverBudget> {
        if step == self.part.steps.len() {
            // Always an improvement, because edges that cannot lead to a cheaper point were cut off below.
            self.best = Some((spent, self.positions.clone()));
            return Ok(());
        }
        for (estimate, _, edge) in self.candidates(step, node, spent, rng)? {
            // Candidates are sorted by estimate, so none of the later ones can be cheaper either.
            if self.best.as_ref().is_some_and(|(least, _)| estimate >= *least) {
                break;
            }
            self.steps_left = self.steps_left.checked_sub(STEPS_TO_FOLLOW).ok_or(OverBudget)?;
            let slot = self.part.steps[step].slot;
            self.positions[slot] = edge.position;
            self.index.checks.set(&mut self.scratch, slot, edge.position);
            let (checks, closes) = (&self.index.checks, &self.part.steps[step].closes);
            if closes.iter().all(|check| checks.holds(*check, &mut self.scratch)) {
                let child = self.part.next_node(&self.index.layers, step, edge.child);
                self.go(step + 1, child, spent + (self.cost)(slot, edge.position), rng)?;
            }
        }
        Ok(())
    }

    fn candidates(
        &mut self,
        step: usize,
        node: u32,
        spent: u64,
        rng: &mut ChaCha8Rng,
    ) -> Result<Vec<(u64, u32, Edge)>, OverBudget> {
        let place = &self.part.steps[step];
        let edges = self.index.layers[place.slot].edges_of(node);
        self.steps_left = self.steps_left.checked_sub(edges.len() as u64).ok_or(OverBudget)?;
        let (after, later) = &self.least[step];
        let mut found = Vec::new();
        for edge in edges {
            let own = (self.cost)(place.slot, edge.position);
            // A lower bound, because the diagrams hold a superset of the valid points.
            let estimate = spent + own + after[edge.child as usize] + later;
            if estimate <= self.limit {
                found.push((estimate, rng.random(), *edge));
            } else {
                self.beyond = self.beyond.min(estimate);
            }
        }
        found.sort_unstable_by_key(|(estimate, tie, _)| (*estimate, *tie));
        Ok(found)
    }
}

const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub struct Around<'a> {
    index: &'a Index,
    positions: Vec<u16>,
    nodes: Vec<u32>,
    valid: Vec<bool>,
    invalid: usize,
}

impl<'a> Around<'a> {
    /// Walks the path; `None` if the point has not as many positions as the space has parameters.
    pub fn new(index: &'a Index, positions: &[u16]) -> Option<Around<'a>> {
        if positions.len() != index.layers.len() {
            return None;
        }
        let mut nodes = vec![NONE; positions.len()];
        let mut valid = Vec::with_capacity(index.diagrams.len());
        for diagram in index.diagrams.iter().filter(|_| !index.is_empty()) {
            let mut node = Some(0);
            for slot in &diagram.slots {
                let Some(at) = node else { break };
                nodes[*slot] = at;
                node = index.layers[*slot].find(at, positions[*slot]);
            }
            valid.push(node.is_some());
        }
        let invalid = valid.iter().filter(|valid| !**valid).count();
        Some(Around { index, positions: positions.to_vec(), nodes, valid, invalid })
    }

    /// For each slot the changes below and above the point's own value, ascending. Each has to be asked for with
    /// `accepts`.
    pub fn edges(&self, slot: usize) -> (&'a [Edge], &'a [Edge]) {
        let layer = &self.index.layers[slot];
        let others_invalid = self.invalid - usize::from(self.valid.get(layer.group) == Some(&false));
        // Where another group's part is invalid, no change of this slot can make the point valid.
        if self.nodes[slot] == NONE || others_invalid > 0 {
            return (&[], &[]);
        }
        let edges = layer.edges_of(self.nodes[slot]);
        let below = edges.partition_point(|edge| edge.position < self.positions[slot]);
        let same = edges[below..].iter().take_while(|edge| edge.position == self.positions[slot]).count();
        (&edges[..below], &edges[below + same..])
    }

    pub fn accepts(&self, slot: usize, edge: &Edge) -> bool {
        let Layer { group, depth, .. } = self.index.layers[slot];
        let mut node = edge.child;
        for slot in &self.index.diagrams[group].slots[depth + 1..] {
            // From here on the changed point runs along the original path, which is known to be valid.
            if self.valid[group] && self.nodes[*slot] == node {
                break;
            }
            match self.index.layers[*slot].find(node, self.positions[*slot]) {
                Some(child) => node = child,
                None => return false,
            }
        }
        self.index.is_exact() || self.index.admits(&self.changed(slot, edge.position))
    }

    pub fn changed(&self, slot: usize, position: u16) -> Vec<u16> {
        let mut positions = self.positions.clone();
        positions[slot] = position;
        positions
    }
}
