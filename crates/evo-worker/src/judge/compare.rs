//! The tolerance policy: how far an output may be from the fp64 answer, and in what sense.
//!
//! A fixed absolute tolerance tests nothing: at S = 8192 an attention output is about 0.01 in size, so an
//! all-zero output passes `atol = 1e-2`. Every bound here is relative to the expected output's own
//! size, or to the error that a trusted computation of the same data type makes on the same inputs:
//!
//! 1. no NaN or infinity where the answer is finite, and the same one where it is not;
//! 2. each element within `atol + rtol·|expected|`, `atol` a share of the expected root mean square;
//! 3. ‖error‖ within a share of ‖expected‖ (Frobenius);
//! 4. the largest error within `trusted_factor` × the trusted computation's, plus a few spacings;
//! 5. ‖error‖ of each row (or block of neighbors) within a multiple of the share of rule 3;
//! 6. no systematic error: rounding is as often up as down, so over many elements the mean error and the
//!    slope of the error over the answer vanish;
//! 7. ‖error‖ well below ‖expected − mean‖: an output that ignores its inputs explains nothing of the answer.
//!
//! Integers are compared exactly, except where the reference's own integers change with the last bits of its
//! floating-point inputs: then that many of them, and as many again, may differ.
//!
//! A space file's own `atol` and `rtol` replace rule 2, and widen rules 3, 5 and 6 to the accuracy that they
//! declare; `trusted_factor = 0` switches rule 4 and the calibrated part of 3 off (for kernels that use
//! tf32 on purpose). Rules 5 and 6 look at plain inputs only, rule 6 at magnified ones too: where values are equal or
//! sorted, they round alike.

use evo_device::device::{BlockError, Comparison, Tolerance};
use evo_device::numbers;
use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::dtype::DType;

use super::bounds::{BiasBound, Bounds};
use super::element;

/// Rule 6: standard errors allowed on top of the share.
const SIGMAS: f64 = 6.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Breach {
    /// Rule 1.
    NonFinite,
    /// Rule 1, where the answer is NaN or infinite itself.
    Special,
    /// Rule 2.
    Elements,
    /// Rule 3.
    Norm,
    /// Rule 4.
    Trusted,
    /// Rule 7.
    Insensitive,
    /// Rule 5.
    Block,
    /// Rule 6.
    Bias,
}

impl Breach {
    pub fn describe(self) -> &'static str {
        match self {
            Breach::NonFinite => "NaN or infinity where the answer is finite",
            Breach::Special => "another value where the answer is NaN or infinite",
            Breach::Elements => "elements are outside the tolerance",
            Breach::Norm => "the error is too large a share of the output",
            Breach::Trusted => "the largest error exceeds that of a trusted computation",
            Breach::Insensitive => "the output hardly depends on its inputs",
            Breach::Block => "one row is farther off than rounding explains",
            Breach::Bias => "errors lean to one side",
        }
    }
}

/// The first rule that a comparison breaks; `block` is there where rule 5 applies.
pub fn breach(
    comparison: &Comparison,
    block: Option<&BlockError>,
    bounds: &Bounds,
    checks: CheckSet,
) -> Option<Breach> {
    // Written so that a NaN in a sum counts as a breach.
    let beyond = |value: f64, bound: Option<f64>| bound.is_some_and(|bound| value.is_nan() || value > bound);
    let error = comparison.error_square_sum.sqrt();
    let row = bounds.block.zip(block).is_some_and(|(bound, block)| beyond(block.ratio, Some(bound.ratio)));
    let leaning = || bounds.bias.is_some_and(|bound| leans(comparison, bound));
    // NaN first: it is the clearest finding, and the error sums leave it out.
    let rules = [
        (Breach::NonFinite, GateCheck::FiniteAnswers, comparison.non_finite > 0),
        (Breach::Special, GateCheck::SpecialAnswers, comparison.special > 0),
        (Breach::Elements, GateCheck::ElementError, comparison.mismatches > bounds.jumps),
        (Breach::Norm, GateCheck::ErrorNorm, beyond(error, Some(bounds.norm))),
        (Breach::Trusted, GateCheck::TrustedError, beyond(comparison.abs_error_max, bounds.max)),
        (Breach::Insensitive, GateCheck::InputDependence, beyond(error, bounds.varied)),
        (Breach::Block, GateCheck::RowError, row),
        (Breach::Bias, GateCheck::Bias, leaning()),
    ];
    rules.into_iter().find(|(_, check, broken)| *broken && checks.include(*check)).map(|(own, ..)| own)
}

