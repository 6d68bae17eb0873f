//! Constraints in the form that counting wants: parameters are slots, texts are ranks, constants are folded, and sums
//! and products that cannot overflow are flat, so that partial sums can be merged. `machine` runs it, with exactly the
//! meaning of `Expr::evaluate`.

use std::collections::BTreeSet;

use crate::expr::tree::{Kind, Relation, Tree};
use crate::program::machine::{Atom, Code, Program, Registers, Step};
use crate::value::{Number, Operator, Value};

/// All texts of a space in order; the rank of the empty text, if there, is 0.
#[derive(Clone, Debug, Default)]
pub struct Texts(Vec<String>);

impl Texts {
    pub fn collect<'a>(
        values: impl Iterator<Item = &'a Value>,
        trees: impl Iterator<Item = &'a Tree>,
    ) -> Texts {
        let mut found = BTreeSet::from([String::new()]);
        let mut add = |value: &Value| {
            if let Value::Text(text) = value {
                found.insert(text.to_string());
            }
        };
        values.for_each(&mut add);
        trees.for_each(|tree| {
            tree.visit(&mut |tree| {
                if let Kind::Literal(value) = &tree.kind {
                    add(value);
                }
            });
        });
        Texts(found.into_iter().collect())
    }

    pub fn value(&self, atom: Atom) -> Value {
        match atom {
            Atom::Number(number) => number.into(),
            Atom::Text(rank) => Value::text(self.0.get(rank as usize).map_or("", String::as_str)),
        }
    }

    pub fn atom(&self, value: &Value) -> Atom {
        match (value, value.as_number()) {
            (_, Some(number)) => Atom::Number(number),
            (Value::Text(text), _) => {
                let rank = self.0.binary_search_by(|own| own.as_str().cmp(text)).unwrap_or(self.0.len());
                Atom::Text(rank as u32)
            }
            // Every value is a number or a text.
            (_, None) => Atom::Text(0),
        }
    }
}

pub struct Domains<'a> {
    values: &'a [Vec<Atom>],
    texts: &'a Texts,
    /// The greatest magnitude of each slot's values, if all are integers. Known beforehand, because long sums
    /// ask for it once a term.
    magnitudes: Vec<Option<i128>>,
}

impl<'a> Domains<'a> {
    pub fn new(values: &'a [Vec<Atom>], texts: &'a Texts) -> Domains<'a> {
        let magnitude = |values: &Vec<Atom>| {
            values.iter().map(|atom| magnitude(*atom)).try_fold(0, |most: i128, one| Some(most.max(one?)))
        };
        Domains { values, texts, magnitudes: values.iter().map(magnitude).collect() }
    }
}

/// Splits a constraint into conjuncts; conjuncts that always hold are dropped, one that never holds is a
/// false constant. `slots[name]` is the slot of each of the expression's names.
pub fn conjuncts(tree: &Tree, slots: &[usize], domains: &Domains<'_>) -> Vec<Code> {
    let mut list = Vec::new();
    split(lower(tree, slots, domains), &mut list);
    list.retain(|code| !code.as_constant().is_some_and(Atom::is_true));
    list
}

fn split(mut code: Code, list: &mut Vec<Code>) {
    match (&code.step, code.operands.first().map(|first| &first.step)) {
        (Step::All, _) => code.operands.into_iter().for_each(|operand| split(operand, list)),
        // A failing operand refuses the point just as a true one does.
        (Step::Not, Some(Step::Any)) => {
            let operands = code.operands.remove(0).operands;
            operands.into_iter().for_each(|operand| split(Code::of(Step::Not, vec![operand]), list));
        }
        (Step::Not, Some(Step::Not)) => split(code.operands.remove(0).operands.remove(0), list),
        _ => list.push(code),
    }
}

