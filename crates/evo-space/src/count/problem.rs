//! A space made ready for counting: constraints split and folded, values that no valid point can
//! have removed, constraints that always hold dropped, and parameters that share a constraint grouped.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::count::words::{KeyTable, words_for};
use crate::parameter::{Constraint, Parameter};
use crate::program::{Atom, Code, Domains, Program, Registers, Texts, conjuncts};
use crate::watch::SpaceWatch;

/// A constraint with at most this many combinations of values is tried out in full beforehand.
const MAX_TABLE: usize = 1 << 14;

/// Combinations tried in all before the search has to do the rest: removing values makes smaller tables possible.
const MAX_TRIED: usize = 1 << 21;

/// A conjunct and the slots that it reads, ascending; at least two, each with at least two values.
#[derive(Clone, Debug)]
pub struct Conjunct {
    pub code: Code,
    pub origin: usize,
    pub slots: Vec<usize>,
    /// Its truth for all combinations of the slots' remaining values, if these are few.
    pub table: Option<Arc<TruthTable>>,
}

/// Slots are parameters in declared order.
#[derive(Clone, Debug)]
pub struct Problem {
    pub positions: Vec<Vec<u16>>,
    pub values: Vec<Vec<Atom>>,
    pub conjuncts: Vec<Conjunct>,
    pub impossible: bool,
    pub watch: SpaceWatch,
}

impl Problem {
    pub fn new(parameters: &[Parameter], constraints: &[&Constraint], watch: &SpaceWatch) -> Problem {
        let values = parameters.iter().flat_map(|parameter| &parameter.values);
        let texts = Texts::collect(values, constraints.iter().map(|constraint| constraint.expr.tree()));
        let atoms = |own: &Parameter| own.values.iter().map(|value| texts.atom(value)).collect();
        let mut problem = Problem {
            positions: parameters.iter().map(|p| (0..p.values.len()).map(|at| at as u16).collect()).collect(),
            values: parameters.iter().map(atoms).collect(),
            conjuncts: Vec::new(),
            impossible: parameters.iter().any(|parameter| parameter.values.is_empty()),
            watch: watch.clone(),
        };
        // One budget for all rounds, so that lowering again cannot multiply the work.
        let mut tried = 0;
        while !problem.impossible && !watch.is_over() {
            problem.lower(parameters, constraints, &texts);
            let single: Vec<bool> = problem.values.iter().map(|values| values.len() == 1).collect();
            problem.filter(&mut tried);
            if !problem.worth_lowering_again(&single) {
                break;
            }
        }
        problem
    }

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

    fn worth_lowering_again(&self, single_before: &[bool]) -> bool {
        let new = |slot: &usize| self.values[*slot].len() == 1 && !single_before[*slot];
        let evaluated = |conjunct: &&Conjunct| conjunct.table.is_none();
        !self.impossible
            && self.conjuncts.iter().filter(evaluated).any(|conjunct| conjunct.code.slots().iter().any(new))
    }

    /// The smallest tables come first, because what they remove makes the others smaller.
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
        // Generalized arc consistency.
        while changed && !self.impossible {
            changed = false;
            let mut numbers: Vec<usize> = (0..self.conjuncts.len()).collect();
            numbers.sort_by_key(|number| self.combinations(&self.conjuncts[*number]));
            for number in numbers {
                if self.watch.is_over() {
                    return;
                }
                let combinations = self.combinations(&self.conjuncts[number]);
                let cost = combinations.saturating_mul(programs[number].weight() as usize);
                let few = combinations <= MAX_TABLE && tried.saturating_add(cost) <= MAX_TRIED;
                // The search only plans conjuncts of two or more slots.
                let wanted = few || self.conjuncts[number].slots.len() < 2;
                if wanted && !self.impossible && !self.is_current(&self.conjuncts[number]) {
                    *tried = tried.saturating_add(cost);
                    changed |= self.tabulate(number, &programs[number], &mut registers);
                }
            }
        }
        self.drop_what_is_decided();
    }

    pub fn combinations(&self, conjunct: &Conjunct) -> usize {
        conjunct.slots.iter().map(|slot| self.values[*slot].len()).fold(1, usize::saturating_mul)
    }

    fn is_current(&self, conjunct: &Conjunct) -> bool {
        let sizes = conjunct.slots.iter().map(|slot| self.values[*slot].len());
        conjunct.table.as_ref().is_some_and(|table| sizes.eq(table.sizes.iter().copied()))
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

    fn drop_what_is_decided(&mut self) {
        let mut conjuncts = std::mem::take(&mut self.conjuncts);
        for conjunct in &mut conjuncts {
            // Another table may have removed values after this one was made.
            if !self.is_current(conjunct) {
                conjunct.table = None;
            }
            // Only now, because `is_current` compares a table with all slots of its conjunct.
            conjunct.slots.retain(|slot| self.values[*slot].len() > 1);
            if let Some(table) = &mut conjunct.table {
                Arc::make_mut(table).sizes.retain(|size| *size > 1);
            }
        }
        let open = |table: &Arc<TruthTable>| table.holding < table.bits.len();
        conjuncts.retain(|conjunct| conjunct.table.as_ref().is_none_or(open));
        self.conjuncts = conjuncts;
    }

    pub fn groups(&self) -> Vec<Vec<usize>> {
        linked(self.values.len(), self.conjuncts.iter().map(|conjunct| conjunct.slots.iter().copied()))
    }

    pub fn conjuncts_of(&self, group: &[usize]) -> impl Iterator<Item = &Conjunct> {
        self.conjuncts.iter().filter(move |conjunct| group.binary_search(&conjunct.slots[0]).is_ok())
    }
}