/// Whether the mean error or the error's slope is larger than its bound and chance explain.
fn leans(comparison: &Comparison, bound: BiasBound) -> bool {
    let count = comparison.elements.max(1) as f64;
    let error_rms = (comparison.error_square_sum / count).sqrt();
    let size = comparison.expected_square_sum.sqrt();
    let mean = comparison.error_sum / count;
    let slope = if size > 0.0 { comparison.error_dot_sum / (size * size) } else { 0.0 };
    mean.abs() > bound.mean + SIGMAS * error_rms / count.sqrt()
        || slope.abs() > bound.slope + SIGMAS * bound.tail * error_rms / size.max(f64::MIN_POSITIVE)
}

/// Compares what does not lie in a buffer, as the host device compares buffers.
pub fn on_host(actual: &[f64], expected: &[f64], tolerance: Tolerance) -> Comparison {
    numbers::compare(&element::f64_bytes(actual), DType::F64, &element::f64_bytes(expected), tolerance)
}

pub fn blocks_on_host(actual: &[f64], expected: &[f64], block: u64, floor: f64) -> BlockError {
    let [actual, expected] = [actual, expected].map(element::f64_bytes);
    numbers::compare_blocks(&actual, DType::F64, &expected, block, floor)
}

#[cfg(test)]
mod tests {
    use evo_protocol::plan::{ProblemPlan, Role};
    use evo_protocol::worker::CheckPlan;
    use half::f16;

    use super::*;
    use crate::judge::bounds::{AnswerScale, OutputShape, TrustedError, bounds};
    use crate::judge::expected::output_shape;
    use crate::judge::inputs::Family;
    use crate::judge::reference::testing::{
        Operands, buffer, check_plan, kernel_plan, operands, plan, problem_of, scale, vector,
    };
    use crate::judge::reference::{ReferenceAnswer, max_abs};

    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Style {
        /// f32, eight interleaved chains, then a tree: another order than the trusted one.
        Honest,
        /// Like honest, with the first percent of terms dropped.
        Drop,
        /// Accumulates in half.
        Half,
        Zero,
    }

    fn sum(terms: &[f32], style: Style) -> f32 {
        let skip = if style == Style::Drop { terms.len().div_ceil(100) } else { 0 };
        match style {
            Style::Half => {
                terms.iter().fold(f16::ZERO, |sum, term| f16::from_f32(sum.to_f32() + term)).to_f32()
            }
            _ => {
                let mut chains = [0.0f32; 8];
                for (index, term) in terms.iter().enumerate().skip(skip) {
                    chains[index % 8] += term;
                }
                ((chains[0] + chains[4]) + (chains[2] + chains[6]))
                    + ((chains[1] + chains[5]) + (chains[3] + chains[7]))
            }
        }
    }

