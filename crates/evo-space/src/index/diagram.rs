//! The points of one group of linked parameters: a reduced diagram whose nodes know how many completions they have.
//!
//! Counts are 128 bits wide and stop at `u128::MAX`, which then means "that many or more". Index
//! lookups stay exact below it, because every skipped block that fits is smaller. Where a count did
//! stop, the exact total is added up once in integers of any size, and drawing goes by shares.
//!
//! Where parameters keep to allowed values, only nodes that allowed edges reach are visited, so that the
//! neighborhood of a point costs what it holds and not what the space holds.

use std::ops::SubAssign;
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
    /// Completions of the node's earlier edges; `u128::MAX` for that many or more.
    pub before: u128,
}

#[derive(Debug)]
pub struct Layer {
    pub slot: usize,
    /// Node `n` has the edges from `starts[n]` to `starts[n + 1]`.
    starts: Vec<u32>,
    edges: Vec<Edge>,
    /// Completions of each node; `u128::MAX` for that many or more.
    pub counts: Vec<u128>,
}

#[derive(Debug)]
pub struct Diagram {
    pub layers: Vec<Layer>,
    pub total: BigUint,
    /// For each layer and edge, the completions of its node's edges up to and with this one, in units of
    /// the layer's largest node; only where counts are not exact.
    shares: Option<Vec<Vec<f64>>>,
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

    /// Inlined into every descent: a call for each layer makes `contains` half as slow again.
    #[inline]
    pub fn find(&self, node: u32, position: u16) -> Option<Edge> {
        let edges = self.edges_of(node);
        // Where no value is missing an edge's number is its position.
        if let Some(edge) = edges.get(usize::from(position)).filter(|edge| edge.position == position) {
            return Some(*edge);
        }
        edges.binary_search_by_key(&position, |edge| edge.position).ok().map(|at| edges[at])
    }

    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = &[Edge]> {
        (0..self.counts.len()).map(|node| self.edges_of(node as u32))
    }
}

impl Diagram {
    pub fn new(source: Layers) -> Diagram {
        let mut layers: Vec<Layer> = Vec::new();
        let mut below: Vec<u128> = vec![1];
        for (slot, nodes) in source.slots.iter().zip(source.nodes).rev() {
            let mut layer = Layer { slot: *slot, starts: vec![0], edges: Vec::new(), counts: Vec::new() };
            for node in nodes {
                let mut count = 0u128;
                for (position, child) in node {
                    layer.edges.push(Edge { position, child, before: count });
                    count = count.saturating_add(below[child as usize]);
                }
                layer.starts.push(layer.edges.len() as u32);
                layer.counts.push(count);
            }
            below.clone_from(&layer.counts);
            layers.push(layer);
        }
        layers.reverse();
        let count = below.first().copied().unwrap_or(0);
        let mut diagram = Diagram { layers, total: BigUint::from(count), shares: None };
        // Every node lies on a path from the root, so it alone tells whether any count saturated.
        if count == u128::MAX {
            let mut exact = diagram.bottom_up(BigUint::from(1u8), |_, edges, below| {
                edges.iter().map(|edge| &below[edge.child as usize]).sum()
            });
            diagram.total = exact.swap_remove(0).swap_remove(0);
            diagram.shares = Some(shares(&diagram.layers));
        }
        diagram
    }

    /// The edge of a node at a share of its completions, from 0 to below 1.
    pub fn split(&self, depth: usize, node: u32, share: f64) -> Edge {
        let layer = &self.layers[depth];
        let edges = layer.edges_of(node);
        // The first edge that ends beyond.
        let at = match &self.shares {
            Some(shares) => {
                let ends = &shares[depth][layer.range(node)];
                let wanted = share * ends[ends.len() - 1];
                ends.partition_point(|end| *end <= wanted)
            }
            None => {
                let wanted = share * layer.counts[node as usize] as f64;
                edges[1..].partition_point(|next| next.before as f64 <= wanted)
            }
        };
        // Rounding may leave none.
        edges[at.min(edges.len() - 1)]
    }

    /// A number for each node of each layer and for the `end`; `of` makes a node's from those of the layer below.
    fn bottom_up<N>(&self, end: N, of: impl Fn(&Layer, &[Edge], &[N]) -> N) -> Vec<Vec<N>> {
        let mut numbers = vec![vec![end]];
        for layer in self.layers.iter().rev() {
            let below = &numbers[numbers.len() - 1];
            let above = layer.nodes().map(|edges| of(layer, edges, below)).collect();
            numbers.push(above);
        }
        numbers.reverse();
        numbers
    }

    /// A uniform point, written to its slots of `positions`. Beyond 2^128 points it is uniform up to
    /// the rounding of 64-bit floats at each layer. The diagram must not be empty.
    pub fn draw(&self, rng: &mut ChaCha8Rng, positions: &mut [u16]) {
        if self.shares.is_some() {
            let mut node = 0;
            for (depth, layer) in self.layers.iter().enumerate() {
                let edge = self.split(depth, node, rng.random());
                positions[layer.slot] = edge.position;
                node = edge.child;
            }
            return;
        }
        let count = self.layers.first().map_or(1, |layer| layer.counts[0]);
        match u64::try_from(count) {
            Ok(1) => self.follow(0u64, |edge| edge.before as u64, positions),
            // Twice as fast as with 128 bits.
            Ok(count) => self.follow(rng.random_range(0..count), |edge| edge.before as u64, positions),
            Err(_) => self.follow(rng.random_range(0..count), |edge| edge.before, positions),
        }
    }

