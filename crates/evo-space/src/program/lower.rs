//! Constraints in the form that counting wants: parameters are slots, texts are ranks, constants are folded, and sums
//! and products that cannot overflow are flat, so that partial sums can be merged. `machine` runs it, with exactly the
//! meaning of `Expr::evaluate`.

use std::collections::BTreeSet;

use crate::expr::tree::{Kind, Relation, Tree};
use crate::program::machine::{Atom, Code, Program, Registers};
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
    list.retain(|code| !matches!(code, Code::Constant(atom) if atom.is_true()));
    list
}

fn split(code: Code, list: &mut Vec<Code>) {
    match code {
        Code::All(operands) => operands.into_iter().for_each(|operand| split(operand, list)),
        Code::Not(operand) => match *operand {
            // A failing operand refuses the point just as a true one does.
            Code::Any(operands) => {
                operands.into_iter().for_each(|operand| split(Code::Not(Box::new(operand)), list))
            }
            Code::Not(inner) => split(*inner, list),
            other => list.push(Code::Not(Box::new(other))),
        },
        other => list.push(other),
    }
}

/// The code of a tree. `slots[name]` is the slot of each name that the tree reads.
pub fn lower(tree: &Tree, slots: &[usize], domains: &Domains<'_>) -> Code {
    let one = |tree: &Tree| lower(tree, slots, domains);
    let boxed = |tree: &Tree| Box::new(lower(tree, slots, domains));
    let many = |trees: &[Tree]| trees.iter().map(one).collect::<Vec<Code>>();
    let code = match &tree.kind {
        Kind::Literal(value) => Code::Constant(domains.texts.atom(value)),
        Kind::Name(name) => match domains.values[slots[*name]].as_slice() {
            [only] => Code::Constant(*only),
            _ => Code::Slot(slots[*name]),
        },
        Kind::List(items) => Code::All(many(items)),
        Kind::Not(operand) => Code::Not(boxed(operand)),
        Kind::Negate(operand) => Code::Negate(boxed(operand)),
        Kind::Chain(first, rest) => {
            chain(one(first), rest.iter().map(|(op, tree)| (*op, one(tree))), domains)
        }
        Kind::Compare(first, rest) => comparisons(first, rest, &one),
        Kind::All(operands) => joined(many(operands), false),
        Kind::Any(operands) => joined(many(operands), true),
        Kind::If { condition, then, otherwise } => match one(condition) {
            Code::Constant(atom) if atom.is_true() => one(then),
            Code::Constant(_) => one(otherwise),
            condition => Code::If(Box::new([condition, one(then), one(otherwise)])),
        },
        Kind::Call(function, arguments) => Code::Call(*function, many(arguments)),
    };
    fold(code)
}

fn fold(code: Code) -> Code {
    let mut constant = true;
    code.for_children(&mut |child| constant &= matches!(child, Code::Constant(_)));
    match code {
        Code::Slot(_) | Code::Constant(_) => code,
        code if constant => value_of_constants(&code).map_or(code, Code::Constant),
        code => code,
    }
}

fn value_of_constants(code: &Code) -> Option<Atom> {
    // The machine itself folds, so that a constant means what the instructions would have computed.
    let mut registers = Registers::default();
    Program::new(code, &mut registers).run(&mut registers)
}

fn comparisons(first: &Tree, rest: &[(Relation, Tree)], one: &impl Fn(&Tree) -> Code) -> Code {
    let mut left = one(first);
    let mut list = Vec::new();
    for (comparison, tree) in rest {
        if let Kind::List(items) = &tree.kind {
            let member = Code::Member(Box::new(left.clone()), items.iter().map(one).collect());
            let code = if *comparison == Relation::NotIn { Code::Not(Box::new(member)) } else { member };
            list.push(fold(code));
            continue;
        }
        // Operands have no effects, so the middle of `a < b < c` may be evaluated twice.
        let right = one(tree);
        list.push(fold(Code::Compare(*comparison, Box::new(left), Box::new(right.clone()))));
        left = right;
    }
    joined(list, false)
}