    /// What a kernel of another order, or a cheat, makes of it.
    fn simulate(reference: &str, operands: &Operands<'_>, style: Style) -> Vec<f64> {
        let extent = |buffer: usize, axis: usize| operands.plan.buffers[buffer].shape[axis] as usize;
        let input = |index: usize| -> Vec<f32> { operands.values[index].iter().map(|v| *v as f32).collect() };
        let mut out = Vec::new();
        match reference {
            "gemm" => {
                let (a, b, k, n) = (input(0), input(1), extent(0, 1), extent(1, 1));
                let element = |row: &[f32], j| (0..k).map(|p| row[p] * b[p * n + j]).collect::<Vec<_>>();
                out.extend(a.chunks(k).flat_map(|row| (0..n).map(|j| sum(&element(row, j), style))));
            }
            "softmax" => {
                let log2e = std::f32::consts::LOG2_E;
                for row in input(0).chunks(extent(0, 1)) {
                    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    let powers: Vec<f32> = row.iter().map(|x| (x * log2e - max * log2e).exp2()).collect();
                    let total = sum(&powers, style);
                    out.extend(powers.iter().map(|power| power / total));
                }
            }
            "rmsnorm" => {
                let w = input(1);
                for row in input(0).chunks(w.len()) {
                    let squares: Vec<f32> = row.iter().map(|x| x * x).collect();
                    let factor = 1.0 / (sum(&squares, style) / w.len() as f32 + 1e-6).sqrt();
                    out.extend(row.iter().zip(&w).map(|(x, w)| x * factor * w));
                }
            }
            "reduction" => out.push(sum(&input(0), style)),
            _ => {
                let (q, k, v) = (input(0), input(1), input(2));
                let (length, depth, dtype) = (extent(0, 2), extent(0, 3), operands.plan.buffers[0].dtype);
                let factor = std::f32::consts::LOG2_E / (depth as f32).sqrt();
                for (row, query) in q.chunks(depth).enumerate() {
                    let at = |j: usize, d: usize| (row / length * length + j) * depth + d;
                    let logit = |j| {
                        let terms: Vec<f32> = (0..depth).map(|d| query[d] * k[at(j, d)]).collect();
                        sum(&terms, Style::Honest) * factor
                    };
                    let logits: Vec<f32> = (0..length).map(logit).collect();
                    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    let powers: Vec<f32> = logits.iter().map(|logit| (logit - max).exp2()).collect();
                    let total = sum(&powers, if style == Style::Half { Style::Honest } else { style });
                    for d in 0..depth {
                        let term = |j: usize| element::round_f32(powers[j], dtype) * v[at(j, d)];
                        out.push(sum(&(0..length).map(term).collect::<Vec<_>>(), style) / total);
                    }
                }
            }
        }
        let dtype = operands.plan.buffers.last().unwrap().dtype;
        let stored = |value: f32| if style == Style::Zero { 0.0 } else { element::round_f32(value, dtype) };
        out.into_iter().map(|value| f64::from(stored(value))).collect()
    }

    fn problem(reference: &str, dtype: DType, small: bool) -> ProblemPlan {
        let pick = |large: u64, tiny: u64| if small { tiny } else { large };
        let row = [pick(6, 1), pick(1024, 5)];
        let (m, k, n, long) = (pick(8, 1), pick(1024, 3), pick(8, 1), [1, 1, pick(128, 3), 16]);
        let (a, b, c, count) = ([m, k], [k, n], [m, n], [pick(40_000, 33)]);
        let shapes: Vec<(&str, &[u64])> = match reference {
            "gemm" => vec![("a", &a), ("b", &b), ("c", &c)],
            "rmsnorm" => vec![("x", &row), ("w", &row[1..]), ("y", &row)],
            "softmax" => vec![("x", &row), ("y", &row)],
            "reduction" => vec![("x", &count), ("out", &[1])],
            _ => vec![("q", &long), ("k", &long), ("v", &long), ("o", &long)],
        };
        problem_of(reference, dtype, &[("CAUSAL", 0)], &shapes)
    }

    fn verdict(
        reference: &str,
        dtype: DType,
        small: bool,
        family: Family,
        seed: u32,
        style: Style,
    ) -> Option<Breach> {
        let plan = problem(reference, dtype, small);
        let operands = operands(&plan, family, seed);
        let answer = operands.answer(reference);
        let own = plan.buffers[answer.buffer].dtype;
        let overflows = |trusted: &Vec<f64>| {
            trusted.iter().zip(&answer.expected).any(|(t, e)| !t.is_finite() && e.is_finite())
        };
        let representable = max_abs(&answer.expected) < element::precision(own).unwrap().largest / 2.0
            && !answer.trusted.as_ref().is_some_and(overflows);
        if !representable {
            // The judge draws smaller inputs then (`Family::magnitudes`).
            return None;
        }
        let shape = OutputShape { dtype: own, family, ..output_shape(&plan, answer.buffer) };
        let bounds = bounds(&check_plan(reference), shape, &AnswerScale::of(&answer));
        judged(&simulate(reference, &operands, style), &answer.expected, &bounds)
    }

