//! The time that a strategy itself takes to propose.

use evo_timing::stats::{quantile, sorted};
use serde_json::{Value, json};

/// A strategy's own time per proposal, milliseconds.
pub struct OwnTime {
    pub median: f64,
    pub p95: f64,
}

impl OwnTime {
    /// Median and 95th percentile of these times; `None` if there are none.
    pub fn of(times: impl Iterator<Item = f64>) -> Option<OwnTime> {
        let times = sorted(&times.collect::<Vec<_>>());
        let time = || OwnTime { median: quantile(&times, 0.5), p95: quantile(&times, 0.95) };
        (!times.is_empty()).then(time)
    }
}

/// For people.
pub fn text(time: &Option<OwnTime>) -> String {
    match time {
        Some(OwnTime { median, p95 }) => format!("{median:.3} ms, {p95:.3} ms"),
        None => "not counted".to_string(),
    }
}

/// For programs.
pub fn object(time: &Option<OwnTime>) -> Value {
    match time {
        Some(OwnTime { median, p95 }) => json!({ "median_ms": median, "p95_ms": p95 }),
        None => Value::Null,
    }
}
