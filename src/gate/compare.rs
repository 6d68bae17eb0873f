//! The tolerance policy: how far an output may be from the fp64 answer, and in what sense.
//!
//! A fixed absolute tolerance is no test: at S = 8192 an attention output is about 0.01 in size, so an
//! all-zero output passes `atol = 1e-2`. Every bound here is relative to the expected output's own
//! size, or to the error that a trusted computation of the same data type makes on the same inputs:
//!
//! 1. no NaN or infinity where the answer is finite;
//! 2. each element within `atol + rtol·|expected|`, `atol` a share of the expected root mean square;
//! 3. ‖error‖ within a share of ‖expected‖ (Frobenius);
//! 4. the largest error within `trusted_factor` × the trusted computation's, plus a few spacings.
//!
//! A space file's own `atol` and `rtol` replace rule 2 and leave the others; `trusted_factor = 0`
//! switches rule 4 and the calibrated part of 3 off (for kernels that use tf32 on purpose).

use evo_device::device::{Comparison, Tolerance};
use evo_protocol::dtype::DType;
use evo_protocol::worker::CheckPlan;
use serde::{Deserialize, Serialize};

use super::element::{self, Precision};
use super::inputs::Family;
use super::reference::{Answer, max_abs, rms};

/// Error of the trusted computation against fp64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Largest absolute error.
    pub max: f64,
    /// ‖error‖ (Frobenius).
    pub norm: f64,
}

/// What the policy needs to know of an expected output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    pub elements: u64,
    pub rms: f64,
    pub max: f64,
    /// No error allowed.
    pub exact: bool,
    pub noise_max: f64,
    pub noise_rms: f64,
    pub trusted: Option<Calibration>,
}

impl Scale {
    /// Measures an answer.
    pub fn of(answer: &Answer) -> Scale {
        Scale {
            elements: answer.expected.len() as u64,
            rms: rms(&answer.expected),
            max: max_abs(&answer.expected),
            exact: answer.exact,
            noise_max: answer.noise.max,
            noise_rms: answer.noise.rms,
            trusted: answer.trusted.as_ref().map(|trusted| {
                let errors = trusted.iter().zip(&answer.expected).map(|(t, e)| t - e);
                let fold =
                    |(max, square): (f64, f64), error: f64| (error.abs().max(max), square + error * error);
                let (max, square) = errors.fold((0.0, 0.0), fold);
                Calibration { max, norm: square.sqrt() }
            }),
        }
    }
}

/// Numbers to hold an output against.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// Rule 2.
    pub tolerance: Tolerance,
    /// Rule 3: largest ‖error‖.
    pub norm: f64,
    /// Rule 4: largest error of an element.
    pub max: Option<f64>,
}

/// Default shares by data type, for references without a trusted computation.
struct Shares {
    atol: f64,
    rtol: f64,
    norm: f64,
    /// Spacings allowed for approximate exp, division and reordering, in units of rounding.
    units: f64,
}

fn shares(dtype: DType) -> Shares {
    match dtype {
        DType::F16 => Shares { atol: 1e-2, rtol: 1e-2, norm: 2e-3, units: 2.0 },
        DType::Bf16 => Shares { atol: 5e-2, rtol: 5e-2, norm: 1.2e-2, units: 2.0 },
        DType::F32 => Shares { atol: 1e-3, rtol: 1e-3, norm: 1e-4, units: 64.0 },
        _ => Shares { atol: 1e-9, rtol: 1e-9, norm: 1e-10, units: 64.0 },
    }
}