/// Groups of the numbers below `count`: members of one list are in one group. Ascending within a group and by first
/// member between groups.
pub fn linked<L: Iterator<Item = usize>>(count: usize, lists: impl Iterator<Item = L>) -> Vec<Vec<usize>> {
    let mut leader: Vec<usize> = (0..count).collect();
    fn find(leader: &mut [usize], mut member: usize) -> usize {
        while leader[member] != member {
            // Path halving keeps the trees flat without a second pass or recursion.
            leader[member] = leader[leader[member]];
            member = leader[member];
        }
        member
    }
    for mut list in lists {
        let Some(first) = list.next() else { continue };
        for member in list {
            let (a, b) = (find(&mut leader, first), find(&mut leader, member));
            // So that a group is found under its first member.
            leader[a.max(b)] = a.min(b);
        }
    }
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); count];
    for member in 0..count {
        groups[find(&mut leader, member)].push(member);
    }
    groups.retain(|group| !group.is_empty());
    groups
}

pub const WATCH_STEPS: u64 = 1 << 12;

pub const DEAD: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub struct TruthTable {
    sizes: Vec<usize>,
    /// Whether it holds for each combination, row-major over `sizes`.
    pub bits: Vec<bool>,
    pub holding: usize,
}

impl TruthTable {
    /// Tries all combinations, unless `watch` ends that. `slots` are registers; `set(slot, at)` sets one.
    pub fn new(
        sizes: Vec<usize>,
        program: &Program,
        registers: &mut Registers,
        watch: &SpaceWatch,
        set: impl Fn(&mut Registers, usize, usize),
    ) -> Option<TruthTable> {
        let combinations = sizes.iter().product();
        let mut bits = Vec::with_capacity(combinations);
        let mut at = vec![0usize; sizes.len()];
        (0..at.len()).for_each(|digit| set(registers, digit, 0));
        // The clock is looked at after some thousand steps' worth of instructions.
        let (weight, mut unwatched) = (program.weight(), 0);
        loop {
            unwatched += weight;
            if unwatched >= WATCH_STEPS {
                unwatched = 0;
                if watch.is_over() {
                    return None;
                }
            }
            bits.push(program.holds(registers));
            let Some(step) = (0..at.len()).rev().find(|digit| at[*digit] + 1 < sizes[*digit]) else { break };
            at[step] += 1;
            at[step + 1..].fill(0);
            (step..at.len()).for_each(|digit| set(registers, digit, at[digit]));
        }
        let holding = bits.iter().filter(|bit| **bit).count();
        Some(TruthTable { sizes, bits, holding })
    }

    pub fn supported(&self) -> Vec<Vec<bool>> {
        let mut supported: Vec<Vec<bool>> = self.sizes.iter().map(|size| vec![false; *size]).collect();
        let mut stride = self.bits.len();
        for (size, flags) in self.sizes.iter().zip(&mut supported) {
            // Row-major: the combinations with one value of a slot are runs of `stride`, one in each block
            // of `outer`.
            let outer = stride;
            stride /= size;
            for (at, flag) in flags.iter_mut().enumerate() {
                let blocks = self.bits.chunks_exact(outer);
                *flag = blocks.map(|block| &block[at * stride..][..stride]).any(|part| part.contains(&true));
            }
        }
        supported
    }

    pub fn keep(&mut self, flags: &[Vec<bool>]) {
        let mut kept = vec![true];
        for flags in flags {
            kept = kept.iter().flat_map(|outer| flags.iter().map(move |flag| *outer && *flag)).collect();
        }
        let mut each = kept.iter();
        self.bits.retain(|_| each.next() == Some(&true));
        self.sizes = flags.iter().map(|flags| flags.iter().filter(|flag| **flag).count()).collect();
    }

    /// The same truth with the slots in another order: `order[k]` is the number here of the new slot `k`.
    fn reordered(&self, order: &[usize]) -> TruthTable {
        if order.iter().enumerate().all(|(new, old)| new == *old) {
            return self.clone();
        }
        let mut strides = vec![1usize; self.sizes.len()];
        (1..strides.len()).rev().for_each(|at| strides[at - 1] = strides[at] * self.sizes[at]);
        let sizes: Vec<usize> = order.iter().map(|old| self.sizes[*old]).collect();
        let mut starts = vec![0usize];
        for old in order {
            let (size, stride) = (self.sizes[*old], strides[*old]);
            starts = starts.iter().flat_map(|start| (0..size).map(move |at| start + at * stride)).collect();
        }
        let bits = starts.into_iter().map(|at| self.bits[at]).collect();
        TruthTable { sizes, bits, holding: self.holding }
    }
}