/// `and` (`stop` false) or `or` (`stop` true): constants that do not stop it vanish, the first that does ends it.
fn joined(operands: Vec<Code>, stop: bool) -> Code {
    let mut kept: Vec<Code> = Vec::new();
    let last = operands.len() - 1;
    for (position, operand) in operands.into_iter().enumerate() {
        if let Code::Constant(atom) = operand {
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
    match kept.len() {
        1 => kept.remove(0),
        _ if stop => Code::Any(kept),
        _ => Code::All(kept),
    }
}

fn chain(first: Code, rest: impl Iterator<Item = (Operator, Code)>, domains: &Domains<'_>) -> Code {
    let mut bounded = Bounded { bound: bound(&first, domains), code: first };
    for (operator, right) in rest {
        // Only two constants can fold; asking `fold` each time would walk a long sum once per operand.
        let constant = matches!((&bounded.code, &right), (Code::Constant(_), Code::Constant(_)));
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
    let code = match left.code {
        Code::Chain(first, mut rest) => {
            rest.push((operator, right.code));
            Code::Chain(first, rest)
        }
        first => Code::Chain(Box::new(first), vec![(operator, right.code)]),
    };
    Bounded { code, bound }
}

fn add(left: Bounded, operator: Operator, right: Bounded) -> Bounded {
    let sum = left.bound.zip(right.bound).map(|(a, b)| a.saturating_add(b));
    // Reordering could turn a sum that overflows on the way into one that does not.
    if sum.is_none_or(|sum| sum > i128::from(i64::MAX)) {
        return append(left, operator, right);
    }
    let negative = operator == Operator::Subtract;
    let mut terms = match left.code {
        Code::Sum(terms) => terms,
        other => vec![(false, other)],
    };
    match right.code {
        Code::Sum(more) => terms.extend(more.into_iter().map(|(own, term)| (own != negative, term))),
        other => terms.push((negative, other)),
    }
    Bounded { code: Code::Sum(terms), bound: sum }
}

fn multiply(left: Bounded, right: Bounded) -> Bounded {
    // A zero counts as 1: in another order the product of the other factors comes first and may overflow.
    let product = left.bound.zip(right.bound).map(|(a, b)| a.max(1).saturating_mul(b.max(1)));
    if product.is_none_or(|product| product > i128::from(i64::MAX)) {
        return append(left, Operator::Multiply, right);
    }
    let mut factors = match left.code {
        Code::Product(factors) => factors,
        other => vec![other],
    };
    match right.code {
        Code::Product(more) => factors.extend(more),
        other => factors.push(other),
    }
    Bounded { code: Code::Product(factors), bound: product }
}

/// An upper bound of the absolute value of an expression that is an integer for certain and whose
/// parts, added or multiplied in any order, stay below the bound as well.
fn bound(code: &Code, domains: &Domains<'_>) -> Option<i128> {
    let of = |code: &Code| bound(code, domains);
    match code {
        Code::Constant(atom) => magnitude(*atom),
        Code::Slot(slot) => domains.magnitudes[*slot],
        Code::Negate(operand) => of(operand),
        Code::Sum(terms) => {
            terms.iter().try_fold(0i128, |total, (_, term)| Some(total.saturating_add(of(term)?)))
        }
        Code::Product(factors) => {
            factors.iter().try_fold(1i128, |total, factor| Some(total.saturating_mul(of(factor)?.max(1))))
        }
        Code::Chain(first, rest) => {
            rest.iter().try_fold(of(first)?, |left, (operator, right)| chained(left, *operator, of(right)))
        }
        Code::Not(_) | Code::Compare(..) | Code::Member(..) => Some(1),
        Code::If(parts) => of(&parts[1]).zip(of(&parts[2])).map(|(a, b)| a.max(b)),
        Code::Call(_, arguments) => {
            arguments.iter().map(of).try_fold(0, |most, one| Some(most.max(one?))).map(|most: i128| most + 1)
        }
        Code::All(_) | Code::Any(_) => None,
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
    match atom {
        Atom::Number(Number::Int(value)) => Some(i128::from(value).abs()),
        _ => None,
    }
}
