//! Diagrams that checks link. Parts are independent: a point is valid exactly if each part of it is, so each is
//! sampled, repaired and estimated on its own. Checks are conjuncts that the diagrams do not cover; they are made at
//! points, or at partial points as soon as their last parameter is decided.

use std::sync::OnceLock;

use crate::count::order::Waiting;
use crate::count::problem::{Conjunct, Problem, linked};
use crate::index::diagram::{Diagram, Layer};
use crate::program::{Atom, Program, Register, Registers};

#[derive(Debug)]
pub struct Part {
    pub diagrams: Vec<usize>,
    pub checks: Vec<usize>,
    pub steps: Vec<PartStep>,
    /// How often a drawn point of the diagrams passes the checks, computed on first use.
    pub(super) trial: OnceLock<Trial>,
}

#[derive(Clone, Copy, Debug)]
pub struct Trial {
    pub drawn: u32,
    pub held: u32,
}

#[derive(Debug)]
pub struct PartStep {
    pub slot: usize,
    pub closes: Vec<usize>,
}

impl Part {
    /// Where the step after one begins that led to `child`.
    pub fn next_node(&self, layers: &[Layer], step: usize, child: u32) -> u32 {
        let next = self.steps.get(step + 1).map_or(0, |next| layers[next.slot].depth);
        if next > 0 { child } else { 0 }
    }
}

/// The parts, and the diagrams that no check reads.
pub fn parts(diagrams: &[Diagram], layers: &[Layer], checks: &Checks) -> (Vec<Part>, Vec<usize>) {
    let read = |check: usize| checks.slots(check).iter().map(|slot| layers[*slot].group);
    let (mut parts, mut free) = (Vec::new(), Vec::new());
    if checks.is_empty() {
        return (parts, (0..diagrams.len()).collect());
    }
    for group in linked(diagrams.len(), (0..checks.len()).map(read)) {
        let is_mine = |check: &usize| read(*check).next().is_some_and(|first| group.contains(&first));
        let mine: Vec<usize> = (0..checks.len()).filter(is_mine).collect();
        match mine.is_empty() {
            true => free.extend(group),
            false => parts.push(part(diagrams, layers, group, checks, mine)),
        }
    }
    (parts, free)
}

/// Next the diagram that completes most checks, then the one that most begun checks wait for: a wrong turn shows early.
fn part(
    diagrams: &[Diagram],
    layers: &[Layer],
    mut left: Vec<usize>,
    checks: &Checks,
    mine: Vec<usize>,
) -> Part {
    let mut part = Part { diagrams: Vec::new(), checks: mine, steps: Vec::new(), trial: OnceLock::new() };
    let reads = part.checks.iter().map(|check| {
        let mut read: Vec<usize> = checks.slots(*check).iter().map(|slot| layers[*slot].group).collect();
        read.sort_unstable();
        read.dedup();
        read
    });
    let mut waiting = Waiting::new(diagrams.len(), reads);
    let mut step_of = vec![0; layers.len()];
    while !left.is_empty() {
        let score = |at: &usize| (waiting.closed[left[*at]], waiting.begun[left[*at]]);
        let best = (0..left.len()).rev().max_by_key(score).unwrap_or(0);
        let diagram = left.remove(best);
        waiting.decide(diagram);
        for slot in &diagrams[diagram].slots {
            step_of[*slot] = part.steps.len();
            part.steps.push(PartStep { slot: *slot, closes: Vec::new() });
        }
        part.diagrams.push(diagram);
    }
    for check in &part.checks {
        let last = checks.slots(*check).iter().map(|slot| step_of[*slot]).max();
        last.into_iter().for_each(|last| part.steps[last].closes.push(*check));
    }
    part
}

#[derive(Debug, Default)]
pub struct Checks {
    checks: Vec<CompiledConjunct>,
    registers: Registers,
    /// The value at each position, for the slots that are read; the others have none.
    values: Vec<Vec<Atom>>,
}

#[derive(Debug)]
struct CompiledConjunct {
    program: Program,
    slots: Vec<usize>,
}

#[derive(Clone, Debug)]
pub struct CheckScratch(Registers);

impl Checks {
    pub fn new(problem: &Problem, conjuncts: Vec<Conjunct>) -> Checks {
        // Whoever draws takes a copy of the registers along.
        if conjuncts.is_empty() {
            return Checks::default();
        }
        let mut read = vec![false; problem.values.len()];
        conjuncts.iter().flat_map(|conjunct| &conjunct.slots).for_each(|slot| read[*slot] = true);
        let values = |slot: usize| {
            if !read[slot] {
                return Vec::new();
            }
            let positions = &problem.positions[slot];
            let length = positions.last().map_or(0, |last| usize::from(*last) + 1);
            // Diagrams speak in original positions; removed ones hold a filler that no diagram asks for.
            let mut values = vec![Atom::Text(0); length];
            let known = positions.iter().zip(&problem.values[slot]);
            known.for_each(|(at, value)| values[usize::from(*at)] = *value);
            values
        };
        let values: Vec<Vec<Atom>> = (0..problem.values.len()).map(values).collect();
        let mut registers = Registers::new(problem.values.len());
        // Conjuncts may read slots that have one value left, without naming them.
        for (slot, values) in problem.values.iter().enumerate().filter(|(_, values)| values.len() == 1) {
            registers.set(slot as Register, Some(values[0]));
        }
        let check = |conjunct: Conjunct| {
            let program = Program::new(&conjunct.code, &mut registers);
            CompiledConjunct { program, slots: conjunct.slots }
        };
        let checks = conjuncts.into_iter().map(check).collect();
        Checks { checks, registers, values }
    }

    pub fn is_empty(&self) -> bool {
        self.checks.is_empty()
    }

    pub fn len(&self) -> usize {
        self.checks.len()
    }

    pub fn weight(&self, checks: &[usize]) -> u64 {
        checks.iter().map(|check| self.checks[*check].program.weight()).sum()
    }

    pub fn slots(&self, check: usize) -> &[usize] {
        &self.checks[check].slots
    }

    pub fn scratch(&self) -> CheckScratch {
        CheckScratch(self.registers.clone())
    }

    pub fn set(&self, scratch: &mut CheckScratch, slot: usize, position: u16) {
        // Slots that no check reads have no values here, so callers may set every slot.
        if let Some(value) = self.values[slot].get(usize::from(position)) {
            scratch.0.set(slot as Register, Some(*value));
        }
    }

    pub fn holds(&self, check: usize, scratch: &mut CheckScratch) -> bool {
        self.checks[check].program.holds(&mut scratch.0)
    }

    pub fn all_hold(&self, positions: &[u16]) -> bool {
        if self.is_empty() {
            return true;
        }
        let mut scratch = self.scratch();
        positions.iter().enumerate().for_each(|(slot, position)| self.set(&mut scratch, slot, *position));
        (0..self.len()).all(|check| self.holds(check, &mut scratch))
    }
}
