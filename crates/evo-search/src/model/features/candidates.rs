//! Which features a space has: candidates in order of worth, less those that say nothing new.

use std::collections::{BTreeSet, HashSet};

use evo_space::expr::tree::{Kind, Tree};
use evo_space::genome::{ContentHash, Genome};
use evo_space::program::Scratch;
use evo_space::space::SearchSpace;
use evo_space::value::{Operator, Value};

use super::column::Column;
use super::options::FeatureOptions;
use crate::model::formula::{Formula, Numbers, slots_of};

/// Values of a text that each get a feature of their own; more have only their positions.
const INDICATORS_MAX: usize = 12;

/// What candidates are made and judged with.
pub struct Candidates<'a> {
    space: &'a SearchSpace,
    numbers: &'a Numbers,
    domains: Vec<Vec<u16>>,
    sizes: Vec<usize>,
    sample: Vec<Genome>,
    expressions: Vec<Formula>,
}

impl<'a> Candidates<'a> {
    /// For a space and some of its valid points.
    pub fn new(space: &'a SearchSpace, numbers: &'a Numbers, sample: Vec<Genome>) -> Candidates<'a> {
        let domains = space.effective_domains();
        let sizes = space.parameters().iter().map(|parameter| parameter.values.len()).collect();
        Candidates { space, numbers, domains, sizes, sample, expressions: expressions(space) }
    }

    /// Parameters, the values of texts, sub-expressions, pairs.
    pub fn for_trees(&self, options: FeatureOptions) -> Vec<Column> {
        // In order of worth: of features that order the points alike, the first one stays.
        let mut known = HashSet::new();
        let mut chosen = self.new_ones(self.parameters(), &mut known, usize::MAX);
        chosen.extend(self.new_ones(self.indicators(), &mut known, usize::MAX));
        chosen.extend(self.new_ones(self.expressions.clone(), &mut known, options.expressions));
        chosen.extend(self.new_ones(self.pairs(), &mut known, options.pairs));
        self.columns(chosen)
    }

    /// Parameters (texts by their values), and the first few sub-expressions of several parameters.
    pub fn for_process(&self, options: FeatureOptions) -> Vec<Column> {
        let mut known = HashSet::new();
        // The order of texts means nothing to a smooth function. They are seen by their indicators only.
        let numeric = self.parameters().into_iter().filter(|formula| !self.is_text(formula.slots()[0]));
        let mut chosen = self.new_ones(numeric, &mut known, usize::MAX);
        chosen.extend(self.new_ones(self.indicators(), &mut known, usize::MAX));
        let several = self.expressions.iter().filter(|formula| formula.slots().len() > 1).cloned();
        chosen.extend(self.new_ones(several, &mut known, options.process_expressions));
        self.columns(chosen)
    }

    fn columns(&self, formulas: Vec<Formula>) -> Vec<Column> {
        let column = |formula| Column::new(formula, self.numbers, &self.domains, &self.sizes, &self.sample);
        formulas.into_iter().map(column).collect()
    }

    /// Up to `most` candidates that order the sample as no known one does.
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
            // As in `Column`, a formula without a value ranks below all values.
            .map(|value| if value.is_finite() { value } else { f64::NEG_INFINITY })
            .collect();
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.dedup();
        if sorted.len() < 2 {
            return None;
        }
        // Trees see only the order, so formulas of equal ranks are the same feature whatever their values.
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

    /// Every parameter that has a choice.
    fn parameters(&self) -> Vec<Formula> {
        let live = (0..self.domains.len()).filter(|slot| self.domains[*slot].len() > 1);
        live.map(Formula::of_parameter).collect()
    }

    /// For each value of a text, whether a point has it. Of two values one feature says all.
    fn indicators(&self) -> Vec<Formula> {
        let texts = (0..self.domains.len())
            .filter(|slot| self.is_text(*slot) && (2..=INDICATORS_MAX).contains(&self.domains[*slot].len()));
        let of_slot =
            |slot: usize| self.domains[slot].iter().map(move |position| Formula::indicator(slot, *position));
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
        let both = |(a, b)| {
            let (first, second) = (Formula::of_parameter(a), Formula::of_parameter(b));
            [Operator::Multiply, Operator::Divide]
                .map(|operator| Formula::pair(first.clone(), operator, second.clone()))
        };
        pairs.into_iter().flat_map(both).collect()
    }

    fn is_text(&self, slot: usize) -> bool {
        self.space.parameters()[slot].values.iter().any(|value| matches!(value, Value::Text(_)))
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
    let is_plain = |tree: &Tree| matches!(tree.kind, Kind::Name(_) | Kind::Literal(_) | Kind::List(_));
    match &tree.kind {
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
        _ if is_plain(tree) => {}
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
