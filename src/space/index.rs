//! The index of valid points: exact counts, and index ⇄ point in canonical order.
//!
//! Each group of linked parameters has a reduced diagram whose nodes know how many completions they
//! have. The canonical order is lexicographic in the declared order of all parameters, which groups
//! may interleave: a step at one parameter therefore skips that group's completions times those of
//! every other group from where it stands.

use num_bigint::BigUint;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::merge::{Layers, OverBudget};
use super::order;
use super::problem::Problem;

/// A way from a node to the next layer.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// Value position.
    pub position: u16,
    /// Node of the next layer.
    pub child: u32,
    /// Completions of the node's earlier edges.
    before: u128,
}

#[derive(Debug)]
struct Layer {
    slot: usize,
    /// Node `n` has the edges from `starts[n]` to `starts[n + 1]`.
    starts: Vec<u32>,
    edges: Vec<Edge>,
    counts: Vec<u128>,
}

/// The points of one group.
#[derive(Debug)]
struct Diagram {
    layers: Vec<Layer>,
    count: u128,
}

/// The points of a space.
#[derive(Debug)]
pub struct Index {
    diagrams: Vec<Diagram>,
    /// Group and layer of each slot.
    places: Vec<(usize, usize)>,
    total: BigUint,
}

/// Why there is no index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    #[error("the constraints entangle too many parameters to count the valid points")]
    TooEntangled,
    #[error("a group of linked parameters has more valid points than 128 bits can count")]
    TooMany,
}

impl From<OverBudget> for IndexError {
    fn from(_: OverBudget) -> IndexError {
        IndexError::TooEntangled
    }
}

impl Index {
    /// Counts a prepared space. `steps` limits the work for each group (values tried).
    pub fn new(problem: &Problem, steps: u64) -> Result<Index, IndexError> {
        let mut places = vec![(0, 0); problem.values.len()];
        let mut diagrams = Vec::new();
        let groups = if problem.impossible { Vec::new() } else { problem.groups() };
        for group in &groups {
            let diagram = Diagram::new(order::diagram(problem, group, steps)?)?;
            for (depth, layer) in diagram.layers.iter().enumerate() {
                places[layer.slot] = (diagrams.len(), depth);
            }
            diagrams.push(diagram);
        }
        let mut total = BigUint::from(u8::from(!problem.impossible));
        diagrams.iter().for_each(|diagram| total *= diagram.count);
        Ok(Index { diagrams, places, total })
    }

    /// Number of valid points.
    pub fn total(&self) -> &BigUint {
        &self.total
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.total == BigUint::ZERO
    }

    /// The point at an index below the total; the very last index of 128 bits is out of reach.
    pub fn point(&self, mut index: u128) -> Option<Vec<u16>> {
        if index == u128::MAX || BigUint::from(index) >= self.total {
            return None;
        }
        let mut walk = Walk::new(self);
        for slot in 0..self.places.len() {
            let rest = walk.completions_elsewhere(slot);
            let edges = walk.edges(slot);
            // Products beyond 128 bits saturate, which is as good as exact: the index is below.
            let after = edges.partition_point(|edge| edge.before.saturating_mul(rest) <= index);
            let edge = edges[after - 1];
            index -= edge.before * rest;
            walk.follow(slot, edge);
        }
        Some(walk.positions)
    }

    /// The index of a point; `None` if it is not valid or its index does not fit 128 bits.
    pub fn index(&self, positions: &[u16]) -> Option<u128> {
        if self.is_empty() || positions.len() != self.places.len() {
            return None;
        }
        let mut walk = Walk::new(self);
        let mut index = 0u128;
        for (slot, position) in positions.iter().enumerate() {
            let edge = find(walk.edges(slot), *position)?;
            if edge.before > 0 {
                let skipped = edge.before.checked_mul(walk.exact_completions_elsewhere(slot)?)?;
                index = index.checked_add(skipped)?;
            }
            walk.follow(slot, edge);
        }
        Some(index)
    }

    /// Whether a point is valid.
    pub fn contains(&self, positions: &[u16]) -> bool {
        let fits = !self.is_empty() && positions.len() == self.places.len();
        fits && self.diagrams.iter().all(|diagram| {
            let found = diagram.layers.iter().try_fold(0, |node, layer| {
                find(layer.edges_of(node), positions[layer.slot]).map(|edge| edge.child)
            });
            found.is_some()
        })
    }

