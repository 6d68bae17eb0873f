//! From an answer to the numbers that an output is compared with, rule by rule of `compare`.

use evo_device::device::Tolerance;
use evo_protocol::check::GateCheck;
use evo_protocol::dtype::DType;
use evo_protocol::worker::{CheckPlan, ReferencePlan};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::element::{self, Precision};
use super::inputs::Family;
use super::reference::{ReferenceAnswer, finite_sums, max_abs, pair_sums};

pub const FEW: usize = 1024;

/// No more than this share of a plain answer is ever put down to rounding: a reference that jumps (a comparison, an
/// argmax) must not open the gate.
pub const SHARE_MAX: f64 = 0.01;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrustedError {
    pub max: f64,
    /// ‖error‖ (Frobenius).
    pub norm: f64,
    /// Mean signed error.
    pub mean: f64,
    /// ⟨error, expected⟩ / ⟨expected, expected⟩.
    pub slope: f64,
}

impl TrustedError {
    /// From sums over errors and values: error², error, error · value, value².
    pub fn of(max: f64, elements: u64, [square, sum, dot, size]: [f64; 4]) -> TrustedError {
        let slope = if size > 0.0 { dot / size } else { 0.0 };
        TrustedError { max, norm: square.sqrt(), mean: sum / elements.max(1) as f64, slope }
    }
}

/// What the policy needs to know of an expected output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AnswerScale {
    pub elements: u64,
    /// Root mean square of the finite values.
    pub rms: f64,
    pub max: f64,
    /// Root mean square of the distance from the mean: what the inputs decide.
    pub spread: f64,
    pub finite: u64,
    /// √(n Σ expected⁴) / Σ expected²: 1 where all elements are alike, large where a few outweigh the rest.
    pub tail: f64,
    /// [`ReferenceAnswer::shared`].
    pub shared: f64,
    pub exact: bool,
    pub noise_max: f64,
    pub noise_rms: f64,
    /// Elements that rounding alone decides.
    pub jumps: u64,
    pub trusted: Option<TrustedError>,
    pub single: Option<TrustedError>,
    /// How far rounding to the output's own type leans by itself (mean and slope): few different values round the
    /// same way again and again.
    pub rounding: (f64, f64),
    /// How many elements are far less certain than the others.
    pub uncertain: u64,
    pub uncertain_max: f64,
}

impl AnswerScale {
    pub fn of(answer: &ReferenceAnswer) -> AnswerScale {
        let max = max_abs(&answer.expected);
        let [finite, sum] = finite_sums(&answer.expected, |value| [1.0, value]);
        let mean = sum / finite.max(1.0);
        let largest = if max > 0.0 { max } else { 1.0 };
        let sums = finite_sums(&answer.expected, |value| {
            let scaled = (value / largest) * (value / largest);
            [value * value, (value - mean) * (value - mean), scaled, scaled * scaled]
        });
        AnswerScale {
            trusted: answer.trusted.as_ref().map(|trusted| trusted_error(trusted, &answer.expected)),
            single: answer.single.as_ref().map(|single| {
                let mut certain = single.clone();
                for (index, _) in &answer.uncertain {
                    certain[*index as usize] = answer.expected[*index as usize];
                }
                trusted_error(&certain, &answer.expected)
            }),
            ..AnswerScale::of_sums([finite, max], answer.expected.len() as u64, sums).looked_at(answer)
        }
    }

    /// From the sums of squares, of squared distances from the mean, and of the second and the fourth power beside `max`.
    pub fn of_sums(
        [finite, max]: [f64; 2],
        elements: u64,
        [square, distance, scaled_square, scaled_fourth]: [f64; 4],
    ) -> AnswerScale {
        let count = finite.max(1.0);
        AnswerScale {
            elements,
            rms: (square / count).sqrt(),
            max,
            spread: (distance / count).sqrt(),
            finite: finite as u64,
            tail: if max > 0.0 { (finite * scaled_fourth).sqrt() / scaled_square } else { 1.0 },
            ..AnswerScale::default()
        }
    }

