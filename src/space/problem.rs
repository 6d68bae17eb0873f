//! A space made ready for counting: constraints split and folded, values that no valid point can
//! have removed, constraints that always hold dropped, and what is left grouped by who reads whom.

use super::code::{Atom, Code, Texts};
use super::constraint::Constraint;
use super::lower::{Domains, conjuncts};
use super::parameter::Parameter;

/// A constraint with at most this many combinations of values is tried out in full beforehand.
const MAX_TABLE: usize = 1 << 14;

/// Removing values can allow further removals; after this many rounds the search does the rest.
const MAX_ROUNDS: usize = 4;

/// A conjunct and the slots that it reads, ascending; at least two.
#[derive(Clone, Debug)]
pub struct Conjunct {
    pub code: Code,
    pub slots: Vec<usize>,
}

/// Slots are parameters in declared order.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Remaining value positions of each slot, ascending.
    pub positions: Vec<Vec<u16>>,
    /// The same as atoms.
    pub values: Vec<Vec<Atom>>,
    /// What the search has to check.
    pub conjuncts: Vec<Conjunct>,
    /// Already known to have no valid point.
    pub impossible: bool,
}

impl Problem {
    /// Prepares a space, or a part of its constraints.
    pub fn new(parameters: &[Parameter], constraints: &[&Constraint]) -> Problem {
        let values = parameters.iter().flat_map(|parameter| &parameter.values);
        let texts = Texts::collect(values, constraints.iter().map(|constraint| constraint.expr.tree()));
        let mut problem = Problem {
            positions: parameters.iter().map(|p| (0..p.values.len()).map(|at| at as u16).collect()).collect(),
            values: parameters
                .iter()
                .map(|p| p.values.iter().map(|value| texts.atom(value)).collect())
                .collect(),
            conjuncts: Vec::new(),
            impossible: parameters.iter().any(|parameter| parameter.values.is_empty()),
        };
        for _ in 0..MAX_ROUNDS {
            if problem.impossible {
                break;
            }
            problem.lower(parameters, constraints, &texts);
            if !problem.filter() {
                break;
            }
        }
        problem
    }

    /// Translates the constraints with what is known about the slots now.
    fn lower(&mut self, parameters: &[Parameter], constraints: &[&Constraint], texts: &Texts) {
        let domains = Domains { values: &self.values, texts };
        let slot = |name: &str| parameters.iter().position(|parameter| &*parameter.name == name);
        self.conjuncts.clear();
        for constraint in constraints {
            let names = constraint.expr.distinct_names();
            let slots: Vec<usize> = names.iter().filter_map(|name| slot(name)).collect();
            assert_eq!(slots.len(), names.len(), "constraints read only known names");
            for code in conjuncts(constraint.expr.tree(), &slots, &domains) {
                let slots = code.slots().into_iter().collect();
                self.conjuncts.push(Conjunct { code, slots });
            }
        }
    }

    /// Removes conjuncts and values that small tables decide; whether any value went.
    fn filter(&mut self) -> bool {
        let mut changed = false;
        let mut scratch = vec![Atom::Text(0); self.values.len()];
        let mut kept = Vec::new();
        for conjunct in std::mem::take(&mut self.conjuncts) {
            let sizes = conjunct.slots.iter().map(|slot| self.values[*slot].len());
            let combinations = sizes.fold(1usize, usize::saturating_mul);
            if conjunct.slots.len() > 1 && combinations > MAX_TABLE {
                kept.push(conjunct);
                continue;
            }
            let table = Table::new(&conjunct, &self.values, &mut scratch);
            changed |= self.keep_supported(&conjunct, &table);
            if table.holding < combinations && conjunct.slots.len() > 1 {
                kept.push(conjunct);
            }
            if table.holding == 0 {
                self.impossible = true;
                return false;
            }
        }
        self.conjuncts = kept;
        changed
    }

    fn keep_supported(&mut self, conjunct: &Conjunct, table: &Table) -> bool {
        let mut changed = false;
        for (slot, supported) in conjunct.slots.iter().zip(&table.supported) {
            let before = self.values[*slot].len();
            let mut flags = supported.iter();
            self.values[*slot].retain(|_| flags.next() == Some(&true));
            let mut flags = supported.iter();
            self.positions[*slot].retain(|_| flags.next() == Some(&true));
            changed |= self.values[*slot].len() < before;
        }
        changed
    }

    /// Slots linked by conjuncts, ascending within a group and by first slot between groups.
    pub fn groups(&self) -> Vec<Vec<usize>> {
        let mut leader: Vec<usize> = (0..self.values.len()).collect();
        fn find(leader: &mut [usize], mut slot: usize) -> usize {
            while leader[slot] != slot {
                leader[slot] = leader[leader[slot]];
                slot = leader[slot];
            }
            slot
        }
        for conjunct in &self.conjuncts {
            for slot in &conjunct.slots[1..] {
                let (a, b) = (find(&mut leader, conjunct.slots[0]), find(&mut leader, *slot));
                leader[a.max(b)] = a.min(b);
            }
        }
        let mut groups: Vec<Vec<usize>> = vec![Vec::new(); leader.len()];
        for slot in 0..leader.len() {
            let first = find(&mut leader, slot);
            groups[first].push(slot);
        }
        groups.retain(|group| !group.is_empty());
        groups
    }
}

/// A conjunct tried out on every combination of its slots' values.
struct Table {
    /// How many combinations it holds for.
    holding: usize,
    /// For each of its slots, which values occur in a combination that it holds for.
    supported: Vec<Vec<bool>>,
}

impl Table {
    fn new(conjunct: &Conjunct, values: &[Vec<Atom>], scratch: &mut [Atom]) -> Table {
        let supported = conjunct.slots.iter().map(|slot| vec![false; values[*slot].len()]).collect();
        let mut table = Table { holding: 0, supported };
        let mut at = vec![0usize; conjunct.slots.len()];
        loop {
            for (slot, position) in conjunct.slots.iter().zip(&at) {
                scratch[*slot] = values[*slot][*position];
            }
            if conjunct.code.holds(scratch) {
                table.holding += 1;
                for (flags, position) in table.supported.iter_mut().zip(&at) {
                    flags[*position] = true;
                }
            }
            let step =
                (0..at.len()).rev().find(|digit| at[*digit] + 1 < values[conjunct.slots[*digit]].len());
            let Some(step) = step else { return table };
            at[step] += 1;
            at[step + 1..].fill(0);
        }
    }
}
