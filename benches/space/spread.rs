//! Repeated measurements of one thing: median, least and greatest.

use std::hint::black_box;
use std::time::Instant;

use serde::Serialize;

/// What several runs of one thing took, in the unit of the field that holds it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub runs: usize,
}

impl Spread {
    /// Of at least one measurement.
    pub fn of(mut all: Vec<f64>) -> Spread {
        assert!(!all.is_empty(), "a spread needs a measurement");
        all.sort_by(f64::total_cmp);
        let runs = all.len();
        Spread {
            median: f64::midpoint(all[(runs - 1) / 2], all[runs / 2]),
            min: all[0],
            max: all[runs - 1],
            runs,
        }
    }

    /// Seconds that `work` takes, over `runs` runs; what it makes is dropped outside the clock.
    pub fn seconds<T>(runs: usize, mut work: impl FnMut() -> T) -> Spread {
        let once = |_| {
            let start = Instant::now();
            let made = black_box(work());
            let seconds = start.elapsed().as_secs_f64();
            drop(made);
            seconds
        };
        Spread::of((0..runs).map(once).collect())
    }

    /// The same in another unit.
    pub fn times(self, factor: f64) -> Spread {
        Spread { median: self.median * factor, min: self.min * factor, max: self.max * factor, ..self }
    }
}
