//! Points as numbers that models can learn from, without knowing what any parameter means.
//!
//! What decides a kernel's time is rarely one parameter: threads per block, elements per tile, bytes of shared memory
//! are products and quotients of several. Trees therefore see, beside the parameters, the products and quotients of all
//! pairs of numeric ones, and the sub-expressions of the constraints. Features that are constant, or that order the
//! valid points as another one does, are left out.
//!
//! A process pays for each feature with a length scale to be learned, and sees a compact set: the
//! parameters and few sub-expressions, in logarithms where positive, from 0 to 1.
//!
//! A feature of few parameters is a table over their positions, so encoding takes a few nanoseconds a feature.

#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashSet};

use evo_space::expr::tree::{Kind, Tree};
use evo_space::genome::{ContentHash, Genome};
use evo_space::program::Scratch;
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use evo_space::value::Operator;

use crate::model::formula::{CompiledFormula, Formula, Numbers, is_numeric, slots_of};
use crate::model::matrix::{Codes, ColumnScale, Matrix, Scales};

/// Points that features are compared on: enough to tell them apart, few enough to take no time.
const SAMPLE: usize = 1 << 10;

#[derive(Clone, Debug)]
pub struct Features {
    numbers: Numbers,
    trees: Vec<Column>,
    process: Vec<Column>,
    scales: Scales,
}

impl Features {
    pub fn new(space: &SearchSpace) -> Features {
        let numbers = Numbers::new(space.parameters());
        let candidates = Candidates::new(space, &numbers, sample(space));
        let (trees, process) = (candidates.for_trees(), candidates.for_process());
        let scales: Vec<ColumnScale> = trees.iter().map(|column| column.scale.clone()).collect();
        Features { numbers, trees, process, scales: scales.into() }
    }

    pub fn scales(&self) -> &Scales {
        &self.scales
    }

    pub fn code_row(&self, genome: &Genome) -> Vec<u16> {
        let mut scratch = Scratch::default();
        self.trees.iter().map(|column| column.code(genome.positions(), &self.numbers, &mut scratch)).collect()
    }

    pub fn codes<G: Borrow<Genome>>(&self, genomes: impl IntoIterator<Item = G>) -> Codes {
        Codes::of_rows(self.trees.len(), genomes.into_iter().map(|genome| self.code_row(genome.borrow())))
    }

    pub fn process_columns(&self) -> usize {
        self.process.len()
    }

    /// The process features of a point, each from 0 to 1.
    pub fn process_row(&self, genome: &Genome) -> Vec<f64> {
        let mut scratch = Scratch::default();
        let value = |column: &Column| column.share(genome.positions(), &self.numbers, &mut scratch);
        self.process.iter().map(value).collect()
    }

    pub fn process_matrix<G: Borrow<Genome>>(&self, genomes: impl IntoIterator<Item = G>) -> Matrix {
        Matrix::of_rows(
            self.process.len(),
            genomes.into_iter().map(|genome| self.process_row(genome.borrow())),
        )
    }
}

fn sample(space: &SearchSpace) -> Vec<Genome> {
    // In a space that is not exact each point has to be searched for.
    let wanted = if space.is_exact() { SAMPLE } else { SAMPLE / 16 };
    space.sample_distinct(wanted, &mut seeded(0))
}

/// Most sub-expressions of constraints for trees, products and quotients of pairs, and sub-expressions for a process.
const EXPRESSIONS: usize = 32;
const PAIRS: usize = 112;
const PROCESS_EXPRESSIONS: usize = 4;

/// Largest table over the positions of a feature's parameters.
const TABLE_MAX: usize = 1 << 16;

#[derive(Clone, Debug)]
pub(crate) struct Column {
    compiled: CompiledFormula,
    slots: Vec<usize>,
    scale: ColumnScale,
    is_logarithm: bool,
    table: Option<ColumnTable>,
}

#[derive(Clone, Debug)]
struct ColumnTable {
    strides: Vec<usize>,
    codes: Vec<u16>,
    shares: Vec<f64>,
}

