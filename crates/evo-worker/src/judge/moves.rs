//! Whether a task only moves its inputs about (a transpose, a gather, a sort, a maximum).
//!
//! Then nothing rounds, and nothing but equality is right: a kernel that keeps 20 bits of each value is far inside
//! any tolerance. A space file need not say so. If each of many answers is the very value of some input drawn at
//! random, that cannot be an accident in a type with so many values.

use std::collections::HashSet;

use evo_protocol::check::GateCheck;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, ProblemPlan};
use evo_protocol::worker::CheckPlan;

use super::case::Case;
use super::element;
use super::inputs::Family;
use super::reference::ReferenceAnswer;

/// Fewer different answers could agree by accident.
const DISTINCT_MIN: usize = 32;
/// Larger cases take too long to look through; the smaller ones of the same task tell as much.
const ANSWERS_MAX: u64 = 1 << 18;
const INPUTS_MAX: u64 = 1 << 22;

fn is_fine(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

fn given(plan: &ProblemPlan) -> impl Iterator<Item = (usize, &BufferPlan)> {
    let reads = |(_, buffer): &(usize, &BufferPlan)| buffer.role.is_read() && is_fine(buffer.dtype);
    plan.buffers.iter().enumerate().filter(reads)
}

/// Other families hold few values, which an answer may share by accident; and a declared tolerance is meant.
pub fn is_asked(check: &CheckPlan, case: &Case, buffer: usize) -> bool {
    let declared = check.atol.is_some() || check.rtol.is_some();
    let is_judged = check.reference.is_own() && check.checks.include(GateCheck::MovedData);
    case.family == Family::Normal && is_judged && !declared && is_quick(&case.plan, buffer)
}

fn is_quick(plan: &ProblemPlan, buffer: usize) -> bool {
    let answer = &plan.buffers[buffer];
    let inputs: u64 = given(plan).map(|(_, buffer)| buffer.elements()).sum();
    // A half has so few values that any answer is the value of some input.
    is_fine(answer.dtype) && inputs <= INPUTS_MAX && answer.elements() <= ANSWERS_MAX
}

/// Whether every element of an answer is an element of an input, or 0. `bytes` are the contents of the plan's buffers.
pub fn only_moves(plan: &ProblemPlan, bytes: &[Vec<u8>], answer: &ReferenceAnswer) -> bool {
    if !is_quick(plan, answer.buffer) {
        return false;
    }
    // As bits, with one zero, because floats have no total order and no hash.
    let bits = |value: f64| if value == 0.0 { 0 } else { value.to_bits() };
    let answers: HashSet<u64> = answer.expected.iter().copied().map(bits).filter(|own| *own != 0).collect();
    if answers.len() < DISTINCT_MIN {
        return false;
    }
    let values = given(plan).flat_map(|(at, buffer)| element::widen(&bytes[at], buffer.dtype));
    let inputs: HashSet<u64> = values.map(bits).collect();
    answers.is_subset(&inputs)
}

#[cfg(test)]
mod tests {
    use evo_protocol::plan::Role;

    use super::*;
    use crate::judge::reference::testing::{buffer, plan};

    fn moves(dtype: DType, answer: impl Fn(&[f64]) -> Vec<f64>) -> bool {
        let buffers = vec![buffer("x", dtype, &[100], Role::Input), buffer("y", dtype, &[100], Role::Output)];
        let own = plan("p", &[], buffers);
        let values: Vec<f64> =
            (0..100).map(|index| f64::from((index * 37 % 100) as f32 * 0.37 - 9.0)).collect();
        let bytes = [element::narrow(&values, dtype), Vec::new()];
        let expected = answer(&element::widen(&bytes[0], dtype));
        only_moves(&own, &bytes, &ReferenceAnswer { buffer: 1, expected, ..ReferenceAnswer::default() })
    }

    #[test]
    fn selections_are_told_from_arithmetic() {
        assert!(moves(DType::F32, |x| x.iter().rev().copied().collect()));
        assert!(moves(DType::F32, |x| x.iter().map(|value| value.max(0.0)).collect()));
        assert!(!moves(DType::F32, |x| x.iter().map(|value| value * 2.0).collect()));
        assert!(!moves(DType::F32, |x| x.iter().map(|value| value + 1e-3).collect()));
        // One element that is computed is enough.
        assert!(!moves(DType::F32, |x| x.iter().skip(1).copied().chain([0.123]).collect()));
        assert!(!moves(DType::F32, |x| x[..20].to_vec()), "too few to tell");
        assert!(!moves(DType::F16, |x| x.to_vec()), "halves coincide");
    }
}
