//! How much a point is worth measuring, from its prediction. Smaller targets are better.
//!
//! Expected improvement is due to Mockus (1975; Jones, Schonlau and Welch 1998): for a prediction with mean
//! `m` and standard deviation `s`, and `z = (best - m) / s`, it is `s (φ(z) + z Φ(z))`, with `φ` and `Φ` the
//! density and distribution function of the standard normal. For negative `z` the two terms cancel, so the
//! tail is computed as a logarithm (Ament et al., "Unexpected improvements to expected improvement",
//! arxiv.org/abs/2310.20708).
//!
//! The standard normal distribution is accurate in its far tails: `erf` by its power series near 0 and `erfc` by
//! Legendre's continued fraction beyond (Abramowitz and Stegun, 7.1.6 and 7.1.14), each with a relative error of
//! about 1e-14, also where the value is tiny.

use std::f64::consts::{FRAC_PI_2, PI, SQRT_2};
use std::sync::OnceLock;

use crate::model::ModelPrediction;

/// How far the target is expected to fall below `best`, in units of the target.
pub(crate) fn expected_improvement(prediction: ModelPrediction, best: f64) -> f64 {
    let gain = best - prediction.mean;
    if prediction.spread > 0.0 {
        prediction.spread * improvement(gain / prediction.spread)
    } else {
        gain.max(0.0)
    }
}

/// `φ(z) + z Φ(z)`: the expected improvement in standard deviations.
fn improvement(z: f64) -> f64 {
    if z > -1.0 { density(z) + z * below(z) } else { log_improvement(z).exp() }
}

/// The logarithm of `improvement` for `z` up to -1: `ln φ(z) + ln(1 - |z| √(π/2) erfcx(|z| / √2))`, where
/// `erfcx` carries the tail without underflow (Ament et al., section 4 and appendix).
fn log_improvement(z: f64) -> f64 {
    /// Beyond this the difference in the logarithm cancels more digits than the asymptotic series leaves out:
    /// `φ(z) (1/z² - 3/z⁴ + 15/z⁶ - 105/z⁸)`.
    const FAR: f64 = -25.0;
    let scale = -0.5 * z * z - LN_SQRT_2PI;
    if z > FAR {
        return scale + (-z.abs() * FRAC_PI_2.sqrt() * erfcx(-z / SQRT_2)).ln_1p();
    }
    let inverse = 1.0 / (z * z);
    scale + inverse.ln() + (-inverse * (3.0 - inverse * (15.0 - 105.0 * inverse))).ln_1p()
}

const STEPS: f64 = 64.0;

const Z_MAX: f64 = 16.0;

/// In their order, by interpolation in a table, since the exact formula takes several exponentials for each: within
/// 0.02 %. Below `z` = -16 it gives 0 (the exact value is below 1e-58 spreads), above 16 the gain itself.
pub fn expected_improvements(
    predictions: impl Iterator<Item = ModelPrediction>,
    best: f64,
    improvements: &mut Vec<f64>,
) {
    static TABLE: OnceLock<Vec<f64>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        // Two more than there are steps, because interpolation reads the next entry too.
        let steps = (2.0 * Z_MAX * STEPS) as usize + 2;
        (0..steps).map(|step| improvement(step as f64 / STEPS - Z_MAX)).collect()
    });
    let one = |prediction: ModelPrediction| {
        let gain = best - prediction.mean;
        let at = (gain / prediction.spread + Z_MAX) * STEPS;
        // Also false for a spread of 0, where `at` is infinite or NaN.
        if (0.0..2.0 * Z_MAX * STEPS).contains(&at) {
            let step = at as usize;
            let share = at - step as f64;
            prediction.spread * between(table[step], table[step + 1], share)
        } else {
            gain.max(0.0)
        }
    };
    improvements.clear();
    improvements.extend(predictions.map(one));
}

/// Interpolates between two positive values by the mean of the arithmetic and the harmonic interpolation.
/// In the tail the function is close to an exponential, for which the errors of the two nearly cancel.
#[inline]
fn between(a: f64, b: f64, share: f64) -> f64 {
    let straight = a + (b - a) * share;
    let reciprocal = a * b / (b + (a - b) * share);
    0.5 * (straight + reciprocal)
}

/// The continued fraction converges fast for larger arguments, the series for smaller ones.
const SWITCH: f64 = 2.0;

pub(crate) const LN_SQRT_2PI: f64 = 0.918_938_533_204_672_8;

pub(crate) fn density(z: f64) -> f64 {
    (-0.5 * z * z - LN_SQRT_2PI).exp()
}

/// The probability of a value below `z`: the distribution function.
pub(crate) fn below(z: f64) -> f64 {
    0.5 * erfc(-z / SQRT_2)
}