    /// With how certain an answer has been found to be.
    pub fn looked_at<L>(self, answer: &ReferenceAnswer<L>) -> AnswerScale {
        AnswerScale {
            shared: answer.shared,
            exact: answer.exact,
            noise_max: answer.noise.max,
            noise_rms: answer.noise.rms,
            jumps: answer.jumps,
            uncertain: answer.uncertain.len() as u64,
            uncertain_max: answer.uncertain.iter().map(|(_, allowed)| *allowed).fold(0.0, f64::max),
            ..self
        }
    }

    /// Adds what rounding to a half does; other types are fine enough.
    pub fn rounded_to(self, dtype: DType, expected: &[f64]) -> AnswerScale {
        if !matches!(dtype, DType::F16 | DType::Bf16) {
            return self;
        }
        let error = trusted_error(&element::widen(&element::narrow(expected, dtype), dtype), expected);
        AnswerScale { rounding: (error.mean.abs(), error.slope.abs()), ..self }
    }
}

fn trusted_error(trusted: &[f64], expected: &[f64]) -> TrustedError {
    let error = |t: f64, e: f64| if t.is_finite() && e.is_finite() { t - e } else { 0.0 };
    let sums = pair_sums(trusted, expected, |t, e| {
        let error = error(t, e);
        let e = if t.is_finite() && e.is_finite() { e } else { 0.0 };
        [error * error, error, error * e, e * e]
    });
    let pairs = trusted.par_iter().zip(expected);
    let max = pairs.with_min_len(CHUNK).map(|(t, e)| error(*t, *e).abs()).reduce(|| 0.0, f64::max);
    TrustedError::of(max, expected.len() as u64, sums)
}

/// Elements that one task looks at: waking a thread takes longer than looking at a few thousand.
const CHUNK: usize = 1 << 16;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Oddities {
    pub elements: u64,
    pub finite: u64,
    pub first_nan: Option<u64>,
    /// The first NaN or infinity, and which.
    pub first_special: Option<(u64, f64)>,
    pub max: f64,
    /// Whether a computation in the output's own type is not finite where the answer is.
    pub overflows: bool,
}

impl Oddities {
    pub fn of(answer: &ReferenceAnswer, family: Family) -> Oddities {
        let expected = &answer.expected;
        let first_special = first(expected, |value| !value.is_finite());
        let overflows = |trusted: &Vec<f64>| {
            let pairs = trusted.par_chunks(CHUNK).zip(expected.par_chunks(CHUNK));
            pairs.any(|(t, e)| t.iter().zip(e).any(|(t, e)| !t.is_finite() && e.is_finite()))
        };
        // Plain inputs are to be met as they are, whatever single precision makes of them, and so are special ones.
        let single = answer.single.as_ref().filter(|_| !matches!(family, Family::Normal | Family::Special));
        let special = first_special.is_some();
        Oddities {
            elements: expected.len() as u64,
            finite: match special {
                true => expected.iter().filter(|value| value.is_finite()).count() as u64,
                false => expected.len() as u64,
            },
            first_nan: first(expected, f64::is_nan).filter(|_| special).map(|index| index as u64),
            first_special: first_special.map(|index| (index as u64, expected[index])),
            max: max_abs(expected),
            overflows: answer.trusted.as_ref().or(single).is_some_and(overflows),
        }
    }
}

/// The first value for which `holds` does, on all cores where they are many.
fn first(values: &[f64], holds: impl Fn(f64) -> bool + Sync) -> Option<usize> {
    values.par_chunks(CHUNK).enumerate().find_map_first(|(number, some)| {
        some.iter().position(|value| holds(*value)).map(|place| number * CHUNK + place)
    })
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Rule 2.
    pub tolerance: Tolerance,
    /// Rule 2: how many elements may be outside.
    pub jumps: u64,
    /// Rule 3: largest ‖error‖.
    pub norm: f64,
    /// Rule 4: largest error of an element.
    pub max: Option<f64>,
    /// Rule 5: largest ‖error‖ of a block beside its size.
    pub block: Option<BlockBound>,
    /// Rule 6.
    pub bias: Option<BiasBound>,
    /// Rule 7: largest ‖error‖ of an output that depends on its inputs.
    pub varied: Option<f64>,
}

/// Rule 5.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockBound {
    pub elements: u64,
    /// Largest ‖error‖ / (‖expected‖ + floor·√elements).
    pub ratio: f64,
    /// What an element may miss in a block of zeros, as a size of the answer.
    pub floor: f64,
}

