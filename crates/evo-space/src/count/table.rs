//! A constraint tried out on every combination of its slots' values: one bit each.

use super::keys::KeyTable;
use super::value_set::words_for;
use crate::program::{Program, Registers};
use crate::watch::SpaceWatch;

/// Steps between two looks at the clock.
pub const WATCH_STEPS: u64 = 1 << 12;

/// Marks a partial combination that has no completion.
pub const DEAD: u32 = u32::MAX;

/// A conjunct's truth for every combination of its slots' values, as it was when they were tried.
#[derive(Clone, Debug)]
pub struct TruthTable {
    /// Number of values of each slot, in the conjunct's order.
    sizes: Vec<usize>,
    /// Row-major over `sizes`.
    bits: Vec<bool>,
    /// How many combinations it holds for.
    pub holding: usize,
}

impl TruthTable {
    /// Tries `program` on all combinations, unless `watch` ends that. `slots` are registers; `set(slot, at)`
    /// sets one.
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
            // Counts up like an odometer with the last slot fastest, because `bits` is row-major.
            let Some(step) = (0..at.len()).rev().find(|digit| at[*digit] + 1 < sizes[*digit]) else { break };
            at[step] += 1;
            at[step + 1..].fill(0);
            (step..at.len()).for_each(|digit| set(registers, digit, at[digit]));
        }
        let holding = bits.iter().filter(|bit| **bit).count();
        Some(TruthTable { sizes, bits, holding })
    }

    /// Number of combinations.
    pub fn combinations(&self) -> usize {
        self.bits.len()
    }

    /// Number of values of each slot.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Whether it holds for a combination, counted row-major.
    pub fn holds(&self, combination: usize) -> bool {
        self.bits[combination]
    }

    /// For each slot, which values occur in a combination that it holds for.
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

    /// Keeps only the values that are flagged.
    pub fn keep(&mut self, flags: &[Vec<bool>]) {
        let mut kept = vec![true];
        for flags in flags {
            kept = kept.iter().flat_map(|outer| flags.iter().map(move |flag| *outer && *flag)).collect();
        }
        let mut each = kept.iter();
        self.bits.retain(|_| each.next() == Some(&true));
        self.sizes = flags.iter().map(|flags| flags.iter().filter(|flag| **flag).count()).collect();
    }

    /// Forgets slots that have one value; the truth does not depend on them.
    pub fn drop_single_values(&mut self) {
        self.sizes.retain(|size| *size > 1);
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
    /// Words of one row.
    pub words: usize,
}

impl TableDiagram {
    /// Reduces a table whose slots are taken in `order` (numbers of the table's slots; at least two).
    pub fn new(table: &TruthTable, order: &[usize]) -> TableDiagram {
        let table = table.reordered(order);
        let last = table.sizes[table.sizes.len() - 1];
        let words = words_for(last);
        // From the last slot up, so that equal completions have one number before their parents are
        // compared; this is how decision diagrams are reduced.
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
                // Two nodes with the same children admit the same completions, so one number stands for both.
                if dead { DEAD } else { shared.intern(&key) }
            });
            nodes = above.collect();
            steps.push(
                (0..shared.len()).flat_map(|node| shared.key(node).iter().map(|word| *word as u32)).collect(),
            );
        }
        // The levels were built from the last slot up; the search reads them from the first slot down.
        steps.reverse();
        let rows = (0..rows.len()).flat_map(|row| rows.key(row).to_vec()).collect();
        TableDiagram { steps, rows, words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of a function of three positions.
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

    /// Follows the diagram for positions that are given in the diagram's order.
    fn follow(diagram: &TableDiagram, sizes: [usize; 3], at: [usize; 3]) -> bool {
        let mut node = 0;
        for level in 0..2 {
            let next = diagram.steps[level][node * sizes[level] + at[level]];
            if next == DEAD {
                return false;
            }
            node = next as usize;
        }
        diagram.rows[node * diagram.words + at[2] / 64] >> (at[2] % 64) & 1 == 1
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
        // Only whether the sum so far is odd matters.
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
        assert_eq!((table.sizes(), table.combinations(), table.holding), (&[2, 2, 2][..], 8, 6));
    }
}