/// The code of a tree. `slots[name]` is the slot of each name that the tree reads.
pub fn lower(tree: &Tree, slots: &[usize], domains: &Domains<'_>) -> Code {
    let one = |tree: &Tree| lower(tree, slots, domains);
    let many = |step: Step, trees: &[Tree]| Code::of(step, trees.iter().map(one).collect());
    let code = match &tree.kind {
        Kind::Literal(value) => Code::constant(domains.texts.atom(value)),
        Kind::Name(name) => match domains.values[slots[*name]].as_slice() {
            [only] => Code::constant(*only),
            _ => Code::slot(slots[*name]),
        },
        Kind::List(items) => many(Step::All, items),
        Kind::Not(operand) => Code::of(Step::Not, vec![one(operand)]),
        Kind::Negate(operand) => Code::of(Step::Negate, vec![one(operand)]),
        Kind::Chain(first, rest) => {
            chain(one(first), rest.iter().map(|(op, tree)| (*op, one(tree))), domains)
        }
        Kind::Compare(first, rest) => comparisons(first, rest, &one),
        Kind::All(operands) => joined(Step::All, operands.iter().map(one).collect()),
        Kind::Any(operands) => joined(Step::Any, operands.iter().map(one).collect()),
        Kind::If { condition, then, otherwise } => {
            let condition = one(condition);
            match condition.as_constant() {
                Some(atom) => one(if atom.is_true() { then } else { otherwise }),
                None => Code::of(Step::If, vec![condition, one(then), one(otherwise)]),
            }
        }
        Kind::Call(function, arguments) => many(Step::Call(*function), arguments),
    };
    fold(code)
}

fn fold(code: Code) -> Code {
    let is_leaf = matches!(code.step, Step::Slot(_) | Step::Constant(_));
    if is_leaf || code.operands.iter().any(|operand| operand.as_constant().is_none()) {
        return code;
    }
    // The machine itself folds, so that a constant means what the instructions would have computed.
    let mut registers = Registers::default();
    Program::new(&code, &mut registers).run(&mut registers).map_or(code, Code::constant)
}

fn comparisons(first: &Tree, rest: &[(Relation, Tree)], one: &impl Fn(&Tree) -> Code) -> Code {
    let mut left = one(first);
    let mut list = Vec::new();
    for (comparison, tree) in rest {
        if let Kind::List(items) = &tree.kind {
            let operands = std::iter::once(left.clone()).chain(items.iter().map(one));
            let member = Code::of(Step::Member, operands.collect());
            let is_not = *comparison == Relation::NotIn;
            list.push(fold(if is_not { Code::of(Step::Not, vec![member]) } else { member }));
            continue;
        }
        // Operands have no effects, so the middle of `a < b < c` may be evaluated twice.
        let right = one(tree);
        list.push(fold(Code::of(Step::Compare(*comparison), vec![left, right.clone()])));
        left = right;
    }
    joined(Step::All, list)
}

/// Of `and` or `or`: constants that do not stop it vanish, the first that does ends it.
fn joined(step: Step, operands: Vec<Code>) -> Code {
    let stop = step == Step::Any;
    let mut kept: Vec<Code> = Vec::new();
    let last = operands.len() - 1;
    for (position, operand) in operands.into_iter().enumerate() {
        if let Some(atom) = operand.as_constant() {
            if atom.is_true() == stop {
                kept.push(operand);
                break;
            }
            // `1 and x` is `x`, but a last constant is the value of the whole and has to stay.
            if position < last {
                continue;
            }
        }
        kept.push(operand);
    }
    alone_or(step, kept)
}

/// What several operands make; one is itself.
pub fn alone_or(step: Step, mut operands: Vec<Code>) -> Code {
    if operands.len() == 1 { operands.remove(0) } else { Code::of(step, operands) }
}

fn chain(first: Code, rest: impl Iterator<Item = (Operator, Code)>, domains: &Domains<'_>) -> Code {
    let mut bounded = Bounded { bound: bound(&first, domains), code: first };
    for (operator, right) in rest {
        // Only two constants can fold; asking `fold` each time would walk a long sum once per operand.
        let constant = bounded.code.as_constant().is_some() && right.as_constant().is_some();
        let right = Bounded { bound: bound(&right, domains), code: right };
        bounded = match operator {
            Operator::Add | Operator::Subtract => add(bounded, operator, right),
            Operator::Multiply => multiply(bounded, right),
            operator => append(bounded, operator, right),
        };
        if constant {
            let code = fold(bounded.code);
            bounded = Bounded { bound: bound(&code, domains), code };
        }
    }
    bounded.code
}

