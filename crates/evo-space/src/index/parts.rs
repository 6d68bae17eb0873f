//! Diagrams that checks link. Parts are independent of each other: a point is valid exactly if each
//! part of it is, so each is sampled, repaired and estimated on its own.

use std::sync::OnceLock;

use super::checks::Checks;
use super::diagram::Diagram;

/// Some diagrams and the checks that read only their slots.
#[derive(Debug)]
pub struct Part {
    pub diagrams: Vec<usize>,
    pub checks: Vec<usize>,
    /// All layers, one diagram after the other.
    pub steps: Vec<PartStep>,
    /// How often a drawn point of the diagrams passes the checks, computed on first use.
    pub(super) trial: OnceLock<Trial>,
}

/// Drawn points of a part's diagrams, and those of them that pass the checks.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    pub drawn: u32,
    pub held: u32,
}

/// One decision.
#[derive(Debug)]
pub struct PartStep {
    pub diagram: usize,
    pub depth: usize,
    pub slot: usize,
    /// Checks whose last slot this is.
    pub closes: Vec<usize>,
}

impl Part {
    /// Whether every point of the diagrams is valid.
    pub fn is_exact(&self) -> bool {
        self.checks.is_empty()
    }

    /// The node to go on from after an edge of a step was taken.
    pub fn next_node(&self, diagrams: &[Diagram], step: usize, child: u32) -> u32 {
        let PartStep { diagram, depth, .. } = self.steps[step];
        // A finished diagram hands over to the next one, which begins at its root.
        if depth + 1 < diagrams[diagram].layers.len() { child } else { 0 }
    }
}

/// The parts of a space.
pub fn parts(diagrams: &[Diagram], places: &[(usize, usize)], checks: &Checks) -> Vec<Part> {
    let mut part_of: Vec<usize> = (0..diagrams.len()).collect();
    for check in 0..checks.len() {
        let linked: Vec<usize> = checks.slots(check).iter().map(|slot| part_of[places[*slot].0]).collect();
        // Every diagram of the linked parts moves, not only those that the check reads, so that earlier links
        // are kept.
        part_of.iter_mut().filter(|part| linked.contains(part)).for_each(|part| *part = linked[0]);
    }
    let mut found = Vec::new();
    for own in 0..diagrams.len() {
        let members: Vec<usize> = (0..diagrams.len()).filter(|at| part_of[*at] == own).collect();
        if !members.is_empty() {
            let mine = |check: &usize| part_of[places[checks.slots(*check)[0]].0] == own;
            found.push(part(diagrams, members, checks, (0..checks.len()).filter(mine).collect()));
        }
    }
    found
}

/// Puts next the diagram that completes most checks, then the one that most of the begun checks wait
/// for, so that a wrong turn shows early.
fn part(diagrams: &[Diagram], mut left: Vec<usize>, checks: &Checks, mine: Vec<usize>) -> Part {
    let mut decided: Vec<usize> = Vec::new();
    let mut part = Part { diagrams: Vec::new(), checks: mine, steps: Vec::new(), trial: OnceLock::new() };
    let mut open = part.checks.clone();
    while !left.is_empty() {
        let score = |diagram: usize| {
            let own = |slot: &usize| diagrams[diagram].layers.iter().any(|layer| layer.slot == *slot);
            let (mut closed, mut awaited) = (0, 0);
            for check in &open {
                let slots = checks.slots(*check);
                closed += usize::from(slots.iter().all(|slot| own(slot) || decided.contains(slot)));
                let begun = slots.iter().any(|slot| decided.contains(slot));
                awaited += usize::from(begun && slots.iter().any(own));
            }
            (closed, awaited)
        };
        // The first of the best.
        let best = (0..left.len()).rev().max_by_key(|at| score(left[*at])).unwrap_or(0);
        let diagram = left.remove(best);
        for (depth, layer) in diagrams[diagram].layers.iter().enumerate() {
            decided.push(layer.slot);
            let is_closed = |check: &usize| checks.slots(*check).iter().all(|slot| decided.contains(slot));
            let (closes, rest) = open.iter().partition(|check| is_closed(check));
            open = rest;
            part.steps.push(PartStep { diagram, depth, slot: layer.slot, closes });
        }
        part.diagrams.push(diagram);
    }
    part
}
