//! The index of valid points: exact counts, and index ⇄ point in canonical order.
//!
//! Each group of linked parameters has a reduced diagram whose nodes know how many completions they
//! have. The canonical order is lexicographic in the declared order of all parameters, which groups
//! may interleave: a step at one parameter therefore skips that group's completions times those of
//! every other group from where it stands.

mod around;
mod descend;
pub mod diagram;
mod lookup;
mod points;
mod restrict;

use std::sync::OnceLock;

use num_bigint::BigUint;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::merge::OverBudget;
use super::order;
use super::problem::Problem;
use diagram::{Diagram, Edge};

pub use around::{Around, Side};
pub use points::Points;
pub use restrict::Allowed;

/// The points of a space.
#[derive(Debug)]
pub struct Index {
    diagrams: Vec<Diagram>,
    /// Group and layer of each slot.
    places: Vec<(usize, usize)>,
    total: BigUint,
    /// Positions that occur, for each slot, once somebody asked.
    domains: OnceLock<Vec<Vec<u16>>>,
}

/// Why there is no index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    #[error("the constraints entangle too many parameters to count the valid points")]
    TooEntangled,
}

impl From<OverBudget> for IndexError {
    fn from(_: OverBudget) -> IndexError {
        IndexError::TooEntangled
    }
}

impl Index {
    /// Counts a prepared space. `steps` limits the work for each group (values tried).
    pub fn new(problem: &Problem, steps: u64) -> Result<Index, IndexError> {
        let groups = if problem.impossible { Vec::new() } else { problem.groups() };
        let diagram = |group: &Vec<usize>| order::diagram(problem, group, steps).map(Diagram::new);
        let diagrams = groups.iter().map(diagram).collect::<Result<Vec<Diagram>, OverBudget>>()?;
        Ok(Index::of(diagrams, problem.values.len(), problem.impossible))
    }

    /// The index of diagrams that decide all `slots` together; of no point when `impossible`.
    fn of(diagrams: Vec<Diagram>, slots: usize, impossible: bool) -> Index {
        let mut places = vec![(0, 0); slots];
        let mut total = BigUint::from(u8::from(!impossible));
        for (group, diagram) in diagrams.iter().enumerate() {
            total *= &diagram.total;
            for (depth, layer) in diagram.layers.iter().enumerate() {
                places[layer.slot] = (group, depth);
            }
        }
        Index { diagrams, places, total, domains: OnceLock::new() }
    }

    /// Number of valid points.
    pub fn total(&self) -> &BigUint {
        &self.total
    }

    /// Number of parameters.
    pub fn slots(&self) -> usize {
        self.places.len()
    }

    /// Each group's diagram; none if a constraint refuses all points.
    pub fn diagrams(&self) -> &[Diagram] {
        &self.diagrams
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.total == BigUint::ZERO
    }

    /// A uniform point.
    pub fn sample(&self, rng: &mut ChaCha8Rng) -> Option<Vec<u16>> {
        if self.is_empty() {
            return None;
        }
        let mut positions = vec![0; self.places.len()];
        // A uniform point of a product is a uniform point of each factor.
        self.diagrams.iter().for_each(|diagram| diagram.draw(rng, &mut positions));
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

    /// The sum of `weight(slot, position)` over all slots of all valid points, without listing them.
    pub fn weighted_sum(&self, weight: impl Fn(usize, u16) -> BigUint) -> BigUint {
        let mut sum = BigUint::ZERO;
        for diagram in self.diagrams.iter().filter(|_| !self.is_empty()) {
            let others = &self.total / &diagram.total;
            sum += diagram.weighted_sum(&weight) * others;
        }
        sum
    }
}
