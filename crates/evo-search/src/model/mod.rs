//! Surrogate models: from what was measured to what the rest of a space may give.
//!
//! The same seed and the same observations in the same order give the same predictions. [`features`] turns points into
//! numbers. Two models that err differently learn from them: [`forest`], extremely randomized trees, and [`process`], a
//! Gaussian process. [`validity`] learns which points fail, [`facts`] what the compiler's report says about the time,
//! and [`acquisition`] says which points are worth measuring.
//!
//! A model is asked about all valid points before each proposal. So each has two forms: one predicts
//! the points it is given, the other holds its predictions for a fixed set of points and corrects them when
//! an observation is added (`Forest::watch`, `ProcessScreen`), which takes a few operations for each point.

pub mod acquisition;
mod cholesky;
pub mod facts;
pub mod features;
pub mod forest;
mod formula;
mod likelihood;
pub mod matrix;
pub mod process;
pub mod process_screen;
mod tree;
pub mod validity;

/// What a model expects of a point: a normal distribution of its target.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelPrediction {
    pub mean: f64,
    /// Standard deviation, in units of the target; never negative.
    pub spread: f64,
}

/// Infinite targets become the largest or smallest finite one, NaN becomes the largest (a missing time counts as a bad
/// one), and nothing is beyond `1e100`, so that squares are finite.
pub(crate) fn clipped(targets: &[f64]) -> Vec<f64> {
    const LIMIT: f64 = 1e100;
    let finite = targets.iter().copied().filter(|target| target.is_finite());
    let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), t| (l.min(t), h.max(t)));
    let (low, high) = if low > high { (0.0, 0.0) } else { (low.max(-LIMIT), high.min(LIMIT)) };
    targets.iter().map(|target| if target.is_nan() { high } else { target.clamp(low, high) }).collect()
}

/// Mean and standard deviation of a mixture, by the law of total variance. Weights sum to 1.
pub(crate) fn mixed(predictions: &[ModelPrediction], weights: &[f64]) -> ModelPrediction {
    let pairs = || predictions.iter().zip(weights);
    let mean: f64 = pairs().map(|(prediction, weight)| weight * prediction.mean).sum();
    let variance: f64 =
        pairs().map(|(p, weight)| weight * (p.spread * p.spread + (p.mean - mean).powi(2))).sum();
    ModelPrediction { mean, spread: variance.max(0.0).sqrt() }
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
        let apart = [-1.0, 1.0].map(|mean| ModelPrediction { mean, spread: 0.5 });
        let both = mixed(&apart, &[0.5, 0.5]);
        assert_eq!(both.mean, 0.0);
        assert!((both.spread - 1.25f64.sqrt()).abs() < 1e-12);
    }
}
