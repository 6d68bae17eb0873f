//! What expressions are lowered to (`Code`), and what that is compiled to: programs, short lists of instructions over one file of registers.
//!
//! The first registers are the slots; others hold constants, intermediate values and what counting
//! keeps between its steps. A program that reads a register without a value fails, as the tree's
//! evaluation would have failed there: operands that `and`, `or` and `if` skip are never read.

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

/// Sensible constraints are shorter, so that limits on their work count runs.
const STEP_INSTRUCTIONS: u64 = 64;

/// From this length on a list of constants is searched by halves.
const SEARCHED_ITEMS: usize = 32;

pub type Register = u32;

#[derive(Clone, Debug, Default)]
pub struct Registers(Vec<Option<Atom>>);

impl Registers {
    pub fn new(slots: usize) -> Registers {
        Registers(vec![None; slots])
    }

    pub fn add(&mut self, value: Option<Atom>) -> Register {
        self.0.push(value);
        (self.0.len() - 1) as Register
    }

    #[inline]
    pub fn set(&mut self, register: Register, value: Option<Atom>) {
        self.0[register as usize] = value;
    }

    /// Becomes equal to `other`, in the memory that is there already.
    #[inline]
    pub fn reset(&mut self, other: &Registers) {
        self.0.clear();
        self.0.extend_from_slice(&other.0);
    }

    #[inline]
    pub fn get(&self, register: Register) -> Option<Atom> {
        self.0[register as usize]
    }
}

#[derive(Clone, Debug)]
pub struct Program {
    instructions: Box<[Instruction]>,
    /// Long lists of constants that something is looked for in, in ascending order.
    lists: Box<[Box<[Atom]>]>,
    result: Register,
}

#[derive(Clone, Copy, Debug)]
struct Instruction {
    operation: Operation,
    a: Register,
    /// The second operand; of jumps the target.
    b: u32,
    out: Register,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
    Compare(Relation),
    Not,
    Negate,
    Absolute,
    CeilDiv,
    Least,
    Greatest,
    Copy,
    /// Whether `a` is in the list of number `b`.
    Among,
    JumpIfTrue,
    JumpIfFalse,
}

impl Program {
    pub fn new(code: &Code, registers: &mut Registers) -> Program {
        let mut compiler = CodeCompiler { registers, instructions: Vec::new(), lists: Vec::new() };
        let result = compiler.compile(code);
        let CodeCompiler { instructions, lists, .. } = compiler;
        Program { instructions: instructions.into(), lists: lists.into(), result }
    }

    /// What a run costs, in steps: limits on work count a run of any sensible program as one step.
    pub fn weight(&self) -> u64 {
        self.instructions.len() as u64 / STEP_INSTRUCTIONS + 1
    }

    /// The value, or `None` where evaluation fails.
    #[inline]
    pub fn run(&self, registers: &mut Registers) -> Option<Atom> {
        let file = registers.0.as_mut_slice();
        let mut at = 0;
        while let Some(instruction) = self.instructions.get(at) {
            at += 1;
            let a = file[instruction.a as usize]?;
            let value = match instruction.operation {
                Operation::JumpIfTrue | Operation::JumpIfFalse => {
                    if a.is_true() == (instruction.operation == Operation::JumpIfTrue) {
                        at = instruction.b as usize;
                    }
                    continue;
                }
                Operation::Copy => a,
                Operation::Among => {
                    let list = &self.lists[instruction.b as usize];
                    Atom::bool(list.binary_search_by(|item| in_lists(*item, a)).is_ok())
                }
                Operation::Not => Atom::bool(!a.is_true()),
                Operation::Negate => Atom::Number(a.number()?.negate().ok()?),
                Operation::Absolute => Atom::Number(a.number()?.absolute().ok()?),
                operation => {
                    let b = file[instruction.b as usize]?;
                    match (a, b) {
                        (Atom::Number(Number::Int(a)), Atom::Number(Number::Int(b))) => {
                            integers(operation, a, b)?
                        }
                        _ => any(operation, a, b)?,
                    }
                }
            };
            file[instruction.out as usize] = Some(value);
        }
        file[self.result as usize]
    }

    /// Whether the constraint holds; without a value it does not.
    #[inline]
    pub fn holds(&self, registers: &mut Registers) -> bool {
        self.run(registers).is_some_and(Atom::is_true)
    }
}

