//! What is left of a conjunct when some slots are decided: the decided parts are computed once, into
//! registers, and the rest reads those.
//!
//! Two partial points whose registers agree have the same completions, so the registers are also what
//! the search compares partial points by: of `x * y * z <= 64` with `x` and `y` decided it is the
//! product that counts, not its factors.

use crate::program::{Code, Program, Register, Registers};

/// A computation that a step of the search has to do once for each value.
#[derive(Debug)]
pub struct Precomputed {
    code: Code,
    pub program: Program,
    pub register: Register,
}

/// Moves the parts of `code` that read only decided registers into `parts`, each part once; what is
/// left reads their registers. `is_decided` tells of slots and of earlier parts.
pub fn extract(
    code: &Code,
    is_decided: &impl Fn(usize) -> bool,
    parts: &mut Vec<Precomputed>,
    registers: &mut Registers,
) -> Code {
    match reads(code, is_decided) {
        // Constants stay where they are, and so does what reads nothing decided.
        (false, _) => code.clone(),
        (true, false) => Code::Slot(part(code, parts, registers) as usize),
        (true, true) => match code {
            Code::Sum(terms) => {
                // Terms of a flat sum may be gathered, whatever their positions: lowering made it flat only
                // where no order can overflow.
                let (ready, open) = split(terms, |(_, term)| !reads(term, is_decided).1);
                let open =
                    open.iter().map(|(sign, term)| (*sign, extract(term, is_decided, parts, registers)));
                let open: Vec<(bool, Code)> = open.collect();
                let ready = (!ready.is_empty()).then(|| (false, sum(ready)));
                let ready = ready.map(|(sign, code)| (sign, extract(&code, is_decided, parts, registers)));
                Code::Sum(ready.into_iter().chain(open).collect())
            }
            Code::Product(factors) => {
                // Likewise the factors of a flat product.
                let (ready, open) = split(factors, |factor| !reads(factor, is_decided).1);
                let open = open.iter().map(|factor| extract(factor, is_decided, parts, registers));
                let open: Vec<Code> = open.collect();
                let ready = (!ready.is_empty()).then(|| product(ready));
                let ready = ready.map(|code| extract(&code, is_decided, parts, registers));
                Code::Product(ready.into_iter().chain(open).collect())
            }
            // What is decided at the start of a chain is computed as one; nothing else may be joined,
            // because the order of evaluation counts.
            Code::Chain(first, rest) if !reads(first, is_decided).1 => {
                let ready = rest.iter().take_while(|(_, operand)| !reads(operand, is_decided).1).count();
                let start = match ready {
                    0 => (**first).clone(),
                    ready => Code::Chain(first.clone(), rest[..ready].to_vec()),
                };
                let start = Box::new(extract(&start, is_decided, parts, registers));
                let rest = rest[ready..]
                    .iter()
                    .map(|(operator, operand)| (*operator, extract(operand, is_decided, parts, registers)));
                Code::Chain(start, rest.collect())
            }
            other => other.map_children(&mut |child| extract(child, is_decided, parts, registers)),
        },
    }
}

fn part(code: &Code, parts: &mut Vec<Precomputed>, registers: &mut Registers) -> Register {
    if let Code::Slot(slot) = code {
        return *slot as Register;
    }
    // Conjuncts often share a term such as `x * y`. One register for it keeps the state short.
    if let Some(known) = parts.iter().find(|part| part.code == *code) {
        return known.register;
    }
    let program = Program::new(code, registers);
    let register = registers.add(None);
    parts.push(Precomputed { code: code.clone(), program, register });
    register
}

fn split<T: Clone>(operands: &[T], is_ready: impl Fn(&T) -> bool) -> (Vec<T>, Vec<T>) {
    operands.iter().cloned().partition(is_ready)
}

fn sum(mut terms: Vec<(bool, Code)>) -> Code {
    match terms.as_slice() {
        [(false, _)] => terms.remove(0).1,
        _ => Code::Sum(terms),
    }
}

fn product(mut factors: Vec<Code>) -> Code {
    if factors.len() == 1 { factors.remove(0) } else { Code::Product(factors) }
}

/// Whether the code reads decided registers, and whether it reads open ones.
fn reads(code: &Code, is_decided: &impl Fn(usize) -> bool) -> (bool, bool) {
    match code {
        Code::Slot(slot) => (is_decided(*slot), !is_decided(*slot)),
        other => {
            let (mut decided, mut open) = (false, false);
            other.for_children(&mut |child| {
                let (a, b) = reads(child, is_decided);
                decided |= a;
                open |= b;
            });
            (decided, open)
        }
    }
}