/// What is left when rounding has averaged out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BiasBound {
    /// Of |Σ error| / n, in units of the output.
    pub mean: f64,
    /// Of |⟨error, expected⟩| / ⟨expected, expected⟩.
    pub slope: f64,
    /// Standard errors of the slope beside those of an answer whose elements are all alike.
    pub tail: f64,
}

/// What is allowed of an output's own size, by its type.
struct Shares {
    /// Of an element, beside its own value and beside the root mean square of all.
    element: f64,
    norm: f64,
    /// Relative error that may be the same in all elements: approximate exp and reciprocals have a little.
    bias: f64,
    /// Spacings allowed for approximate exp, division and reordering, in units of rounding.
    units: f64,
    /// From this length on the shares of a sum of equal or sorted terms grow: sums of halves are kept in f32. A running
    /// variance of 2,000 sorted f32 values that lie far from zero is off by 0.2 %.
    length_alike: f64,
}

fn shares(dtype: DType) -> Shares {
    let of = |element, norm, bias, units, length_alike| Shares { element, norm, bias, units, length_alike };
    match dtype {
        // Rounding the output alone gives a norm of 2e-4 (f16) and 1.7e-3 (bf16). Twice that is usual, since
        // kernels and references may round on the way as well.
        DType::F16 => of(1e-2, 1e-3, 6e-5, 2.0, 4096.0),
        DType::Bf16 => of(5e-2, 8e-3, 5e-4, 2.0, 4096.0),
        // A chain of a thousand f32 additions has a norm of about 2e-6; rounding to 14 bits has 2e-5.
        DType::F32 => of(1e-4, 1e-5, 2.5e-6, 64.0, 512.0),
        // The same multiples of rounding as f32, and some more for references in another order.
        _ => of(5e-13, 5e-14, 1e-14, 64.0, 512.0),
    }
}

/// Errors of a sum grow with the root of its length: from this length on the default shares grow too.
const LENGTH: f64 = 65_536.0;
/// Terms that a chain of sums has at least, as a root: a few hundred are within what the shares allow.
const CHAIN: f64 = 16.0;
/// By how many times the errors of a stress family may be larger than those of plain inputs.
const STRESS: f64 = 10.0;
/// Where values are equal or sorted and no computation of the same kind is known, for the norm and for an element: a
/// running mean rounds the same way at each of its steps, and is a hundred times as far off as the sum of a reference.
/// Halves have no room for that: 100 times their share is a tenth of the answer.
const STRESS_ALIKE: (f64, f64) = (100.0, 40.0);
/// Spacings of f32 are so many times wider for such sums, whose errors add up instead of canceling.
const SLACK_ALIKE: f64 = 8.0;
/// Rule 5: a row's error varies more than the whole output's.
const BLOCK_FACTOR: f64 = 4.0;
/// Rule 5: elements this far below the output's root mean square count as nothing.
const BLOCK_FLOOR: f64 = 0.05;
/// Rows shorter than this, and longer than that, are not looked at row by row.
const BLOCK: std::ops::RangeInclusive<u64> = 8..=1 << 16;
/// Integers that rounding decides: how many more of them there may be than the reference showed.
const JUMPS_FACTOR: u64 = 2;
/// Rule 7: the share of the answer's variation that the error may take.
const UNEXPLAINED: f64 = 0.5;
/// What single precision may cost a kernel beside the reference: the same angle by another formula, the same sum in
/// another order, is a few times as far off.
const SINGLE: f64 = 8.0;
/// The least norm of errors that an output is held to where single precision costs the reference less, in units of
/// rounding: other orders of a sum, approximate exp and reciprocals stay below, and rounding an operand to 16 bits is
/// above.
const STRICT_NORM: f64 = 40.0;
/// The same for an error that all elements share.
const STRICT_BIAS: f64 = 16.0;
/// The same where nothing shows what single precision costs, and no tensor core rounds sums down.
const BIAS_F32: f64 = 1.5e-6;
/// The same for bf16, whose default allows for a reference that rounds on the way too.
const BIAS_SHOWN: f64 = 1.5e-4;
/// So many uncertain elements come with one that looks certain by luck, and no more than so many are excused.
const PER_LUCKY: u64 = 16;
const LUCKY_MAX: u64 = 2;
/// Spacings of subnormal numbers by which honest kernels may differ where only one input is subnormal.
const FEW_SUBNORMALS: f64 = 4096.0;

