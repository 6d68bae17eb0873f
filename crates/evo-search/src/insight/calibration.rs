//! Whether the model's expectations were right: expected against measured.

use serde::{Deserialize, Serialize};

use super::observation::{Fate, Observation};

/// How good the expectations were, over all evaluations that came with one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelCalibration {
    /// Evaluations with an expectation.
    pub expected: usize,
    /// Evaluations among them that were measured.
    pub measured: usize,
    /// The share of measured evaluations inside the interval of one spread: 0.68 if spreads are right,
    /// less if the model is overconfident. `None` if nothing was measured.
    pub inside: Option<f64>,
    /// The median factor, up or down, between the measured time and the expected one.
    pub typical_factor: Option<f64>,
    /// The mean expected probability to fail.
    pub risk_expected: f64,
    /// The share that failed.
    pub risk_came: f64,
}

pub(super) fn calibration(known: &[Observation<'_>]) -> Option<ModelCalibration> {
    let all: Vec<_> = known.iter().filter_map(|one| Some((one.evaluation.expected?, one.fate))).collect();
    if all.is_empty() {
        return None;
    }
    let count = all.len() as f64;
    let mut inside = 0;
    let mut misses = Vec::new();
    for (expected, fate) in &all {
        if let Fate::Measured(time) = fate {
            inside += usize::from((expected.low_ns..=expected.high_ns).contains(time));
            let miss = (time / expected.objective_ns).ln().abs();
            // An expected time that is not positive is off by an infinite factor.
            misses.push(if miss.is_nan() { f64::INFINITY } else { miss });
        }
    }
    misses.sort_by(f64::total_cmp);
    let typical = misses.get(misses.len() / 2).map(|miss| miss.exp());
    let failed = all.iter().filter(|(_, fate)| *fate == Fate::Failed).count() as f64;
    Some(ModelCalibration {
        expected: all.len(),
        measured: misses.len(),
        inside: (!misses.is_empty()).then(|| inside as f64 / misses.len() as f64),
        typical_factor: typical.filter(|factor| factor.is_finite()),
        risk_expected: all.iter().map(|(expected, _)| expected.risk).sum::<f64>() / count,
        risk_came: failed / count,
    })
}
