//! A formula is an expression tree whose names are the slots of the space's parameters; evo-space's
//! compiled expressions evaluate it. Parameters and results are floats. Where a formula has no value
//! (a division by zero) the result is NaN, and the feature gives that a value of its own.

use std::sync::Arc;

use evo_space::expr::tree::{Kind, Relation, Tree};
use evo_space::program::{CompiledExpr, Scratch};
use evo_space::space::Parameter;
use evo_space::value::{Operator, Value};

/// For each parameter: the values themselves, or their positions where one of them is a text.
///
/// All are floats, so that a product of sizes that exceeds 64-bit integers still orders the points.
#[derive(Clone, Debug)]
pub struct Numbers {
    floats: Vec<Vec<f64>>,
    domains: Vec<Vec<Value>>,
}

impl Numbers {
    pub fn new(parameters: &[Parameter]) -> Numbers {
        let numbers = |parameter: &Parameter| {
            let own: Option<Vec<f64>> = parameter.values.iter().map(Value::as_float).collect();
            own.unwrap_or_else(|| (0..parameter.values.len()).map(|at| at as f64).collect())
        };
        let floats: Vec<Vec<f64>> = parameters.iter().map(numbers).collect();
        let domain = |floats: &Vec<f64>| floats.iter().copied().map(Value::Float).collect();
        Numbers { domains: floats.iter().map(domain).collect(), floats }
    }

    #[inline]
    pub fn at(&self, slot: usize, position: u16) -> f64 {
        self.floats[slot][usize::from(position)]
    }
}

#[derive(Clone, Debug)]
pub struct Formula(Tree);

impl Formula {
    pub fn of_parameter(slot: usize) -> Formula {
        Formula(Kind::Name(slot).into())
    }

    /// Whether a parameter has the value at a position, which is also its number: for texts.
    pub fn indicator(slot: usize, position: u16) -> Formula {
        let position = Kind::Literal(Value::Float(f64::from(position))).into();
        Formula(Kind::Compare(Box::new(Kind::Name(slot).into()), vec![(Relation::Equal, position)]).into())
    }

    pub fn pair(first: Formula, operator: Operator, second: Formula) -> Formula {
        // A chain is evaluated from left to right: the prefixes of a long sum stay flat.
        let (start, mut rest) = match first.0.kind {
            Kind::Chain(start, rest) => (start, rest),
            _ => (Box::new(first.0), Vec::new()),
        };
        rest.push((operator, second.0));
        Formula(Kind::Chain(start, rest).into())
    }

    /// From an expression, whose names stand for these slots; `None` if texts take part in other ways
    /// than being equal to a parameter's values.
    pub fn of_tree(tree: &Tree, slots: &[usize], parameters: &[Parameter]) -> Option<Formula> {
        Translation { slots, parameters }.tree(tree).map(Formula)
    }

    pub fn slots(&self) -> Vec<usize> {
        fn visit(tree: &Tree, slots: &mut Vec<usize>) {
            if let Kind::Name(slot) = &tree.kind {
                slots.push(*slot);
            }
            tree.for_children(&mut |child| visit(child, slots));
        }
        let mut slots = Vec::new();
        visit(&self.0, &mut slots);
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    pub fn compile(&self, numbers: &Numbers) -> CompiledFormula {
        CompiledFormula(CompiledExpr::new(&self.0, &numbers.domains))
    }
}

#[derive(Clone, Debug)]
pub struct CompiledFormula(CompiledExpr);

impl CompiledFormula {
    pub fn evaluate(&self, positions: &[u16], numbers: &Numbers, scratch: &mut Scratch) -> f64 {
        self.0.evaluate_floats(|slot| numbers.at(slot, positions[slot]), scratch).unwrap_or(f64::NAN)
    }
}

pub fn slots_of(names: &[Arc<str>], parameters: &[Parameter]) -> Option<Vec<usize>> {
    let slot = |name: &Arc<str>| parameters.iter().position(|parameter| parameter.name == *name);
    names.iter().map(slot).collect()
}

struct Translation<'a> {
    slots: &'a [usize],
    parameters: &'a [Parameter],
}

