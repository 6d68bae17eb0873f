//! The points of one group of linked parameters: a reduced diagram whose nodes know how many completions they have.
//!
//! Counts are 128 bits wide and stop at `u128::MAX`, which then means "that many or more". Index
//! lookups stay exact below it, because every skipped block that fits is smaller. Where a count did
//! stop, the exact total is added up once in integers of any size, and drawing goes by shares.
//!
//! Where parameters keep to allowed values, only nodes that allowed edges reach are visited, so that the
//! neighborhood of a point costs what it holds and not what the space holds.

use std::ops::{Div, Sub};
use std::sync::Arc;

use num_bigint::BigUint;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rustc_hash::FxHashMap;

use crate::count::merge::{Edges, Layers};
use crate::index::Index;

#[derive(Clone, Copy, Debug)]
pub struct Edge {
    pub position: u16,
    pub child: u32,
}

/// What decides one slot.
#[derive(Debug, Default)]
pub struct Layer {
    /// The diagram that it is part of, and its place there.
    pub group: usize,
    pub depth: usize,
    /// Node `n` has the edges from `starts[n]` to `starts[n + 1]`.
    starts: Vec<u32>,
    edges: Vec<Edge>,
    /// For each edge, the completions of its node's earlier edges; `u128::MAX` for that many or more. Apart from the
    /// edges, because most ways through a diagram do not read them.
    before: Vec<u128>,
    /// Completions of each node; `u128::MAX` for that many or more.
    pub counts: Vec<u128>,
    /// For each edge, the completions of its node's edges up to and with this one, in units of the layer's largest
    /// node; only where counts are not exact.
    ends: Vec<f64>,
}

#[derive(Debug)]
pub struct Diagram {
    /// In declared order.
    pub slots: Vec<usize>,
    pub total: BigUint,
}

/// How wide a walk counts: nearly all spaces have fewer than 2^64 points, and are walked in half the time.
pub trait Count: Copy + Ord + From<u8> + Sub<Output = Self> + Div<Output = Self> + TryInto<usize> {
    /// Of a count that fits.
    fn of(count: u128) -> Self;
    /// The greatest for that much or more, where it may be too much.
    fn times(self, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
}

impl Count for u64 {
    #[inline]
    fn of(count: u128) -> u64 {
        count as u64
    }

    #[inline]
    fn times(self, other: u64) -> u64 {
        self * other
    }

    #[inline]
    fn plus(self, other: u64) -> u64 {
        self + other
    }
}

impl Count for u128 {
    fn of(count: u128) -> u128 {
        count
    }

    fn times(self, other: u128) -> u128 {
        self.saturating_mul(other)
    }

    fn plus(self, other: u128) -> u128 {
        self.saturating_add(other)
    }
}

impl Layer {
    #[inline]
    pub fn edges_of(&self, node: u32) -> &[Edge] {
        &self.edges[self.range(node)]
    }

    #[inline]
    fn range(&self, node: u32) -> std::ops::Range<usize> {
        self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize
    }

    /// The node that a position leads to. Inlined into every descent: a call for each layer makes `contains` half as
    /// slow again.
    #[inline]
    pub fn find(&self, node: u32, position: u16) -> Option<u32> {
        let edges = self.edges_of(node);
        // Where no value is missing an edge's number is its position.
        match edges.get(usize::from(position)) {
            Some(edge) if edge.position == position => Some(edge.child),
            _ => search(edges, position).map(|at| edges[at].child),
        }
    }

    /// As `find`, with the completions of the node's earlier edges.
    #[inline]
    pub fn find_with_before<N: Count>(&self, node: u32, position: u16) -> Option<(u32, N)> {
        let (range, guess) = (self.range(node), usize::from(position));
        let edges = &self.edges[range.clone()];
        let at = match edges.get(guess) {
            Some(edge) if edge.position == position => guess,
            _ => search(edges, position)?,
        };
        Some((edges[at].child, N::of(self.before[range][at])))
    }

    /// The edge of a node under which its completion of number `rank` lies, and the completions before that edge.
    #[inline]
    pub fn at<N: Count>(&self, node: u32, rank: impl FnOnce() -> N) -> (Edge, N) {
        let range = self.range(node);
        // Nodes with one edge are common where constraints fix a value. No completions come before it.
        if range.len() == 1 {
            return (self.edges[range.start], N::from(0));
        }
        let (rank, before) = (rank(), &self.before[range.clone()]);
        // Where each edge has one completion, the rank is the number of the edge.
        let guess = rank.try_into().unwrap_or(usize::MAX);
        let at = match before.get(guess) {
            Some(before) if N::of(*before) == rank => guess,
            _ => before.partition_point(|before| N::of(*before) <= rank) - 1,
        };
        (self.edges[range.start + at], N::of(before[at]))
    }