impl Column {
    pub fn code(&self, positions: &[u16], numbers: &Numbers, scratch: &mut Scratch) -> u16 {
        match &self.table {
            Some(table) => table.codes[table.place(&self.slots, positions)],
            None => self.scale.code(self.value(positions, numbers, scratch)),
        }
    }

    /// Where it is between its least value (0) and its largest (1).
    pub fn share(&self, positions: &[u16], numbers: &Numbers, scratch: &mut Scratch) -> f64 {
        match &self.table {
            Some(table) => table.shares[table.place(&self.slots, positions)],
            None => self.share_of(self.value(positions, numbers, scratch)),
        }
    }

    fn value(&self, positions: &[u16], numbers: &Numbers, scratch: &mut Scratch) -> f64 {
        let value = self.compiled.evaluate(positions, numbers, scratch);
        if value.is_finite() { tamed(value, self.is_logarithm) } else { self.undefined() }
    }

    /// What stands for no value. With the value in the scale, the same again.
    fn undefined(&self) -> f64 {
        if self.scale.is_empty() { 0.0 } else { self.scale.value(0) - 1.0 }
    }

    fn share_of(&self, value: f64) -> f64 {
        let last = self.scale.len().saturating_sub(1) as u16;
        let (low, high) =
            if self.scale.is_empty() { (0.0, 0.0) } else { (self.scale.value(0), self.scale.value(last)) };
        if high > low { ((value - low) / (high - low)).clamp(0.0, 1.0) } else { 0.0 }
    }
}

impl ColumnTable {
    #[inline]
    fn place(&self, slots: &[usize], positions: &[u16]) -> usize {
        slots.iter().zip(&self.strides).map(|(slot, stride)| usize::from(positions[*slot]) * stride).sum()
    }
}

fn for_all(slots: &[usize], domains: &[Vec<u16>], positions: &mut [u16], visit: &mut dyn FnMut(&[u16])) {
    let Some((slot, rest)) = slots.split_first() else { return visit(positions) };
    for position in &domains[*slot] {
        positions[*slot] = *position;
        for_all(rest, domains, positions, visit);
    }
}

/// The logarithm where all values are positive; else zero stays zero and sizes are squeezed likewise.
fn tamed(value: f64, is_logarithm: bool) -> f64 {
    if is_logarithm { value.log2() } else { value.signum() * (1.0 + value.abs()).log2() }
}

/// Values of a text that each get a feature of their own; more have only their positions.
const INDICATORS_MAX: usize = 12;

pub(crate) struct Candidates<'a> {
    space: &'a SearchSpace,
    numbers: &'a Numbers,
    domains: Vec<Vec<u16>>,
    sizes: Vec<usize>,
    sample: Vec<Genome>,
    expressions: Vec<Formula>,
}

