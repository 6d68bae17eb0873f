//! What hyperparameters of a Gaussian process are tuned by: the log marginal likelihood of the observations
//! (Rasmussen and Williams 2006, equation 5.8) plus the logarithm of log-normal priors, which keep the
//! hyperparameters reasonable while there are few observations.
//!
//! With covariance `K`, targets `y` and `α = K⁻¹ y`, the negative log likelihood is
//! `½ yᵀ α + ½ ln |K| + (n/2) ln 2π`, and its derivative by a hyperparameter `θ` is
//! `½ tr((K⁻¹ - α αᵀ) ∂K/∂θ)` (equation 5.9). All hyperparameters are positive, so the search runs over their
//! logarithms.
//!
//! Covariances are Matérn's: how similar the targets of two points are expected to be, from their distance
//! (Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, equation 4.17).
//!
//! The minimizer is L-BFGS with a backtracking line search (Nocedal and Wright,
//! "Numerical Optimization", 2nd ed., algorithms 7.4 and 3.1). The number of steps is bounded, because a
//! search waits for the answer; the best point so far is returned.

use std::collections::VecDeque;

use crate::model::acquisition::LN_SQRT_2PI;
use crate::model::cholesky::Cholesky;
use crate::model::matrix::{Matrix, dot};

/// The part of the noise that is not learned. It keeps the factorization stable, and the errors of single
/// precision in `ProcessScreen` below the noise.
pub(crate) const NOISE_FLOOR: f64 = 1e-6;

/// The hyperparameters of a Gaussian process over standardized targets: a length scale for each feature, the
/// variance of the signal and the variance of the noise. They are stored as logarithms, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hyperparameters(Vec<f64>);

impl Hyperparameters {
    /// The medians of the priors for `columns` features that lie in 0 to 1: length scales of `√columns / 2`, a signal
    /// of 1, a noise of 0.001. Distances grow with the square root of the number of features, so the expected length
    /// scale does too (Hvarfner, Hellsten and Nardi, arxiv.org/abs/2402.02229).
    pub(crate) fn expected(columns: usize) -> Hyperparameters {
        let length = 0.5 * (columns.max(1) as f64).ln() - 2f64.ln();
        let mut logs = vec![length; columns];
        logs.extend([0.0, 1e-3f64.ln()]);
        Hyperparameters(logs)
    }

    pub(crate) fn from_logs(logs: Vec<f64>) -> Hyperparameters {
        assert!(logs.len() >= 2, "signal and noise are always there");
        Hyperparameters(logs)
    }

    pub(crate) fn logs(&self) -> &[f64] {
        &self.0
    }

    pub(crate) fn columns(&self) -> usize {
        self.0.len() - 2
    }

    pub(crate) fn lengths(&self) -> impl Iterator<Item = f64> + '_ {
        self.0[..self.columns()].iter().map(|log| log.exp())
    }

    /// The variance of the signal, in units of the targets' variance.
    pub(crate) fn signal(&self) -> f64 {
        self.0[self.columns()].exp()
    }

    /// The variance of one measurement around the signal, in the same units.
    pub(crate) fn noise(&self) -> f64 {
        self.0[self.columns() + 1].exp() + NOISE_FLOOR
    }
}

/// Of the logarithms: length scales, signal, noise. They are wide on purpose (one standard deviation of a length scale
/// is a factor of 2.7), so that observations soon outweigh them.
const PRIOR_DEVIATIONS: [f64; 3] = [1.0, 0.7, 1.5];

#[derive(Debug)]
pub(crate) struct Likelihood<'a> {
    targets: &'a [f64],
    columns: usize,
    /// The squared difference of each feature, for each pair of rows `a > b`, row after row.
    squares: Vec<f64>,
}