    fn judged(actual: &[f64], expected: &[f64], bounds: &Bounds) -> Option<Breach> {
        let blocks = bounds.block.map(|own| blocks_on_host(actual, expected, own.elements, own.floor));
        breach(&on_host(actual, expected, bounds.tolerance), blocks.as_ref(), bounds, CheckSet::default())
    }

    /// An answer of 4,096 rows of 16, and what a kernel makes of it that rounds to f32 and then lies.
    fn lied(dtype: DType, lie: impl Fn(usize, f64) -> f64) -> Option<Breach> {
        let wave = |i: usize| ((i * 2_654_435_761) % 65_536) as f64 / 32_768.0 - 1.0;
        let expected: Vec<f64> = (0..1 << 16).map(wave).collect();
        let answer = ReferenceAnswer { expected, ..ReferenceAnswer::default() };
        let shape = OutputShape { row: 16, ..vector(dtype) };
        let bounds = bounds(&check_plan(""), shape, &AnswerScale::of(&answer));
        let actual: Vec<f64> = answer.expected.iter().enumerate().map(|(i, e)| lie(i, *e)).collect();
        let rounded = element::widen(&element::narrow(&actual, dtype), dtype);
        judged(&rounded, &answer.expected, &bounds)
    }

    #[test]
    fn systematic_errors_inside_the_tolerance_are_found() {
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            assert_eq!(lied(dtype, |_, e| e), None, "{dtype:?}");
            assert!(lied(dtype, |_, e| e * 1.002).is_some(), "scale {dtype:?}");
            assert!(lied(dtype, |_, e| e + 0.001).is_some(), "offset {dtype:?}");
            assert!(lied(dtype, |i, e| if i / 16 == 77 { 0.0 } else { e }).is_some(), "row {dtype:?}");
        }
        let f32 = |lie: &dyn Fn(f64) -> f64| lied(DType::F32, |_, e| lie(e));
        assert_eq!(f32(&|e| e * 1.000_003), Some(Breach::Bias));
        assert_eq!(f32(&|e| e + 4e-6), Some(Breach::Bias));
        // One row of 4,096 that is off by 5e-5 leaves the norm of all rows at 8e-7.
        assert_eq!(lied(DType::F32, |i, e| if i / 16 == 77 { e * 1.000_05 } else { e }), Some(Breach::Block));
        assert_eq!(f32(&|e| (e * 16_384.0).round() / 16_384.0), Some(Breach::Norm));
        assert!(f32(&|e| f64::from(half::f16::from_f64(e).to_f32())).is_some());
        assert_eq!(lied(DType::F16, |_, e| e * 1.000_2), Some(Breach::Bias));
    }

    #[test]
    fn magnified_answers_lean_no_more_than_rounding_does() {
        let expected: Vec<f64> = (0..4096).map(|i| 90.0 * (f64::from(i * 37 % 1021) / 510.0 - 1.0)).collect();
        let answer = ReferenceAnswer { expected, ..ReferenceAnswer::default() };
        let found = |dtype, factor: f64| {
            let shape = OutputShape { family: Family::Large, ..vector(dtype) };
            let scale = AnswerScale::of(&answer).rounded_to(dtype, &answer.expected);
            let bounds = bounds(&check_plan(""), shape, &scale);
            let lied: Vec<f64> =
                answer.expected.iter().map(|e| if e.abs() > 10.0 { e * factor } else { *e }).collect();
            judged(&element::widen(&element::narrow(&lied, dtype), dtype), &answer.expected, &bounds)
        };
        for (dtype, factor) in [(DType::F16, 1.001), (DType::Bf16, 1.01), (DType::F32, 1.000_03)] {
            assert_eq!(found(dtype, 1.0), None, "{dtype:?}");
            assert_eq!(found(dtype, factor), Some(Breach::Bias), "{dtype:?}");
        }
    }

    #[test]
    fn an_error_that_rows_share_allows_for_a_mean_of_its_own_size() {
        let expected: Vec<f64> = (0..4096).map(|at| (f64::from(at) * 0.7).sin()).collect();
        let found = |dtype, shared, offset: f64| {
            let answer = ReferenceAnswer { expected: expected.clone(), shared, ..ReferenceAnswer::default() };
            let bounds = bounds(&check_plan(""), vector(dtype), &AnswerScale::of(&answer));
            let lied: Vec<f64> = expected.iter().map(|value| value + offset).collect();
            judged(&lied, &expected, &bounds)
        };
        assert_eq!(found(DType::F32, 0.0, 5e-6), Some(Breach::Bias));
        assert_eq!(found(DType::F32, 2e-6, 5e-6), None);
        // What single precision shares is nothing beside what a half rounds.
        assert_eq!(found(DType::Bf16, 1e-7, 4e-3), Some(Breach::Bias));
    }

    #[test]
    fn an_output_that_ignores_its_inputs_is_refused_however_little_it_varies() {
        let expected: Vec<f64> = (0..4096).map(|i| 1.0 + 2e-6 * f64::from(i % 7 - 3)).collect();
        let answer = ReferenceAnswer { expected, ..ReferenceAnswer::default() };
        let bounds = bounds(&check_plan(""), vector(DType::F32), &AnswerScale::of(&answer));
        let rounded: Vec<f64> = answer.expected.iter().map(|e| f64::from(*e as f32)).collect();
        assert_eq!(judged(&rounded, &answer.expected, &bounds), None);
        assert_eq!(judged(&[1.0; 4096], &answer.expected, &bounds), Some(Breach::Insensitive));
    }

    const REFERENCES: [&str; 5] = ["gemm", "softmax", "rmsnorm", "reduction", "attention"];

    #[test]
    fn honest_kernels_of_another_order_pass_in_every_family() {
        for reference in REFERENCES {
            for dtype in [DType::F32, DType::F16, DType::Bf16] {
                for family in Family::ALL.iter().copied() {
                    for (small, seeds) in [(false, 2), (true, 12)] {
                        for seed in 0..seeds {
                            let breach = verdict(reference, dtype, small, family, seed, Style::Honest);
                            assert_eq!(breach, None, "{reference} {dtype:?} {family:?} small={small} {seed}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn cheats_fail_on_normal_inputs() {
        for reference in REFERENCES {
            for dtype in [DType::F32, DType::F16] {
                for style in [Style::Drop, Style::Half, Style::Zero] {
                    // One percent of the squares moves rmsnorm by half a percent: seen in f32 and f16.
                    let breach = verdict(reference, dtype, false, Family::Normal, 0, style);
                    assert!(breach.is_some(), "{reference} {dtype:?} {style:?}");
                }
            }
        }
    }

    #[test]
    fn zeros_fail_at_8k_keys_although_they_pass_the_usual_tolerance() {
        // What matters is the size of the output: a mean of 8192 values is about 0.011.
        let answer: ReferenceAnswer = ReferenceAnswer {
            expected: (0..4096).map(|i| 0.011 * f64::from(i % 7 - 3) / 2.0).collect(),
            trusted: Some(
                (0..4096).map(|i| half::f16::from_f64(0.011 * f64::from(i % 7 - 3) / 2.0).to_f64()).collect(),
            ),
            ..ReferenceAnswer::default()
        };
        let zeros = vec![0.0; 4096];
        let usual = Tolerance { atol: 2e-2, rtol: 1e-2 };
        assert_eq!(on_host(&zeros, &answer.expected, usual).mismatches, 0);
        for (trusted, atol) in [(true, None), (false, None), (true, Some(2e-2)), (false, Some(2e-2))] {
            let mut answer = answer.clone();
            answer.trusted = answer.trusted.filter(|_| trusted);
            let check = CheckPlan { atol, ..check_plan("attention") };
            let bounds = bounds(&check, vector(DType::F16), &AnswerScale::of(&answer));
            assert!(judged(&zeros, &answer.expected, &bounds).is_some(), "trusted={trusted} atol={atol:?}");
        }
    }

    #[test]
    fn integers_and_data_movement_compare_exactly() {
        let answer =
            ReferenceAnswer { expected: vec![1.0, 2.0, 3.0], exact: true, ..ReferenceAnswer::default() };
        let own = bounds(&check_plan("transpose"), vector(DType::F16), &AnswerScale::of(&answer));
        let judge = |actual: &[f64]| judged(actual, &answer.expected, &own);
        assert_eq!(judge(&[1.0, 2.0, 3.0]), None);
        assert_eq!(judge(&[1.0, 2.0, 3.0 + 1e-9]), Some(Breach::Elements));
        assert_eq!(judge(&[1.0, f64::NAN, 3.0]), Some(Breach::NonFinite));
    }

    #[test]
    fn a_declared_absolute_tolerance_holds_for_every_rule() {
        let own = problem("softmax", DType::F32, false);
        let scale = AnswerScale { rms: 0.2, max: 0.0, spread: 0.1, ..scale() };
        let kernel = kernel_plan();
        let off = Comparison {
            elements: 4096,
            abs_error_max: 8e-5,
            error_square_sum: 4096.0 * 5e-5 * 5e-5,
            error_sum: 4096.0 * 3e-5,
            expected_square_sum: 4096.0 * 0.2 * 0.2,
            ..Comparison::default()
        };
        let found = |check: &CheckPlan| {
            let bounds = bounds(check, output_shape(&own, 1), &scale);
            breach(&off, None, &bounds, CheckSet::default())
        };
        assert_eq!(found(&kernel), Some(Breach::Norm));
        assert_eq!(found(&CheckPlan { atol: Some(1e-4), ..kernel.clone() }), None);
        assert!(found(&CheckPlan { atol: Some(2e-5), ..kernel }).is_some());
    }

    #[test]
    fn what_single_precision_costs_widens_and_tightens() {
        let own = problem("softmax", DType::F32, false);
        let kernel = kernel_plan();
        let norm_of = |check: &CheckPlan, error: f64, uncertain: u64| {
            let single = TrustedError { max: 3.0 * error, norm: 64.0 * error, ..Default::default() };
            let scale = AnswerScale { single: Some(single), uncertain, ..scale() };
            bounds(check, output_shape(&own, 1), &scale).norm / 64.0
        };
        assert!(norm_of(&kernel, 1e-7, 0) < 2.5e-6);
        assert!((norm_of(&kernel, 1e-4, 0) - 8e-4).abs() < 1e-6);
        assert!(norm_of(&kernel, 0.1, 0) < 0.011, "a reference that jumps does not open the gate");
        for lenient in [
            CheckPlan { trusted_factor: 0.0, ..kernel.clone() },
            CheckPlan { fast_math: true, ..kernel.clone() },
            CheckPlan { rtol: Some(1e-7), ..kernel.clone() },
        ] {
            assert!((norm_of(&lenient, 1e-7, 0) - 1e-5).abs() < 1e-7);
        }
        assert!(norm_of(&kernel, 1e-7, 3) > 9e-6);
    }

    #[test]
    fn as_many_integers_may_differ_as_rounding_decides() {
        let own = plan(
            "p",
            &[],
            vec![buffer("x", DType::F32, &[64], Role::Input), buffer("y", DType::I32, &[64], Role::Output)],
        );
        let kernel = kernel_plan();
        let found = |jumps, mismatches| {
            let scale =
                AnswerScale { elements: 64, finite: 64, exact: true, jumps, ..AnswerScale::default() };
            let comparison = Comparison {
                elements: 64,
                mismatches,
                error_square_sum: mismatches as f64,
                abs_error_max: mismatches as f64,
                ..Comparison::default()
            };
            breach(&comparison, None, &bounds(&kernel, output_shape(&own, 1), &scale), CheckSet::default())
        };
        assert_eq!(found(0, 0), None);
        assert!(found(0, 1).is_some());
        assert_eq!(found(2, 4), None);
        assert_eq!(found(2, 5), Some(Breach::Elements));
    }
}
