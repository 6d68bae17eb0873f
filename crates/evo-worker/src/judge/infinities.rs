//! Infinite answers in place of which a kernel may give NaN.
//!
//! Compensated sums, running variances and products of split operands subtract what they have just added, which gives
//! NaN where a plain sum stays infinite. Both are honest, and neither is a number that somebody could go on with. Where
//! every output follows from its own input, or is an input, nothing is added up, and there an infinity stays one. Where
//! inputs have the shape of the output, the reference shows which of both it is.

use std::collections::HashSet;

use evo_device::device::Comparison;
use evo_protocol::device::DeviceError;
use evo_protocol::plan::{BufferPlan, ProblemPlan};

use super::element;
use super::expected::NaiveReference;
use super::inputs::{self, Family};
use super::reference::ReferenceAnswer;

/// Whether an output adds up inputs, as far as shapes tell.
pub fn adds_up(plan: &ProblemPlan, buffer: usize, family: Family) -> bool {
    let own = &plan.buffers[buffer];
    let adds =
        |input: &BufferPlan| input.dtype.is_float() && inputs::varies(input) && input.shape != own.shape;
    family == Family::Special && own.dtype.is_float() && plan.buffers.iter().any(adds)
}

/// The outputs with infinities whose elements follow from several elements of an input of their own shape: those that
/// change where only inputs at other places are set to zero. A transpose does that too, but all its numbers are inputs.
pub fn mixing(
    plan: &ProblemPlan,
    bytes: &[Vec<u8>],
    answers: &[ReferenceAnswer],
    naive: &mut dyn NaiveReference,
) -> Result<Vec<usize>, DeviceError> {
    let asked = |own: &&ReferenceAnswer| {
        plan.buffers[own.buffer].dtype.is_float() && own.expected.iter().any(|value| value.is_infinite())
    };
    let asked: Vec<&ReferenceAnswer> = answers.iter().filter(asked).collect();
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let keeps = |index: usize| (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63 == 0;
    let mut halved = bytes.to_vec();
    let mut given = HashSet::new();
    for (own, bytes) in plan.buffers.iter().zip(&mut halved).filter(|(own, _)| inputs::varies(own)) {
        if own.dtype.is_float() {
            given.extend(element::widen(bytes, own.dtype).into_iter().map(f64::to_bits));
            let elements = bytes.chunks_exact_mut(own.dtype.bytes() as usize).enumerate();
            elements.filter(|(index, _)| !keeps(*index)).for_each(|(_, element)| element.fill(0));
        }
    }
    let others = naive.answers(&halved)?;
    let mixes = |own: &&ReferenceAnswer| {
        let finite = || own.expected.iter().filter(|value| value.is_finite() && **value != 0.0);
        let other = others.iter().find(|other| other.0 == own.buffer).map_or(&[][..], |other| &other.1);
        let pairs = own.expected.iter().zip(other).enumerate();
        finite().any(|value| !given.contains(&value.to_bits()))
            && pairs
                .filter(|(index, _)| keeps(*index))
                .any(|(_, (own, other))| !Comparison::is_same(*other, *own))
    };
    Ok(asked.into_iter().filter(mixes).map(|own| own.buffer).collect())
}

/// Marks the infinities of such an answer.
pub fn excuse(expected: &mut [f64]) {
    for value in expected.iter_mut().filter(|own| own.is_infinite()) {
        *value = Comparison::infinity_or_nan(*value);
    }
}

#[cfg(test)]
mod tests {
    use evo_protocol::dtype::DType;
    use evo_protocol::plan::Role;

    use super::*;
    use crate::judge::reference::testing::{buffer, plan};

    #[test]
    fn sums_may_lose_an_infinity_and_copies_may_not() {
        let of = |input: &[u64], family: Family| {
            let buffers = vec![
                buffer("x", DType::F32, input, Role::Input),
                buffer("y", DType::F32, &[4], Role::Output),
            ];
            let mut expected = vec![1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
            if adds_up(&plan("p", &[], buffers), 1, family) {
                excuse(&mut expected);
            }
            let right = |index: usize, actual: f64| Comparison::is_same(actual, expected[index]);
            assert!(right(0, 1.0) && !right(0, f64::NAN) && right(3, f64::NAN) && !right(3, f64::INFINITY));
            assert!(right(1, f64::INFINITY) && !right(1, f64::NEG_INFINITY) && !right(1, 3e38));
            assert!(right(2, f64::NEG_INFINITY) && !right(2, f64::INFINITY) && !right(2, 0.0));
            assert_eq!(right(1, f64::NAN), right(2, f64::NAN));
            right(1, f64::NAN)
        };
        assert!(of(&[4, 9], Family::Special));
        assert!(!of(&[4], Family::Special) && !of(&[4, 9], Family::Huge));
    }

    #[test]
    fn mixtures_of_elements_are_told_from_functions_of_one_and_from_copies() {
        let buffers =
            vec![buffer("x", DType::F32, &[64], Role::Input), buffer("y", DType::F32, &[64], Role::Output)];
        let own = plan("p", &[], buffers);
        let values: Vec<f64> =
            (0..64).map(|index| if index == 9 { f64::INFINITY } else { 0.5 + f64::from(index) }).collect();
        let bytes = vec![element::narrow(&values, DType::F32), vec![0; 256]];
        let mixes = |kernel: fn(&[f64]) -> Vec<f64>| {
            let mut naive = |bytes: &[Vec<u8>]| Ok(vec![(1, kernel(&element::widen(&bytes[0], DType::F32)))]);
            let answer =
                ReferenceAnswer { buffer: 1, expected: kernel(&values), ..ReferenceAnswer::default() };
            !mixing(&own, &bytes, &[answer], &mut naive).unwrap().is_empty()
        };
        assert!(mixes(|x| (0..64).map(|index| x[index] + 2.0 * x[63 - index]).collect()));
        assert!(!mixes(|x| x.iter().map(|value| value * 3.0 + 1.0).collect()));
        assert!(!mixes(|x| x.iter().rev().copied().collect()));
    }
}
