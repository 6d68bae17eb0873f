//! Compiled expressions: a short list of instructions over one file of registers.
//!
//! The first registers are the slots; others hold constants, intermediate values and what the search
//! keeps between its steps. A register without a value fails the program that reads it, exactly when
//! `Code::evaluate` would have failed: operands that `and`, `or` and `if` skip are not read.

use std::cmp::Ordering;

use super::code::{Atom, Code};
use super::expr::tree::{Comparison, Function};
use super::number::{Number, Operator};

/// The number of a register.
pub type Register = u32;

/// All registers of a set of programs.
#[derive(Clone, Debug, Default)]
pub struct Registers(Vec<Option<Atom>>);

impl Registers {
    /// One register for each slot, without values yet.
    pub fn new(slots: usize) -> Registers {
        Registers(vec![None; slots])
    }

    /// A new register.
    pub fn add(&mut self, value: Option<Atom>) -> Register {
        self.0.push(value);
        (self.0.len() - 1) as Register
    }

    /// Sets a register.
    #[inline]
    pub fn set(&mut self, register: Register, value: Option<Atom>) {
        self.0[register as usize] = value;
    }

    /// The value of a register.
    #[inline]
    pub fn get(&self, register: Register) -> Option<Atom> {
        self.0[register as usize]
    }
}

/// Instructions and where the result lies.
#[derive(Clone, Debug)]
pub struct Program {
    instructions: Box<[Instruction]>,
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
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Not,
    Negate,
    Absolute,
    CeilDiv,
    Least,
    Greatest,
    Copy,
    Jump,
    JumpIfTrue,
    JumpIfFalse,
}

impl Program {
    /// Compiles `code`, whose slots are registers; takes new registers for what it needs.
    pub fn new(code: &Code, registers: &mut Registers) -> Program {
        let mut compiler = Compiler { registers, instructions: Vec::new() };
        let result = compiler.compile(code);
        Program { instructions: compiler.instructions.into_boxed_slice(), result }
    }

    /// The value, or `None` where evaluation fails.
    #[inline]
    pub fn run(&self, registers: &mut Registers) -> Option<Atom> {
        let file = registers.0.as_mut_slice();
        let mut at = 0;
        while let Some(instruction) = self.instructions.get(at) {
            at += 1;
            let a = if instruction.operation == Operation::Jump {
                at = instruction.b as usize;
                continue;
            } else {
                file[instruction.a as usize]?
            };
            match instruction.operation {
                Operation::JumpIfTrue | Operation::JumpIfFalse => {
                    if a.is_true() == (instruction.operation == Operation::JumpIfTrue) {
                        at = instruction.b as usize;
                    }
                    continue;
                }
                Operation::Copy => file[instruction.out as usize] = Some(a),
                Operation::Not => file[instruction.out as usize] = Some(Atom::bool(!a.is_true())),
                Operation::Negate => {
                    file[instruction.out as usize] = Some(Atom::Number(a.number()?.negate().ok()?));
                }
                Operation::Absolute => {
                    file[instruction.out as usize] = Some(Atom::Number(a.number()?.absolute().ok()?));
                }
                operation => {
                    let b = file[instruction.b as usize]?;
                    file[instruction.out as usize] = Some(binary(operation, a, b)?);
                }
            }
        }
        file[self.result as usize]
    }

    /// Whether the constraint holds; without a value it does not.
    #[inline]
    pub fn holds(&self, registers: &mut Registers) -> bool {
        self.run(registers).is_some_and(Atom::is_true)
    }
}

#[inline]
fn binary(operation: Operation, a: Atom, b: Atom) -> Option<Atom> {
    // Integers are nearly everything; their quick way comes first.
    if let (Atom::Number(Number::Int(x)), Atom::Number(Number::Int(y))) = (a, b) {
        let quick = match operation {
            Operation::Add => x.checked_add(y)?,
            Operation::Subtract => x.checked_sub(y)?,
            Operation::Multiply => x.checked_mul(y)?,
            Operation::Equal => i64::from(x == y),
            Operation::NotEqual => i64::from(x != y),
            Operation::Less => i64::from(x < y),
            Operation::LessEqual => i64::from(x <= y),
            Operation::Greater => i64::from(x > y),
            Operation::GreaterEqual => i64::from(x >= y),
            _ => return slow(operation, a, b),
        };
        return Some(Atom::Number(Number::Int(quick)));
    }
    slow(operation, a, b)
}

fn slow(operation: Operation, a: Atom, b: Atom) -> Option<Atom> {
    let arithmetic = |operator| Number::apply(operator, a.number()?, b.number()?).ok().map(Atom::Number);
    let order = || a.compare(b);
    let truth = match operation {
        Operation::Add => return arithmetic(Operator::Add),
        Operation::Subtract => return arithmetic(Operator::Subtract),
        Operation::Multiply => return arithmetic(Operator::Multiply),
        Operation::Divide => return arithmetic(Operator::Divide),
        Operation::FloorDivide => return arithmetic(Operator::FloorDivide),
        Operation::Remainder => return arithmetic(Operator::Remainder),
        Operation::Power => return arithmetic(Operator::Power),
        Operation::CeilDiv => return Number::ceil_div(a.number()?, b.number()?).ok().map(Atom::Number),
        // The first of equals stays, as in Python.
        Operation::Least => return Some(if b.compare(a)? == Ordering::Less { b } else { a }),
        Operation::Greatest => return Some(if b.compare(a)? == Ordering::Greater { b } else { a }),
        Operation::Equal => order() == Some(Ordering::Equal),
        Operation::NotEqual => order() != Some(Ordering::Equal),
        Operation::Less => order()?.is_lt(),
        Operation::LessEqual => order()?.is_le(),
        Operation::Greater => order()?.is_gt(),
        Operation::GreaterEqual => order()?.is_ge(),
        _ => return None,
    };
    Some(Atom::bool(truth))
}

