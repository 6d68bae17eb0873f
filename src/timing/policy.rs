//! The sampling policies of the cascade: a screening for every variant, a contender's measurement, and
//! the deep one of finalists and of `evo test-one`.

use evo_protocol::worker::SamplePolicy;

/// A screening: one warm-up call and three to seven samples, abandoned above `abandon_above_ns`.
pub fn screen(abandon_above_ns: Option<f64>) -> SamplePolicy {
    SamplePolicy {
        screen: true,
        samples_min: 3,
        samples_max: 7,
        interval: 0.02,
        warmup_ms: 0.0,
        limit_ms: 2_000.0,
        abandon_above_ns,
    }
}

/// A contender's measurement. Its warm-up is shorter than the deep one's, because the lane that
/// screens without a pause has kept the device warm.
pub fn contender() -> SamplePolicy {
    SamplePolicy {
        screen: false,
        samples_min: 30,
        samples_max: 1_000,
        interval: 0.005,
        warmup_ms: 40.0,
        // Short, so that a noisy host does not hold the lane (since 2026-11-21).
        limit_ms: 500.0,
        abandon_above_ns: None,
    }
}

/// The deep measurement: warm-up by time to a steady state, then 5 s at most. A quiet device reaches the
/// interval in a tenth of that; on a noisy one, more samples of the same noise would not help.
pub fn deep() -> SamplePolicy {
    SamplePolicy {
        screen: false,
        samples_min: 30,
        samples_max: 10_000,
        interval: 0.005,
        warmup_ms: 300.0,
        limit_ms: 5_000.0,
        abandon_above_ns: None,
    }
}
