//! Scores searches on recorded spaces by the auto-tuning community's method: random search scores 0, and
//! finding the optimum at once scores 1.
//!
//! Source: Willemsen et al., "A Methodology for Comparing Auto-Tuning Optimization Algorithms". `yardstick`
//! decides how long a search is watched and what random search is expected to find in that time. `RunProgress` puts
//! a run on the clock. `typical` turns many runs into one curve, which is compared with the baseline here.

mod typical;
mod yardstick;

use std::collections::HashSet;

use evo_space::sample::seeded;
use evo_timing::stats::median;
use serde::Serialize;

pub use yardstick::Yardstick;

/// The seed of the bootstrap: scores of the same runs are the same.
const BOOTSTRAP_SEED: u64 = 0x7363_6f72_6573;

#[derive(Clone, Debug, PartialEq)]
pub struct SpaceScore {
    /// Mean of the curve; none when no run found anything.
    pub score: Option<f64>,
    pub curve: Vec<f64>,
    pub reached: [TargetReached; 2],
    pub runs: usize,
}

/// How soon and how surely runs came within a tolerance of the optimum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TargetReached {
    /// Median of the distinct evaluations until then; none when fewer than half of the runs got there.
    #[serde(rename = "evaluations_median")]
    pub evaluations: Option<f64>,
    /// Runs that did not get there within the scored range.
    #[serde(rename = "runs_stuck")]
    pub stuck: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aggregate {
    /// Mean over spaces, then over time.
    pub score: f64,
    /// Standard deviation over time of the mean over spaces.
    pub spread: f64,
}

pub fn score(yardstick: &Yardstick, runs: &[RunProgress]) -> SpaceScore {
    let typical = typical::values(yardstick, runs, &mut seeded(BOOTSTRAP_SEED));
    // 0 is what random search has found by then, 1 the optimum.
    let relative = |(value, baseline): (f64, &f64)| (baseline - value) / (baseline - yardstick.optimum());
    let curve: Vec<f64> = typical.into_iter().flatten().zip(&yardstick.baseline).map(relative).collect();
    let score = (!curve.is_empty()).then(|| mean(&curve));
    SpaceScore { score, curve, reached: [0, 1].map(|at| reached(yardstick, runs, at)), runs: runs.len() }
}

fn reached(yardstick: &Yardstick, runs: &[RunProgress], tolerance: usize) -> TargetReached {
    let hits = || runs.iter().map(|run| run.hits[tolerance]);
    let evaluations: Vec<f64> =
        hits().map(|hit| hit.map_or(f64::INFINITY, |hit| hit.evaluations as f64)).collect();
    let inside = hits().flatten().filter(|hit| hit.time_ms <= yardstick.end_ms()).count();
    // Runs that never got there count as infinitely late, so the median is finite only if half of them did.
    let median = median(&evaluations);
    TargetReached { evaluations: median.is_finite().then_some(median), stuck: runs.len() - inside }
}

/// The mean over spaces at each point in time, and its mean and spread over time; none for no curve.
pub fn aggregate<'a>(curves: impl Iterator<Item = &'a [f64]>) -> Option<Aggregate> {
    let curves: Vec<&[f64]> = curves.filter(|curve| !curve.is_empty()).collect();
    let over_spaces = |at: usize| mean(&curves.iter().map(|curve| curve[at]).collect::<Vec<_>>());
    let points = curves.first()?.len();
    let curve: Vec<f64> = (0..points).map(over_spaces).collect();
    let score = mean(&curve);
    let variance = mean(&curve.iter().map(|value| (value - score).powi(2)).collect::<Vec<_>>());
    Some(Aggregate { score, spread: variance.sqrt() })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

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
    pub distinct: usize,
    /// Distinct evaluations that failed.
    pub failures: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
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
    use super::yardstick::ten;
    use super::*;

    fn check(runs: &[&[u32]]) -> SpaceScore {
        let yardstick = Yardstick::new(ten()).unwrap();
        let runs: Vec<RunProgress> = runs.iter().map(|run| RunProgress::of(&yardstick, run, &[])).collect();
        score(&yardstick, &runs)
    }

    #[test]
    fn the_optimum_at_once_is_1() {
        let score = check(&[&[0, 5, 6, 7][..]; 3]);
        assert_eq!(score.score, Some(1.0));
        assert_eq!(score.reached, [TargetReached { evaluations: Some(1.0), stuck: 0 }; 2]);
    }

    #[test]
    fn staying_at_one_value_is_measured_against_a_falling_baseline() {
        // 4 ns from the first moment, while the baseline falls from 4 to 2 ns: gap 2x over 3 - 2x.
        let score = check(&[&[3, 5, 6, 7][..]; 4]);
        let expected = |x: f64| -2.0 * x / (3.0 - 2.0 * x);
        let mean = (0..1000).map(|at| expected(f64::from(at) / 999.0)).sum::<f64>() / 1000.0;
        assert!((score.score.unwrap() - mean).abs() < 1e-9, "{:?}", score.score);
        assert!((score.curve[999] + 2.0).abs() < 1e-9);
        assert_eq!(score.reached, [TargetReached { evaluations: None, stuck: 4 }; 2]);
    }

    #[test]
    fn ranks_are_averaged_over_runs() {
        // Ranks 0 and 2, half of the runs each: rank 1 on the average, 2 ns, up to the noise of samples.
        let runs: Vec<&[u32]> =
            (0..60).map(|run| if run % 2 == 0 { &[0, 5, 6, 7][..] } else { &[2, 5, 6, 7] }).collect();
        let score = check(&runs);
        let expected = |x: f64| (2.0 - 2.0 * x) / (3.0 - 2.0 * x);
        let mean = (0..1000).map(|at| expected(f64::from(at) / 999.0)).sum::<f64>() / 1000.0;
        assert!((score.score.unwrap() - mean).abs() < 1e-9, "{:?} {mean}", score.score);
        // Half of the runs never come close: the median lies between 1 and never.
        assert_eq!(score.reached, [TargetReached { evaluations: None, stuck: 30 }; 2]);
    }

    #[test]
    fn runs_that_fail_or_end_early_are_no_trouble() {
        assert_eq!(check(&[&[10, 11], &[]]).score, None);
        assert_eq!(check(&[]).score, None);
        let early = check(&[&[4, 0][..]; 3]);
        assert!(early.score.is_some_and(f64::is_finite));
        assert_eq!(early.reached[0], TargetReached { evaluations: Some(2.0), stuck: 0 });
    }

    #[test]
    fn aggregates_are_means_over_spaces_with_the_spread_over_time() {
        let total = aggregate([&[1.0, 0.0][..], &[0.0, 0.0], &[]].into_iter()).unwrap();
        assert_eq!(total, Aggregate { score: 0.25, spread: 0.25 });
        assert_eq!(aggregate(std::iter::empty()), None);
    }

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
