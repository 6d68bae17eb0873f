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

/// A node however many operands it has, so that nothing that walks a long sum can overflow the stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Code {
    pub step: Step,
    pub operands: Vec<Code>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Constant(Atom),
    Slot(usize),
    Not,
    Negate,
    /// From left to right: an operator before each operand but the first.
    Chain(Vec<Operator>),
    /// Integers that add up without overflow, in any order; those that are negated are subtracted.
    Sum,
    /// Integers whose product does not overflow, in any order.
    Product,
    Compare(Relation),
    /// Whether the first operand is among the others.
    Member,
    All,
    Any,
    /// Condition, value, other value.
    If,
    Call(Function),
}

impl Code {
    pub fn of(step: Step, operands: Vec<Code>) -> Code {
        Code { step, operands }
    }

    pub fn slot(slot: usize) -> Code {
        Code::of(Step::Slot(slot), Vec::new())
    }

    pub fn constant(atom: Atom) -> Code {
        Code::of(Step::Constant(atom), Vec::new())
    }

    pub fn as_constant(&self) -> Option<Atom> {
        if let Step::Constant(atom) = self.step { Some(atom) } else { None }
    }

    pub fn slots(&self) -> Vec<usize> {
        let mut found = Vec::new();
        self.visit(&mut |code| {
            found.extend(if let Step::Slot(slot) = code.step { Some(slot) } else { None })
        });
        found.sort_unstable();
        found.dedup();
        found
    }

    pub fn visit(&self, visit: &mut dyn FnMut(&Code)) {
        visit(self);
        self.operands.iter().for_each(|operand| operand.visit(visit));
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
    Arithmetic(Operator),
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
        Operation::Arithmetic(Operator::Add) => a.checked_add(b)?,
        Operation::Arithmetic(Operator::Subtract) => a.checked_sub(b)?,
        Operation::Arithmetic(Operator::Multiply) => a.checked_mul(b)?,
        // For positive divisors Python's quotient and remainder are Euclid's.
        Operation::Arithmetic(Operator::FloorDivide) if b > 0 => a.div_euclid(b),
        Operation::Arithmetic(Operator::Remainder) if b > 0 => a.rem_euclid(b),
        Operation::Compare(relation) => i64::from(relation.holds(Some(a.cmp(&b)))?),
        _ => return any(operation, Atom::Number(Number::Int(a)), Atom::Number(Number::Int(b))),
    };
    Some(Atom::Number(Number::Int(value)))
}

fn any(operation: Operation, a: Atom, b: Atom) -> Option<Atom> {
    match operation {
        Operation::Arithmetic(operator) => {
            Number::apply(operator, a.number()?, b.number()?).ok().map(Atom::Number)
        }
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
        match code.step {
            // A register of its own that is set here, so that a constant needs no instruction.
            Step::Constant(atom) => self.registers.add(Some(atom)),
            Step::Slot(slot) => slot as Register,
            _ => {
                let out = self.registers.add(None);
                self.compile_into(code, out);
                out
            }
        }
    }

    fn compile_into(&mut self, code: &Code, out: Register) {
        let operands = &code.operands[..];
        match &code.step {
            Step::Constant(_) | Step::Slot(_) => {
                let value = self.compile(code);
                self.push(Operation::Copy, value, 0, out);
            }
            Step::Not => self.unary(Operation::Not, operands, out),
            Step::Negate => self.unary(Operation::Negate, operands, out),
            Step::Call(Function::Abs) => self.unary(Operation::Absolute, operands, out),
            Step::Compare(relation) => self.binary(Operation::Compare(*relation), operands, out),
            Step::Call(Function::CeilDiv) => self.binary(Operation::CeilDiv, operands, out),
            Step::Chain(operators) => {
                // The first operand may be a slot's own register, which must not be overwritten.
                let mut left = self.compile(&operands[0]);
                for (operator, operand) in operators.iter().zip(&operands[1..]) {
                    let next = self.compile(operand);
                    self.push(Operation::Arithmetic(*operator), left, next, out);
                    left = out;
                }
            }
            Step::Sum => {
                self.compile_into(&operands[0], out);
                for term in &operands[1..] {
                    let (operator, term) = match term.step {
                        Step::Negate => (Operator::Subtract, &term.operands[0]),
                        _ => (Operator::Add, term),
                    };
                    let next = self.compile(term);
                    self.push(Operation::Arithmetic(operator), out, next, out);
                }
            }
            Step::Product => self.reduce(Operation::Arithmetic(Operator::Multiply), operands, out),
            Step::Call(Function::Min) => self.reduce(Operation::Least, operands, out),
            Step::Call(Function::Max) => self.reduce(Operation::Greatest, operands, out),
            Step::Member => self.member(&operands[0], &operands[1..], out),
            Step::All => self.first_that(operands, false, out),
            Step::Any => self.first_that(operands, true, out),
            Step::If => {
                let condition = self.compile(&operands[0]);
                let to_otherwise = self.jump(Operation::JumpIfFalse, condition);
                self.compile_into(&operands[1], out);
                // An unconditional jump would be one more case in the loop that everything goes through.
                let always = self.registers.add(Some(Atom::bool(true)));
                let to_end = self.jump(Operation::JumpIfTrue, always);
                self.land(&[to_otherwise]);
                self.compile_into(&operands[2], out);
                self.land(&[to_end]);
            }
        }
    }

    fn push(&mut self, operation: Operation, a: Register, b: u32, out: Register) {
        self.instructions.push(Instruction { operation, a, b, out });
    }

    fn unary(&mut self, operation: Operation, operands: &[Code], out: Register) {
        let a = self.compile(&operands[0]);
        self.push(operation, a, 0, out);
    }

    fn binary(&mut self, operation: Operation, operands: &[Code], out: Register) {
        let (a, b) = (self.compile(&operands[0]), self.compile(&operands[1]));
        self.push(operation, a, b, out);
    }

    fn reduce(&mut self, operation: Operation, operands: &[Code], out: Register) {
        self.compile_into(&operands[0], out);
        for operand in &operands[1..] {
            let next = self.compile(operand);
            self.push(operation, out, next, out);
        }
    }

    fn member(&mut self, value: &Code, items: &[Code], out: Register) {
        let value = self.compile(value);
        // A short list is compared item by item, which takes no longer.
        let constants = items.iter().map(Code::as_constant).collect::<Option<Vec<Atom>>>();
        if let Some(mut list) = constants.filter(|list| list.len() >= SEARCHED_ITEMS) {
            list.sort_by(|a, b| in_lists(*a, *b));
            self.lists.push(list.into());
            return self.push(Operation::Among, value, self.lists.len() as u32 - 1, out);
        }
        // The whole list is evaluated first, as in Python.
        // Slots are read as well, even where comparing stops before them.
        for slot in items.iter().filter(|item| matches!(item.step, Step::Slot(_))) {
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
            self.compile_into(&Code::constant(Atom::bool(!wanted)), out);
        }
        self.land(&exits);
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
