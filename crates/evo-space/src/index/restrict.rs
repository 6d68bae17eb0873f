//! The part of an index in which parameters keep to allowed values: again an index, with counts of
//! its own.
//!
//! Only nodes that allowed edges reach are visited, so that the neighborhood of a point costs what it
//! holds and not what the space holds.

use std::sync::Arc;

use super::counted::Index;
use super::diagram::{Diagram, Edge, Layer};
use crate::count::merge::{Edges, Layers};

/// For each slot the allowed value positions, ascending; `None` allows all.
pub type Allowed = Vec<Option<Vec<u16>>>;

/// The mark of a node without completion.
const DEAD: u32 = u32::MAX;

impl Index {
    /// The valid points whose positions are all allowed.
    pub fn restricted(&self, allowed: &Allowed) -> Index {
        let diagrams = self.diagrams.iter().map(|diagram| diagram.restricted(allowed));
        // Edges keep their positions, so the checks of the whole space serve its parts unchanged.
        Index::of(diagrams.collect(), self.places.len(), self.is_empty(), Arc::clone(&self.checks))
    }

    /// Value positions that occur in some valid point, ascending, for each slot. If the space is not
    /// exact, positions that occur in the diagrams.
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
        let reached = self.reached(allowed);
        let mut nodes: Vec<Vec<Edges>> = Vec::with_capacity(self.layers.len());
        // The new number of each node of the layer below, by the order in which it was reached.
        let mut below = vec![0];
        // Bottom up over the reached nodes only: a node without an allowed completion disappears, and
        // with it the edges that lead to it.
        for (depth, layer) in self.layers.iter().enumerate().rev() {
            let mut own = Vec::new();
            let numbers = reached[depth].nodes.iter().map(|node| {
                let edges = kept(layer, *node, allowed).filter_map(|edge| {
                    // `below` is ordered as `reached`, because both list nodes in the order in which the pass
                    // down met them.
                    let child = below[reached[depth + 1].order_of(edge.child)];
                    (child != DEAD).then_some((edge.position, child))
                });
                let edges: Edges = edges.collect();
                if edges.is_empty() {
                    return DEAD;
                }
                own.push(edges);
                (own.len() - 1) as u32
            });
            below = numbers.collect();
            nodes.push(own);
        }
        nodes.reverse();
        let slots = self.layers.iter().map(|layer| layer.slot).collect();
        Diagram::new(Layers { slots, nodes })
    }

    /// The nodes of each layer, and of the end, that allowed edges lead to.
    fn reached(&self, allowed: &Allowed) -> Vec<ReachedNodes> {
        let start = self.layers.first().map_or(1, |layer| layer.counts.len());
        let mut reached = vec![ReachedNodes::new(start)];
        // A diagram without points has no root.
        reached[0].add_all(0..start.min(1) as u32);
        for (depth, layer) in self.layers.iter().enumerate() {
            let width = self.layers.get(depth + 1).map_or(1, |next| next.counts.len());
            let mut next = ReachedNodes::new(width);
            for node in &reached[depth].nodes {
                next.add_all(kept(layer, *node, allowed).map(|edge| edge.child));
            }
            reached.push(next);
        }
        reached
    }
}

/// A node's edges at allowed positions.
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

/// Some nodes of a layer.
struct ReachedNodes {
    nodes: Vec<u32>,
    /// For each node of the layer its place in `nodes`, from 1 on; 0 if it is not there. Fresh zeros
    /// cost nothing until they are touched, which matters in wide layers.
    places: Vec<u32>,
}

impl ReachedNodes {
    fn new(width: usize) -> ReachedNodes {
        ReachedNodes { nodes: Vec::new(), places: vec![0; width] }
    }

    fn add_all(&mut self, nodes: impl Iterator<Item = u32>) {
        for node in nodes {
            let place = &mut self.places[node as usize];
            if *place == 0 {
                self.nodes.push(node);
                *place = self.nodes.len() as u32;
            }
        }
    }

    fn order_of(&self, node: u32) -> usize {
        self.places[node as usize] as usize - 1
    }
}
