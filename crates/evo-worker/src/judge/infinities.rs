//! Infinite answers in place of which a kernel may give NaN.
//!
//! Compensated sums, running variances and products of split operands subtract what they have just added, which gives
//! NaN where a plain sum stays infinite. Both are honest, and neither is a number that somebody could go on with. What
//! has one input for each output does not add up, so there an infinity stays one.

use evo_device::device::Comparison;
use evo_protocol::plan::{BufferPlan, ProblemPlan};

use super::inputs::{self, Family};

/// Marks the infinities of an answer to which that applies.
pub fn excuse(plan: &ProblemPlan, buffer: usize, family: Family, expected: &mut [f64]) {
    let own = &plan.buffers[buffer];
    let adds =
        |input: &BufferPlan| input.dtype.is_float() && inputs::varies(input) && input.shape != own.shape;
    if family != Family::Special || !own.dtype.is_float() || !plan.buffers.iter().any(adds) {
        return;
    }
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
            excuse(&plan("p", &[], buffers), 1, family, &mut expected);
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
}
