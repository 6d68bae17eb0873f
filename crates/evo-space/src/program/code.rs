//! What expressions are lowered to, before it is compiled.

use std::cmp::Ordering;

use crate::expr::tree::{Function, Relation};
use crate::value::{Number, Operator};

/// A value as cheap to copy as an integer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Atom {
    Number(Number),
    /// Rank among all texts of the space, so that order is kept.
    Text(u32),
}

impl Atom {
    pub(super) fn bool(value: bool) -> Atom {
        Atom::Number(Number::Int(i64::from(value)))
    }

    #[inline]
    pub(super) fn number(self) -> Option<Number> {
        match self {
            Atom::Number(number) => Some(number),
            Atom::Text(_) => None,
        }
    }

    #[inline]
    pub(super) fn compare(self, other: Atom) -> Option<Ordering> {
        match (self, other) {
            (Atom::Number(a), Atom::Number(b)) => Some(a.compare(b)),
            (Atom::Text(a), Atom::Text(b)) => Some(a.cmp(&b)),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn is_true(self) -> bool {
        match self {
            Atom::Number(number) => number.is_true(),
            // The empty text is always among the ranks, and is the least.
            Atom::Text(rank) => rank != 0,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Code {
    Constant(Atom),
    Slot(usize),
    Not(Box<Code>),
    Negate(Box<Code>),
    /// From left to right: one node however long, so that nothing that walks the code can overflow the stack.
    Chain(Box<Code>, Vec<(Operator, Code)>),
    /// Integers that add up (negated where true) without overflow, in any order.
    Sum(Vec<(bool, Code)>),
    /// Integers whose product does not overflow, in any order.
    Product(Vec<Code>),
    Compare(Relation, Box<Code>, Box<Code>),
    Member(Box<Code>, Vec<Code>),
    All(Vec<Code>),
    Any(Vec<Code>),
    If(Box<[Code; 3]>),
    Call(Function, Vec<Code>),
}

impl Code {
    pub fn slots(&self) -> Vec<usize> {
        let mut found = Vec::new();
        self.visit(&mut |code| {
            if let Code::Slot(slot) = code {
                found.push(*slot);
            }
        });
        found.sort_unstable();
        found.dedup();
        found
    }

    pub fn map_children(&self, change: &mut dyn FnMut(&Code) -> Code) -> Code {
        let mut list = |operands: &[Code]| operands.iter().map(&mut *change).collect::<Vec<Code>>();
        match self {
            Code::Constant(_) | Code::Slot(_) => self.clone(),
            Code::Product(operands) => Code::Product(list(operands)),
            Code::All(operands) => Code::All(list(operands)),
            Code::Any(operands) => Code::Any(list(operands)),
            Code::Call(function, operands) => Code::Call(*function, list(operands)),
            Code::Not(a) => Code::Not(Box::new(change(a))),
            Code::Negate(a) => Code::Negate(Box::new(change(a))),
            Code::Chain(first, rest) => {
                let first = Box::new(change(first));
                Code::Chain(first, rest.iter().map(|(operator, code)| (*operator, change(code))).collect())
            }
            Code::Compare(comparison, a, b) => {
                Code::Compare(*comparison, Box::new(change(a)), Box::new(change(b)))
            }
            Code::Sum(terms) => Code::Sum(terms.iter().map(|(sign, term)| (*sign, change(term))).collect()),
            Code::Member(a, items) => {
                let value = Box::new(change(a));
                Code::Member(value, items.iter().map(change).collect())
            }
            Code::If(parts) => Code::If(Box::new([change(&parts[0]), change(&parts[1]), change(&parts[2])])),
        }
    }

    pub fn visit(&self, visit: &mut dyn FnMut(&Code)) {
        visit(self);
        self.for_children(&mut |child| child.visit(visit));
    }

    pub fn for_children<'c>(&'c self, visit: &mut dyn FnMut(&'c Code)) {
        match self {
            Code::Constant(_) | Code::Slot(_) => {}
            Code::Not(a) | Code::Negate(a) => visit(a),
            Code::Chain(first, rest) => {
                visit(first);
                rest.iter().for_each(|(_, code)| visit(code));
            }
            Code::Compare(_, a, b) => [a, b].into_iter().for_each(|code| visit(code)),
            Code::Sum(terms) => terms.iter().for_each(|(_, term)| visit(term)),
            Code::Product(list) | Code::All(list) | Code::Any(list) | Code::Call(_, list) => {
                list.iter().for_each(visit);
            }
            Code::Member(a, list) => {
                visit(a);
                list.iter().for_each(visit);
            }
            Code::If(parts) => parts.iter().for_each(visit),
        }
    }
}
