//! Scores from runs: of one search on one space, and over several spaces.

use evo_space::sample::seeded;
use evo_timing::stats::median;

use super::run_progress::RunProgress;
use super::typical;
use super::yardstick::Yardstick;

/// The seed of the bootstrap: scores of the same runs are the same.
const BOOTSTRAP_SEED: u64 = 0x7363_6f72_6573;

/// How one search did on one space.
#[derive(Clone, Debug, PartialEq)]
pub struct SpaceScore {
    /// Mean of the curve; none when no run found anything.
    pub score: Option<f64>,
    /// The score at each point in time.
    pub curve: Vec<f64>,
    /// By the tolerances.
    pub reached: [TargetReached; 2],
    pub runs: usize,
}

/// How soon and how surely runs came within a tolerance of the optimum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetReached {
    /// Median of the distinct evaluations until then; none when fewer than half of the runs got there.
    pub evaluations: Option<f64>,
    /// Runs that did not get there within the scored range.
    pub stuck: usize,
}

/// How one search did on several spaces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aggregate {
    /// Mean over spaces, then over time.
    pub score: f64,
    /// Standard deviation over time of the mean over spaces.
    pub spread: f64,
}

/// Scores the runs of one search on one space.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::yardstick::ten;

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
}