impl<'a> Candidates<'a> {
    pub fn new(space: &'a SearchSpace, numbers: &'a Numbers, sample: Vec<Genome>) -> Candidates<'a> {
        let domains = space.effective_domains();
        let sizes = space.parameters().iter().map(|parameter| parameter.values.len()).collect();
        Candidates { space, numbers, domains, sizes, sample, expressions: expressions(space) }
    }

    fn for_trees(&self) -> Vec<Column> {
        // In order of worth: of features that order the points alike, the first one stays.
        let mut known = HashSet::new();
        let mut chosen = self.new_ones(self.parameters(), &mut known, usize::MAX);
        chosen.extend(self.new_ones(self.indicators(), &mut known, usize::MAX));
        chosen.extend(self.new_ones(self.expressions.clone(), &mut known, EXPRESSIONS));
        chosen.extend(self.new_ones(self.pairs(), &mut known, PAIRS));
        self.columns(&chosen)
    }

    /// Parameters (texts by their values), and the first few sub-expressions of several parameters.
    fn for_process(&self) -> Vec<Column> {
        let mut known = HashSet::new();
        // The order of texts means nothing to a smooth function. They are seen by their indicators only.
        let numeric = self.parameters().into_iter().filter(|formula| !self.is_text(formula.slots()[0]));
        let mut chosen = self.new_ones(numeric, &mut known, usize::MAX);
        chosen.extend(self.new_ones(self.indicators(), &mut known, usize::MAX));
        let several = self.expressions.iter().filter(|formula| formula.slots().len() > 1).cloned();
        chosen.extend(self.new_ones(several, &mut known, PROCESS_EXPRESSIONS));
        self.columns(&chosen)
    }

    fn columns(&self, formulas: &[Formula]) -> Vec<Column> {
        formulas.iter().map(|formula| self.column(formula)).collect()
    }

    /// Its scale holds what a formula can be for any combination of the positions that valid points have; with too
    /// many combinations, what it is in the sample.
    fn column(&self, formula: &Formula) -> Column {
        let (compiled, slots) = (formula.compile(self.numbers), formula.slots());
        let combinations = slots.iter().map(|slot| self.sizes[*slot]).fold(1, usize::saturating_mul);
        let (mut values, mut scratch) = (Vec::new(), Scratch::default());
        let mut add =
            |positions: &[u16]| values.push(compiled.evaluate(positions, self.numbers, &mut scratch));
        match combinations <= TABLE_MAX {
            true => for_all(&slots, &self.domains, &mut vec![0; self.sizes.len()], &mut add),
            false => self.sample.iter().for_each(|genome| add(genome.positions())),
        }
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let is_logarithm = finite().all(|value| value > 0.0);
        let scale = ColumnScale::new(finite().map(|value| tamed(value, is_logarithm)).collect());
        let mut column = Column { compiled, slots, scale, is_logarithm, table: None };
        if values.iter().any(|value| !value.is_finite()) {
            // No value is a value of its own: below all others.
            let lowest = column.undefined();
            let all = (0..column.scale.len()).map(|code| column.scale.value(code as u16));
            column.scale = ColumnScale::new(all.chain([lowest]).collect());
        }
        column.table = (combinations <= TABLE_MAX).then(|| self.table(&column, combinations));
        column
    }

    fn table(&self, column: &Column, places: usize) -> ColumnTable {
        let slots = &column.slots;
        let mut strides = vec![1; slots.len()];
        for at in (1..strides.len()).rev() {
            strides[at - 1] = strides[at] * self.sizes[slots[at]];
        }
        // A place for every position, so that looking up needs no translation. Places that no valid point has keep 0.
        let mut table = ColumnTable { strides, codes: vec![0; places], shares: vec![0.0; places] };
        let (mut positions, mut scratch) = (vec![0; self.sizes.len()], Scratch::default());
        for_all(slots, &self.domains, &mut positions, &mut |positions| {
            let value = column.value(positions, self.numbers, &mut scratch);
            let place = table.place(slots, positions);
            (table.codes[place], table.shares[place]) = (column.scale.code(value), column.share_of(value));
        });
        table
    }

    fn new_ones(
        &self,
        candidates: impl IntoIterator<Item = Formula>,
        known: &mut HashSet<ContentHash>,
        most: usize,
    ) -> Vec<Formula> {
        let is_new = |formula: &Formula| self.order(formula).is_some_and(|order| known.insert(order));
        candidates.into_iter().filter(is_new).take(most).collect()
    }

    /// The order in which a formula puts the sample, or the reverse one, by name; `None` for a constant.
    /// A tree can do nothing with the same order twice.
    fn order(&self, formula: &Formula) -> Option<ContentHash> {
        let compiled = formula.compile(self.numbers);
        let mut scratch = Scratch::default();
        let values: Vec<f64> = self
            .sample
            .iter()
            .map(|genome| compiled.evaluate(genome.positions(), self.numbers, &mut scratch))
            .map(|value| if value.is_finite() { value } else { f64::NEG_INFINITY })
            .collect();
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.dedup();
        if sorted.len() < 2 {
            return None;
        }
        let ranks: Vec<u16> =
            values.iter().map(|value| sorted.partition_point(|other| other < value) as u16).collect();
        // The first point ranks low in one of the two directions.
        let last = sorted.len() as u16 - 1;
        let decisive = ranks.iter().find(|rank| **rank * 2 != last)?;
        let bytes = ranks.iter().flat_map(|rank| {
            if *decisive * 2 > last { (last - rank).to_le_bytes() } else { rank.to_le_bytes() }
        });
        Some(ContentHash::of(&bytes.collect::<Vec<u8>>()))
    }

    fn parameters(&self) -> Vec<Formula> {
        let live = (0..self.domains.len()).filter(|slot| self.domains[*slot].len() > 1);
        live.map(Formula::of_parameter).collect()
    }

    /// For each value of a text, whether a point has it. Of two values one feature says all.
    fn indicators(&self) -> Vec<Formula> {
        let texts = (0..self.domains.len())
            .filter(|slot| self.is_text(*slot) && (2..=INDICATORS_MAX).contains(&self.domains[*slot].len()));
        let of_slot = |slot: usize| {
            let values = &self.space.parameters()[slot].values;
            self.domains[slot].iter().map(move |at| Formula::indicator(slot, &values[usize::from(*at)]))
        };
        texts.flat_map(of_slot).collect()
    }

    /// Products and quotients of all pairs of positive parameters: first of those that some constraint
    /// names together, then of those declared near each other.
    fn pairs(&self) -> Vec<Formula> {
        // A zero has no quotient, and a sign would turn the order of the other factor around.
        let is_factor = |slot: &usize| {
            let mut values = self.domains[*slot].iter().map(|at| self.numbers.at(*slot, *at));
            self.domains[*slot].len() > 1 && !self.is_text(*slot) && values.all(|value| value > 0.0)
        };
        let factors: Vec<usize> = (0..self.domains.len()).filter(is_factor).collect();
        let mut together = BTreeSet::new();
        for constraint in self.space.constraints() {
            let slots = &constraint.parameters;
            slots.iter().for_each(|a| together.extend(slots.iter().map(|b| (*a, *b))));
        }
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for (at, first) in factors.iter().enumerate() {
            pairs.extend(factors[at + 1..].iter().map(|second| (*first, *second)));
        }
        pairs.sort_by_key(|(a, b)| (!together.contains(&(*a, *b)), b - a, *a));
        let both =
            |(a, b)| [Operator::Multiply, Operator::Divide].map(|operator| Formula::of_pair(a, operator, b));
        pairs.into_iter().flat_map(both).collect()
    }

    fn is_text(&self, slot: usize) -> bool {
        !is_numeric(&self.space.parameters()[slot])
    }
}

