//! Surrogate models: from what was measured to what the rest of a space may give.
//!
//! Pure numbers: no clock, no file, no name of a parameter; the same seed and the same observations
//! in the same order give the same predictions. `features` turns genomes into numbers. Two models
//! that fail differently learn from them: `forest`, extremely randomized trees, and `process`, a Gaussian
//! process. `validity` learns what fails, `facts` what the compiler's numbers foretell, `acquisition` says what is
//! worth measuring.
//!
//! A model is asked about all valid points before each proposal, so each has two forms: one that
//! predicts what it is given, and one that holds its predictions for a fixed set of points and updates
//! them when one more observation comes (`Forest::watch`, `ProcessScreen`), at a cost of few operations a point.

pub mod acquisition;
pub mod cholesky;
pub mod codes;
pub mod facts;
pub mod features;
pub mod forest;
mod formula;
pub mod kernel;
mod likelihood;
pub mod matrix;
pub mod normal;
mod optimize;
pub mod process;
pub mod process_screen;
mod split;
mod tree;
pub mod validity;

use rand_chacha::ChaCha8Rng;

use self::matrix::Matrix;

/// What a model expects of a point.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prediction {
    /// In units of the target.
    pub mean: f64,
    /// Standard deviation, in units of the target; never negative.
    pub spread: f64,
}

/// Learns numbers from rows of numbers.
pub trait Regressor {
    /// Forgets what was learned and learns `y[i]` from row `i`. Targets that are not finite are
    /// clipped to the finite ones; no rows at all is fine.
    fn fit(&mut self, x: &Matrix, y: &[f64], rng: &mut ChaCha8Rng);

    /// One prediction for each row.
    fn predict(&self, x: &Matrix) -> Vec<Prediction>;
}

/// Targets that arithmetic survives: infinite ones become the largest or smallest finite ones, those
/// that are no number the largest (a missing time is a bad time), and nothing is beyond `1e100`, so
/// that squares are finite.
pub fn clipped(targets: &[f64]) -> Vec<f64> {
    const LIMIT: f64 = 1e100;
    let finite = targets.iter().copied().filter(|target| target.is_finite());
    let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), t| (l.min(t), h.max(t)));
    let (low, high) = if low > high { (0.0, 0.0) } else { (low.max(-LIMIT), high.min(LIMIT)) };
    targets.iter().map(|target| if target.is_nan() { high } else { target.clamp(low, high) }).collect()
}

/// The mean and spread of a mixture of predictions whose weights sum to 1.
pub fn mixed(predictions: &[Prediction], weights: &[f64]) -> Prediction {
    let pairs = || predictions.iter().zip(weights);
    let mean: f64 = pairs().map(|(prediction, weight)| weight * prediction.mean).sum();
    let variance: f64 =
        pairs().map(|(p, weight)| weight * (p.spread * p.spread + (p.mean - mean).powi(2))).sum();
    Prediction { mean, spread: variance.max(0.0).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clipping_leaves_only_numbers() {
        let all = clipped(&[1.0, f64::INFINITY, f64::NAN, -3.0, f64::NEG_INFINITY]);
        assert_eq!(all, [1.0, 1.0, 1.0, -3.0, -3.0]);
        assert_eq!(clipped(&[f64::NAN, f64::INFINITY]), [0.0, 0.0]);
        assert_eq!(clipped(&[f64::MAX, 0.0]), [1e100, 0.0]);
        assert!(clipped(&[]).is_empty());
    }

    #[test]
    fn a_mixture_of_two_apart_is_wide() {
        let apart = [-1.0, 1.0].map(|mean| Prediction { mean, spread: 0.5 });
        let both = mixed(&apart, &[0.5, 0.5]);
        assert_eq!(both.mean, 0.0);
        assert!((both.spread - 1.25f64.sqrt()).abs() < 1e-12);
    }
}