    /// The edge of a node at a share of its completions, from 0 to below 1.
    pub fn split(&self, node: u32, share: f64) -> Edge {
        let range = self.range(node);
        // The first edge that ends beyond.
        let at = if self.ends.is_empty() {
            let wanted = share * self.counts[node as usize] as f64;
            self.before[range.start + 1..range.end].partition_point(|before| *before as f64 <= wanted)
        } else {
            let ends = &self.ends[range.clone()];
            let wanted = share * ends[ends.len() - 1];
            ends.partition_point(|end| *end <= wanted)
        };
        // Rounding may leave none.
        self.edges[range.start + at.min(range.len() - 1)]
    }

    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = &[Edge]> {
        (0..self.counts.len()).map(|node| self.edges_of(node as u32))
    }
}

/// The number of the edge for a position, where that is not the position.
fn search(edges: &[Edge], position: u16) -> Option<usize> {
    // Most nodes have all positions between their least and greatest.
    let guess = usize::from(position.checked_sub(edges.first()?.position)?);
    match edges.get(guess) {
        Some(edge) if edge.position == position => Some(guess),
        _ => edges.binary_search_by_key(&position, |edge| edge.position).ok(),
    }
}

impl Diagram {
    /// The diagram of a group, whose layers are put in their slots' places.
    pub fn new(group: usize, source: Layers, layers: &mut [Layer]) -> Diagram {
        let mut below: Vec<u128> = vec![1];
        for (depth, (slot, nodes)) in source.slots.iter().zip(source.nodes).enumerate().rev() {
            let mut layer = Layer { group, depth, starts: vec![0], ..Layer::default() };
            for node in nodes {
                let mut count = 0u128;
                for (position, child) in node {
                    layer.edges.push(Edge { position, child });
                    layer.before.push(count);
                    count = count.saturating_add(below[child as usize]);
                }
                layer.starts.push(layer.edges.len() as u32);
                layer.counts.push(count);
            }
            below.clone_from(&layer.counts);
            layers[*slot] = layer;
        }
        let count = below.first().copied().unwrap_or(0);
        let mut diagram = Diagram { slots: source.slots, total: BigUint::from(count) };
        // Every node lies on a path from the root, so it alone tells whether any count saturated.
        if count == u128::MAX {
            let mut exact = diagram.bottom_up(layers, BigUint::from(1u8), |_, edges, below| {
                edges.iter().map(|edge| &below[edge.child as usize]).sum()
            });
            diagram.total = exact.swap_remove(0).swap_remove(0);
            diagram.share(layers);
        }
        diagram
    }

    fn share(&self, layers: &mut [Layer]) {
        let mut below = vec![1.0f64];
        for slot in self.slots.iter().rev() {
            let mut totals = Vec::with_capacity(layers[*slot].counts.len());
            let mut ends = Vec::with_capacity(layers[*slot].edges.len());
            for edges in layers[*slot].nodes() {
                let mut total = 0.0;
                for edge in edges {
                    total += below[edge.child as usize];
                    ends.push(total);
                }
                totals.push(total);
            }
            // Only the shares within a node matter, so that any unit will do; this one cannot overflow.
            let largest = totals.iter().copied().fold(0.0, f64::max);
            totals.iter_mut().chain(&mut ends).for_each(|share| *share /= largest);
            below = totals;
            layers[*slot].ends = ends;
        }
    }

    /// A number for each node of each layer and for the `end`; `of` makes a node's from those of the layer below.
    fn bottom_up<N>(&self, layers: &[Layer], end: N, of: impl Fn(usize, &[Edge], &[N]) -> N) -> Vec<Vec<N>> {
        let mut numbers = vec![vec![end]];
        for slot in self.slots.iter().rev() {
            let below = &numbers[numbers.len() - 1];
            let above = layers[*slot].nodes().map(|edges| of(*slot, edges, below)).collect();
            numbers.push(above);
        }
        numbers.reverse();
        numbers
    }

    /// A uniform point, written to its slots of `positions`. Beyond 2^128 points it is uniform up to
    /// the rounding of 64-bit floats at each layer. The diagram must not be empty.
    pub fn draw(&self, layers: &[Layer], rng: &mut ChaCha8Rng, positions: &mut [u16]) {
        let count = self.slots.first().map_or(1, |slot| layers[*slot].counts[0]);
        match u64::try_from(count) {
            Ok(1) => self.follow(layers, positions, ranked(0u64)),
            Ok(count) => self.follow(layers, positions, ranked(rng.random_range(0..count))),
            Err(_) if count == u128::MAX => {
                self.follow(layers, positions, |layer, node| layer.split(node, rng.random()));
            }
            Err(_) => self.follow(layers, positions, ranked(rng.random_range(0..count))),
        }
    }

