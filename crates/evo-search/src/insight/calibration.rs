//! Whether a model knew what it was talking about: what it expected against what came.

use serde::{Deserialize, Serialize};

use super::{Fate, Observation};

/// How good the expectations were, over all evaluations that a model proposed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Evaluations that a model expected something of.
    pub expected: usize,
    /// Those of them that were measured.
    pub measured: usize,
    /// The share of the measured ones that came inside the interval of one spread: 0.68 where spreads
    /// are right, less where the model is too sure. None if nothing was measured.
    pub inside: Option<f64>,
    /// By which factor, up or down, half of the measured ones missed the central value at most.
    pub typical_factor: Option<f64>,
    /// The probability to fail, on average as expected and as it came.
    pub risk_expected: f64,
    pub risk_came: f64,
}

pub(super) fn calibration(known: &[Observation<'_>]) -> Option<Calibration> {
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
            // What was not expected to be positive was missed by any factor.
            misses.push(if miss.is_nan() { f64::INFINITY } else { miss });
        }
    }
    misses.sort_by(f64::total_cmp);
    let typical = misses.get(misses.len() / 2).map(|miss| miss.exp());
    let failed = all.iter().filter(|(_, fate)| *fate == Fate::Failed).count() as f64;
    Some(Calibration {
        expected: all.len(),
        measured: misses.len(),
        inside: (!misses.is_empty()).then(|| inside as f64 / misses.len() as f64),
        typical_factor: typical.filter(|factor| factor.is_finite()),
        risk_expected: all.iter().map(|(expected, _)| expected.risk).sum::<f64>() / count,
        risk_came: failed / count,
    })
}
