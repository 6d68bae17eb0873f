//! What hyperparameters of a Gaussian process are tuned by: the log marginal likelihood of the observations
//! (Rasmussen and Williams 2006, equation 5.8) plus the logarithm of log-normal priors, which keep the
//! hyperparameters reasonable while there are few observations.
//!
//! With covariance `K`, targets `y` and `α = K⁻¹ y`, the negative log likelihood is
//! `½ yᵀ α + ½ ln |K| + (n/2) ln 2π`, and its derivative by a hyperparameter `θ` is
//! `½ tr((K⁻¹ - α αᵀ) ∂K/∂θ)` (equation 5.9). All hyperparameters are positive, so the search runs over their
//! logarithms.

use super::cholesky::Cholesky;
use super::kernel::Kernel;
use super::matrix::{Matrix, dot};
use super::normal::LN_SQRT_2PI;

/// The part of the noise that is not learned. It keeps the factorization stable, and the errors of single
/// precision in `ProcessScreen` below the noise.
pub(crate) const NOISE_FLOOR: f64 = 1e-6;

/// The hyperparameters of a Gaussian process over standardized targets: a length scale for each feature, the
/// variance of the signal and the variance of the noise. They are stored as logarithms, in this order.
#[derive(Clone, Debug, PartialEq)]
pub struct Hyperparameters(Vec<f64>);

impl Hyperparameters {
    /// The medians of the priors for `columns` features that lie in 0 to 1: length scales of
    /// `√columns / 2`, a signal of 1, a noise of 0.001. Distances grow with the square root of the number
    /// of features, so the expected length scale does too (Hvarfner, Hellsten and Nardi,
    /// arxiv.org/abs/2402.02229).
    pub(crate) fn expected(columns: usize) -> Hyperparameters {
        let length = 0.5 * (columns.max(1) as f64).ln() - 2f64.ln();
        let mut logs = vec![length; columns];
        logs.extend([0.0, 1e-3f64.ln()]);
        Hyperparameters(logs)
    }

    /// From logarithms in their order.
    pub(crate) fn from_logs(logs: Vec<f64>) -> Hyperparameters {
        assert!(logs.len() >= 2, "signal and noise are always there");
        Hyperparameters(logs)
    }

    /// The logarithms.
    pub(crate) fn logs(&self) -> &[f64] {
        &self.0
    }

    /// Number of features.
    pub(crate) fn columns(&self) -> usize {
        self.0.len() - 2
    }

    /// The length scale of each feature.
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

/// Standard deviations of the priors of the logarithms: length scales, signal, noise. They are wide on
/// purpose (one standard deviation of a length scale is a factor of 2.7), so that observations soon
/// outweigh them.
const PRIOR_DEVIATIONS: [f64; 3] = [1.0, 0.7, 1.5];

/// Observations prepared for many evaluations of the likelihood.
#[derive(Debug)]
pub(crate) struct Likelihood<'a> {
    kernel: Kernel,
    targets: &'a [f64],
    columns: usize,
    /// The squared difference of each feature, for each pair of rows `a > b`, row after row.
    squares: Vec<f64>,
}

