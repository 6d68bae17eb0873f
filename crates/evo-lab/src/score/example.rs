//! The small space that the tests of this module work out by hand.

use super::yardstick::Price;

/// Ten valid configurations that take 1 to 10 ns and cost 100 ms (10 more when they were recorded),
/// and two that fail and cost 60 ms.
pub(super) fn ten() -> Vec<Price> {
    let valid = (1..=10).map(|value| Price {
        objective_ns: Some(f64::from(value)),
        first_ms: 100.0,
        again_ms: 40.0,
        recorded_ms: 110.0,
    });
    let failing = Price { objective_ns: None, first_ms: 60.0, again_ms: 0.0, recorded_ms: 60.0 };
    valid.chain([failing; 2]).collect()
}
