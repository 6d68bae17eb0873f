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
    let read = |check: usize| checks.slots(check).iter().map(|slot| places[*slot].0);
    let mut leader: Vec<usize> = (0..diagrams.len()).collect();
    fn find(leader: &mut [usize], mut own: usize) -> usize {
        while leader[own] != own {
            leader[own] = leader[leader[own]];
            own = leader[own];
        }
        own
    }
    for check in 0..checks.len() {
        let first = read(check).next().unwrap_or(0);
        for other in read(check) {
            // The leader of the check's first diagram leads what is linked now.
            let (a, b) = (find(&mut leader, first), find(&mut leader, other));
            leader[b] = a;
        }
    }
    let (mut members, mut mine) = (vec![Vec::new(); diagrams.len()], vec![Vec::new(); diagrams.len()]);
    (0..diagrams.len()).for_each(|own| members[find(&mut leader, own)].push(own));
    for check in 0..checks.len() {
        mine[find(&mut leader, read(check).next().unwrap_or(0))].push(check);
    }
    let found = members.into_iter().zip(mine).filter(|(members, _)| !members.is_empty());
    found.map(|(members, mine)| part(diagrams, places, members, checks, mine)).collect()
}

/// Puts next the diagram that completes most checks, then the one that most of the begun checks wait
/// for, so that a wrong turn shows early.
fn part(
    diagrams: &[Diagram],
    places: &[(usize, usize)],
    mut left: Vec<usize>,
    checks: &Checks,
    mine: Vec<usize>,
) -> Part {
    let mut part = Part { diagrams: Vec::new(), checks: mine, steps: Vec::new(), trial: OnceLock::new() };
    let mut waiting = Waiting::new(diagrams.len(), places, checks, &part.checks);
    let mut step_of = vec![0; places.len()];
    while !left.is_empty() {
        // The first of the best.
        let score = |at: &usize| (waiting.closed[left[*at]], waiting.awaited[left[*at]]);
        let best = (0..left.len()).rev().max_by_key(score).unwrap_or(0);
        let diagram = left.remove(best);
        waiting.decide(diagram);
        for (depth, layer) in diagrams[diagram].layers.iter().enumerate() {
            step_of[layer.slot] = part.steps.len();
            part.steps.push(PartStep { diagram, depth, slot: layer.slot, closes: Vec::new() });
        }
        part.diagrams.push(diagram);
    }
    for check in &part.checks {
        let last = checks.slots(*check).iter().map(|slot| step_of[*slot]).max();
        last.into_iter().for_each(|last| part.steps[last].closes.push(*check));
    }
    part
}

/// How many checks wait for each diagram, kept up to date while diagrams are decided.
struct Waiting {
    /// The diagrams of each check.
    diagrams: Vec<Vec<usize>>,
    /// The checks of each diagram.
    checks: Vec<Vec<usize>>,
    /// How many diagrams of each check are open.
    open: Vec<usize>,
    decided: Vec<bool>,
    /// Checks whose only open diagram this is.
    closed: Vec<usize>,
    /// Checks that have begun, and are open, and read this diagram.
    awaited: Vec<usize>,
}

impl Waiting {
    fn new(count: usize, places: &[(usize, usize)], checks: &Checks, mine: &[usize]) -> Waiting {
        let mut waiting = Waiting {
            diagrams: Vec::new(),
            checks: vec![Vec::new(); count],
            open: Vec::new(),
            decided: vec![false; count],
            closed: vec![0; count],
            awaited: vec![0; count],
        };
        for (number, check) in mine.iter().enumerate() {
            let mut read: Vec<usize> = checks.slots(*check).iter().map(|slot| places[*slot].0).collect();
            read.sort_unstable();
            read.dedup();
            read.iter().for_each(|diagram| waiting.checks[*diagram].push(number));
            if let [only] = read[..] {
                waiting.closed[only] += 1;
            }
            waiting.open.push(read.len());
            waiting.diagrams.push(read);
        }
        waiting
    }

    fn decide(&mut self, diagram: usize) {
        self.decided[diagram] = true;
        for number in &self.checks[diagram] {
            let read = &self.diagrams[*number];
            if self.open[*number] == read.len() {
                read.iter().for_each(|other| self.awaited[*other] += 1);
            }
            self.open[*number] -= 1;
            if self.open[*number] == 1 {
                let last = read.iter().find(|other| !self.decided[**other]);
                last.into_iter().for_each(|last| self.closed[*last] += 1);
            }
        }
    }
}