impl<'a> Likelihood<'a> {
    pub(crate) fn new(x: &Matrix, targets: &'a [f64]) -> Likelihood<'a> {
        let pairs = (0..x.rows()).flat_map(|a| (0..a).map(move |b| (a, b)));
        // They do not depend on hyperparameters.
        let squares = pairs.flat_map(|(a, b)| x.row(a).iter().zip(x.row(b)).map(|(a, b)| (a - b) * (a - b)));
        Likelihood { targets, columns: x.columns(), squares: squares.collect() }
    }

    /// The negative logarithm of the posterior, up to a constant, and its gradient by the logarithms of the
    /// hyperparameters; `None` if the covariance cannot be factored.
    pub(crate) fn evaluate(&self, logs: &[f64]) -> Option<(f64, Vec<f64>)> {
        let (n, d) = (self.targets.len(), self.columns);
        let hyperparameters = Hyperparameters(logs.to_vec());
        let (signal, noise) = (hyperparameters.signal(), hyperparameters.noise());
        let precisions: Vec<f64> = hyperparameters.lengths().map(|length| length.powi(-2)).collect();
        // A step too far overflows the exponential. Without a value the line search tries a shorter one.
        if !(signal.is_finite() && noise.is_finite() && precisions.iter().all(|p| p.is_finite())) {
            return None;
        }
        let squares = |pair: usize| &self.squares[pair * d..(pair + 1) * d];
        let scaled = |pair| squares(pair).iter().zip(&precisions).map(|(s, p)| s * p).sum();
        let distances: Vec<f64> = (0..n * n.saturating_sub(1) / 2).map(scaled).collect();
        let mut covariance = Matrix::zero(n, n);
        let mut distance = distances.iter();
        for a in 0..n {
            let row = covariance.row_mut(a);
            row[..a].iter_mut().zip(&mut distance).for_each(|(k, s)| *k = signal * correlation(*s));
            row[a] = signal + noise;
        }
        let factor = Cholesky::new(&covariance)?;
        let mut alpha = self.targets.to_vec();
        factor.solve(&mut alpha);
        let fit = 0.5 * dot(self.targets, &alpha);
        let mut value = fit + 0.5 * factor.log_determinant() + n as f64 * LN_SQRT_2PI;

        // Twice the sum below the diagonal, which cancels the factor ½, plus half of the diagonal.
        let inverse = factor.inverse();
        let mut gradient = vec![0.0; d + 2];
        let mut at = 0;
        for a in 0..n {
            for b in 0..a {
                let weight = inverse.at(a, b) - alpha[a] * alpha[b];
                let slope = weight * signal * slope(distances[at]);
                gradient.iter_mut().zip(squares(at)).for_each(|(g, square)| *g += slope * square);
                // A covariance is its own derivative by the signal's logarithm.
                gradient[d] += weight * covariance.at(a, b);
                at += 1;
            }
            let weight = 0.5 * (inverse.at(a, a) - alpha[a] * alpha[a]);
            gradient[d] += weight * signal;
            // Only the learned part of the noise varies with its logarithm.
            gradient[d + 1] += weight * (noise - NOISE_FLOOR);
        }
        gradient.iter_mut().zip(&precisions).for_each(|(slope, precision)| *slope *= precision);
        value += add_priors(logs, &mut gradient);
        value.is_finite().then_some((value, gradient))
    }
}

/// The negative logarithm of the priors; adds its gradient.
fn add_priors(logs: &[f64], gradient: &mut [f64]) -> f64 {
    let expected = Hyperparameters::expected(logs.len() - 2);
    let mut value = 0.0;
    for (at, (log, middle)) in logs.iter().zip(expected.logs()).enumerate() {
        // 0 for every length scale, 1 for the signal, 2 for the noise.
        let deviation = PRIOR_DEVIATIONS[(at + 1).saturating_sub(expected.columns())];
        let z = (log - middle) / deviation;
        value += 0.5 * z * z;
        gradient[at] += z / deviation;
    }
    value
}

/// Largest exponent that is computed: `exp(-200)` is 0 in single precision.
const FAR: f32 = 200.0;

/// The correlation at the squared distance `r²`, in units of the length scale: `(1 + √3 r) exp(-√3 r)`, Matérn's once
/// differentiable kernel, since run times have kinks and cliffs over tile sizes.
pub(crate) fn correlation(square: f64) -> f64 {
    let far = 3f64.sqrt() * square.sqrt();
    (1.0 + far) * (-far).exp()
}

/// Minus twice the derivative of the correlation by the squared distance, which is finite at 0, unlike
/// the derivative by the distance. Multiplied by the square of a feature's scaled difference, it is the
/// derivative of the correlation by the logarithm of that feature's length scale.
fn slope(square: f64) -> f64 {
    3.0 * (-(3f64.sqrt() * square.sqrt())).exp()
}

/// Replaces squared distances by correlations, many at once in single precision.
pub(crate) fn correlations(squares: &mut [f32]) {
    let root = 3f64.sqrt() as f32;
    for square in squares {
        let far = (root * square.sqrt()).min(FAR);
        *square = (1.0 + far) * decay(far);
    }
}

/// `exp(-x)` for `x ≥ 0` with a relative error of about 1e-7, in a form that compilers vectorize (a call of
/// `exp` is not). The exponent is split into a whole power of 2, which is written into the exponent bits,
/// and a rest between -0.5 and 0.5, for which the Taylor series of degree 6 is enough.
#[inline]
fn decay(x: f32) -> f32 {
    /// `1.5 · 2²³`: adding and subtracting it rounds to a whole number.
    const ROUNDER: f32 = 12_582_912.0;
    // Stops above the smallest normal number, whose exponent is -126, so that the bits below stay valid.
    let power = (-x * std::f32::consts::LOG2_E).max(-120.0);
    let rounded = power + ROUNDER;
    let whole = rounded - ROUNDER;
    let rest = (power - whole) * std::f32::consts::LN_2;
    let series = 1.0 / 120.0 + rest * (1.0 / 720.0);
    let series = 0.5 + rest * (1.0 / 6.0 + rest * (1.0 / 24.0 + rest * series));
    let fraction = 1.0 + rest * (1.0 + rest * series);
    // The low bits of `rounded` hold the whole part.
    let exponent = rounded.to_bits().wrapping_sub(ROUNDER.to_bits()).wrapping_add(127) << 23;
    fraction * f32::from_bits(exponent)
}

/// Pairs of steps and gradient changes that are remembered. Nocedal and Wright recommend 3 to 20.
const MEMORY: usize = 6;

/// No coordinate moves further in one step. Arguments are logarithms, so this is a factor of 4.5; longer
/// steps may leave the region where the likelihood can be evaluated.
const STEP_MAX: f64 = 1.5;

const SHORTENINGS: i32 = 10;

pub(crate) type Evaluated = (f64, Vec<f64>);

/// From `start`; `None` if the function has no value there. Ends early when a step gains less than `tolerance`.
pub(crate) fn minimize(
    start: &[f64],
    iterations: usize,
    tolerance: f64,
    mut function: impl FnMut(&[f64]) -> Option<Evaluated>,
) -> Option<(Vec<f64>, f64)> {
    let mut at = start.to_vec();
    let (mut value, mut gradient) = function(&at)?;
    let mut memory: VecDeque<(Vec<f64>, Vec<f64>)> = VecDeque::new();
    for _ in 0..iterations {
        let mut direction = descent(&gradient, &memory);
        let mut slope = dot(&direction, &gradient);
        if slope >= 0.0 {
            // The remembered curvature does not fit here, so the step follows the gradient.
            memory.clear();
            direction = descent(&gradient, &memory);
            slope = dot(&direction, &gradient);
        }
        let longest = direction.iter().fold(0.0, |longest: f64, step| longest.max(step.abs()));
        if longest < 1e-9 || !longest.is_finite() {
            break;
        }
        // A length of 1 is the step that the approximated curvature asks for.
        let full = (STEP_MAX / longest).min(1.0);
        let tries = (0..SHORTENINGS).map(|power| full * 0.4f64.powi(power));
        let accepted = tries.into_iter().find_map(|length| {
            let next: Vec<f64> = at.iter().zip(&direction).map(|(x, step)| x + length * step).collect();
            let (lower, slopes) = function(&next)?;
            // Armijo's condition with the usual constant (Nocedal and Wright, equation 3.4).
            (lower <= value + 1e-4 * length * slope).then_some((next, lower, slopes))
        });
        let Some((next, lower, slopes)) = accepted else { break };
        let step: Vec<f64> = next.iter().zip(&at).map(|(a, b)| a - b).collect();
        let change: Vec<f64> = slopes.iter().zip(&gradient).map(|(a, b)| a - b).collect();
        // Only pairs of positive curvature keep the approximated inverse positive definite.
        if dot(&step, &change) > 1e-10 * dot(&change, &change) {
            memory.push_back((step, change));
            if memory.len() > MEMORY {
                memory.pop_front();
            }
        }
        let gain = value - lower;
        (at, value, gradient) = (next, lower, slopes);
        if gain < tolerance {
            break;
        }
    }
    Some((at, value))
}

/// The direction of descent: minus the gradient, multiplied by the inverse curvature that the memory
/// approximates (the two-loop recursion, algorithm 7.4).
fn descent(gradient: &[f64], memory: &VecDeque<(Vec<f64>, Vec<f64>)>) -> Vec<f64> {
    let mut direction: Vec<f64> = gradient.iter().map(|slope| -slope).collect();
    let mut shares = Vec::new();
    for (step, change) in memory.iter().rev() {
        let share = dot(step, &direction) / dot(step, change);
        direction.iter_mut().zip(change).for_each(|(d, change)| *d -= share * change);
        shares.push(share);
    }
    if let Some((step, change)) = memory.back() {
        // The usual first guess of the curvature, from the newest pair (Nocedal and Wright, equation 7.20).
        let scale = dot(step, change) / dot(change, change);
        direction.iter_mut().for_each(|d| *d *= scale);
    }
    for ((step, change), share) in memory.iter().zip(shares.into_iter().rev()) {
        let back = share - dot(change, &direction) / dot(step, change);
        direction.iter_mut().zip(step).for_each(|(d, step)| *d += back * step);
    }
    direction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gradient_is_that_of_finite_differences() {
        let x = Matrix::from_rows(&[[0.1, 0.9], [0.4, 0.2], [0.7, 0.6], [0.7, 0.1], [1.0, 0.0]]);
        let y = [-1.0, 0.3, 1.2, 0.4, -0.9];
        let likelihood = Likelihood::new(&x, &y);
        for logs in [[-0.5, 0.3, 0.2, -3.0], [0.8, -1.2, -0.6, -1.0]] {
            let (_, gradient) = likelihood.evaluate(&logs).unwrap();
            for at in 0..4 {
                let value = |shift: f64| {
                    let mut moved = logs;
                    moved[at] += shift;
                    likelihood.evaluate(&moved).unwrap().0
                };
                let slope = (value(1e-5) - value(-1e-5)) / 2e-5;
                assert!((gradient[at] - slope).abs() < 1e-6 * (1.0 + slope.abs()), "{at}: {slope}");
            }
        }
    }

    #[test]
    fn two_points_by_hand() {
        // One feature, length 1, signal 1, almost no noise: K = [[1, c], [c, 1]].
        let (x, y) = (Matrix::from_rows(&[[0.0], [1.0]]), [1.0, -1.0]);
        let logs = [0.0, 0.0, -40.0];
        let (value, _) = Likelihood::new(&x, &y).evaluate(&logs).unwrap();
        let (c, v) = (correlation(1.0), 1.0 + NOISE_FLOOR);
        let fit = 0.5 * 2.0 / (v - c);
        let expected = fit + 0.5 * (v * v - c * c).ln() + 2.0 * LN_SQRT_2PI;
        let prior = add_priors(&logs, &mut [0.0; 3]);
        assert!((value - expected - prior).abs() < 1e-9, "{value} {expected}");
    }

    #[test]
    fn hopeless_hyperparameters_have_no_value() {
        let x = Matrix::from_rows(&[[0.0], [1.0]]);
        let likelihood = Likelihood::new(&x, &[0.0, 1.0]);
        assert!(likelihood.evaluate(&[0.0, 1000.0, 0.0]).is_none());
        assert!(likelihood.evaluate(&[-1000.0, 0.0, 0.0]).is_none());
    }

    #[test]
    fn single_precision_follows_double() {
        let squares: Vec<f64> = (0..4000).map(|step| f64::from(step * step) * 1e-4).collect();
        let mut fast: Vec<f32> = squares.iter().map(|square| *square as f32).collect();
        correlations(&mut fast);
        for (fast, square) in fast.iter().zip(&squares) {
            let exact = correlation(*square);
            let error = (f64::from(*fast) - exact).abs();
            assert!(error <= 1e-5 * exact + 1e-30, "{square}: {fast} is not {exact}");
        }
        assert_eq!(correlation(0.0), 1.0);
        let mut far = [1e30, f32::INFINITY];
        correlations(&mut far);
        assert!(far.iter().all(|far| *far < 1e-30));
    }

    #[test]
    fn rosenbrock_is_solved() {
        let banana = |x: &[f64]| {
            let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
            Some((a * a + 100.0 * b * b, vec![-2.0 * a - 400.0 * x[0] * b, 200.0 * b]))
        };
        let (at, value) = minimize(&[-1.2, 1.0], 200, 0.0, banana).unwrap();
        assert!(value < 1e-10 && (at[0] - 1.0).abs() < 1e-4, "{at:?} {value}");
    }

    #[test]
    fn holes_and_flat_places_end_the_search() {
        assert!(minimize(&[1.0], 10, 0.0, |_| None).is_none());
        assert_eq!(minimize(&[1.0], 10, 0.0, |_| Some((3.0, vec![0.0]))), Some((vec![1.0], 3.0)));
        let half = |x: &[f64]| (x[0] > 0.5).then(|| (x[0], vec![1.0]));
        let (at, _) = minimize(&[2.0], 50, 0.0, half).unwrap();
        assert!(at[0] > 0.5 && at[0] < 0.7, "{at:?}");
        assert_eq!(minimize(&[], 5, 0.0, |_| Some((1.0, vec![]))), Some((vec![], 1.0)));
    }
}