impl<'a> Likelihood<'a> {
    /// Prepares rows of features and standardized targets.
    pub(crate) fn new(kernel: Kernel, x: &Matrix, targets: &'a [f64]) -> Likelihood<'a> {
        let pairs = (0..x.rows()).flat_map(|a| (0..a).map(move |b| (a, b)));
        // Squared differences are needed at every evaluation, for the distances and for the gradient, and
        // do not depend on hyperparameters.
        let squares = pairs.flat_map(|(a, b)| x.row(a).iter().zip(x.row(b)).map(|(a, b)| (a - b) * (a - b)));
        Likelihood { kernel, targets, columns: x.columns(), squares: squares.collect() }
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
        let distances = self.distances(&precisions);
        let mut covariance = Matrix::zero(n, n);
        let mut distance = distances.iter();
        for a in 0..n {
            let row = covariance.row_mut(a);
            row[..a]
                .iter_mut()
                .zip(&mut distance)
                .for_each(|(k, s)| *k = signal * self.kernel.correlation(*s));
            row[a] = signal + noise;
        }
        let factor = Cholesky::new(&covariance)?;
        let mut alpha = self.targets.to_vec();
        factor.solve(&mut alpha);
        let fit = 0.5 * dot(self.targets, &alpha);
        let mut value = fit + 0.5 * factor.log_determinant() + n as f64 * LN_SQRT_2PI;

        // The trace of `K⁻¹ - α αᵀ` times a symmetric derivative: twice the sum below the diagonal, which
        // cancels the factor ½, plus half of the diagonal.
        let inverse = factor.inverse();
        let mut gradient = vec![0.0; d + 2];
        let mut at = 0;
        for a in 0..n {
            for b in 0..a {
                let weight = inverse.at(a, b) - alpha[a] * alpha[b];
                let slope = weight * signal * self.kernel.slope(distances[at]);
                let squares = &self.squares[at * d..(at + 1) * d];
                gradient.iter_mut().zip(squares).for_each(|(g, square)| *g += slope * square);
                // A covariance is proportional to the signal, so it is its own derivative by the signal's
                // logarithm.
                gradient[d] += weight * covariance.at(a, b);
                at += 1;
            }
            let weight = 0.5 * (inverse.at(a, a) - alpha[a] * alpha[a]);
            gradient[d] += weight * signal;
            // Only the learned part of the noise varies with its logarithm.
            gradient[d + 1] += weight * (noise - NOISE_FLOOR);
        }
        // A feature's precision is the same for all pairs, so it is multiplied once and not in the loop
        // above.
        gradient.iter_mut().zip(&precisions).for_each(|(slope, precision)| *slope *= precision);
        value += add_priors(logs, &mut gradient);
        value.is_finite().then_some((value, gradient))
    }

    /// The squared scaled distance of each pair.
    fn distances(&self, precisions: &[f64]) -> Vec<f64> {
        // `chunks_exact` takes no size of 0.
        if self.columns == 0 {
            let n = self.targets.len();
            return vec![0.0; n * n.saturating_sub(1) / 2];
        }
        let pairs = self.squares.chunks_exact(self.columns);
        pairs.map(|squares| squares.iter().zip(precisions).map(|(s, p)| s * p).sum()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gradient_is_that_of_finite_differences() {
        let x = Matrix::from_rows(&[[0.1, 0.9], [0.4, 0.2], [0.7, 0.6], [0.7, 0.1], [1.0, 0.0]]);
        let y = [-1.0, 0.3, 1.2, 0.4, -0.9];
        for kernel in [Kernel::Matern32, Kernel::Matern52] {
            let likelihood = Likelihood::new(kernel, &x, &y);
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
    }

    #[test]
    fn two_points_by_hand() {
        // One feature, length 1, signal 1, almost no noise: K = [[1, c], [c, 1]].
        let (x, y) = (Matrix::from_rows(&[[0.0], [1.0]]), [1.0, -1.0]);
        let logs = [0.0, 0.0, -40.0];
        let (value, _) = Likelihood::new(Kernel::Matern32, &x, &y).evaluate(&logs).unwrap();
        let (c, v) = (Kernel::Matern32.correlation(1.0), 1.0 + NOISE_FLOOR);
        let fit = 0.5 * 2.0 / (v - c);
        let expected = fit + 0.5 * (v * v - c * c).ln() + 2.0 * LN_SQRT_2PI;
        let prior = add_priors(&logs, &mut [0.0; 3]);
        assert!((value - expected - prior).abs() < 1e-9, "{value} {expected}");
    }

    #[test]
    fn hopeless_hyperparameters_have_no_value() {
        let x = Matrix::from_rows(&[[0.0], [1.0]]);
        let likelihood = Likelihood::new(Kernel::Matern32, &x, &[0.0, 1.0]);
        assert!(likelihood.evaluate(&[0.0, 1000.0, 0.0]).is_none());
        assert!(likelihood.evaluate(&[-1000.0, 0.0, 0.0]).is_none());
    }
}