/// Integers are nearly everything, so their quick way comes first.
#[inline]
fn integers(operation: Operation, a: i64, b: i64) -> Option<Atom> {
    let value = match operation {
        Operation::Add => a.checked_add(b)?,
        Operation::Subtract => a.checked_sub(b)?,
        Operation::Multiply => a.checked_mul(b)?,
        // For positive divisors Python's quotient and remainder are Euclid's.
        Operation::FloorDivide if b > 0 => a.div_euclid(b),
        Operation::Remainder if b > 0 => a.rem_euclid(b),
        Operation::Compare(relation) => i64::from(relation.holds(Some(a.cmp(&b)))?),
        _ => return any(operation, Atom::Number(Number::Int(a)), Atom::Number(Number::Int(b))),
    };
    Some(Atom::Number(Number::Int(value)))
}

fn any(operation: Operation, a: Atom, b: Atom) -> Option<Atom> {
    let arithmetic = |operator| Number::apply(operator, a.number()?, b.number()?).ok().map(Atom::Number);
    match operation {
        Operation::Add => arithmetic(Operator::Add),
        Operation::Subtract => arithmetic(Operator::Subtract),
        Operation::Multiply => arithmetic(Operator::Multiply),
        Operation::Divide => arithmetic(Operator::Divide),
        Operation::FloorDivide => arithmetic(Operator::FloorDivide),
        Operation::Remainder => arithmetic(Operator::Remainder),
        Operation::Power => arithmetic(Operator::Power),
        Operation::CeilDiv => Number::ceil_div(a.number()?, b.number()?).ok().map(Atom::Number),
        // The first of equals stays, as in Python.
        Operation::Least => Some(if b.compare(a)? == Ordering::Less { b } else { a }),
        Operation::Greatest => Some(if b.compare(a)? == Ordering::Greater { b } else { a }),
        Operation::Compare(relation) => relation.holds(a.compare(b)).map(Atom::bool),
        _ => None,
    }
}

/// The order of lists: numbers by their size, then texts.
fn in_lists(a: Atom, b: Atom) -> Ordering {
    a.compare(b).unwrap_or_else(|| a.number().is_none().cmp(&b.number().is_none()))
}

struct CodeCompiler<'a> {
    registers: &'a mut Registers,
    instructions: Vec<Instruction>,
    lists: Vec<Box<[Atom]>>,
}