#[derive(Clone, Copy, Debug)]
pub struct OutputShape {
    pub dtype: DType,
    pub family: Family,
    /// Elements of its last extent: a row.
    pub row: u64,
    /// How many input elements there are for each element of the output: about the length of its sums.
    pub length: f64,
    /// Whether every floating-point buffer is f32: halves may meet in a tensor core, which rounds sums down.
    pub all_f32: bool,
    /// The second kind of the subnormal family: all other inputs are plain.
    pub one_is_subnormal: bool,
}

pub fn bounds(check: &CheckPlan, shape: OutputShape, scale: &AnswerScale) -> Bounds {
    let OutputShape { dtype, family, length, .. } = shape;
    // Integers and data movement do not round, so nothing but equality is right.
    let Some(precision) = element::precision(dtype).filter(|_| !scale.exact) else {
        return exact(scale);
    };
    let unit = precision.unit;
    let (plain, many) = (family == Family::Normal, scale.elements >= FEW as u64);
    let alike = matches!(family, Family::Constant | Family::Ramp | Family::Mixed);
    let is_fine = matches!(dtype, DType::F32 | DType::F64);
    let is_own = check.reference.is_own();
    let is_declared = check.atol.is_some() || check.rtol.is_some();
    let is_strict = !is_declared && !check.fast_math;
    let is_calibrated = check.trusted_factor > 0.0;
    let count = scale.finite.max(1) as f64;
    let size = scale.rms * count.sqrt();
    let smallest = smallest(check, shape, scale, &precision);

    // What an honest computation does on these inputs.
    let trusted = scale.trusted.filter(|_| is_calibrated);
    let is_judged = is_calibrated && check.checks.include(GateCheck::SinglePrecision);
    let single = scale.single.filter(|_| is_judged);
    // The noise of a user's reference is larger for long sums. The last bits of the inputs do not show all that a chain of
    // sums adds in f32: its partial sums are larger than their terms by the root of their number. Single precision shows
    // what a chain costs, if there are outputs enough.
    let is_shown = scale.single.is_some() && many;
    let chain = if is_own && !is_shown { (length.sqrt() / CHAIN).max(1.0) } else { 1.0 };
    let (noise_max, noise_rms) = (scale.noise_max * chain, scale.noise_rms * chain);

    // What is allowed beside it. Equal or sorted terms round alike, and their errors add up instead of canceling.
    let mut shares = shares(dtype);
    let growth = if alike { length / shares.length_alike } else { (length / LENGTH).sqrt() }.max(1.0);
    (shares.norm, shares.bias) = (shares.norm * growth, shares.bias * growth);
    if dtype == DType::F64 && plain && many && is_own && is_judged && is_strict {
        // An answer of 44 bits is within the default share. What the reference itself rounds is measured and comes on
        // top, and no sum has more terms than there are inputs.
        let inputs = length * scale.elements as f64;
        shares.norm = shares.norm.min(STRICT_NORM * unit * (inputs / LENGTH).sqrt().max(1.0));
    }
    let is_tight = single.is_some() && plain && many && shape.all_f32 && is_strict && scale.uncertain == 0;
    if is_tight {
        (shares.norm, shares.bias) = (STRICT_NORM * unit * growth, STRICT_BIAS * unit * growth);
    }
    if dtype == DType::F32 && shape.all_f32 && is_strict {
        shares.bias = shares.bias.min(BIAS_F32 * growth);
    }
    if dtype == DType::Bf16 && single.is_some() {
        shares.bias = shares.bias.min(BIAS_SHOWN);
    }
    // The stress families amplify rounding.
    let (stress_norm, stress_element) = match plain {
        true => (1.0, 1.0),
        false if alike && is_own && is_fine => STRESS_ALIKE,
        false => (STRESS, STRESS),
    };
    let stress_element = if trusted.is_some() { 1.0 } else { stress_element };
    let slack = shares.units * unit * if alike && dtype == DType::F32 { SLACK_ALIKE } else { 1.0 };

    // Rules 3 and 4. A reference that takes another branch in f32 must not open the gate.
    let single_most = if plain && many { SHARE_MAX * size } else { f64::INFINITY };
    let single_norm = single.map_or(0.0, |own| (SINGLE * own.norm).min(single_most));
    let norm = match trusted {
        // A trusted computation may be exact by luck, above all on a small output. Plain rounding must pass even then.
        Some(trusted) => {
            let floor = slack / 2.0 * (1.0 + 2.0 / count.sqrt()) * size;
            (check.trusted_factor * trusted.norm).max(floor)
        }
        None => (stress_norm * shares.norm * size).max(single_norm),
    };
    let norm = norm + (noise_rms + smallest) * count.sqrt();
    let known_max = match (trusted, single.filter(|_| is_tight)) {
        (Some(trusted), _) => Some(check.trusted_factor * trusted.max),
        (None, single) => single.map(|single| SINGLE * single.max),
    };
    let max = known_max.map(|known| known + slack * scale.max + noise_max + smallest);

    // Rule 2: what the file declares, or else what the answer's size gives.
    let relative = stress_element * shares.element * scale.rms + noise_max;
    let relative = relative.max(max.unwrap_or(0.0)) + smallest;
    let atol = relative.max(single.map_or(0.0, |own| SINGLE * own.max + noise_max));
    let tolerance = match is_declared {
        false => Tolerance { atol, rtol: stress_element * shares.element },
        true => {
            // Declared for the kernel; the reference's own error comes on top. And an absolute tolerance is meant for the
            // file's own inputs; other families scale.
            let own = check.atol.unwrap_or(0.0) + noise_max;
            Tolerance { atol: if plain { own } else { own.max(atol) }, rtol: check.rtol.unwrap_or(0.0) }
        }
    };
    // A declared tolerance says how accurate the kernel means to be, a table with few entries for example.
    let declared = check.atol.unwrap_or(0.0) * count.sqrt() + check.rtol.unwrap_or(0.0) * size;
    let norm = norm.max(declared);
    let of_size = |norm: f64| if size > 0.0 { norm / size } else { 0.0 };

    // Rules 5, 6 and 7.
    let is_looked_at = count >= 64.0;
    let has_rows = BLOCK.contains(&shape.row) && shape.row < scale.elements;
    let block = (plain && is_looked_at && has_rows).then(|| BlockBound {
        elements: shape.row,
        ratio: BLOCK_FACTOR * of_size(norm),
        floor: BLOCK_FLOOR * scale.rms,
    });
    let magnified = family == Family::Large;
    let share = shares.bias.max(of_size(declared) / 2.0) * if magnified { STRESS } else { 1.0 };
    // The last bits of inputs move answers to both sides, and single precision has shown what leans.
    let noise = if single.is_some() { 0.0 } else { noise_rms };
    // Answers that are nearly equal round alike, and then rounding is a bias.
    let leans = (plain || magnified) && is_looked_at && scale.spread > 0.1 * scale.rms;
    let bias = leans.then(|| {
        let known = trusted.or(single).unwrap_or_default();
        BiasBound {
            mean: share * scale.rms
                + noise
                + 3.0 * known.mean.abs()
                + SINGLE * scale.shared
                + scale.rounding.0,
            slope: share + noise / scale.rms.max(smallest) + 3.0 * known.slope.abs() + scale.rounding.1,
            tail: scale.tail.max(1.0),
        }
    });
    let resolution = (4.0 * unit * scale.rms + noise_rms + smallest) * count.sqrt();
    let varied = (plain && is_looked_at).then(|| (UNEXPLAINED * scale.spread * count.sqrt()).max(resolution));

    // Where a few large inputs stand among small ones, the elements that they reach are uncertain, and the error in single
    // precision, which tells them apart, is small by chance at some. Other last bits of the inputs do not help where the
    // error is that of an angle or a weight, which the inputs do not move.
    let lucky = if plain || max.is_some() { 0 } else { (scale.uncertain / PER_LUCKY).min(LUCKY_MAX) };
    let lucky_max = scale.uncertain_max.max(tolerance.atol + tolerance.rtol * scale.max);
    let max = max.or((lucky > 0).then_some(lucky_max));
    Bounds { tolerance, jumps: lucky, norm, max, block, bias, varied }
}

