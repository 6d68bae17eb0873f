//! The sampling policies of the cascade.

use std::time::Duration;

use evo_protocol::worker::{RacePolicy, SamplePolicy};

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
}