impl CodeCompiler<'_> {
    fn compile(&mut self, code: &Code) -> Register {
        match code {
            // A register of its own that is set here, so that a constant needs no instruction.
            Code::Constant(atom) => self.registers.add(Some(*atom)),
            Code::Slot(slot) => *slot as Register,
            other => {
                let out = self.registers.add(None);
                self.compile_into(other, out);
                out
            }
        }
    }

    fn compile_into(&mut self, code: &Code, out: Register) {
        match code {
            Code::Constant(_) | Code::Slot(_) => {
                let value = self.compile(code);
                self.push(Operation::Copy, value, 0, out);
            }
            Code::Not(operand) => self.unary(Operation::Not, operand, out),
            Code::Negate(operand) => self.unary(Operation::Negate, operand, out),
            Code::Chain(first, rest) => self.chain(first, rest, out),
            Code::Sum(terms) => self.sum(terms, out),
            Code::Product(factors) => self.reduce(Operation::Multiply, factors, out),
            Code::Compare(comparison, a, b) => self.binary(Operation::Compare(*comparison), a, b, out),
            Code::Member(value, items) => self.member(value, items, out),
            Code::All(operands) => self.first_that(operands, false, out),
            Code::Any(operands) => self.first_that(operands, true, out),
            Code::If(parts) => self.conditional(parts, out),
            Code::Call(Function::Abs, arguments) => self.unary(Operation::Absolute, &arguments[0], out),
            Code::Call(Function::CeilDiv, arguments) => {
                self.binary(Operation::CeilDiv, &arguments[0], &arguments[1], out);
            }
            Code::Call(Function::Min, arguments) => self.reduce(Operation::Least, arguments, out),
            Code::Call(Function::Max, arguments) => self.reduce(Operation::Greatest, arguments, out),
        }
    }

    fn push(&mut self, operation: Operation, a: Register, b: u32, out: Register) {
        self.instructions.push(Instruction { operation, a, b, out });
    }

    fn unary(&mut self, operation: Operation, operand: &Code, out: Register) {
        let a = self.compile(operand);
        self.push(operation, a, 0, out);
    }

    fn binary(&mut self, operation: Operation, a: &Code, b: &Code, out: Register) {
        let (a, b) = (self.compile(a), self.compile(b));
        self.push(operation, a, b, out);
    }

    fn reduce(&mut self, operation: Operation, operands: &[Code], out: Register) {
        self.compile_into(&operands[0], out);
        for operand in &operands[1..] {
            let next = self.compile(operand);
            self.push(operation, out, next, out);
        }
    }

    fn chain(&mut self, first: &Code, rest: &[(Operator, Code)], out: Register) {
        // The first operand may be a slot's own register, which must not be overwritten.
        let mut left = self.compile(first);
        for (operator, operand) in rest {
            let next = self.compile(operand);
            self.push(arithmetic(*operator), left, next, out);
            left = out;
        }
    }

    fn sum(&mut self, terms: &[(bool, Code)], out: Register) {
        let (negative, first) = &terms[0];
        if *negative {
            self.unary(Operation::Negate, first, out);
        } else {
            self.compile_into(first, out);
        }
        for (negative, term) in &terms[1..] {
            let next = self.compile(term);
            self.push(if *negative { Operation::Subtract } else { Operation::Add }, out, next, out);
        }
    }

    fn member(&mut self, value: &Code, items: &[Code], out: Register) {
        let value = self.compile(value);
        if let Some(list) = constants(items) {
            let number = self.lists.len() as u32;
            self.lists.push(list);
            return self.push(Operation::Among, value, number, out);
        }
        // The whole list is evaluated first, as in Python.
        // Slots are read as well, even where comparing stops before them.
        for slot in items.iter().filter(|item| matches!(item, Code::Slot(_))) {
            self.compile_into(slot, out);
        }
        let items: Vec<Register> = items.iter().map(|item| self.compile(item)).collect();
        // False for an empty list; reads `value` so that a failing value fails the test as in Python.
        self.push(Operation::Compare(Relation::NotEqual), value, value, out);
        let mut exits = Vec::new();
        for item in items {
            self.push(Operation::Compare(Relation::Equal), value, item, out);
            exits.push(self.jump(Operation::JumpIfTrue, out));
        }
        self.land(&exits);
    }

    fn first_that(&mut self, operands: &[Code], wanted: bool, out: Register) {
        let jump = if wanted { Operation::JumpIfTrue } else { Operation::JumpIfFalse };
        let mut exits = Vec::new();
        for (number, operand) in operands.iter().enumerate() {
            self.compile_into(operand, out);
            if number + 1 < operands.len() {
                exits.push(self.jump(jump, out));
            }
        }
        if operands.is_empty() {
            self.compile_into(&Code::Constant(Atom::bool(!wanted)), out);
        }
        self.land(&exits);
    }

    fn conditional(&mut self, parts: &[Code; 3], out: Register) {
        let [condition, then, otherwise] = parts;
        let condition = self.compile(condition);
        let to_otherwise = self.jump(Operation::JumpIfFalse, condition);
        self.compile_into(then, out);
        // An unconditional jump would be one more case in the loop that everything goes through.
        let always = self.registers.add(Some(Atom::bool(true)));
        let to_end = self.jump(Operation::JumpIfTrue, always);
        self.land(&[to_otherwise]);
        self.compile_into(otherwise, out);
        self.land(&[to_end]);
    }

    /// Emits a jump whose target `land` sets; its number.
    fn jump(&mut self, operation: Operation, condition: Register) -> usize {
        // A jump writes nothing: its `out` only has to be some register.
        self.push(operation, condition, 0, condition);
        self.instructions.len() - 1
    }

    fn land(&mut self, jumps: &[usize]) {
        let here = self.instructions.len() as u32;
        jumps.iter().for_each(|jump| self.instructions[*jump].b = here);
    }
}

/// If the list is long and holds constants alone. A short one is compared item by item, which takes no longer.
fn constants(items: &[Code]) -> Option<Box<[Atom]>> {
    let constant = |item: &Code| match item {
        Code::Constant(atom) => Some(*atom),
        _ => None,
    };
    let mut list: Vec<Atom> = items.iter().map(constant).collect::<Option<_>>()?;
    if list.len() < SEARCHED_ITEMS {
        return None;
    }
    list.sort_by(|a, b| in_lists(*a, *b));
    Some(list.into())
}

fn arithmetic(operator: Operator) -> Operation {
    match operator {
        Operator::Add => Operation::Add,
        Operator::Subtract => Operation::Subtract,
        Operator::Multiply => Operation::Multiply,
        Operator::Divide => Operation::Divide,
        Operator::FloorDivide => Operation::FloorDivide,
        Operator::Remainder => Operation::Remainder,
        Operator::Power => Operation::Power,
    }
}