fn exact(scale: &AnswerScale) -> Bounds {
    match scale.jumps {
        0 => Bounds { max: Some(0.0), ..Bounds::default() },
        // Few runs of the reference do not show all jumps.
        jumps => Bounds { jumps: JUMPS_FACTOR * jumps, norm: f64::INFINITY, ..Bounds::default() },
    }
}

/// What an element may miss whatever its size: a few subnormal spacings, because where the answer is zero every relative
/// bound is zero too.
fn smallest(check: &CheckPlan, shape: OutputShape, scale: &AnswerScale, precision: &Precision) -> f64 {
    // fp64 holds what underflows on the way in a smaller type, so there a few times the smallest normal number may be 0.
    let wide = check.reference_f64 || matches!(check.reference, ReferencePlan::Builtin { .. });
    match shape.family == Family::Subnormal && wide {
        // Nothing small is multiplied by anything small there, and the build in single precision shows the rest.
        true if shape.one_is_subnormal && scale.single.is_some() => FEW_SUBNORMALS * precision.smallest,
        true => 2.0 * precision.smallest / precision.unit,
        false => 4.0 * precision.smallest,
    }
}

#[cfg(test)]
mod tests {
    use evo_device::device::Comparison;
    use evo_protocol::check::CheckSet;

    use super::*;
    use crate::judge::compare::{Breach, breach};
    use crate::judge::reference::testing::{kernel_plan, scale, vector};

