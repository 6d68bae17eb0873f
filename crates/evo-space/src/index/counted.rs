//! The index itself: the diagrams, how they interleave, and what is left to check.

use std::sync::{Arc, OnceLock};

use num_bigint::BigUint;

use super::checks::Checks;
use super::diagram::Diagram;
use super::parts::{self, Part};
use super::route::Route;
use crate::count::merge::Layers;
use crate::count::order;
use crate::count::problem::Problem;
use crate::count::relax::{RelaxLimits, relax};

/// The points of a space.
#[derive(Debug)]
pub struct Index {
    pub(super) diagrams: Vec<Diagram>,
    /// Group and layer of each slot.
    pub(super) places: Vec<(usize, usize)>,
    /// Number of points of the diagrams.
    pub(super) total: BigUint,
    /// Positions that occur in the diagrams, for each slot, computed on first use.
    pub(super) domains: OnceLock<Vec<Vec<u16>>>,
    /// The short way between index and point where there is one, computed on first use.
    pub(super) route: OnceLock<Option<Route>>,
    pub(super) checks: Arc<Checks>,
    /// For each slot the checks that read no later one.
    pub(super) closes: Vec<Vec<usize>>,
    /// What is independent of each other; only kept if there are checks.
    pub(super) parts: Vec<Part>,
}

/// How much work goes into an index.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Values tried for each group before conjuncts are left out.
    pub steps: u64,
    /// What choosing them may take, for each group.
    pub relax: RelaxLimits,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { steps: order::MAX_STEPS, relax: RelaxLimits::default() }
    }
}

impl Index {
    /// Counts a prepared space, or as much of it as the limits allow.
    pub fn new(problem: &Problem, limits: Limits) -> Index {
        let groups = if problem.impossible { Vec::new() } else { problem.groups() };
        let (mut diagrams, mut left_out) = (Vec::new(), Vec::new());
        for group in &groups {
            match order::diagram(problem, group, limits.steps) {
                Ok(layers) => diagrams.push(Diagram::new(layers)),
                // Only this group is relaxed. The others stay exact, and so do their parts of every answer.
                Err(_) => {
                    let relaxed = relax(problem, group, limits.relax);
                    diagrams.extend(relaxed.diagrams.into_iter().map(Diagram::new));
                    left_out.extend(relaxed.left_out);
                }
            }
        }
        let checks = Checks::new(problem, left_out);
        Index::of(diagrams, problem.values.len(), problem.impossible, Arc::new(checks))
    }

    /// Counts a prepared space, if that takes at most `steps` values tried for each group.
    pub fn exact(problem: &Problem, steps: u64) -> Option<Index> {
        let groups = if problem.impossible { Vec::new() } else { problem.groups() };
        let layers = groups.iter().map(|group| order::diagram(problem, group, steps).map(Diagram::new));
        let diagrams = layers.collect::<Result<_, _>>().ok()?;
        Some(Index::of(diagrams, problem.values.len(), problem.impossible, Arc::default()))
    }

    /// The index of one diagram that decides all `slots`.
    pub fn listed(layers: Layers, slots: usize) -> Index {
        Index::of(vec![Diagram::new(layers)], slots, slots == 0, Arc::default())
    }

    /// The index of diagrams that decide all `slots` together, and of checks on their points; of
    /// nothing when it is `impossible`.
    pub(super) fn of(diagrams: Vec<Diagram>, slots: usize, impossible: bool, checks: Arc<Checks>) -> Index {
        let mut places = vec![(0, 0); slots];
        let mut total = BigUint::from(u8::from(!impossible));
        for (group, diagram) in diagrams.iter().enumerate() {
            total *= &diagram.total;
            for (depth, layer) in diagram.layers.iter().enumerate() {
                places[layer.slot] = (group, depth);
            }
        }
        // Without a point there is nothing to check, and the emptiness is proven.
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

    /// Number of points of the diagrams: of valid points, if the space is exact, else of at least as
    /// many.
    pub fn total(&self) -> &BigUint {
        &self.total
    }

    /// Number of parameters.
    pub fn slots(&self) -> usize {
        self.places.len()
    }

    pub(super) fn route(&self) -> Option<&Route> {
        // On first use: it copies all tables, and the small index of a neighborhood never needs it.
        let new = || if self.is_empty() { None } else { Route::new(&self.diagrams, &self.places) };
        self.route.get_or_init(new).as_ref()
    }

    /// Each group's diagram; none if a constraint refuses all points.
    pub fn diagrams(&self) -> &[Diagram] {
        &self.diagrams
    }

    /// Whether the diagrams hold the valid points and no others.
    pub fn is_exact(&self) -> bool {
        self.checks.is_empty()
    }

    /// Whether it is proven that there is no valid point.
    pub fn is_empty(&self) -> bool {
        self.total == BigUint::ZERO
    }

    /// The sum of `weight(slot, position)` over all slots of all points of the diagrams, without
    /// listing them.
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
