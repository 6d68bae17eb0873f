//! Conjuncts that the diagrams do not cover. They are checked at points, or at partial points as soon
//! as their last parameter is decided.

use crate::count::problem::{Conjunct, Problem};
use crate::program::{Atom, Program, Register, Registers};

/// The conjuncts and what it takes to evaluate them.
#[derive(Debug, Default)]
pub struct Checks {
    checks: Vec<CompiledConjunct>,
    registers: Registers,
    /// The value at each position, for the slots that are read; the others have none.
    values: Vec<Vec<Atom>>,
}

/// A compiled conjunct and the slots that it reads.
#[derive(Debug)]
struct CompiledConjunct {
    program: Program,
    slots: Vec<usize>,
}

/// Values of a partial point, as far as checks read them, and room to compute.
#[derive(Clone, Debug)]
pub struct CheckScratch(Registers);

impl Checks {
    /// Checks of conjuncts that were left out of a problem.
    pub fn new(problem: &Problem, conjuncts: Vec<Conjunct>) -> Checks {
        let mut read = vec![false; problem.values.len()];
        conjuncts.iter().flat_map(|conjunct| &conjunct.slots).for_each(|slot| read[*slot] = true);
        let values = |slot: usize| {
            if !read[slot] {
                return Vec::new();
            }
            let positions = &problem.positions[slot];
            let length = positions.last().map_or(0, |last| usize::from(*last) + 1);
            // Indexed by original position, because diagrams speak in positions. Removed positions hold a
            // filler that no diagram asks for.
            let mut values = vec![Atom::Text(0); length];
            positions
                .iter()
                .zip(&problem.values[slot])
                .for_each(|(at, value)| values[usize::from(*at)] = *value);
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

    /// Whether there is nothing to check.
    pub fn is_empty(&self) -> bool {
        self.checks.is_empty()
    }

    /// Number of checks.
    pub fn len(&self) -> usize {
        self.checks.len()
    }

    /// What making all of some checks costs, in steps.
    pub fn weight(&self, checks: &[usize]) -> u64 {
        checks.iter().map(|check| self.checks[*check].program.weight()).sum()
    }

    /// The slots that a check reads, ascending.
    pub fn slots(&self, check: usize) -> &[usize] {
        &self.checks[check].slots
    }

    /// The last slot that a check reads.
    pub fn last_slot(&self, check: usize) -> usize {
        self.slots(check).last().copied().unwrap_or(0)
    }

    /// Room for the values of a point.
    pub fn scratch(&self) -> CheckScratch {
        CheckScratch(self.registers.clone())
    }

    /// Notes a position that the diagrams allow.
    pub fn set(&self, scratch: &mut CheckScratch, slot: usize, position: u16) {
        // Slots that no check reads have no values here, so callers may set every slot.
        if let Some(value) = self.values[slot].get(usize::from(position)) {
            scratch.0.set(slot as Register, Some(*value));
        }
    }

    /// Whether a check holds; all of its slots must be set.
    pub fn holds(&self, check: usize, scratch: &mut CheckScratch) -> bool {
        self.checks[check].program.holds(&mut scratch.0)
    }

    /// Whether all checks hold at a point that the diagrams allow.
    pub fn all_hold(&self, positions: &[u16]) -> bool {
        if self.is_empty() {
            return true;
        }
        let mut scratch = self.scratch();
        positions.iter().enumerate().for_each(|(slot, position)| self.set(&mut scratch, slot, *position));
        (0..self.len()).all(|check| self.holds(check, &mut scratch))
    }
}
