//! Paired comparison: blocks A B B A on the same problem, judged by log ratios.
//!
//! Interleaving makes drift of clocks and heat hit both rivals alike. Blocks within a process share
//! that process's luck (addresses, clocks), so the interval resamples blocks within processes and the
//! caller brings blocks from several fresh processes.

use std::cmp::Ordering;

use evo_protocol::leaderboard::{PairedDecision, PairedProblem};
use evo_protocol::worker::PairedTimes;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::stats::{Interval, below, bootstrap_medians, median, median_in_place, quantile, sorted};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedComparison {
    pub decision: PairedDecision,
    /// Median of ln(time B / time A): negative where B is faster.
    pub log_ratio: f64,
    pub low: f64,
    pub high: f64,
}

/// The smallest difference that may be claimed over a noise floor: twice the floor, 0.5 % at least.
pub fn claimable(noise_floor: f64) -> f64 {
    (2.0 * noise_floor).max(0.005)
}

pub fn compare(processes: &[Vec<f64>], noise_floor: f64, seed: u64) -> PairedComparison {
    compare_resampled(processes, noise_floor, seed).0
}

/// With the bootstrap distribution of the median.
pub fn compare_resampled(
    processes: &[Vec<f64>],
    noise_floor: f64,
    seed: u64,
) -> (PairedComparison, Vec<f64>) {
    let all: Vec<f64> = processes.iter().flatten().copied().collect();
    let medians = if all.is_empty() { Vec::new() } else { resampled_medians(processes, 4_000, seed) };
    let interval = Interval::of(&medians);
    // The exact interval of a median does not exist at this level for fewer than six values
    // (`stats::order_interval`), so nothing is claimed then.
    let decision = if all.len() < 6 { PairedDecision::Ambiguous } else { decide(interval, noise_floor) };
    let Interval { low, high } = interval;
    (PairedComparison { decision, log_ratio: median(&all), low, high }, medians)
}

/// The relative difference between the medians of the first and the second half of blocks, in the order in which they
/// ran. `None` for fewer than four blocks.
pub fn drift(baseline_ns: &[f64]) -> Option<f64> {
    if baseline_ns.len() < 4 {
        return None;
    }
    let (first, second) = baseline_ns.split_at(baseline_ns.len() / 2);
    let (first, second) = (median(first), median(second));
    Some((second / first - 1.0).abs()).filter(|drift| drift.is_finite())
}

/// One that is open may always have come out otherwise; any other only if its interval, wider by the drift at both
/// ends, no longer allows the decision.
pub fn hangs_on_drift(comparison: &PairedProblem, drift: f64, noise_floor: f64) -> bool {
    let (low, high) = (comparison.ratio_low.ln() - drift, comparison.ratio_high.ln() + drift);
    let is_open = comparison.decision == PairedDecision::Ambiguous;
    is_open || decide(Interval { low, high }, noise_floor) != comparison.decision
}

fn decide(interval: Interval, noise_floor: f64) -> PairedDecision {
    match interval.against(claimable(noise_floor)) {
        Some(Ordering::Less) => PairedDecision::Faster,
        Some(Ordering::Greater) => PairedDecision::Slower,
        Some(Ordering::Equal) => PairedDecision::Same,
        None => PairedDecision::Ambiguous,
    }
}

fn resampled_medians(processes: &[Vec<f64>], resamples: usize, seed: u64) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut series = Vec::new();
    (0..resamples)
        .map(|_| {
            series.clear();
            for blocks in processes.iter().filter(|blocks| !blocks.is_empty()) {
                // Each process keeps its own number of blocks, so that one lucky process cannot fill a
                // resample.
                series.extend((0..blocks.len()).map(|_| blocks[below(&mut random, blocks.len())]));
            }
            median_in_place(&mut series)
        })
        .collect()
}

/// `run(slot)` runs one block and gives its median in nanoseconds; errors end the run. `b_first` starts with B, which
/// processes alternate.
pub fn interleave<E>(
    blocks: u32,
    b_first: bool,
    mut run: impl FnMut(u8) -> Result<f64, E>,
) -> Result<PairedTimes, E> {
    let (outer, inner) = if b_first { (1, 0) } else { (0, 1) };
    let mut paired = PairedTimes::default();
    for _ in 0..blocks {
        // A B, then B A: a steady drift favors one rival in the first half and the other in the second.
        for order in [[outer, inner], [inner, outer]] {
            let mut times = [0.0; 2];
            for slot in order {
                times[usize::from(slot)] = run(slot)?;
            }
            paired.a_ns.push(times[0]);
            paired.b_ns.push(times[1]);
            paired.log_ratios.push((times[1] / times[0]).ln());
        }
    }
    Ok(paired)
}

/// A candidate timed against itself through the whole paired path. What a comparison claims is a median over blocks, so the
/// floor is the 95th percentile of that median's absolute value where the truth is zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseFloor {
    /// 95th percentile of the claimed |difference|, as a share.
    pub floor: f64,
    /// 95th percentile of a single block pair's |difference|.
    pub block_floor: f64,
}

