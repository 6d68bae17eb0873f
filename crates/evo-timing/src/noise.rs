//! The noise floor of a session: a candidate timed against itself through the whole paired path.
//!
//! What a comparison claims is a median over blocks, so the floor is the 95th percentile of that
//! median's absolute value where the truth is zero. No claim is made below twice the floor.

use serde::{Deserialize, Serialize};

use super::stats::{bootstrap_medians, median, quantile, sorted};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoiseFloor {
    /// 95th percentile of the claimed |difference|, as a share.
    pub floor: f64,
    /// 95th percentile of a single block pair's |difference|.
    pub block_floor: f64,
    pub log_ratios: Vec<Vec<f64>>,
}

pub fn floor(processes: Vec<Vec<f64>>, seed: u64) -> NoiseFloor {
    let all: Vec<f64> = processes.iter().flatten().copied().collect();
    // Blocks of two: one A B B A gives two neighboring ratios, which share their moment.
    let mut claims: Vec<f64> = bootstrap_medians(&all, 2_000, 2, seed).into_iter().map(f64::abs).collect();
    claims.sort_by(f64::total_cmp);
    // Differences between processes are noise too, and resampling within the pool understates them.
    let between = processes.iter().map(|blocks| median(blocks).abs()).fold(0.0, f64::max);
    let absolute: Vec<f64> = all.iter().map(|ratio| ratio.abs()).collect();
    let within = quantile(&claims, 0.95);
    NoiseFloor {
        // `f64::max` would drop the NaN, and a session without data would seem to have a floor.
        floor: if within.is_nan() { f64::NAN } else { within.max(between) },
        block_floor: quantile(&sorted(&absolute), 0.95),
        log_ratios: processes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_is_low_and_a_biased_process_shows() {
        let quiet: Vec<f64> = (0..20).map(|i| 0.001 * (f64::from(i * 7 % 20) / 19.0 - 0.5)).collect();
        let noise = floor(vec![quiet.clone(), quiet.clone()], 1);
        assert!(noise.floor < 0.0005, "{noise:?}");
        assert!(noise.floor <= noise.block_floor);
        let biased: Vec<f64> = quiet.iter().map(|ratio| ratio + 0.01).collect();
        assert!(floor(vec![quiet, biased], 1).floor > 0.009);
        assert!(floor(Vec::new(), 1).floor.is_nan());
    }
}