pub(crate) fn erfc(x: f64) -> f64 {
    if x < 0.0 {
        2.0 - erfc(-x)
    } else if x < SWITCH {
        1.0 - erf_series(x)
    } else {
        (-x * x).exp() * erfcx(x)
    }
}

/// `exp(x²) erfc(x)`, which neither overflows nor vanishes for large `x`.
pub(crate) fn erfcx(x: f64) -> f64 {
    if x < SWITCH {
        return (x * x).exp() * erfc(x);
    }
    // Evaluated from the back; at `SWITCH` eighty levels give full precision.
    let tail = (1..=80).rev().fold(x, |tail, level| x + 0.5 * f64::from(level) / tail);
    1.0 / (tail * PI.sqrt())
}

fn erf_series(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
        // Far below the last digit of the sum.
        if term < sum * 1e-17 {
            break;
        }
    }
    2.0 / PI.sqrt() * (-x * x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(mean: f64, spread: f64) -> ModelPrediction {
        ModelPrediction { mean, spread }
    }

    /// The mean of `max(best - y, 0)` by Simpson's rule over nine spreads.
    fn integrated(prediction: ModelPrediction, best: f64) -> f64 {
        let ModelPrediction { mean, spread } = prediction;
        let (from, to, steps) = (mean - 9.0 * spread, best.min(mean + 9.0 * spread), 20_000);
        let width = (to - from) / f64::from(steps);
        let value = |step: i32| {
            let y = from + f64::from(step) * width;
            (best - y) * density((y - mean) / spread) / spread
        };
        let weight = |step| if step == 0 || step == steps { 1.0 } else { 2.0 + 2.0 * f64::from(step % 2) };
        (0..=steps).map(|step| weight(step) * value(step)).sum::<f64>() * width / 3.0
    }

    #[test]
    fn expected_improvement_is_the_integral() {
        for (mean, spread, best) in
            [(0.0, 1.0, 0.0), (1.0, 0.5, 0.2), (-2.0, 3.0, 1.0), (5.0, 2.0, 1.0), (0.0, 1.0, 3.0)]
        {
            let exact = integrated(at(mean, spread), best);
            let ours = expected_improvement(at(mean, spread), best);
            assert!((ours - exact).abs() < 1e-9 * exact.max(1e-3), "{ours} is not {exact}");
        }
        assert_eq!([3.0, 0.0].map(|best| expected_improvement(at(1.0, 0.0), best)), [2.0, 0.0]);
    }

    #[test]
    fn the_logarithm_is_smooth_into_the_far_tail() {
        let log = |z: f64| if z > -1.0 { improvement(z).ln() } else { log_improvement(z) };
        for seam in [-1.0, -25.0] {
            assert!((log(seam - 1e-9) - log(seam + 1e-9)).abs() < 1e-6, "{seam}");
        }
        assert!((log(-10.0) - -55.5531).abs() < 1e-3, "{}", log(-10.0));
        let falling: Vec<f64> = (0..2000).map(|step| log(-f64::from(step))).collect();
        assert!(falling.windows(2).all(|pair| pair[0] > pair[1] && pair[1].is_finite()));
    }

    #[test]
    fn the_table_follows_the_formula() {
        let points: Vec<ModelPrediction> = (-1500..1500)
            .map(|step| at(f64::from(step) * 0.0103, 1.0))
            .chain([at(2.0, 0.0), at(-2.0, 0.0), at(-500.0, 1.0), at(500.0, 1.0)])
            .collect();
        let mut fast = vec![9.0; 3];
        expected_improvements(points.iter().copied(), 0.0, &mut fast);
        assert_eq!(fast.len(), points.len());
        for (fast, point) in fast.iter().zip(&points) {
            let exact = expected_improvement(*point, 0.0);
            assert!((fast - exact).abs() <= 2e-4 * exact + 1e-50, "{point:?}: {fast} is not {exact}");
        }
    }

    #[track_caller]
    fn near(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-13 * b.abs(), "{a:e} is not {b:e}");
    }

    #[test]
    fn tabulated_values() {
        near(below(0.0), 0.5);
        near(below(1.0), 0.841_344_746_068_542_9);
        near(below(-3.0), 1.349_898_031_630_094_6e-3);
        near(below(-10.0), 7.619_853_024_160_527e-24);
        near(below(8.0), 1.0);
        near(erfc(0.5), 0.479_500_122_186_953_5);
        near(erfc(2.0), 4.677_734_981_047_266e-3);
        near(erfcx(10.0), 5.614_099_274_382_259e-2);
        near(density(0.0), 0.398_942_280_401_432_7);
    }

    #[test]
    fn both_formulas_agree_where_they_meet() {
        near(1.0 - erf_series(SWITCH), erfc(SWITCH));
        assert!(erfcx(1e6) > 0.0 && below(-37.0) > 0.0 && below(40.0) == 1.0);
    }
}
