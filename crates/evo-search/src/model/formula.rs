//! A formula is an expression tree with the slots of the parameters that its names stand for; evo-space's
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
    /// The same as expressions see them: texts by themselves.
    domains: Vec<Vec<Value>>,
}

impl Numbers {
    pub fn new(parameters: &[Parameter]) -> Numbers {
        let positions = |parameter: &Parameter| (0..parameter.values.len()).map(|at| at as f64).collect();
        let floats = |parameter: &Parameter| -> Vec<f64> {
            let own: Option<_> = parameter.values.iter().map(Value::as_float).collect();
            own.unwrap_or_else(|| positions(parameter))
        };
        let domain = |parameter: &Parameter| match is_numeric(parameter) {
            true => floats(parameter).into_iter().map(Value::Float).collect(),
            false => parameter.values.clone(),
        };
        Numbers {
            floats: parameters.iter().map(floats).collect(),
            domains: parameters.iter().map(domain).collect(),
        }
    }

    #[inline]
    pub fn at(&self, slot: usize, position: u16) -> f64 {
        self.floats[slot][usize::from(position)]
    }
}

pub fn is_numeric(parameter: &Parameter) -> bool {
    parameter.values.iter().all(|value| !matches!(value, Value::Text(_)))
}

#[derive(Clone, Debug)]
pub struct Formula {
    tree: Tree,
    /// By name in the tree.
    names: Arc<[usize]>,
}

impl Formula {
    pub fn of_parameter(slot: usize) -> Formula {
        Formula { tree: Kind::Name(0).into(), names: Arc::new([slot]) }
    }

    pub fn indicator(slot: usize, value: &Value) -> Formula {
        let value = Kind::Literal(value.clone()).into();
        let kind = Kind::Compare(Box::new(Kind::Name(0).into()), vec![(Relation::Equal, value)]);
        Formula { tree: kind.into(), names: Arc::new([slot]) }
    }

    pub fn of_pair(first: usize, operator: Operator, second: usize) -> Formula {
        let kind = Kind::Chain(Box::new(Kind::Name(0).into()), vec![(operator, Kind::Name(1).into())]);
        Formula { tree: kind.into(), names: Arc::new([first, second]) }
    }

    /// Of formulas from one expression.
    pub fn pair(first: Formula, operator: Operator, second: Formula) -> Formula {
        // A chain is evaluated from left to right: the prefixes of a long sum stay flat.
        let (start, mut rest) = match first.tree.kind {
            Kind::Chain(start, rest) => (start, rest),
            _ => (Box::new(first.tree), Vec::new()),
        };
        rest.push((operator, second.tree));
        Formula { tree: Kind::Chain(start, rest).into(), names: first.names }
    }

    /// From an expression, whose names stand for these slots; `None` if texts take part in other ways
    /// than being equal to a parameter's values.
    pub fn of_tree(tree: &Tree, names: &Arc<[usize]>, parameters: &[Parameter]) -> Option<Formula> {
        let is_number = |name: usize| is_numeric(&parameters[names[name]]);
        has_number(tree, &is_number).then(|| Formula { tree: tree.clone(), names: Arc::clone(names) })
    }

    pub fn slots(&self) -> Vec<usize> {
        let mut slots = Vec::new();
        self.tree.visit(&mut |tree| {
            if let Kind::Name(name) = &tree.kind {
                slots.push(self.names[*name]);
            }
        });
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    pub fn compile(&self, numbers: &Numbers) -> CompiledFormula {
        let is_float =
            |slot: &usize| numbers.domains[*slot].iter().all(|value| matches!(value, Value::Float(_)));
        // A text by itself is its position.
        let are_floats = matches!(self.tree.kind, Kind::Name(_)) || self.slots().iter().all(is_float);
        let floats = |slot: usize| numbers.floats[slot].iter().copied().map(Value::Float).collect();
        let domain = |slot: &usize| if are_floats { floats(*slot) } else { numbers.domains[*slot].clone() };
        let domains: Vec<Vec<Value>> = self.names.iter().map(domain).collect();
        let expr = CompiledExpr::new(&self.tree, &domains);
        CompiledFormula { expr, names: Arc::clone(&self.names), are_floats }
    }
}

/// Whether the value is a number, and texts serve only in being equal to a parameter's values: the order of texts is not
/// that of their positions.
fn has_number(tree: &Tree, is_number: &dyn Fn(usize) -> bool) -> bool {
    let own = |tree: &Tree| has_number(tree, is_number);
    match &tree.kind {
        Kind::Literal(value) => value.as_float().is_some(),
        Kind::Name(name) => is_number(*name),
        Kind::List(_) => false,
        Kind::Compare(first, rest) => {
            let lefts = std::iter::once(&**first).chain(rest.iter().map(|(_, right)| right));
            lefts.zip(rest).all(|(left, (relation, right))| {
                let items = match &right.kind {
                    Kind::List(items) => items.as_slice(),
                    _ => std::slice::from_ref(right),
                };
                let is_text = matches!(left.kind, Kind::Name(name) if !is_number(name));
                let is_known = items.iter().all(|item| matches!(item.kind, Kind::Literal(_)));
                let equality = [Relation::Equal, Relation::NotEqual, Relation::In, Relation::NotIn];
                let is_equality = is_text && is_known && equality.contains(relation);
                is_equality || (own(left) && items.iter().all(own))
            })
        }
        _ => {
            let mut all = true;
            tree.for_children(&mut |child| all &= own(child));
            all
        }
    }
}

#[derive(Clone, Debug)]
pub struct CompiledFormula {
    expr: CompiledExpr,
    names: Arc<[usize]>,
    are_floats: bool,
}

impl CompiledFormula {
    pub fn evaluate(&self, positions: &[u16], numbers: &Numbers, scratch: &mut Scratch) -> f64 {
        let slot = |name: usize| self.names[name];
        let value = match self.are_floats {
            true => self.expr.evaluate_floats(|name| numbers.at(slot(name), positions[slot(name)]), scratch),
            false => {
                let value = |name| &numbers.domains[slot(name)][usize::from(positions[slot(name)])];
                self.expr.evaluate(value, scratch).and_then(|value| value.as_float())
            }
        };
        value.unwrap_or(f64::NAN)
    }
}

pub fn slots_of(names: &[Arc<str>], parameters: &[Parameter]) -> Option<Arc<[usize]>> {
    let slot = |name: &Arc<str>| parameters.iter().position(|parameter| parameter.name == *name);
    names.iter().map(slot).collect()
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
        // Operands that a decided condition skips are not evaluated.
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