/// A code with its `bound`, which a chain keeps up to date: computing it again for each of many operands
/// would walk the chain once per operand.
struct Bounded {
    code: Code,
    bound: Option<i128>,
}

fn append(left: Bounded, operator: Operator, right: Bounded) -> Bounded {
    let bound = left.bound.and_then(|left| chained(left, operator, right.bound));
    let mut code = match left.code.step {
        Step::Chain(_) => left.code,
        _ => Code::of(Step::Chain(Vec::new()), vec![left.code]),
    };
    if let Step::Chain(operators) = &mut code.step {
        operators.push(operator);
        code.operands.push(right.code);
    }
    Bounded { code, bound }
}

fn add(left: Bounded, operator: Operator, right: Bounded) -> Bounded {
    let sum = left.bound.zip(right.bound).map(|(a, b)| a.saturating_add(b));
    // Reordering could turn a sum that overflows on the way into one that does not.
    if sum.is_none_or(|sum| sum > i128::from(i64::MAX)) {
        return append(left, operator, right);
    }
    let signed = |mut term: Code| match (operator, &term.step) {
        (Operator::Subtract, Step::Negate) => term.operands.remove(0),
        (Operator::Subtract, _) => Code::of(Step::Negate, vec![term]),
        _ => term,
    };
    // Extended and not copied: a long sum comes here once for each of its terms.
    let mut terms = operands_of(Step::Sum, left.code);
    terms.extend(operands_of(Step::Sum, right.code).into_iter().map(signed));
    Bounded { code: Code::of(Step::Sum, terms), bound: sum }
}

fn multiply(left: Bounded, right: Bounded) -> Bounded {
    // A zero counts as 1: in another order the product of the other factors comes first and may overflow.
    let product = left.bound.zip(right.bound).map(|(a, b)| a.max(1).saturating_mul(b.max(1)));
    if product.is_none_or(|product| product > i128::from(i64::MAX)) {
        return append(left, Operator::Multiply, right);
    }
    let mut factors = operands_of(Step::Product, left.code);
    factors.extend(operands_of(Step::Product, right.code));
    Bounded { code: Code::of(Step::Product, factors), bound: product }
}

/// The terms of a sum or the factors of a product; anything else is one of them itself.
fn operands_of(step: Step, code: Code) -> Vec<Code> {
    if code.step == step { code.operands } else { vec![code] }
}

/// An upper bound of the absolute value of an expression that is an integer for certain and whose
/// parts, added or multiplied in any order, stay below the bound as well.
fn bound(code: &Code, domains: &Domains<'_>) -> Option<i128> {
    let bound_of = |operand: &Code| bound(operand, domains);
    let mut operands = code.operands.iter().map(bound_of);
    match &code.step {
        Step::Constant(atom) => magnitude(*atom),
        Step::Slot(slot) => domains.magnitudes[*slot],
        Step::Negate => operands.next()?,
        Step::Sum => operands.try_fold(0i128, |total, term| Some(total.saturating_add(term?))),
        Step::Product => operands.try_fold(1i128, |total, factor| Some(total.saturating_mul(factor?.max(1)))),
        Step::Chain(operators) => {
            let first = operands.next()??;
            operators.iter().zip(operands).try_fold(first, |left, (own, right)| chained(left, *own, right))
        }
        Step::Not | Step::Compare(_) | Step::Member => Some(1),
        Step::If => code.operands[1..].iter().map(bound_of).try_fold(0, |most, one| Some(most.max(one?))),
        Step::Call(_) => operands.try_fold(0, |most, one| Some(most.max(one?))).map(|most: i128| most + 1),
        Step::All | Step::Any => None,
    }
}

/// With one operand more. A zero divisor does not matter: it fails whatever the order around it.
fn chained(left: i128, operator: Operator, right: Option<i128>) -> Option<i128> {
    match operator {
        // Rounding down can move the quotient of two integers one further from zero.
        Operator::FloorDivide => right.map(|_| left.saturating_add(1)),
        Operator::Remainder => right,
        _ => None,
    }
}

fn magnitude(atom: Atom) -> Option<i128> {
    if let Atom::Number(Number::Int(value)) = atom { Some(i128::from(value).abs()) } else { None }
}