    /// Writes the point at an own index; `before` reads an edge's.
    fn follow<N: PartialOrd + SubAssign>(
        &self,
        mut index: N,
        before: impl Fn(&Edge) -> N,
        positions: &mut [u16],
    ) {
        let mut node = 0;
        for layer in &self.layers {
            let edge = match layer.edges_of(node) {
                // Nodes with one edge are common where constraints fix a value; they need no search.
                [edge] => edge,
                edges => &edges[edges.partition_point(|edge| before(edge) <= index) - 1],
            };
            index -= before(edge);
            positions[layer.slot] = edge.position;
            node = edge.child;
        }
    }

    pub fn least_costs(&self, cost: &impl Fn(usize, u16) -> u64) -> Vec<Vec<u64>> {
        self.bottom_up(0, |layer, edges, below| {
            let through =
                edges.iter().map(|edge| cost(layer.slot, edge.position) + below[edge.child as usize]);
            through.min().unwrap_or(u64::MAX)
        })
    }
}

fn shares(layers: &[Layer]) -> Vec<Vec<f64>> {
    let mut below = vec![1.0f64];
    let mut all = Vec::with_capacity(layers.len());
    for layer in layers.iter().rev() {
        let mut totals = Vec::with_capacity(layer.counts.len());
        let mut running = Vec::with_capacity(layer.edges.len());
        for edges in layer.nodes() {
            let mut total = 0.0;
            for edge in edges {
                total += below[edge.child as usize];
                running.push(total);
            }
            totals.push(total);
        }
        // Only the shares within a node matter, so that any unit will do; this one cannot overflow.
        let largest = totals.iter().copied().fold(0.0, f64::max);
        totals.iter_mut().chain(&mut running).for_each(|share| *share /= largest);
        below = totals;
        all.push(running);
    }
    all.reverse();
    all
}

/// For each slot the allowed value positions, ascending; `None` allows all.
pub type Allowed = Vec<Option<Vec<u16>>>;

impl Index {
    pub fn restricted(&self, allowed: &Allowed) -> Index {
        let diagrams = self.diagrams.iter().map(|diagram| diagram.restricted(allowed));
        // Edges keep their positions, so the checks of the whole space serve its parts unchanged.
        Index::of(diagrams.collect(), self.places.len(), self.is_empty(), Arc::clone(&self.checks))
    }

    /// Ascending, for each slot; if the space is not exact, positions that occur in the diagrams.
    pub fn domains(&self) -> &[Vec<u16>] {
        self.domains.get_or_init(|| {
            let mut domains = vec![Vec::new(); self.places.len()];
            if !self.is_empty() {
                let layers = self.diagrams.iter().flat_map(|diagram| &diagram.layers);
                layers.for_each(|layer| domains[layer.slot] = domain(layer));
            }
            domains
        })
    }
}

/// Every node is part of some valid point, hence every edge's position occurs.
fn domain(layer: &Layer) -> Vec<u16> {
    let mut occurs = Vec::new();
    for edge in layer.nodes().flatten() {
        let position = usize::from(edge.position);
        occurs.resize(occurs.len().max(position + 1), false);
        occurs[position] = true;
    }
    (0..=u16::MAX).zip(occurs).filter(|(_, occurs)| *occurs).map(|(position, _)| position).collect()
}

impl Diagram {
    fn restricted(&self, allowed: &Allowed) -> Diagram {
        let count = self.layers.len();
        let mut part = Restriction {
            source: self,
            allowed,
            copies: vec![FxHashMap::default(); count],
            nodes: vec![Vec::new(); count],
        };
        // A diagram without points has no root.
        if self.total != BigUint::ZERO {
            part.copy(0, 0);
        }
        let slots = self.layers.iter().map(|layer| layer.slot).collect();
        Diagram::new(Layers { slots, nodes: part.nodes })
    }
}

struct Restriction<'a> {
    source: &'a Diagram,
    allowed: &'a Allowed,
    /// For each layer, what became of the nodes that were met.
    copies: Vec<FxHashMap<u32, Option<u32>>>,
    nodes: Vec<Vec<Edges>>,
}

impl Restriction<'_> {
    /// The number of a node's copy; `None` if no allowed edges lead from it to the end.
    fn copy(&mut self, depth: usize, node: u32) -> Option<u32> {
        let (source, allowed) = (self.source, self.allowed);
        let Some(layer) = source.layers.get(depth) else { return Some(0) };
        if let Some(known) = self.copies[depth].get(&node) {
            return *known;
        }
        let edges = kept(layer, node, allowed);
        let edges: Edges =
            edges.filter_map(|edge| Some((edge.position, self.copy(depth + 1, edge.child)?))).collect();
        let number = (!edges.is_empty()).then_some(self.nodes[depth].len() as u32);
        self.nodes[depth].extend(number.map(|_| edges));
        self.copies[depth].insert(node, number);
        number
    }
}

fn kept<'a>(layer: &'a Layer, node: u32, allowed: &'a Allowed) -> impl Iterator<Item = &'a Edge> {
    let edges = layer.edges_of(node);
    let allowed = allowed[layer.slot].as_deref();
    // Nodes may have a thousand edges of which a neighborhood wants three.
    let few = allowed.filter(|allowed| allowed.len() * 8 < edges.len());
    let many = if few.is_some() { &[] } else { edges };
    let is_allowed = move |edge: &&Edge| allowed.is_none_or(|a| a.binary_search(&edge.position).is_ok());
    let find = move |position: &u16| {
        edges.binary_search_by_key(position, |edge| edge.position).ok().map(|at| &edges[at])
    };
    few.unwrap_or_default().iter().filter_map(find).chain(many.iter().filter(is_allowed))
}