    /// A uniform point.
    pub fn sample(&self, rng: &mut ChaCha8Rng) -> Option<Vec<u16>> {
        if self.is_empty() {
            return None;
        }
        let mut positions = vec![0; self.places.len()];
        for diagram in &self.diagrams {
            // A uniform point of a product is a uniform point of each factor.
            let mut index = if diagram.count > 1 { rng.random_range(0..diagram.count) } else { 0 };
            let mut node = 0;
            for layer in &diagram.layers {
                let edges = layer.edges_of(node);
                let edge = edges[edges.partition_point(|edge| edge.before <= index) - 1];
                index -= edge.before;
                positions[layer.slot] = edge.position;
                node = edge.child;
            }
        }
        Some(positions)
    }

    /// The valid point of least total `cost(slot, position)`; ties are broken by `rng`.
    pub fn cheapest(&self, cost: impl Fn(usize, u16) -> u64, rng: &mut ChaCha8Rng) -> Option<Vec<u16>> {
        if self.is_empty() {
            return None;
        }
        let mut positions = vec![0; self.places.len()];
        for diagram in &self.diagrams {
            let costs = diagram.least_costs(&cost);
            let mut node = 0;
            for (depth, layer) in diagram.layers.iter().enumerate() {
                let through =
                    |edge: &Edge| cost(layer.slot, edge.position) + costs[depth + 1][edge.child as usize];
                let least = costs[depth][node as usize];
                let best: Vec<&Edge> =
                    layer.edges_of(node).iter().filter(|edge| through(edge) == least).collect();
                let edge = best[if best.len() > 1 { rng.random_range(0..best.len()) } else { 0 }];
                positions[layer.slot] = edge.position;
                node = edge.child;
            }
        }
        Some(positions)
    }

    /// All valid points in canonical order.
    pub fn iter(&self) -> Points<'_> {
        Points {
            index: self,
            chosen: Vec::new(),
            state: if self.is_empty() { State::Done } else { State::Fresh },
        }
    }

    /// The sum of `weight(slot, position)` over all slots of all valid points, without listing them.
    pub fn weighted_sum(&self, weight: impl Fn(usize, u16) -> BigUint) -> BigUint {
        let mut sum = BigUint::ZERO;
        for diagram in self.diagrams.iter().filter(|_| !self.is_empty()) {
            let others = &self.total / diagram.count;
            sum += diagram.weighted_sum(&weight) * others;
        }
        sum
    }
}

fn find(edges: &[Edge], position: u16) -> Option<Edge> {
    edges.binary_search_by_key(&position, |edge| edge.position).ok().map(|at| edges[at])
}

impl Layer {
    fn edges_of(&self, node: u32) -> &[Edge] {
        let node = node as usize;
        &self.edges[self.starts[node] as usize..self.starts[node + 1] as usize]
    }
}

impl Diagram {
    fn new(source: Layers) -> Result<Diagram, IndexError> {
        let mut layers: Vec<Layer> = Vec::new();
        let mut below: Vec<u128> = vec![1];
        for (slot, nodes) in source.slots.iter().zip(source.nodes).rev() {
            let mut layer = Layer { slot: *slot, starts: vec![0], edges: Vec::new(), counts: Vec::new() };
            for node in nodes {
                let mut count = 0u128;
                for (position, child) in node {
                    layer.edges.push(Edge { position, child, before: count });
                    count = count.checked_add(below[child as usize]).ok_or(IndexError::TooMany)?;
                }
                layer.starts.push(layer.edges.len() as u32);
                layer.counts.push(count);
            }
            below.clone_from(&layer.counts);
            layers.push(layer);
        }
        layers.reverse();
        let count = below.first().copied().unwrap_or(0);
        Ok(Diagram { layers, count })
    }

    fn node_count(&self, depth: usize, node: u32) -> u128 {
        self.layers.get(depth).map_or(1, |layer| layer.counts[node as usize])
    }

    /// For each layer and node, and for the end, the least cost from there on.
    fn least_costs(&self, cost: &impl Fn(usize, u16) -> u64) -> Vec<Vec<u64>> {
        let mut costs = vec![vec![0]];
        for layer in self.layers.iter().rev() {
            let below = &costs[costs.len() - 1];
            let least = |node: usize| {
                let edges = layer.edges_of(node as u32).iter();
                let through = edges.map(|edge| cost(layer.slot, edge.position) + below[edge.child as usize]);
                through.min().unwrap_or(u64::MAX)
            };
            let own = (0..layer.counts.len()).map(least).collect();
            costs.push(own);
        }
        costs.reverse();
        costs
    }

