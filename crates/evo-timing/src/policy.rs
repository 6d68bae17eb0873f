//! The sampling policies of the cascade, and when there are enough samples: pure functions of the samples so far.
//!
//! At least `samples_min` samples are taken (10 for calls over 50 ms). Sampling then goes on until the median's 95 %
//! interval is tight, more samples no longer help, or the time is up.

use std::time::Duration;

use evo_protocol::measurement::StopRule;
use evo_protocol::worker::{RacePolicy, SamplePolicy};

use super::stats::{order_interval, quantile, sorted};

/// Abandoned above `abandon_above_ns`.
pub fn screen(abandon_above_ns: Option<f64>) -> SamplePolicy {
    SamplePolicy {
        screen: true,
        samples_min: 3,
        samples_max: 7,
        interval: 0.02,
        warmup_ms: 0.0,
        limit_ms: 2_000.0,
        abandon_above_ns,
        race: None,
    }
}

/// Few samples right after the screening, with outputs checked in between, which a screening leaves out.
pub fn quick() -> SamplePolicy {
    SamplePolicy { screen: false, samples_min: 9, samples_max: 30, limit_ms: 50.0, ..screen(None) }
}

/// Samples until the median's interval lies to one side of `rival_ns` or is tight. No warm-up: the screening has just
/// run the same kernel.
pub fn race(rival_ns: Option<f64>) -> SamplePolicy {
    SamplePolicy {
        // The fewest of which an order statistic's 95 % interval leaves out the extremes.
        samples_min: 9,
        samples_max: 60,
        interval: 0.005,
        limit_ms: 100.0,
        race: Some(RacePolicy { rival_ns }),
        ..screen(None)
    }
}

/// The warm-up is shorter than the deep one's, because the lane that screens and races without a pause has kept the
/// device warm.
pub fn contender() -> SamplePolicy {
    SamplePolicy {
        screen: false,
        samples_min: 30,
        samples_max: 1_000,
        interval: 0.005,
        // A window of samples or two, which must agree. With 40 ms (until 2026-11-22) the warm-up took 88 of the
        // 229 ms of a hot measurement of `gemm` on an H200.
        warmup_ms: 10.0,
        // Short, so that a noisy host does not hold the lane (since 2026-11-21).
        limit_ms: 500.0,
        abandon_above_ns: None,
        race: None,
    }
}

/// For calls each with its launch, which never rank: reported, so 1 % will do.
pub fn eager() -> SamplePolicy {
    SamplePolicy { samples_max: 200, interval: 0.01, limit_ms: 150.0, ..contender() }
}

/// For a device that gates or the measurement before have kept busy.
pub fn warm(policy: SamplePolicy) -> SamplePolicy {
    SamplePolicy { warmup_ms: policy.warmup_ms.min(WARM_MS), ..policy }
}

/// A window of samples or two of the kernel itself: caches, and a batch of the right size.
const WARM_MS: f64 = 30.0;
/// For a device that may have been idle.
const DEEP_WARM_MS: f64 = 300.0;

/// Warm-up to a steady state, then 5 s at most. A quiet device reaches the interval in a tenth of that; on a noisy
/// one, more samples of the same noise would not help.
pub fn deep() -> SamplePolicy {
    SamplePolicy { samples_max: 10_000, warmup_ms: DEEP_WARM_MS, limit_ms: 5_000.0, ..contender() }
}

pub fn within(policy: SamplePolicy, most: Option<Duration>) -> SamplePolicy {
    let Some(most_ms) = most.map(|most| most.as_secs_f64() * 1e3) else { return policy };
    SamplePolicy {
        warmup_ms: policy.warmup_ms.min(most_ms),
        limit_ms: policy.limit_ms.min(most_ms),
        ..policy
    }
}

const LONG_CALL_NS: f64 = 50e6;
const LONG_CALL_SAMPLES: usize = 10;
/// The window over which the interval must keep shrinking, and by how much.
const STABLE_WINDOW: usize = 64;
const STABLE_CHANGE: f64 = 0.05;

/// `elapsed_ms` into sampling; `None` means go on.
pub fn decide(samples_ns: &[f64], elapsed_ms: f64, policy: &SamplePolicy) -> Option<StopRule> {
    let ascending = sorted(samples_ns);
    let fastest = *ascending.first()?;
    // Before the minimum is asked for: a hopeless variant should not take up that many samples. Two at least, so that a
    // single disturbed sample does not condemn a variant.
    if policy.abandon_above_ns.is_some_and(|above| ascending.len() >= 2 && fastest > above) {
        return Some(StopRule::Abandoned);
    }
    let center = quantile(&ascending, 0.5);
    let is_plain = policy.race.is_none() && !policy.screen;
    let most_needed = if is_plain && center > LONG_CALL_NS { LONG_CALL_SAMPLES } else { usize::MAX };
    let is_over = ascending.len() >= policy.samples_max as usize || elapsed_ms >= policy.limit_ms;
    let limit = is_over.then_some(StopRule::Limit);
    if ascending.len() < (policy.samples_min as usize).min(most_needed) {
        return limit;
    }
    let interval = order_interval(&ascending);
    let tight = (interval.relative_half_width(center) < policy.interval).then_some(StopRule::Interval);
    let rule = if let Some(RacePolicy { rival_ns }) = policy.race {
        // Until the interval lies to one side of the time to beat, or is as tight as it has to be for a ranking.
        let is_separated = rival_ns.is_some_and(|rival| interval.low > rival || interval.high < rival);
        is_separated.then_some(StopRule::Separated).or(tight)
    } else if policy.screen {
        // On where samples disagree, or where the median lies within 5 % of the limit that decides.
        let spread = (quantile(&ascending, 0.75) - quantile(&ascending, 0.25)) / center;
        let is_close = policy.abandon_above_ns.is_some_and(|above| (center / above - 1.0).abs() < 0.05);
        (is_over || spread < 0.02 && !is_close).then_some(StopRule::Screen)
    } else {
        tight.or_else(|| stopped_shrinking(samples_ns).then_some(StopRule::Stable))
    };
    rule.or(limit)
}