    #[test]
    fn few_different_values_round_the_same_way_and_dropped_bits_lean_all_the_same() {
        // Whole numbers times one scale, as weights of four bits are.
        let expected: Vec<f64> = (0..256).map(|at| f64::from(at * 7 % 31 - 15) * 0.8982).collect();
        let answer = ReferenceAnswer { expected, ..ReferenceAnswer::default() };
        let rounded = element::widen(&element::narrow(&answer.expected, DType::F16), DType::F16);
        let cut = |value: &f64| f64::from_bits(value.to_bits() >> 44 << 44);
        let dropped: Vec<f64> = rounded.iter().map(cut).collect();
        let shape = OutputShape { row: 256, all_f32: false, ..vector(DType::F16) };
        let kernel = kernel_plan();
        let found = |actual: &[f64], scale: &AnswerScale| {
            let bounds = bounds(&kernel, shape, scale);
            let compared = crate::judge::compare::on_host(actual, &answer.expected, bounds.tolerance);
            breach(&compared, None, &bounds, CheckSet::default())
        };
        let scale = AnswerScale::of(&answer);
        assert_eq!(found(&rounded, &scale), Some(Breach::Bias), "what this test is about");
        let scale = scale.rounded_to(DType::F16, &answer.expected);
        assert_eq!(found(&rounded, &scale), None);
        assert!(found(&dropped, &scale).is_some());
    }

    #[test]
    fn few_elements_may_look_certain_by_luck_where_many_are_not() {
        let kernel = kernel_plan();
        let found = |family: Family, uncertain: u64, mismatches: u64, error: f64| {
            let single = Some(Default::default());
            let (max, noise_rms, uncertain_max) = (1000.0, 1.0, 2.0);
            let scale = AnswerScale { max, single, uncertain, uncertain_max, noise_rms, ..scale() };
            let comparison = Comparison {
                elements: 4096,
                mismatches,
                error_square_sum: mismatches as f64 * error * error,
                abs_error_max: error,
                ..Comparison::default()
            };
            let shape = OutputShape { family, row: 64, ..vector(DType::F32) };
            let bounds = bounds(&kernel, shape, &scale);
            breach(&comparison, None, &bounds, CheckSet::default())
        };
        assert_eq!(found(Family::Spikes, 40, 2, 1.9), None);
        assert_eq!(found(Family::Spikes, 40, 3, 1.9), Some(Breach::Elements));
        assert_eq!(found(Family::Spikes, 16, 2, 1.9), Some(Breach::Elements));
        assert_eq!(found(Family::Spikes, 15, 1, 1.9), Some(Breach::Elements));
        assert_eq!(found(Family::Spikes, 40, 1, 3.0), Some(Breach::Trusted), "beyond what any may miss");
        assert_eq!(found(Family::Normal, 40, 1, 1.9), Some(Breach::Elements));
    }
}