impl Translation<'_> {
    fn tree(&self, tree: &Tree) -> Option<Tree> {
        let boxed = |tree: &Tree| self.tree(tree).map(Box::new);
        let kind = match &tree.kind {
            Kind::Literal(value) => Kind::Literal(Value::Float(value.as_float()?)),
            Kind::Name(name) => {
                let slot = self.slots[*name];
                // Outside an equality a text stands for no number, so the whole formula is given up.
                self.is_numeric(slot).then_some(Kind::Name(slot))?
            }
            Kind::List(_) => return None,
            Kind::Not(operand) => Kind::Not(boxed(operand)?),
            Kind::Negate(operand) => Kind::Negate(boxed(operand)?),
            Kind::Chain(first, rest) => {
                let rest = rest.iter().map(|(operator, operand)| Some((*operator, self.tree(operand)?)));
                Kind::Chain(boxed(first)?, rest.collect::<Option<_>>()?)
            }
            Kind::Compare(first, rest) => self.comparisons(first, rest)?,
            Kind::All(operands) => Kind::All(self.all(operands)?),
            Kind::Any(operands) => Kind::Any(self.all(operands)?),
            Kind::If { condition, then, otherwise } => {
                Kind::If { condition: boxed(condition)?, then: boxed(then)?, otherwise: boxed(otherwise)? }
            }
            Kind::Call(function, arguments) => Kind::Call(*function, self.all(arguments)?),
        };
        Some(kind.into())
    }

    fn all(&self, trees: &[Tree]) -> Option<Vec<Tree>> {
        trees.iter().map(|tree| self.tree(tree)).collect()
    }

    fn comparisons(&self, first: &Tree, rest: &[(Relation, Tree)]) -> Option<Kind> {
        // Split into pairs, because texts become positions of the parameter on the other side of each.
        let lefts = std::iter::once(first).chain(rest.iter().map(|(_, right)| right));
        let pairs =
            lefts.zip(rest).map(|(left, (comparison, right))| self.comparison(left, *comparison, right));
        let mut pairs = pairs.collect::<Option<Vec<Kind>>>()?;
        match pairs.len() {
            1 => pairs.pop(),
            _ => Some(Kind::All(pairs.into_iter().map(Tree::from).collect())),
        }
    }

    fn comparison(&self, left: &Tree, comparison: Relation, right: &Tree) -> Option<Kind> {
        let items = match &right.kind {
            Kind::List(items) => items.as_slice(),
            _ => std::slice::from_ref(right),
        };
        // The order of texts is not that of their positions.
        let equality =
            matches!(comparison, Relation::Equal | Relation::NotEqual | Relation::In | Relation::NotIn);
        let (left, mut items) = match self.text_comparison(left, items).filter(|_| equality) {
            Some(translated) => translated,
            None => (self.tree(left)?, self.all(items)?),
        };
        let right = match &right.kind {
            Kind::List(_) => Kind::List(items).into(),
            _ => items.pop()?,
        };
        Some(Kind::Compare(Box::new(left), vec![(comparison, right)]))
    }

    /// The slot, and the positions of the literals (-1 for one that it does not have).
    fn text_comparison(&self, left: &Tree, items: &[Tree]) -> Option<(Tree, Vec<Tree>)> {
        let Kind::Name(name) = &left.kind else { return None };
        let slot = self.slots[*name];
        if self.is_numeric(slot) {
            return None;
        }
        let position = |item: &Tree| match &item.kind {
            Kind::Literal(value) => {
                let position = self.parameters[slot].position(value);
                let position = position.map_or(-1.0, |position| position as f64);
                Some(Kind::Literal(Value::Float(position)).into())
            }
            _ => None,
        };
        Some((Kind::Name(slot).into(), items.iter().map(position).collect::<Option<Vec<Tree>>>()?))
    }

    fn is_numeric(&self, slot: usize) -> bool {
        self.parameters[slot].values.iter().all(|value| !matches!(value, Value::Text(_)))
    }
}

#[cfg(test)]
mod tests {
    use evo_space::expr::Expr;

    use super::*;
    use crate::conformance::space_of;

    const SPACE: &str =
        "[parameters]\nA = [1, 2, 3, 8]\nB = [0, 1, 5]\nC = [\"x\", \"y\", \"z\"]\nD = [true, false]\n";

    #[track_caller]
    fn check(text: &str) {
        let space = space_of(SPACE);
        let expr = Expr::parse(text).unwrap();
        let slots = slots_of(expr.distinct_names(), space.parameters()).unwrap();
        let formula = Formula::of_tree(expr.tree(), &slots, space.parameters()).unwrap();
        let numbers = Numbers::new(space.parameters());
        let compiled = formula.compile(&numbers);
        let mut scratch = Scratch::default();
        for genome in space.iter() {
            let configuration = space.configuration(&genome);
            let expected = expr.evaluate(&|name: &str| configuration.get(name).cloned());
            let expected = expected.ok().and_then(|value| value.as_float());
            let value = compiled.evaluate(genome.positions(), &numbers, &mut scratch);
            assert_eq!((!value.is_nan()).then_some(value), expected, "{text} at {configuration}");
        }
    }

    #[test]
    fn formulas_say_what_expressions_say() {
        check("A * B + 3");
        check("A / B");
        check("A // 2 % 3 - B ** 2");
        check("1 < A <= 3");
        check("(A > B) and (B != 1)");
        check("min(A, B, 2) + max(A, B) + abs(B - 4)");
        check("A / B if B > 0 else -A");
        check("ceil_div(A, 3)");
        check("C == \"y\"");
        check("A in [1, 8] or C not in [\"x\", \"nothing\"]");
        check("not D");
    }

    #[test]
    fn operands_that_a_decided_condition_skips_are_not_evaluated() {
        check("B != 0 and A / B > 1");
        check("B == 0 or A / B > 1");
        check("0 < B < A / B");
    }

    #[test]
    fn texts_are_no_numbers() {
        let space = space_of(SPACE);
        for text in ["C", "C < \"y\"", "C < \"y\" or min(C, \"a\") == \"a\"", "\"a\" == \"b\""] {
            let expr = Expr::parse(text).unwrap();
            let slots = slots_of(expr.distinct_names(), space.parameters()).unwrap();
            assert!(Formula::of_tree(expr.tree(), &slots, space.parameters()).is_none(), "{text}");
        }
        assert_eq!(slots_of(&[Arc::from("unknown")], space.parameters()), None);
    }
}
