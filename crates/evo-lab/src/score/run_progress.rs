//! One run as the judge sees it: when it had found what.

use std::collections::HashSet;

use super::yardstick::Yardstick;

/// How close to the optimum is close, as shares of it.
pub const TOLERANCES: [f64; 2] = [0.05, 0.01];

/// The best value so far after every evaluation of a run.
#[derive(Debug)]
pub struct RunProgress {
    /// The clock after each evaluation, milliseconds.
    pub times: Vec<f64>,
    /// Nanoseconds; none while everything has failed.
    pub best: Vec<Option<f64>>,
    /// When it was first within each of `TOLERANCES`.
    pub hits: [Option<Hit>; 2],
    /// Distinct evaluations.
    pub distinct: usize,
    /// Distinct evaluations that failed.
    pub failures: usize,
}

/// The moment when a run came close.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Distinct evaluations by then.
    pub evaluations: usize,
    pub time_ms: f64,
}

impl RunProgress {
    /// Plays the evaluations, by row number, on the clock. `overhead_ms` is the search's own time before each
    /// evaluation; what it leaves out is 0.
    pub fn of(yardstick: &Yardstick, evaluations: &[u32], overhead_ms: &[f64]) -> RunProgress {
        let mut progress =
            RunProgress { times: Vec::new(), best: Vec::new(), hits: [None; 2], distinct: 0, failures: 0 };
        let (mut clock, mut best, mut seen) = (0.0, None::<f64>, HashSet::new());
        for (at, row) in evaluations.iter().enumerate() {
            let price = yardstick.prices[*row as usize];
            clock += overhead_ms.get(at).copied().unwrap_or(0.0);
            // A repeated configuration costs its benchmark runs again and nothing else, as the reference
            // implementation counts it.
            if seen.insert(*row) {
                clock += price.first_ms;
                progress.failures += usize::from(price.objective_ns.is_none());
            } else {
                clock += price.again_ms;
            }
            if let Some(value) = price.objective_ns.filter(|value| best.is_none_or(|best| *value < best)) {
                best = Some(value);
                let hit = Hit { evaluations: seen.len(), time_ms: clock };
                progress.note(value, yardstick.optimum(), hit);
            }
            progress.times.push(clock);
            progress.best.push(best);
        }
        progress.distinct = seen.len();
        progress
    }

    fn note(&mut self, value: f64, optimum: f64, hit: Hit) {
        for (known, tolerance) in self.hits.iter_mut().zip(TOLERANCES) {
            if value <= optimum * (1.0 + tolerance) && known.is_none() {
                *known = Some(hit);
            }
        }
    }

    /// Time and value of each evaluation once something was found, of the first `longest` evaluations.
    pub fn found(&self, longest: usize) -> impl Iterator<Item = (f64, f64)> {
        let all = self.times.iter().zip(&self.best).take(longest);
        all.filter_map(|(time, best)| best.map(|best| (*time, best)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::yardstick::ten;

    #[test]
    fn the_clock_counts_overhead_failures_and_repeats() {
        let yardstick = Yardstick::new(ten()).unwrap();
        let progress = RunProgress::of(&yardstick, &[10, 6, 6, 0, 3], &[1.0, 2.0]);
        // A failure for 60 ms, 7 ns for 100 ms, its runs again for 40 ms, the optimum, 4 ns.
        assert_eq!(progress.times, [61.0, 163.0, 203.0, 303.0, 403.0]);
        assert_eq!(progress.best, [None, Some(7.0), Some(7.0), Some(1.0), Some(1.0)]);
        assert_eq!((progress.distinct, progress.failures), (4, 1));
        assert_eq!(progress.hits, [Some(Hit { evaluations: 3, time_ms: 303.0 }); 2]);
        assert_eq!(progress.found(4).collect::<Vec<_>>(), [(163.0, 7.0), (203.0, 7.0), (303.0, 1.0)]);
    }
}
