//! Infinite answers in place of which a kernel may give NaN.
//!
//! Compensated sums, running variances and products of split operands subtract what they have just added, which gives
//! NaN where a plain sum stays infinite. Both are honest, and neither is a number that somebody could go on with. Where
//! every output follows from its own input, or is an input, nothing is added up, and there an infinity stays one. Where
//! inputs have the shape of the output, the reference shows which of both it is.
//!
//! NaN or an infinity may also meet a factor that is zero but for rounding, as in a Fourier transform. Then NaN, both
//! infinities and, where another order of the sums never multiplies by it, a plain number are honest: such elements are not
//! judged.

use std::collections::HashSet;

use evo_device::device::Comparison;
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, ComparedForm, ProblemPlan};

use super::element;
use super::inputs::{self, Family};
use super::naive::{AskedCase, NaiveAnswers};
use super::reference::ReferenceAnswer;

/// Marks what is not finite in answers to special inputs, where something else is as good. A reference that can run again
/// shows more.
pub fn excuse(
    case: &mut AskedCase<'_>,
    answers: &mut [ReferenceAnswer],
    runs_again: bool,
) -> Result<(), DeviceError> {
    if case.family != Family::Special {
        return Ok(());
    }
    let mixing = if runs_again { mixing(case, answers)? } else { Vec::new() };
    let adds = |own: &&mut ReferenceAnswer| mixing.contains(&own.buffer) || adds_up(case.plan, own.buffer);
    let mut open: Vec<&mut ReferenceAnswer> = answers.iter_mut().filter(adds).collect();
    if runs_again {
        spare_zero_factors(case, &mut open)?;
    }
    for own in open {
        excuse_infinities(&mut own.expected, own.single.as_deref());
    }
    Ok(())
}

/// Whether an output adds up inputs, as far as shapes tell.
fn adds_up(plan: &ProblemPlan, buffer: usize) -> bool {
    let own = &plan.buffers[buffer];
    let sums = own.view.as_ref().is_some_and(|view| view.form == ComparedForm::Sum);
    let adds = |input: &BufferPlan| {
        input.dtype.is_float() && inputs::varies(input) && (sums || input.shape != own.shape)
    };
    own.dtype.is_float() && plan.buffers.iter().any(adds)
}

