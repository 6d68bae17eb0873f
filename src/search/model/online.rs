//! How far to trust which model, from how well each one foresaw what came.
//!
//! Before an observation is learned, each model says what it expects; the negative logarithm of the
//! density that it gave to the truth is its loss. Weights fall exponentially with the sum of recent
//! losses: Bayesian model averaging with forgetting (Raftery, Kárný and Ettler, "Online prediction under
//! model uncertainty", 2010), the exponentially weighted forecaster of prediction with expert advice.

use super::Prediction;
use super::normal::LN_SQRT_2PI;

/// Share of the weight that a model keeps however badly it does, so that it can come back.
const FLOOR: f64 = 0.02;

/// No single surprise costs more, in natural logarithms.
const LOSS_MAX: f64 = 8.0;

/// Recent losses of several models.
#[derive(Clone, Debug)]
pub struct Averaging {
    losses: Vec<f64>,
    memory: f64,
}

impl Averaging {
    /// Equal weights; a loss counts half after `half_life` further observations.
    pub fn new(models: usize, half_life: f64) -> Averaging {
        Averaging { losses: vec![0.0; models], memory: 0.5f64.powf(1.0 / half_life.max(1e-3)) }
    }

    /// Learns what each model expected and what came.
    pub fn observe(&mut self, expected: &[Prediction], target: f64) {
        assert_eq!(expected.len(), self.losses.len(), "each model expects something");
        for (loss, prediction) in self.losses.iter_mut().zip(expected) {
            *loss = *loss * self.memory + surprise(*prediction, target).clamp(-LOSS_MAX, LOSS_MAX);
        }
        let least = self.losses.iter().copied().fold(f64::INFINITY, f64::min);
        self.losses.iter_mut().for_each(|loss| *loss -= least);
    }

    /// The weights of the models; they sum to 1.
    pub fn weights(&self) -> Vec<f64> {
        let raw: Vec<f64> = self.losses.iter().map(|loss| (-loss).exp()).collect();
        let total: f64 = raw.iter().sum();
        let floor = FLOOR.min(1.0 / raw.len().max(1) as f64);
        let spare = 1.0 - floor * raw.len() as f64;
        raw.iter().map(|weight| floor + spare * weight / total).collect()
    }
}

/// The negative logarithm of the density that a prediction gives to what came; `LOSS_MAX` for
/// predictions that are no numbers.
pub fn surprise(prediction: Prediction, target: f64) -> f64 {
    let spread = prediction.spread.max(1e-9 * (1.0 + prediction.mean.abs()));
    let z = (target - prediction.mean) / spread;
    let loss = 0.5 * z * z + spread.ln() + LN_SQRT_2PI;
    if loss.is_nan() { LOSS_MAX } else { loss }
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
    fn surprise_is_the_normal_density() {
        let loss = surprise(Prediction { mean: 1.0, spread: 2.0 }, 5.0);
        let density = super::super::normal::density(2.0) / 2.0;
        assert!((loss - -density.ln()).abs() < 1e-12);
        assert!(surprise(Prediction { mean: 3.0, spread: 0.0 }, 3.0).is_finite());
        assert_eq!(surprise(Prediction { mean: f64::NAN, spread: 1.0 }, 3.0), LOSS_MAX);
    }

    #[test]
    fn the_model_that_foresees_gains_and_can_lose_again() {
        let mut averaging = Averaging::new(2, 5.0);
        assert_eq!(averaging.weights(), [0.5, 0.5]);
        let expect = |first, second| [first, second].map(|mean| Prediction { mean, spread: 1.0 });
        (0..10).for_each(|_| averaging.observe(&expect(0.0, 3.0), 0.0));
        let early = averaging.weights();
        assert!(early[0] > 0.97 && early[1] >= FLOOR && (early[0] + early[1] - 1.0).abs() < 1e-12);
        (0..30).for_each(|_| averaging.observe(&expect(3.0, 0.0), 0.0));
        assert!(averaging.weights()[1] > 0.9, "{:?}", averaging.weights());
    }

    #[test]
    fn a_mixture_of_two_apart_is_wide() {
        let apart = [-1.0, 1.0].map(|mean| Prediction { mean, spread: 0.5 });
        let both = mixed(&apart, &[0.5, 0.5]);
        assert_eq!(both.mean, 0.0);
        assert!((both.spread - 1.25f64.sqrt()).abs() < 1e-12);
    }
}
