//! A space made ready for counting: constraints split and folded, values that no valid point can
//! have removed, constraints that always hold dropped, and parameters that share a constraint grouped.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::table::TruthTable;
use crate::constraint::Constraint;
use crate::parameter::Parameter;
use crate::program::{Atom, Code, Domains, Program, Registers, Texts, conjuncts};
use crate::watch::SpaceWatch;

/// A constraint with at most this many combinations of values is tried out in full beforehand.
const MAX_TABLE: usize = 1 << 14;

/// Removing values makes smaller tables possible, which may remove more; combinations tried in all
/// before the search has to do the rest.
const MAX_TRIED: usize = 1 << 21;

/// A conjunct and the slots that it reads, ascending; at least two, each with at least two values.
#[derive(Clone, Debug)]
pub struct Conjunct {
    pub code: Code,
    /// The number of the constraint that it is part of.
    pub origin: usize,
    pub slots: Vec<usize>,
    /// Its truth for all combinations of the slots' remaining values, if these are few.
    pub table: Option<Arc<TruthTable>>,
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
    /// Ends the work on the problem, the search included.
    pub watch: SpaceWatch,
}

impl Problem {
    /// Prepares a space, or a part of its constraints.
    pub fn new(parameters: &[Parameter], constraints: &[&Constraint], watch: &SpaceWatch) -> Problem {
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
            watch: watch.clone(),
        };
        // One budget for all rounds, so that lowering again cannot multiply the work.
        let mut tried = 0;
        while !problem.impossible && !watch.is_over() {
            // A slot that filtering left with one value is a constant to the next round, in which more
            // folds and smaller tables are possible.
            problem.lower(parameters, constraints, &texts);
            let single = problem.singles();
            problem.filter(&mut tried);
            if !problem.worth_lowering_again(&single) {
                break;
            }
        }
        problem
    }

    /// Translates the constraints with what is known about the slots now.
    fn lower(&mut self, parameters: &[Parameter], constraints: &[&Constraint], texts: &Texts) {
        let domains = Domains::new(&self.values, texts);
        let places: FxHashMap<&str, usize> =
            parameters.iter().enumerate().map(|(slot, parameter)| (&*parameter.name, slot)).collect();
        self.conjuncts.clear();
        for (origin, constraint) in constraints.iter().enumerate() {
            self.watch.at(Some(origin));
            if self.watch.is_over() {
                return;
            }
            let names = constraint.expr.distinct_names();
            let slots: Vec<usize> = names.iter().filter_map(|name| places.get(&**name).copied()).collect();
            // The loader has already rejected unknown names, so a name without a slot is a bug in evo.
            assert_eq!(slots.len(), names.len(), "constraints read only known names");
            for code in conjuncts(constraint.expr.tree(), &slots, &domains) {
                let slots = code.slots();
                self.conjuncts.push(Conjunct { code, origin, slots, table: None });
            }
        }
    }

    /// Which slots have one value left.
    fn singles(&self) -> Vec<bool> {
        self.values.iter().map(|values| values.len() == 1).collect()
    }

    /// Whether a conjunct that has to be evaluated reads a slot that has become a constant.
    fn worth_lowering_again(&self, single_before: &[bool]) -> bool {
        let new = |slot: &usize| self.values[*slot].len() == 1 && !single_before[*slot];
        let evaluated = |conjunct: &&Conjunct| conjunct.table.is_none();
        !self.impossible
            && self.conjuncts.iter().filter(evaluated).any(|conjunct| conjunct.code.slots().iter().any(new))
    }

    /// Removes conjuncts and values that small tables decide, and keeps the tables. The smallest come
    /// first, because what they remove makes the others smaller.
    fn filter(&mut self, tried: &mut usize) {
        let mut registers = Registers::new(self.values.len());
        for (slot, values) in self.values.iter().enumerate() {
            // Conjuncts may read slots that have one value left. No table sets these registers, so they must
            // hold that value from the start.
            registers.set(slot as u32, values.first().copied());
        }
        // Compiled once: filtering removes values but never changes a conjunct's code.
        let programs: Vec<Program> =
            self.conjuncts.iter().map(|conjunct| Program::new(&conjunct.code, &mut registers)).collect();
        let mut changed = true;
        // Generalized arc consistency: values without support go, which shrinks other tables, until no table
        // changes.
        while changed && !self.impossible {
            changed = false;
            let mut numbers: Vec<usize> = (0..self.conjuncts.len()).collect();
            // Sorted anew in each pass, because removed values change which tables are small.
            numbers.sort_by_key(|number| self.combinations(&self.conjuncts[*number]));
            for number in numbers {
                if self.watch.is_over() {
                    return;
                }
                let combinations = self.combinations(&self.conjuncts[number]);
                let cost = combinations.saturating_mul(programs[number].weight() as usize);
                let few = combinations <= MAX_TABLE && tried.saturating_add(cost) <= MAX_TRIED;
                // A conjunct that reads one slot or none is always tabulated: the search only plans
                // conjuncts of two or more slots.
                let wanted = few || self.conjuncts[number].slots.len() < 2;
                if wanted && !self.impossible && !self.is_current(&self.conjuncts[number]) {
                    *tried = tried.saturating_add(cost);
                    changed |= self.tabulate(number, &programs[number], &mut registers);
                }
            }
        }
        self.drop_what_is_decided();
    }

    fn combinations(&self, conjunct: &Conjunct) -> usize {
        conjunct.slots.iter().map(|slot| self.values[*slot].len()).fold(1, usize::saturating_mul)
    }

    /// Whether the table has the slots' present values.
    fn is_current(&self, conjunct: &Conjunct) -> bool {
        let sizes = conjunct.slots.iter().map(|slot| self.values[*slot].len());
        conjunct.table.as_ref().is_some_and(|table| sizes.eq(table.sizes().iter().copied()))
    }

    /// Makes the table of a conjunct and removes the values that it does not support; whether any went.
    fn tabulate(&mut self, number: usize, program: &Program, registers: &mut Registers) -> bool {
        self.watch.at(Some(self.conjuncts[number].origin));
        let slots = self.conjuncts[number].slots.clone();
        let sizes = slots.iter().map(|slot| self.values[*slot].len()).collect();
        let set = |registers: &mut Registers, digit: usize, at: usize| {
            registers.set(slots[digit] as u32, Some(self.values[slots[digit]][at]));
        };
        let Some(mut table) = TruthTable::new(sizes, program, registers, &self.watch, set) else {
            return false;
        };
        self.impossible |= table.holding == 0;
        let supported = table.supported();
        let changed = supported.iter().any(|flags| flags.contains(&false));
        if changed {
            table.keep(&supported);
            slots.iter().zip(&supported).for_each(|(slot, flags)| self.keep(*slot, flags));
        }
        self.conjuncts[number].table = Some(Arc::new(table));
        changed
    }

    fn keep(&mut self, slot: usize, flags: &[bool]) {
        let mut each = flags.iter();
        self.values[slot].retain(|_| each.next() == Some(&true));
        let mut each = flags.iter();
        self.positions[slot].retain(|_| each.next() == Some(&true));
    }

    /// Drops conjuncts that always hold now, and slots that have become constants from the others.
    fn drop_what_is_decided(&mut self) {
        let mut conjuncts = std::mem::take(&mut self.conjuncts);
        for conjunct in &mut conjuncts {
            // Another table may have removed values after this one was made, so its rows no longer match the
            // slots.
            if !self.is_current(conjunct) {
                conjunct.table = None;
            }
            // Only now, because `is_current` compares a table with all slots of its conjunct.
            conjunct.slots.retain(|slot| self.values[*slot].len() > 1);
            if let Some(table) = &mut conjunct.table {
                Arc::make_mut(table).drop_single_values();
            }
        }
        let open = |conjunct: &Conjunct| match &conjunct.table {
            Some(table) => table.holding < table.combinations(),
            None => true,
        };
        conjuncts.retain(open);
        self.conjuncts = conjuncts;
    }

    /// Slots linked by conjuncts, ascending within a group and by first slot between groups.
    pub fn groups(&self) -> Vec<Vec<usize>> {
        let mut leader: Vec<usize> = (0..self.values.len()).collect();
        fn find(leader: &mut [usize], mut slot: usize) -> usize {
            while leader[slot] != slot {
                // Path halving keeps the trees flat without a second pass or recursion.
                leader[slot] = leader[leader[slot]];
                slot = leader[slot];
            }
            slot
        }
        for conjunct in &self.conjuncts {
            for slot in &conjunct.slots[1..] {
                let (a, b) = (find(&mut leader, conjunct.slots[0]), find(&mut leader, *slot));
                // The smaller slot leads, so that a group is found under its first slot and groups come out
                // in declared order.
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