/// By the last 64 samples the median's interval narrowed by less than 5 %: more of the same noise no longer helps.
fn stopped_shrinking(samples_ns: &[f64]) -> bool {
    // Both intervals need a window of samples, so the rule cannot apply before twice the window.
    let Some(before) = samples_ns.len().checked_sub(STABLE_WINDOW).filter(|n| *n >= STABLE_WINDOW) else {
        return false;
    };
    let width = |samples: &[f64]| {
        let interval = order_interval(&sorted(samples));
        interval.high - interval.low
    };
    let (earlier, now) = (width(&samples_ns[..before]), width(samples_ns));
    now > earlier * (1.0 - STABLE_CHANGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_only_shortens() {
        assert_eq!(within(deep(), None), deep());
        let short = within(deep(), Some(Duration::from_millis(150)));
        assert_eq!((short.warmup_ms, short.limit_ms), (150.0, 150.0));
        assert_eq!(SamplePolicy { warmup_ms: DEEP_WARM_MS, limit_ms: 5_000.0, ..short }, deep());
        assert_eq!(within(contender(), Some(Duration::from_secs(5))), contender());
    }

    fn check(samples: &[f64], elapsed_ms: f64, policy: &SamplePolicy, expected: Option<StopRule>) {
        assert_eq!(decide(samples, elapsed_ms, policy), expected, "{} samples", samples.len());
    }

    #[test]
    fn a_quiet_series_stops_at_the_minimum() {
        let policy = contender();
        check(&[100.0; 29], 1.0, &policy, None);
        check(&[100.0; 30], 1.0, &policy, Some(StopRule::Interval));
        check(&[60e6; 9], 1.0, &policy, None);
        check(&[60e6; 10], 1.0, &policy, Some(StopRule::Interval));
    }

    #[test]
    fn a_noisy_series_ends_when_more_does_not_help_or_time_is_up() {
        let noisy = |n: usize| -> Vec<f64> { (0..n).map(|i| 100.0 + (i * 7919 % 50) as f64).collect() };
        let policy = deep();
        check(&noisy(60), 1.0, &policy, None);
        check(&noisy(60), policy.limit_ms, &policy, Some(StopRule::Limit));
        let growing: Vec<f64> = (0..200).map(|i| 100.0 + f64::from(i / 10)).collect();
        check(&growing, 1.0, &policy, Some(StopRule::Stable));
    }

    #[test]
    fn losers_are_abandoned_after_two_samples() {
        let policy = screen(Some(100.0));
        check(&[400.0], 1.0, &policy, None);
        check(&[400.0, 390.0], 1.0, &policy, Some(StopRule::Abandoned));
        check(&[400.0, 99.0], 1.0, &policy, None);
    }

    #[test]
    fn a_race_ends_when_it_is_decided() {
        let series =
            |base: f64, n: usize| -> Vec<f64> { (0..n).map(|i| base + (i * 7 % 5) as f64).collect() };
        let policy = race(Some(100.0));
        check(&series(110.0, 8), 1.0, &policy, None);
        check(&series(110.0, 9), 1.0, &policy, Some(StopRule::Separated));
        check(&series(80.0, 9), 1.0, &policy, Some(StopRule::Separated));
        check(&series(98.0, 20), 1.0, &policy, None);
        check(&[100.0; 20], 1.0, &policy, Some(StopRule::Interval));
        check(&series(98.0, 60), 1.0, &policy, Some(StopRule::Limit));
        check(&series(98.0, 20), policy.limit_ms, &policy, Some(StopRule::Limit));
        // Without a time to beat it goes on until the interval is tight.
        check(&series(110.0, 9), 1.0, &race(None), None);
    }

    #[test]
    fn screening_takes_few_samples_and_more_where_it_is_close() {
        let policy = screen(Some(100.0));
        check(&[80.0, 80.5, 80.2], 1.0, &policy, Some(StopRule::Screen));
        check(&[97.0, 97.5, 97.2], 1.0, &policy, None);
        check(&[97.0, 97.5, 97.2, 97.0, 97.1, 97.0, 97.3], 1.0, &policy, Some(StopRule::Screen));
        check(&[50.0, 80.5, 60.2], 1.0, &policy, None);
    }
}