/// A table as a reduced diagram: partial combinations with the same completions are one node, so that
/// the search can follow it from slot to slot without evaluating anything.
#[derive(Clone, Debug)]
pub struct TableDiagram {
    /// `steps[level][node * size + value]` is a node of the next level, or `DEAD`; the first level has
    /// one node. The last slot has no steps but `rows`.
    pub steps: Vec<Vec<u32>>,
    /// For the nodes at the last slot: the values that complete the combination, as a set of words.
    pub rows: Vec<u64>,
}

impl TableDiagram {
    /// Reduces a table whose slots are taken in `order` (numbers of the table's slots; at least two).
    pub fn new(table: &TruthTable, order: &[usize]) -> TableDiagram {
        let table = table.reordered(order);
        let last = table.sizes[table.sizes.len() - 1];
        let words = words_for(last);
        let mut rows = KeyTable::new(words);
        let mut row = vec![0u64; words];
        let mut nodes: Vec<u32> = Vec::with_capacity(table.bits.len() / last);
        for bits in table.bits.chunks_exact(last) {
            row.fill(0);
            bits.iter().enumerate().for_each(|(at, bit)| row[at / 64] |= u64::from(*bit) << (at % 64));
            nodes.push(if row.iter().all(|word| *word == 0) { DEAD } else { rows.intern(&row) });
        }
        let mut steps = Vec::new();
        for size in table.sizes[..table.sizes.len() - 1].iter().rev() {
            let mut shared = KeyTable::new(*size);
            let mut key = vec![0u64; *size];
            let above = nodes.chunks_exact(*size).map(|children| {
                key.iter_mut().zip(children).for_each(|(word, child)| *word = u64::from(*child));
                let dead = children.iter().all(|child| *child == DEAD);
                if dead { DEAD } else { shared.intern(&key) }
            });
            nodes = above.collect();
            steps.push(
                (0..shared.len()).flat_map(|node| shared.key(node).iter().map(|word| *word as u32)).collect(),
            );
        }
        steps.reverse();
        let rows = (0..rows.len()).flat_map(|row| rows.key(row).to_vec()).collect();
        TableDiagram { steps, rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(sizes: [usize; 3], holds: impl Fn([usize; 3]) -> bool) -> TruthTable {
        let mut bits = Vec::new();
        for a in 0..sizes[0] {
            for b in 0..sizes[1] {
                bits.extend((0..sizes[2]).map(|c| holds([a, b, c])));
            }
        }
        let holding = bits.iter().filter(|bit| **bit).count();
        TruthTable { sizes: sizes.to_vec(), bits, holding }
    }

    fn follow(diagram: &TableDiagram, sizes: [usize; 3], at: [usize; 3]) -> bool {
        let mut node = 0;
        for level in 0..2 {
            let next = diagram.steps[level][node * sizes[level] + at[level]];
            if next == DEAD {
                return false;
            }
            node = next as usize;
        }
        diagram.rows[node * words_for(sizes[2]) + at[2] / 64] >> (at[2] % 64) & 1 == 1
    }

    #[test]
    fn a_diagram_says_what_its_table_says_in_any_order() {
        let holds = |[a, b, c]: [usize; 3]| (a * 7 + b * 3 + c) % 5 < 2 && a != 1;
        let sizes = [3, 4, 70];
        let table = table(sizes, holds);
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let diagram = TableDiagram::new(&table, &order);
            let ordered = order.map(|old| sizes[old]);
            for number in 0..sizes.iter().product() {
                let at = [number / 280, number / 70 % 4, number % 70];
                assert_eq!(
                    follow(&diagram, ordered, order.map(|old| at[old])),
                    holds(at),
                    "{order:?} {at:?}"
                );
            }
        }
    }

    #[test]
    fn equal_futures_are_one_node() {
        let diagram =
            TableDiagram::new(&table([6, 6, 6], |at| at.iter().sum::<usize>() % 2 == 0), &[0, 1, 2]);
        assert_eq!(diagram.steps.iter().map(Vec::len).collect::<Vec<_>>(), [6, 2 * 6]);
        assert_eq!(diagram.rows, [0b010101, 0b101010]);
    }

    #[test]
    fn what_no_combination_supports_goes() {
        let mut table = table([3, 3, 2], |[a, b, _]| a < b);
        let supported = table.supported();
        assert_eq!(supported, [vec![true, true, false], vec![false, true, true], vec![true, true]]);
        table.keep(&supported);
        assert_eq!((&table.sizes[..], table.bits.len(), table.holding), (&[2, 2, 2][..], 8, 6));
    }
}