struct Compiler<'a> {
    registers: &'a mut Registers,
    instructions: Vec<Instruction>,
}

impl Compiler<'_> {
    /// Emits what computes `code`; the register of its value.
    fn compile(&mut self, code: &Code) -> Register {
        match code {
            Code::Constant(atom) => self.registers.add(Some(*atom)),
            Code::Slot(slot) => *slot as Register,
            Code::Not(operand) => self.unary(Operation::Not, operand),
            Code::Negate(operand) => self.unary(Operation::Negate, operand),
            Code::Binary(operator, a, b) => {
                let (a, b) = (self.compile(a), self.compile(b));
                self.emit(arithmetic(*operator), a, b)
            }
            Code::Sum(terms) => self.sum(terms),
            Code::Product(factors) => self.reduce(Operation::Multiply, factors),
            Code::Compare(comparison, a, b) => {
                let (a, b) = (self.compile(a), self.compile(b));
                self.emit(relation(*comparison), a, b)
            }
            Code::Member(value, items) => self.member(value, items),
            Code::All(operands) => self.first_that(operands, false),
            Code::Any(operands) => self.first_that(operands, true),
            Code::If(parts) => self.conditional(parts),
            Code::Call(Function::Abs, arguments) => self.unary(Operation::Absolute, &arguments[0]),
            Code::Call(Function::CeilDiv, arguments) => {
                let (a, b) = (self.compile(&arguments[0]), self.compile(&arguments[1]));
                self.emit(Operation::CeilDiv, a, b)
            }
            Code::Call(Function::Min, arguments) => self.reduce(Operation::Least, arguments),
            Code::Call(Function::Max, arguments) => self.reduce(Operation::Greatest, arguments),
        }
    }

    fn emit(&mut self, operation: Operation, a: Register, b: u32) -> Register {
        let out = self.registers.add(None);
        self.push(operation, a, b, out);
        out
    }

    fn push(&mut self, operation: Operation, a: Register, b: u32, out: Register) {
        self.instructions.push(Instruction { operation, a, b, out });
    }

    fn unary(&mut self, operation: Operation, operand: &Code) -> Register {
        let a = self.compile(operand);
        self.emit(operation, a, 0)
    }

    fn reduce(&mut self, operation: Operation, operands: &[Code]) -> Register {
        let mut total = self.compile(&operands[0]);
        for operand in &operands[1..] {
            let next = self.compile(operand);
            total = self.emit(operation, total, next);
        }
        total
    }

    fn sum(&mut self, terms: &[(bool, Code)]) -> Register {
        let (negative, first) = &terms[0];
        let mut total = if *negative { self.unary(Operation::Negate, first) } else { self.compile(first) };
        for (negative, term) in &terms[1..] {
            let next = self.compile(term);
            total = self.emit(if *negative { Operation::Subtract } else { Operation::Add }, total, next);
        }
        total
    }

    fn member(&mut self, value: &Code, items: &[Code]) -> Register {
        let value = self.compile(value);
        let out = self.registers.add(None);
        // Reads the value even where there is nothing to compare it with.
        self.push(Operation::NotEqual, value, value, out);
        let mut exits = Vec::new();
        for item in items {
            let item = self.compile(item);
            self.push(Operation::Equal, value, item, out);
            exits.push(self.instructions.len());
            self.push(Operation::JumpIfTrue, out, 0, out);
        }
        self.land(&exits);
        out
    }

    fn first_that(&mut self, operands: &[Code], wanted: bool) -> Register {
        let out = self.registers.add(None);
        let mut exits = Vec::new();
        let jump = if wanted { Operation::JumpIfTrue } else { Operation::JumpIfFalse };
        for (number, operand) in operands.iter().enumerate() {
            let value = self.compile(operand);
            self.push(Operation::Copy, value, 0, out);
            if number + 1 < operands.len() {
                exits.push(self.instructions.len());
                self.push(jump, out, 0, out);
            }
        }
        if operands.is_empty() {
            let value = self.registers.add(Some(Atom::bool(!wanted)));
            self.push(Operation::Copy, value, 0, out);
        }
        self.land(&exits);
        out
    }

    fn conditional(&mut self, parts: &[Code; 3]) -> Register {
        let [condition, then, otherwise] = parts;
        let out = self.registers.add(None);
        let condition = self.compile(condition);
        let to_otherwise = self.instructions.len();
        self.push(Operation::JumpIfFalse, condition, 0, out);
        let value = self.compile(then);
        self.push(Operation::Copy, value, 0, out);
        let to_end = self.instructions.len();
        self.push(Operation::Jump, 0, 0, out);
        self.land(&[to_otherwise]);
        let value = self.compile(otherwise);
        self.push(Operation::Copy, value, 0, out);
        self.land(&[to_end]);
        out
    }

    /// Lets jumps lead to the next instruction.
    fn land(&mut self, jumps: &[usize]) {
        let here = self.instructions.len() as u32;
        jumps.iter().for_each(|jump| self.instructions[*jump].b = here);
    }
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

fn relation(comparison: Comparison) -> Operation {
    match comparison {
        // Membership is lowered to `Code::Member`.
        Comparison::Equal | Comparison::In => Operation::Equal,
        Comparison::NotEqual | Comparison::NotIn => Operation::NotEqual,
        Comparison::Less => Operation::Less,
        Comparison::LessEqual => Operation::LessEqual,
        Comparison::Greater => Operation::Greater,
        Comparison::GreaterEqual => Operation::GreaterEqual,
    }
}

#[cfg(test)]
mod tests;
