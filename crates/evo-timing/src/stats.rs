//! Statistics of samples: median, quantiles, spread, and intervals of the median.
//!
//! Two intervals of the median are offered. The order-statistic one is exact for independent samples
//! and costs a sort, so stop rules use it while sampling goes on. The block bootstrap keeps
//! neighboring samples together, because neighbors on a device correlate; reports use that one.

use std::cmp::Ordering;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// The 95 % interval that resamples give; NaN for none.
    pub fn of(resamples: &[f64]) -> Interval {
        let ascending = sorted(resamples);
        Interval { low: quantile(&ascending, 0.025), high: quantile(&ascending, 0.975) }
    }

    /// The rule of pairs, acceptance and regression: less or greater only where the whole interval
    /// lies beyond the bar, since a median alone may be luck; equal where all of it lies within; else undecided.
    pub fn against(&self, bar: f64) -> Option<Ordering> {
        if self.high < -bar {
            Some(Ordering::Less)
        } else if self.low > bar {
            Some(Ordering::Greater)
        } else {
            (self.low >= -bar && self.high <= bar).then_some(Ordering::Equal)
        }
    }

    pub fn relative_half_width(&self, center: f64) -> f64 {
        if center == 0.0 { 0.0 } else { (self.high - self.low) / 2.0 / center.abs() }
    }
}

/// Ascending; NaN goes last.
pub fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// `q` from 0 to 1, interpolated linearly; NaN for none.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let position = q.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let above = position.ceil() as usize;
    sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64)
}

/// NaN for none.
pub fn median(samples: &[f64]) -> f64 {
    quantile(&sorted(samples), 0.5)
}

/// Median absolute deviation from the median; NaN for none.
pub fn mad(samples: &[f64]) -> f64 {
    let center = median(samples);
    let deviations: Vec<f64> = samples.iter().map(|sample| (sample - center).abs()).collect();
    median(&deviations)
}

/// Samples beyond median + 5 × 1.4826 × MAD: counted, never deleted.
pub fn outliers(samples: &[f64]) -> u32 {
    // 1.4826 × MAD estimates the standard deviation of normally distributed samples.
    let limit = median(samples) + 5.0 * 1.4826 * mad(samples);
    samples.iter().filter(|sample| **sample > limit).count() as u32
}

/// The exact 95 % interval of the median from order statistics, for independent samples. Below six
/// samples no such interval exists and the whole range is given.
pub fn order_interval(sorted: &[f64]) -> Interval {
    let n = sorted.len();
    if n == 0 {
        return Interval { low: f64::NAN, high: f64::NAN };
    }
    // Ranks are symmetric, because a sample lies below the median as often as above it.
    let rank = order_rank(n);
    Interval { low: sorted[rank], high: sorted[n - 1 - rank] }
}

/// The largest rank r (from 0) with P(Binomial(n, 1/2) ≤ r) ≤ 2.5 %, or 0.
fn order_rank(n: usize) -> usize {
    // The sum runs in logarithms, since 2^-n underflows past n = 1074.
    let mut log_probability = -(n as f64) * std::f64::consts::LN_2;
    let mut cumulative = 0.0;
    for rank in 0..n / 2 {
        cumulative += log_probability.exp();
        if cumulative > 0.025 {
            return rank.saturating_sub(1);
        }
        log_probability += ((n - rank) as f64).ln() - ((rank + 1) as f64).ln();
    }
    0
}

/// `resamples` series are pieced together from blocks of `block` neighbors. Deterministic for a seed.
pub fn bootstrap_interval(samples: &[f64], resamples: usize, block: usize, seed: u64) -> Interval {
    Interval::of(&bootstrap_medians(samples, resamples, block, seed))
}