/// The sub-expressions of all constraints, larger ones first within each.
fn expressions(space: &SearchSpace) -> Vec<Formula> {
    let mut found = Vec::new();
    for constraint in space.constraints() {
        if let Some(slots) = slots_of(constraint.expr.distinct_names(), space.parameters()) {
            let formula = |tree: &Tree| Formula::of_tree(tree, &slots, space.parameters());
            visit(constraint.expr.tree(), &formula, &mut found);
        }
    }
    found.retain(|formula| !formula.slots().is_empty());
    found
}

/// Adds what a tree says: its value, the quotients of what it divides or compares, then its parts.
fn visit(tree: &Tree, formula: &dyn Fn(&Tree) -> Option<Formula>, found: &mut Vec<Formula>) {
    match &tree.kind {
        Kind::Name(_) | Kind::Literal(_) | Kind::List(_) => {}
        Kind::Chain(first, rest) => {
            let mut left = formula(first);
            for (operator, operand) in rest {
                let right = formula(operand);
                if matches!(operator, Operator::Remainder | Operator::FloorDivide) {
                    add_quotient(&left, &right, found);
                }
                left = left.zip(right).map(|(left, right)| Formula::pair(left, *operator, right));
            }
            found.extend(left);
        }
        Kind::Compare(first, rest) => {
            if let [(_, right)] = rest.as_slice() {
                add_quotient(&formula(first), &formula(right), found);
            }
            found.extend(formula(tree));
        }
        _ => found.extend(formula(tree)),
    }
    tree.for_children(&mut |child| visit(child, formula, found));
}

/// `a % b == 0` says that `a / b` is a whole number of something; `a <= b` compares sizes. By a constant,
/// the dividend orders the points as well.
fn add_quotient(above: &Option<Formula>, below: &Option<Formula>, found: &mut Vec<Formula>) {
    if let (Some(above), Some(below)) = (above, below) {
        let varies = !below.slots().is_empty();
        let quotient = || Formula::pair(above.clone(), Operator::Divide, below.clone());
        found.push(if varies { quotient() } else { above.clone() });
    }
}
