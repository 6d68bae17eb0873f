//! What a prediction is worth measuring. Everything here minimizes: smaller targets are better.
//!
//! Expected improvement is Mockus's (1975; Jones, Schonlau and Welch 1998). Its logarithm keeps telling
//! points apart where the improvement itself is smaller than any float (Ament et al., "Unexpected
//! improvements to expected improvement", arxiv.org/abs/2310.20708). A confidence bound is that of
//! Srinivas et al. (arxiv.org/abs/0912.3995), turned to minimization.

use std::f64::consts::{FRAC_PI_2, SQRT_2};
use std::sync::OnceLock;

use super::Prediction;
use super::normal::{LN_SQRT_2PI, below, density, erfcx};

/// By how much the target is expected to fall below `best`.
pub fn expected_improvement(prediction: Prediction, best: f64) -> f64 {
    let gain = best - prediction.mean;
    if prediction.spread > 0.0 {
        prediction.spread * improvement(gain / prediction.spread)
    } else {
        gain.max(0.0)
    }
}

/// The logarithm of the expected improvement; minus infinity where nothing can be gained.
pub fn log_expected_improvement(prediction: Prediction, best: f64) -> f64 {
    let gain = best - prediction.mean;
    if prediction.spread > 0.0 {
        prediction.spread.ln() + log_improvement(gain / prediction.spread)
    } else {
        gain.max(0.0).ln()
    }
}

/// How likely the target is below `best`.
pub fn probability_of_improvement(prediction: Prediction, best: f64) -> f64 {
    let gain = best - prediction.mean;
    if prediction.spread > 0.0 { below(gain / prediction.spread) } else { f64::from(u8::from(gain > 0.0)) }
}

/// What the target could be if things go well: the mean less `deviations` spreads. Lower is better.
pub fn lower_confidence_bound(prediction: Prediction, deviations: f64) -> f64 {
    prediction.mean - deviations * prediction.spread
}

/// `φ(z) + z Φ(z)`: the expected improvement of a standard normal that may fall `z` below its mean.
fn improvement(z: f64) -> f64 {
    if z > -1.0 { density(z) + z * below(z) } else { log_improvement(z).exp() }
}

/// Its logarithm.
fn log_improvement(z: f64) -> f64 {
    /// Beyond this the terms below cancel more than the asymptotic series leaves out.
    const FAR: f64 = -25.0;
    if z > -1.0 {
        return (density(z) + z * below(z)).ln();
    }
    let scale = -0.5 * z * z - LN_SQRT_2PI;
    if z > FAR {
        return scale + (-z.abs() * FRAC_PI_2.sqrt() * erfcx(-z / SQRT_2)).ln_1p();
    }
    let inverse = 1.0 / (z * z);
    scale + inverse.ln() + (-inverse * (3.0 - inverse * (15.0 - 105.0 * inverse))).ln_1p()
}

/// Steps of the table for each unit of `z`.
const STEPS: f64 = 64.0;
const Z_MAX: f64 = 16.0;

/// Expected improvement of many points, fast: by a table of its logarithm, within 2 in 10,000.
/// Ends of the table: below `z` = -16 it gives 0 (the exact value is below 1e-58 spreads), above 16 the gain.
pub fn expected_improvements(
    predictions: impl Iterator<Item = Prediction>,
    best: f64,
    improvements: &mut Vec<f64>,
) {
    static TABLE: OnceLock<Vec<f64>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let steps = (2.0 * Z_MAX * STEPS) as usize + 2;
        (0..steps).map(|step| improvement(step as f64 / STEPS - Z_MAX)).collect()
    });
    let one = |prediction: Prediction| {
        let gain = best - prediction.mean;
        let at = (gain / prediction.spread + Z_MAX) * STEPS;
        // False for a spread of 0 as well, where `at` is infinite or no number.
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

/// Between two positive values by the mean of the straight line and the line through the reciprocals: for
/// an exponential, whose logarithm is straight, their errors nearly cancel.
#[inline]
fn between(a: f64, b: f64, share: f64) -> f64 {
    let straight = a + (b - a) * share;
    let reciprocal = a * b / (b + (a - b) * share);
    0.5 * (straight + reciprocal)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(mean: f64, spread: f64) -> Prediction {
        Prediction { mean, spread }
    }

    /// The mean of `max(best - y, 0)` by Simpson's rule over nine spreads.
    fn integrated(prediction: Prediction, best: f64) -> f64 {
        let Prediction { mean, spread } = prediction;
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
            let log = log_expected_improvement(at(mean, spread), best);
            assert!((log - exact.ln()).abs() < 1e-6);
        }
    }

    #[test]
    fn the_logarithm_is_smooth_into_the_far_tail() {
        let log = |z: f64| log_expected_improvement(at(-z, 1.0), 0.0);
        // Both sides of both seams.
        for seam in [-1.0, -25.0] {
            assert!((log(seam - 1e-9) - log(seam + 1e-9)).abs() < 1e-6, "{seam}");
        }
        assert!((log(-10.0) - -55.5531).abs() < 1e-3, "{}", log(-10.0));
        let falling: Vec<f64> = (0..2000).map(|step| log(-f64::from(step))).collect();
        assert!(falling.windows(2).all(|pair| pair[0] > pair[1] && pair[1].is_finite()));
    }

    #[test]
    fn without_spread_only_the_mean_counts() {
        assert_eq!(expected_improvement(at(1.0, 0.0), 3.0), 2.0);
        assert_eq!(expected_improvement(at(4.0, 0.0), 3.0), 0.0);
        assert_eq!(log_expected_improvement(at(4.0, 0.0), 3.0), f64::NEG_INFINITY);
        assert_eq!(probability_of_improvement(at(1.0, 0.0), 3.0), 1.0);
        assert_eq!(probability_of_improvement(at(3.0, 0.0), 3.0), 0.0);
        assert_eq!(probability_of_improvement(at(3.0, 2.0), 3.0), 0.5);
        assert_eq!(lower_confidence_bound(at(3.0, 2.0), 1.5), 0.0);
    }

    #[test]
    fn the_table_follows_the_formula() {
        let points: Vec<Prediction> = (-1500..1500)
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
}