    fn weighted_sum(&self, weight: &impl Fn(usize, u16) -> BigUint) -> BigUint {
        let mut sum = BigUint::ZERO;
        let mut arriving = vec![BigUint::from(1u8)];
        for (depth, layer) in self.layers.iter().enumerate() {
            let width = self.layers.get(depth + 1).map_or(1, |next| next.counts.len());
            let mut next = vec![BigUint::ZERO; width];
            for (node, paths) in arriving.iter().enumerate() {
                for edge in layer.edges_of(node as u32) {
                    let points = paths * self.node_count(depth + 1, edge.child);
                    sum += points * weight(layer.slot, edge.position);
                    next[edge.child as usize] += paths;
                }
            }
            arriving = next;
        }
        sum
    }
}

/// A descent through all diagrams in declared order.
struct Walk<'a> {
    index: &'a Index,
    /// The next layer and the node there, for each diagram.
    at: Vec<(usize, u32)>,
    positions: Vec<u16>,
}

impl<'a> Walk<'a> {
    fn new(index: &'a Index) -> Walk<'a> {
        Walk {
            index,
            at: vec![(0, 0); index.diagrams.len()],
            positions: Vec::with_capacity(index.places.len()),
        }
    }

    fn edges(&self, slot: usize) -> &'a [Edge] {
        let (group, depth) = self.index.places[slot];
        self.index.diagrams[group].layers[depth].edges_of(self.at[group].1)
    }

    fn follow(&mut self, slot: usize, edge: Edge) {
        let (group, depth) = self.index.places[slot];
        self.at[group] = (depth + 1, edge.child);
        self.positions.push(edge.position);
    }

    fn others(&self, slot: usize) -> impl Iterator<Item = u128> + '_ {
        let (own, _) = self.index.places[slot];
        let groups =
            self.index.diagrams.iter().zip(&self.at).enumerate().filter(move |(group, _)| *group != own);
        groups.map(|(_, (diagram, (depth, node)))| diagram.node_count(*depth, *node))
    }

    fn completions_elsewhere(&self, slot: usize) -> u128 {
        self.others(slot).fold(1, u128::saturating_mul)
    }

    fn exact_completions_elsewhere(&self, slot: usize) -> Option<u128> {
        self.others(slot).try_fold(1, u128::checked_mul)
    }
}

/// All valid points, one after the other.
pub struct Points<'a> {
    index: &'a Index,
    /// For each slot the node it is decided at and the number of the chosen edge.
    chosen: Vec<(u32, u32)>,
    state: State,
}

enum State {
    Fresh,
    Running,
    Done,
}

impl Points<'_> {
    fn edges(&self, slot: usize, node: u32) -> &[Edge] {
        let (group, depth) = self.index.places[slot];
        self.index.diagrams[group].layers[depth].edges_of(node)
    }

    /// The node at which `slot` is decided, given the choices at earlier slots.
    fn node(&self, slot: usize) -> u32 {
        let (group, depth) = self.index.places[slot];
        let Some(above) = depth.checked_sub(1) else { return 0 };
        let previous = self.index.diagrams[group].layers[above].slot;
        let (node, edge) = self.chosen[previous];
        self.edges(previous, node)[edge as usize].child
    }

    /// Moves the last slot that can move; the later ones start over.
    fn advance(&mut self) -> bool {
        while let Some((node, edge)) = self.chosen.pop() {
            if (edge as usize) + 1 < self.edges(self.chosen.len(), node).len() {
                self.chosen.push((node, edge + 1));
                return true;
            }
        }
        false
    }
}

impl Iterator for Points<'_> {
    type Item = Vec<u16>;

    fn next(&mut self) -> Option<Vec<u16>> {
        let going = match self.state {
            State::Fresh => true,
            State::Running => self.advance(),
            State::Done => false,
        };
        self.state = if going { State::Running } else { State::Done };
        if !going {
            return None;
        }
        while self.chosen.len() < self.index.places.len() {
            let node = self.node(self.chosen.len());
            self.chosen.push((node, 0));
        }
        let position =
            |(slot, (node, edge)): (usize, &(u32, u32))| self.edges(slot, *node)[*edge as usize].position;
        Some(self.chosen.iter().enumerate().map(position).collect())
    }
}