/// The bounds for one output of one case.
pub fn bounds(check: &CheckPlan, dtype: DType, family: Family, scale: &Scale) -> Bounds {
    let Some(precision) = element::precision(dtype).filter(|_| !scale.exact) else {
        return Bounds { tolerance: Tolerance { atol: 0.0, rtol: 0.0 }, norm: 0.0, max: Some(0.0) };
    };
    let shares = shares(dtype);
    let count = scale.elements.max(1) as f64;
    let size = scale.rms * count.sqrt();
    let smallest = 4.0 * precision.smallest;
    let trusted = scale.trusted.filter(|_| check.trusted_factor > 0.0);
    let (max, norm) = match trusted {
        Some(trusted) => {
            let slack = slack(&precision, shares.units, family, dtype);
            let max = check.trusted_factor * trusted.max + slack * scale.max + scale.noise_max + smallest;
            let floor = slack / 2.0 * (1.0 + 2.0 / count.sqrt()) * size;
            let norm = (check.trusted_factor * trusted.norm).max(floor)
                + (scale.noise_rms + smallest) * count.sqrt();
            (Some(max), norm)
        }
        None => {
            // Both sides round, and stress families amplify what both round.
            let stress = if family == Family::Normal { 1.0 } else { 10.0 };
            (None, stress * shares.norm * size + (scale.noise_rms + smallest) * count.sqrt())
        }
    };
    let stress = if trusted.is_none() && family != Family::Normal { 10.0 } else { 1.0 };
    let relative = (stress * shares.atol * scale.rms).max(max.unwrap_or(0.0)) + smallest;
    let tolerance = match (check.atol, check.rtol) {
        (None, None) => Tolerance { atol: relative, rtol: stress * shares.rtol },
        (atol, rtol) => {
            let own = atol.unwrap_or(0.0);
            // An absolute tolerance is meant for the file's own inputs; other families scale.
            let atol = if family == Family::Normal { own } else { own.max(relative) };
            Tolerance { atol, rtol: rtol.unwrap_or(0.0) }
        }
    };
    Bounds { tolerance, norm, max }
}

/// Rounding that any order of f32 operations may show, relative to the output.
fn slack(precision: &Precision, units: f64, family: Family, dtype: DType) -> f64 {
    // Equal or sorted terms round the same way again and again: errors of a sum add up, not cancel.
    let biased = matches!(family, Family::Constant | Family::Ramp) && dtype == DType::F32;
    units * precision.unit * if biased { 8.0 } else { 1.0 }
}

/// Which rule an output breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Breach {
    /// Rule 1.
    NonFinite,
    /// Rule 2.
    Elements,
    /// Rule 3.
    Norm,
    /// Rule 4.
    Trusted,
}

impl Breach {
    /// What to say of it.
    pub fn describe(self) -> &'static str {
        match self {
            Breach::NonFinite => "NaN or infinity where the answer is finite",
            Breach::Elements => "elements are outside the tolerance",
            Breach::Norm => "the error is too large a share of the output",
            Breach::Trusted => "the largest error exceeds that of a trusted computation",
        }
    }
}

/// The first rule that a comparison breaks.
pub fn breach(comparison: &Comparison, bounds: &Bounds) -> Option<Breach> {
    // Written so that a NaN in a sum counts as a breach.
    let within = |value: f64, bound: f64| value <= bound;
    if comparison.non_finite > 0 {
        Some(Breach::NonFinite)
    } else if comparison.mismatches > 0 {
        Some(Breach::Elements)
    } else if !within(comparison.error_square_sum.sqrt(), bounds.norm) {
        Some(Breach::Norm)
    } else if !bounds.max.is_none_or(|bound| within(comparison.abs_error_max, bound)) {
        Some(Breach::Trusted)
    } else {
        None
    }
}

/// Compares on the processor: the definition that a device's own `compare` follows.
#[cfg(test)]
pub fn on_host(actual: &[f64], expected: &[f64], tolerance: Tolerance) -> Comparison {
    let mut result = Comparison { elements: expected.len() as u64, ..Comparison::default() };
    for (index, (a, e)) in actual.iter().zip(expected).enumerate() {
        let error = a - e;
        let non_finite = !a.is_finite() && e.is_finite();
        let inside = error.abs() <= tolerance.atol + tolerance.rtol * e.abs();
        result.non_finite += u64::from(non_finite);
        if !inside {
            result.mismatches += 1;
            if result.first_bad.is_none() {
                result.first_bad = Some(index as u64);
                (result.first_bad_actual, result.first_bad_expected) = (*a, *e);
            }
        }
        result.expected_square_sum += e * e;
        if non_finite {
            continue;
        }
        if error.abs() > result.abs_error_max {
            (result.abs_error_max, result.abs_error_max_index) = (error.abs(), index as u64);
        }
        result.error_square_sum += error * error;
        result.error_sum += error;
    }
    result
}

/// Coordinates of a flat index, outermost first.
pub fn coordinates(index: u64, shape: &[u64]) -> Vec<u64> {
    let mut rest = index;
    let mut out: Vec<u64> = shape
        .iter()
        .rev()
        .map(|extent| {
            let extent = (*extent).max(1);
            let own = rest % extent;
            rest /= extent;
            own
        })
        .collect();
    out.reverse();
    out
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