    fn follow(&self, layers: &[Layer], positions: &mut [u16], mut choose: impl FnMut(&Layer, u32) -> Edge) {
        let mut node = 0;
        for slot in &self.slots {
            let edge = choose(&layers[*slot], node);
            positions[*slot] = edge.position;
            node = edge.child;
        }
    }

    pub fn least_costs(&self, layers: &[Layer], cost: &impl Fn(usize, u16) -> u64) -> Vec<Vec<u64>> {
        self.bottom_up(layers, 0, |slot, edges, below| {
            let through = edges.iter().map(|edge| cost(slot, edge.position) + below[edge.child as usize]);
            through.min().unwrap_or(u64::MAX)
        })
    }
}

/// Chooses the way to the point at an index of a diagram's own.
fn ranked<N: Count>(mut index: N) -> impl FnMut(&Layer, u32) -> Edge {
    move |layer, node| {
        let (edge, before) = layer.at(node, || index);
        index = index - before;
        edge
    }
}

/// For each slot the allowed value positions, ascending; `None` allows all.
pub type Allowed = Vec<Option<Vec<u16>>>;

impl Index {
    pub fn restricted(&self, allowed: &Allowed) -> Index {
        let diagrams = self.diagrams.iter().map(|diagram| self.part(diagram, allowed));
        // Edges keep their positions, so the checks of the whole space serve its parts unchanged.
        Index::of(diagrams.collect(), self.layers.len(), self.is_empty(), Arc::clone(&self.checks))
    }

    /// Ascending, for each slot; if the space is not exact, positions that occur in the diagrams.
    pub fn domains(&self) -> &[Vec<u16>] {
        self.domains.get_or_init(|| match self.is_empty() {
            true => vec![Vec::new(); self.layers.len()],
            false => self.layers.iter().map(domain).collect(),
        })
    }

    fn part(&self, diagram: &Diagram, allowed: &Allowed) -> Layers {
        let slots = &diagram.slots;
        let (copies, nodes) = (vec![FxHashMap::default(); slots.len()], vec![Vec::new(); slots.len()]);
        let mut part = Restriction { layers: &self.layers, slots, allowed, copies, nodes };
        // A diagram without points has no root.
        if diagram.total != BigUint::ZERO {
            part.copy(0, 0);
        }
        Layers { nodes: part.nodes, slots: slots.clone() }
    }
}

/// Every node is part of some valid point, hence every edge's position occurs.
fn domain(layer: &Layer) -> Vec<u16> {
    let mut occurs = Vec::new();
    for edge in &layer.edges {
        let position = usize::from(edge.position);
        occurs.resize(occurs.len().max(position + 1), false);
        occurs[position] = true;
    }
    (0..=u16::MAX).zip(occurs).filter(|(_, occurs)| *occurs).map(|(position, _)| position).collect()
}

struct Restriction<'a> {
    layers: &'a [Layer],
    slots: &'a [usize],
    allowed: &'a Allowed,
    /// For each layer, what became of the nodes that were met.
    copies: Vec<FxHashMap<u32, Option<u32>>>,
    nodes: Vec<Vec<Edges>>,
}

impl Restriction<'_> {
    /// The number of a node's copy; `None` if no allowed edges lead from it to the end.
    fn copy(&mut self, depth: usize, node: u32) -> Option<u32> {
        let Some(slot) = self.slots.get(depth) else { return Some(0) };
        if let Some(known) = self.copies[depth].get(&node) {
            return *known;
        }
        let edges = kept(self.layers[*slot].edges_of(node), self.allowed[*slot].as_deref());
        let edges: Edges =
            edges.filter_map(|edge| Some((edge.position, self.copy(depth + 1, edge.child)?))).collect();
        let number = (!edges.is_empty()).then_some(self.nodes[depth].len() as u32);
        self.nodes[depth].extend(number.map(|_| edges));
        self.copies[depth].insert(node, number);
        number
    }
}

fn kept<'a>(edges: &'a [Edge], allowed: Option<&'a [u16]>) -> impl Iterator<Item = &'a Edge> {
    // Nodes may have a thousand edges of which a neighborhood wants three.
    let few = allowed.filter(|allowed| allowed.len() * 8 < edges.len());
    let many = if few.is_some() { &[] } else { edges };
    let is_allowed = move |edge: &&Edge| allowed.is_none_or(|a| a.binary_search(&edge.position).is_ok());
    let find = move |position: &u16| {
        edges.binary_search_by_key(position, |edge| edge.position).ok().map(|at| &edges[at])
    };
    few.unwrap_or_default().iter().filter_map(find).chain(many.iter().filter(is_allowed))
}