/// The outputs with NaN or infinities whose elements follow from several elements of an input of their own shape: those that
/// change where only inputs at other places are set to zero. A transpose does that too, but all its numbers are inputs.
fn mixing(case: &mut AskedCase<'_>, answers: &[ReferenceAnswer]) -> Result<Vec<usize>, DeviceError> {
    let plan = case.plan;
    let asked = |own: &&ReferenceAnswer| {
        plan.buffers[own.buffer].dtype.is_float() && own.expected.iter().any(|value| !value.is_finite())
    };
    let asked: Vec<&ReferenceAnswer> = answers.iter().filter(asked).collect();
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let keeps = |index: usize| (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63 == 0;
    let mut halved = case.bytes.to_vec();
    let mut given = HashSet::new();
    for (own, bytes) in plan.buffers.iter().zip(&mut halved).filter(|(own, _)| inputs::varies(own)) {
        if own.dtype.is_float() {
            given.extend(element::widen(bytes, own.dtype).into_iter().map(f64::to_bits));
            let elements = bytes.chunks_exact_mut(own.dtype.bytes() as usize).enumerate();
            elements.filter(|(index, _)| !keeps(*index)).for_each(|(_, element)| element.fill(0));
        }
    }
    let others = case.naive.answers(&halved)?;
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

/// A factor of such an input that is this small beside the largest one of the output is zero but for rounding in single
/// precision (8 units in the last place).
const FACTOR_MIN: f64 = 1e-6;

/// Marks the elements without a finite answer on which NaN and infinite inputs have no influence: those that hardly change
/// if these are large numbers instead of zeros.
fn spare_zero_factors(
    case: &mut AskedCase<'_>,
    open: &mut [&mut ReferenceAnswer],
) -> Result<(), DeviceError> {
    let AskedCase { plan, bytes, naive, .. } = case;
    let is_finite = |own: &&mut ReferenceAnswer| own.expected.iter().all(|value| value.is_finite());
    if open.iter().all(is_finite) {
        return Ok(());
    }
    let changed = (without_specials(plan, bytes, true), without_specials(plan, bytes, false));
    let (Some(large), Some(zeros)) = changed else { return Ok(()) };
    let (large, zeros) = (naive.answers(&large)?, naive.answers(&zeros)?);
    for own in open {
        let of = |all: &'_ NaiveAnswers| {
            all.iter().find(|other| other.0 == own.buffer).map(|other| other.1.clone())
        };
        let (Some(large), Some(zeros)) = (of(&large), of(&zeros)) else { continue };
        let influence: Vec<f64> = large.iter().zip(&zeros).map(|(one, other)| (one - other).abs()).collect();
        let most = influence.iter().copied().fold(0.0, f64::max);
        let least = if most.is_finite() { FACTOR_MIN * most } else { 0.0 };
        // NaN is not at most anything, so answers that are NaN without such inputs stay.
        let elements = own.expected.iter_mut().zip(influence);
        elements
            .filter(|(value, own)| !value.is_finite() && *own <= least)
            .for_each(|(value, _)| *value = f64::from_bits(Comparison::ANYTHING));
    }
    Ok(())
}

/// The inputs with zeros or with large numbers in place of NaN and infinities, each another one, so that they do not
/// cancel; nothing where all inputs are finite.
fn without_specials(plan: &ProblemPlan, bytes: &[Vec<u8>], large: bool) -> Option<Vec<Vec<u8>>> {
    let mut changed = bytes.to_vec();
    let mut count = 0u32;
    for (own, bytes) in plan.buffers.iter().zip(&mut changed).filter(|(own, _)| own.dtype.is_float()) {
        let mut values = element::widen(bytes, own.dtype);
        let before = count;
        let size = match (large, own.dtype) {
            (false, _) => 0.0,
            (true, DType::F16) => 1e3,
            (true, _) => 1e15,
        };
        for value in values.iter_mut().filter(|value| !value.is_finite()) {
            let sign = if *value < 0.0 { -1.0 } else { 1.0 };
            *value = sign * size * (1.0 + 0.37 * f64::from(count % 61));
            count += 1;
        }
        if count > before {
            *bytes = element::narrow(&values, own.dtype);
        }
    }
    (count > 0).then_some(changed)
}

/// Marks the infinities of such an answer, which NaN meets too. Where the same reference in single precision has one of the
/// other sign or NaN, a sign is that of a factor's rounding error, as of cos(π/2) in a Fourier transform, and everything
/// that is not finite is as good. Where factors of zero were found, NaN may come of one of them, and an infinity meets it.
fn excuse_infinities(expected: &mut [f64], single: Option<&[f64]>) {
    let turns = |(own, other): (&f64, &f64)| {
        let open = !own.is_finite() && own.to_bits() != Comparison::ANYTHING;
        open && !other.is_finite() && own != other && !(own.is_nan() && other.is_nan())
    };
    let has_zeros = expected.iter().any(|own| own.to_bits() == Comparison::ANYTHING);
    let has_turns = single.is_some_and(|single| expected.iter().zip(single).any(turns));
    let is_judged = |own: &&mut f64| !own.is_finite() && own.to_bits() != Comparison::ANYTHING;
    for value in expected.iter_mut().filter(is_judged) {
        if has_turns || has_zeros && value.is_nan() {
            *value = f64::from_bits(Comparison::NOT_FINITE);
        } else if value.is_infinite() {
            *value = Comparison::infinity_or_nan(*value);
        }
    }
}

#[cfg(test)]
mod tests {
    use evo_protocol::plan::Role;

    use super::*;
    use crate::judge::reference::testing::{buffer, plan};

    #[test]
    fn sums_may_lose_an_infinity_and_copies_may_not() {
        let of = |input: &[u64]| {
            let buffers = vec![
                buffer("x", DType::F32, input, Role::Input),
                buffer("y", DType::F32, &[4], Role::Output),
            ];
            let mut expected = vec![1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
            if adds_up(&plan("p", &[], buffers), 1) {
                excuse_infinities(&mut expected, None);
            }
            let right = |index: usize, actual: f64| Comparison::is_same(actual, expected[index]);
            assert!(right(0, 1.0) && !right(0, f64::NAN) && right(3, f64::NAN) && !right(3, f64::INFINITY));
            assert!(right(1, f64::INFINITY) && !right(1, f64::NEG_INFINITY) && !right(1, 3e38));
            assert!(right(2, f64::NEG_INFINITY) && !right(2, f64::INFINITY) && !right(2, 0.0));
            assert_eq!(right(1, f64::NAN), right(2, f64::NAN));
            right(1, f64::NAN)
        };
        assert!(of(&[4, 9]));
        assert!(!of(&[4]));
    }

    #[test]
    fn a_sign_that_rounding_decides_is_nobodys_fault() {
        let (up, down) = (f64::INFINITY, f64::NEG_INFINITY);
        let after = |single: &[f64]| {
            let mut expected = vec![1.0, up, down, f64::NAN];
            excuse_infinities(&mut expected, Some(single));
            let right = |actual: f64| expected.iter().map(|own| Comparison::is_same(actual, *own)).collect();
            let found: [Vec<bool>; 4] = [1.0, up, down, f64::NAN].map(right);
            found
        };
        let settled = after(&[1.0, up, down, f64::NAN]);
        assert_eq!(settled[1], [false, true, false, false]);
        assert_eq!(settled[3], [false, true, true, true]);
        let open = after(&[1.0, down, down, f64::NAN]);
        assert_eq!(open[0], [true, false, false, false]);
        assert!(open[1..].iter().all(|own| *own == [false, true, true, true]), "{open:?}");
        assert_eq!(after(&[1.0, up, down, up]), open);
        // A factor of zero explains NaN, and not the sign of an infinity.
        let mut expected = [f64::from_bits(Comparison::ANYTHING), f64::NAN, up];
        excuse_infinities(&mut expected, None);
        assert!(Comparison::is_same(1.0, expected[0]) && Comparison::is_same(down, expected[1]));
        assert!(!Comparison::is_same(1.0, expected[1]) && !Comparison::is_same(down, expected[2]));
    }

    /// What `look` makes of a kernel with 64 inputs and as many outputs.
    fn asked<T>(
        values: &[f64],
        kernel: impl Fn(&[f64]) -> Vec<f64>,
        look: impl Fn(&mut AskedCase<'_>, [ReferenceAnswer; 1]) -> T,
    ) -> T {
        let of = |name, role| buffer(name, DType::F32, &[64], role);
        let plan = &plan("p", &[], vec![of("x", Role::Input), of("y", Role::Output)]);
        let bytes: &[_] = &[element::narrow(values, DType::F32), vec![0; 256]];
        let answer = ReferenceAnswer { buffer: 1, expected: kernel(values), ..ReferenceAnswer::default() };
        let naive = &mut |bytes: &[Vec<u8>]| Ok(vec![(1, kernel(&element::widen(&bytes[0], DType::F32)))]);
        look(&mut AskedCase { plan, family: Family::Special, bytes, naive }, [answer])
    }

    #[test]
    fn a_factor_of_zero_leaves_an_element_open() {
        let values: Vec<f64> =
            (0..64).map(|at| if at == 9 || at == 20 { f64::INFINITY } else { f64::from(at) }).collect();
        // 0 has a factor that is exactly zero, 1 one that rounding leaves, 2 a whole one, 3 infinities that cancel.
        let kernel = |x: &[f64]| -> Vec<f64> {
            let factors = [0.0, 6e-17, 1.0];
            let sums = factors.iter().map(|factor| x[1] + factor * x[9]);
            sums.chain([x[9] - x[20], f64::NAN]).chain(x[5..].iter().copied()).collect()
        };
        let answers = asked(&values, kernel, |case, mut answers| {
            spare_zero_factors(case, &mut answers.iter_mut().collect::<Vec<_>>()).unwrap();
            answers
        });
        let open: Vec<bool> =
            answers[0].expected.iter().map(|value| Comparison::is_same(7e7, *value)).collect();
        assert_eq!(open.iter().filter(|open| **open).count(), 2, "{:?}", answers[0].expected);
        assert!(open[0] && open[1]);
    }

    #[test]
    fn mixtures_of_elements_are_told_from_functions_of_one_and_from_copies() {
        let values: Vec<f64> =
            (0..64).map(|index| if index == 9 { f64::INFINITY } else { 0.5 + f64::from(index) }).collect();
        let mixes = |kernel: fn(&[f64]) -> Vec<f64>| {
            asked(&values, kernel, |case, answers| !mixing(case, &answers).unwrap().is_empty())
        };
        assert!(mixes(|x| (0..64).map(|index| x[index] + 2.0 * x[63 - index]).collect()));
        assert!(!mixes(|x| x.iter().map(|value| value * 3.0 + 1.0).collect()));
        assert!(!mixes(|x| x.iter().rev().copied().collect()));
    }
}
