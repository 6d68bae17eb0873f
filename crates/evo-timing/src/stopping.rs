//! When there are enough samples: a pure function of the samples so far.
//!
//! At least `samples_min` samples are taken (10 for calls over 50 ms). Sampling then goes on until the median's 95 %
//! interval is tight, more samples no longer help, or the time is up.

use evo_protocol::measurement::StopRule;
use evo_protocol::worker::{RacePolicy, SamplePolicy};

use super::stats::{order_interval, quantile, sorted};

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
    use crate::policy;

    fn check(samples: &[f64], elapsed_ms: f64, policy: &SamplePolicy, expected: Option<StopRule>) {
        assert_eq!(decide(samples, elapsed_ms, policy), expected, "{} samples", samples.len());
    }

    #[test]
    fn a_quiet_series_stops_at_the_minimum() {
        let policy = policy::contender();
        check(&[100.0; 29], 1.0, &policy, None);
        check(&[100.0; 30], 1.0, &policy, Some(StopRule::Interval));
        check(&[60e6; 9], 1.0, &policy, None);
        check(&[60e6; 10], 1.0, &policy, Some(StopRule::Interval));
    }

    #[test]
    fn a_noisy_series_ends_when_more_does_not_help_or_time_is_up() {
        let noisy = |n: usize| -> Vec<f64> { (0..n).map(|i| 100.0 + (i * 7919 % 50) as f64).collect() };
        let policy = policy::deep();
        check(&noisy(60), 1.0, &policy, None);
        check(&noisy(60), policy.limit_ms, &policy, Some(StopRule::Limit));
        let growing: Vec<f64> = (0..200).map(|i| 100.0 + f64::from(i / 10)).collect();
        check(&growing, 1.0, &policy, Some(StopRule::Stable));
    }

    #[test]
    fn losers_are_abandoned_after_two_samples() {
        let policy = policy::screen(Some(100.0));
        check(&[400.0], 1.0, &policy, None);
        check(&[400.0, 390.0], 1.0, &policy, Some(StopRule::Abandoned));
        check(&[400.0, 99.0], 1.0, &policy, None);
    }

    #[test]
    fn a_race_ends_when_it_is_decided() {
        let series =
            |base: f64, n: usize| -> Vec<f64> { (0..n).map(|i| base + (i * 7 % 5) as f64).collect() };
        let policy = policy::race(Some(100.0));
        check(&series(110.0, 8), 1.0, &policy, None);
        check(&series(110.0, 9), 1.0, &policy, Some(StopRule::Separated));
        check(&series(80.0, 9), 1.0, &policy, Some(StopRule::Separated));
        check(&series(98.0, 20), 1.0, &policy, None);
        check(&[100.0; 20], 1.0, &policy, Some(StopRule::Interval));
        check(&series(98.0, 60), 1.0, &policy, Some(StopRule::Limit));
        check(&series(98.0, 20), policy.limit_ms, &policy, Some(StopRule::Limit));
        // Without a time to beat it goes on until the interval is tight.
        check(&series(110.0, 9), 1.0, &policy::race(None), None);
    }

    #[test]
    fn screening_takes_few_samples_and_more_where_it_is_close() {
        let policy = policy::screen(Some(100.0));
        check(&[80.0, 80.5, 80.2], 1.0, &policy, Some(StopRule::Screen));
        check(&[97.0, 97.5, 97.2], 1.0, &policy, None);
        check(&[97.0, 97.5, 97.2, 97.0, 97.1, 97.0, 97.3], 1.0, &policy, Some(StopRule::Screen));
        check(&[50.0, 80.5, 60.2], 1.0, &policy, None);
    }
}