pub fn bootstrap_medians(samples: &[f64], resamples: usize, block: usize, seed: u64) -> Vec<f64> {
    let n = samples.len();
    if n == 0 {
        return Vec::new();
    }
    // A block longer than a third of the series would leave nothing to vary.
    let block = block.clamp(1, n.div_ceil(3));
    let starts = n - block + 1;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut series = Vec::with_capacity(n + block);
    (0..resamples)
        .map(|_| {
            series.clear();
            while series.len() < n {
                let start = below(&mut random, starts);
                series.extend_from_slice(&samples[start..start + block]);
            }
            series.truncate(n);
            median_in_place(&mut series)
        })
        .collect()
}

/// A uniform index below `bound` (multiply-shift; the bias is under 2^-32 for sample counts).
pub fn below(random: &mut ChaCha8Rng, bound: usize) -> usize {
    ((u64::from(random.next_u32()) * bound as u64) >> 32) as usize
}

/// The median by selection instead of a full sort: this is the bootstrap's inner loop.
pub(crate) fn median_in_place(series: &mut [f64]) -> f64 {
    let middle = series.len() / 2;
    let (lower, upper, _) = series.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    if lower.is_empty() || series.len() % 2 == 1 {
        return upper;
    }
    let below = series[..middle].iter().copied().fold(f64::NEG_INFINITY, f64::max);
    below + (upper - below) * 0.5
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_medians_and_quantiles() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
        let ten: Vec<f64> = (0..=10).map(f64::from).collect();
        assert_eq!(quantile(&ten, 0.1), 1.0);
        assert_eq!(quantile(&ten, 0.25), 2.5);
        assert_eq!(mad(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]), 1.0);
    }

    #[test]
    fn outliers_are_counted() {
        let mut samples: Vec<f64> = (0..99).map(|i| 100.0 + f64::from(i % 5)).collect();
        samples.push(200.0);
        assert_eq!(outliers(&samples), 1);
    }

    #[test]
    fn order_ranks_match_the_published_table() {
        // Ranks from 1 in tables of the sign test: n = 6 → 1, 10 → 2, 20 → 6, 30 → 10, 100 → 40.
        let check = |n, rank_from_one| assert_eq!(order_rank(n) + 1, rank_from_one, "n = {n}");
        check(5, 1);
        check(6, 1);
        check(10, 2);
        check(20, 6);
        check(30, 10);
        check(100, 40);
        assert!(order_rank(5000) > 2400);
    }

    #[test]
    fn bootstrap_covers_the_median_and_is_repeatable() {
        let samples: Vec<f64> = (0..200).map(|i| 100.0 + f64::from((i * 37) % 101)).collect();
        let interval = bootstrap_interval(&samples, 2_000, 10, 7);
        assert!(interval.low < 150.0 && 150.0 < interval.high, "{interval:?}");
        assert!(interval.relative_half_width(150.0) < 0.1, "{interval:?}");
        assert_eq!(interval, bootstrap_interval(&samples, 2_000, 10, 7));
        let constant = bootstrap_interval(&[5.0; 40], 100, 10, 1);
        assert_eq!(constant, Interval { low: 5.0, high: 5.0 });
    }

    #[test]
    fn blocks_widen_the_interval_of_a_drifting_series() {
        let drift: Vec<f64> = (0..300).map(|i| 100.0 + f64::from(i / 30)).collect();
        let single = bootstrap_interval(&drift, 1_000, 1, 3);
        let blocks = bootstrap_interval(&drift, 1_000, 30, 3);
        assert!(blocks.high - blocks.low > single.high - single.low, "{single:?} {blocks:?}");
    }

    proptest! {
        #[test]
        fn selection_equals_sorting(samples in prop::collection::vec(-1e6f64..1e6, 1..60)) {
            prop_assert_eq!(median_in_place(&mut samples.clone()), median(&samples));
        }

        #[test]
        fn intervals_hold_the_median(samples in prop::collection::vec(1f64..1e6, 1..80)) {
            let sorted = sorted(&samples);
            let interval = order_interval(&sorted);
            let center = median(&samples);
            prop_assert!(interval.low <= center && center <= interval.high);
        }
    }
}