pub fn noise_floor(processes: &[Vec<f64>], seed: u64) -> NoiseFloor {
    let all: Vec<f64> = processes.iter().flatten().copied().collect();
    // Blocks of two: one A B B A gives two neighboring ratios, which share their moment.
    let claims: Vec<f64> = bootstrap_medians(&all, 2_000, 2, seed).into_iter().map(f64::abs).collect();
    // Differences between processes are noise too, and resampling within the pool understates them.
    let between = processes.iter().map(|blocks| median(blocks).abs()).fold(0.0, f64::max);
    let absolute: Vec<f64> = all.iter().map(|ratio| ratio.abs()).collect();
    let within = quantile(&sorted(&claims), 0.95);
    NoiseFloor {
        // `f64::max` would drop the NaN, and a session without data would seem to have a floor.
        floor: if within.is_nan() { f64::NAN } else { within.max(between) },
        block_floor: quantile(&sorted(&absolute), 0.95),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(center: f64, width: f64) -> Vec<Vec<f64>> {
        let blocks = |shift: usize| -> Vec<f64> {
            (0..12).map(|i| center + width * (((i + shift) * 5 % 12) as f64 / 11.0 - 0.5)).collect()
        };
        vec![blocks(0), blocks(3), blocks(7)]
    }

    fn check(center: f64, width: f64, noise: f64, expected: PairedDecision) {
        let comparison = compare(&spread(center, width), noise, 1);
        assert_eq!(comparison.decision, expected, "{comparison:?}");
    }

    #[test]
    fn known_cases() {
        check(-0.05, 0.02, 0.001, PairedDecision::Faster);
        check(0.05, 0.02, 0.001, PairedDecision::Slower);
        check(0.0, 0.004, 0.001, PairedDecision::Same);
        check(0.005, 0.02, 0.001, PairedDecision::Ambiguous);
        // The same gain drowns in a larger noise floor.
        check(-0.05, 0.02, 0.05, PairedDecision::Same);
        assert_eq!(compare(&[vec![-0.5; 5]], 0.0, 1).decision, PairedDecision::Ambiguous);
        assert_eq!(compare(&[], 0.0, 1).decision, PairedDecision::Ambiguous);
    }

    #[test]
    fn a_baseline_that_changes_its_pace_has_drifted() {
        assert_eq!(drift(&[100.0; 3]), None);
        assert_eq!(drift(&[100.0; 24]), Some(0.0));
        // One disturbed block is not a drift.
        assert_eq!(drift(&[100.0, 100.0, 100.0, 900.0, 100.0, 100.0]), Some(0.0));
        let slower: Vec<f64> = (0..24).map(|block| if block < 12 { 100.0 } else { 110.0 }).collect();
        assert!((drift(&slower).unwrap() - 0.1).abs() < 1e-12);
    }

    #[test]
    fn a_decision_hangs_on_a_drift_that_reaches_its_bounds() {
        let check = |decision, low: f64, high: f64, drift, expected| {
            let comparison = PairedProblem {
                problem: "p".to_string(),
                ratio: f64::midpoint(low, high).exp(),
                ratio_low: low.exp(),
                ratio_high: high.exp(),
                processes: 2,
                pairs: 16,
                decision,
                baseline_ns: 1.0,
                finalist_ns: 1.0,
                baseline_drift: Some(drift),
            };
            assert_eq!(hangs_on_drift(&comparison, drift, 0.001), expected, "{comparison:?}");
        };
        // The least difference that may be claimed is 0.5 %.
        check(PairedDecision::Faster, -0.51, -0.50, 0.02, false);
        check(PairedDecision::Faster, -0.03, -0.02, 0.01, false);
        check(PairedDecision::Faster, -0.03, -0.02, 0.016, true);
        check(PairedDecision::Slower, 0.02, 0.03, 0.01, false);
        check(PairedDecision::Slower, 0.02, 0.03, 0.016, true);
        check(PairedDecision::Same, -0.001, 0.001, 0.003, false);
        check(PairedDecision::Same, -0.001, 0.001, 0.005, true);
        check(PairedDecision::Ambiguous, -0.01, 0.01, 0.003, true);
    }

    #[test]
    fn blocks_interleave_and_drift_cancels() {
        let mut order = Vec::new();
        let mut time = 100.0;
        let paired = interleave::<()>(2, false, |slot| {
            order.push(slot);
            time += 1.0;
            Ok(time)
        })
        .unwrap();
        assert_eq!(order, [0, 1, 1, 0, 0, 1, 1, 0]);
        // A linear drift gives ratios of alternating sign, whose median is nearly zero.
        assert!(median(&paired.log_ratios).abs() < 1e-3, "{paired:?}");
        assert_eq!(paired.log_ratios.len(), 4);
        let mut order = Vec::new();
        interleave::<()>(1, true, |slot| {
            order.push(slot);
            Ok(1.0)
        })
        .unwrap();
        assert_eq!(order, [1, 0, 0, 1]);
    }

    #[test]
    fn quiet_is_low_and_a_biased_process_shows() {
        let quiet: Vec<f64> = (0..20).map(|i| 0.001 * (f64::from(i * 7 % 20) / 19.0 - 0.5)).collect();
        let noise = noise_floor(&[quiet.clone(), quiet.clone()], 1);
        assert!(noise.floor < 0.0005, "{noise:?}");
        assert!(noise.floor <= noise.block_floor);
        let biased: Vec<f64> = quiet.iter().map(|ratio| ratio + 0.01).collect();
        assert!(noise_floor(&[quiet, biased], 1).floor > 0.009);
        assert!(noise_floor(&[], 1).floor.is_nan());
    }
}
