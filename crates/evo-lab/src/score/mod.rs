//! Scores searches on recorded spaces by the auto-tuning community's method: random search scores 0, and
//! finding the optimum at once scores 1.
//!
//! Source: Willemsen et al., "A Methodology for Comparing Auto-Tuning Optimization Algorithms". `yardstick`
//! decides how long a search is watched and what random search is expected to find in that time. `RunProgress` puts
//! a run on the clock. `typical` turns many runs into one curve, the value that a search has found by each point in
//! time, which is compared with the baseline. Its mean is taken over ranks, by isotonic regression on bootstrap samples
//! of all runs' points. One run in ten that is stuck at rank 200 costs as much as all ten at rank 20.

mod yardstick;

use std::collections::HashSet;

use evo_space::sample::seeded;
use evo_timing::stats::median;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::simulate::Run;

pub use yardstick::Yardstick;

/// The seed of the bootstrap: scores of the same runs are the same.
const BOOTSTRAP_SEED: u64 = 0x7363_6f72_6573;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpaceScore {
    /// Mean of the curve; none when no run found anything.
    pub score: Option<f64>,
    #[serde(skip)]
    pub curve: Vec<f64>,
    #[serde(rename = "final")]
    last: Option<f64>,
    pub runs: usize,
    within_5_percent: TargetReached,
    within_1_percent: TargetReached,
}

impl SpaceScore {
    pub fn reached(&self) -> [TargetReached; 2] {
        [self.within_5_percent, self.within_1_percent]
    }
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

pub fn score(yardstick: &Yardstick, runs: &[RunProgress]) -> SpaceScore {
    let typical = typical(yardstick, runs, &mut seeded(BOOTSTRAP_SEED));
    // 0 is what random search has found by then, 1 the optimum.
    let relative = |(value, baseline): (f64, &f64)| (baseline - value) / (baseline - yardstick.optimum());
    let curve: Vec<f64> = typical.into_iter().flatten().zip(&yardstick.baseline).map(relative).collect();
    let score = (!curve.is_empty()).then(|| mean(&curve));
    let [within_5_percent, within_1_percent] = [0, 1].map(|at| reached(yardstick, runs, at));
    let (last, runs) = (curve.last().copied(), runs.len());
    SpaceScore { score, curve, last, runs, within_5_percent, within_1_percent }
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

/// The mean over spaces and over time, and the standard deviation over time of the mean over spaces; none for no curve.
pub fn aggregate<'a>(curves: impl Iterator<Item = &'a [f64]>) -> Option<(f64, f64)> {
    let curves: Vec<&[f64]> = curves.filter(|curve| !curve.is_empty()).collect();
    let over_spaces = |at: usize| mean(&curves.iter().map(|curve| curve[at]).collect::<Vec<_>>());
    let points = curves.first()?.len();
    let curve: Vec<f64> = (0..points).map(over_spaces).collect();
    let score = mean(&curve);
    let variance = mean(&curve.iter().map(|value| (value - score).powi(2)).collect::<Vec<_>>());
    Some((score, variance.sqrt()))
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
    pub fn of(yardstick: &Yardstick, run: &Run) -> RunProgress {
        let mut progress =
            RunProgress { times: Vec::new(), best: Vec::new(), hits: [None; 2], distinct: 0, failures: 0 };
        let (mut clock, mut best, mut seen) = (0.0, None::<f64>, HashSet::new());
        for (at, row) in run.evaluations.iter().enumerate() {
            let priced = &yardstick.rows[*row as usize];
            clock += run.overhead_ms.get(at).copied().unwrap_or(0.0);
            // A repeated configuration costs its benchmark runs again and nothing else, as the reference
            // implementation counts it.
            if seen.insert(*row) {
                clock += priced.cost.total_ms();
                progress.failures += usize::from(priced.objective_ns.is_none());
            } else {
                clock += priced.cost.runs_ms;
            }
            if let Some(value) = priced.objective_ns.filter(|value| best.is_none_or(|best| *value < best)) {
                best = Some(value);
                let hit = Hit { evaluations: seen.len(), time_ms: clock };
                for (known, tolerance) in progress.hits.iter_mut().zip(TOLERANCES) {
                    if value <= yardstick.optimum() * (1.0 + tolerance) {
                        known.get_or_insert(hit);
                    }
                }
            }
            progress.times.push(clock);
            progress.best.push(best);
        }
        progress.distinct = seen.len();
        progress
    }

    /// Time and value of each evaluation once something was found, of the first `longest` evaluations.
    pub fn found(&self, longest: usize) -> impl Iterator<Item = (f64, f64)> {
        let all = self.times.iter().zip(&self.best).take(longest);
        all.filter_map(|(time, best)| best.map(|best| (*time, best)))
    }
}

/// Bootstrap samples. The method takes one per run; at ten runs that alone moves a score by 0.03.
const SAMPLES: usize = 1000;

/// The method bags over at least so many runs.
const FEWEST_RUNS: usize = 3;

/// The typical value at each point of the yardstick's grid, nanoseconds; `None` if no run found a valid
/// configuration in time.
fn typical(yardstick: &Yardstick, runs: &[RunProgress], rng: &mut ChaCha8Rng) -> Option<Vec<f64>> {
    let longest = longest(runs);
    let points = points(yardstick, runs, longest)?;
    let grid = &yardstick.grid;
    let runs_counted = runs.len().max(FEWEST_RUNS);
    // The size of a sample as in the reference implementation: points over the root of the number of runs.
    let take = ((points.len() as f64 / (runs_counted as f64).sqrt()) as usize).max(1);
    let mut ranks = vec![0.0; grid.len()];
    for _ in 0..SAMPLES {
        let mut picked: Vec<usize> = (0..take).map(|_| rng.random_range(0..points.len())).collect();
        picked.sort_unstable();
        Falling::fit(picked.into_iter().map(|at| points[at])).add_to(grid, &mut ranks);
    }
    // A mean rank is rounded to a rank that exists, half to even as the reference implementation rounds.
    let last = yardstick.ascending.len() - 1;
    let value =
        |rank: &f64| yardstick.ascending[((rank / SAMPLES as f64).round_ties_even() as usize).min(last)];
    let mut values: Vec<f64> = ranks.iter().map(value).collect();
    flatten(&mut values, grid, runs, longest);
    Some(values)
}

/// How many evaluations of a run count: outliers in length are cut.
fn longest(runs: &[RunProgress]) -> usize {
    let lengths = || runs.iter().map(|run| run.times.len());
    // A strategy that repeats known failures for free can make thousands of evaluations in no time; without the
    // cut its points would outweigh those of all other runs.
    let twice = 2 * lengths().sum::<usize>() / runs.len().max(1);
    lengths().max().unwrap_or(0).min(twice)
}

/// Time and rank of the best so far, of all runs, in and a little around the scored range, in order of time.
fn points(yardstick: &Yardstick, runs: &[RunProgress], longest: usize) -> Option<Vec<(f64, f64)>> {
    let found = |run: &RunProgress| run.best.iter().take(longest).position(Option::is_some);
    let first = runs.iter().filter_map(found).min()?;
    let counted = |run: &RunProgress| found(run).map(|_| run.best.len().min(longest));
    let rows = runs.iter().filter_map(counted).max()?;
    // The regression needs points on both sides of the range; the reference implementation takes this margin.
    let margin = 0.1 + 0.25 / (rows - first) as f64;
    let range = yardstick.grid[0] * (1.0 - margin)..=yardstick.end_ms() * (1.0 + margin);
    let rank = |best: f64| yardstick.ascending.partition_point(|value| *value < best) as f64;
    let of_run = |run: &RunProgress| {
        let near = run.found(longest).filter(|(time, _)| range.contains(time));
        near.map(|(time, best)| (time, rank(best))).collect::<Vec<_>>()
    };
    let mut points: Vec<(f64, f64)> = runs.iter().flat_map(of_run).collect();
    // Points with equal times need a fixed order too: otherwise the bootstrap would pick others when the runs come
    // in another order.
    points.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    (!points.is_empty()).then_some(points)
}

/// Holds the curve constant once more than half of the runs have ended, since the remaining runs are not typical.
fn flatten(values: &mut [f64], grid: &[f64], runs: &[RunProgress], longest: usize) {
    let mut ends: Vec<f64> =
        runs.iter().filter_map(|run| run.found(longest).last()).map(|(time, _)| time).collect();
    ends.sort_by(f64::total_cmp);
    let middle = median(&ends);
    let Some(stop) = ends.into_iter().find(|end| *end > middle) else { return };
    if let Some(from) = grid.iter().position(|time| *time > stop) {
        let value = values[from];
        values[from..].fill(value);
    }
}

/// A falling function: values at ascending places, straight lines between them, constant outside.
#[derive(Debug)]
struct Falling {
    xs: Vec<f64>,
    levels: Vec<f64>,
}

/// Neighboring places with a common level.
struct PooledBlock {
    level: f64,
    weight: f64,
    places: usize,
}

impl Falling {
    /// Fits points whose places ascend; points at one place count as their mean. At least one point.
    fn fit(points: impl Iterator<Item = (f64, f64)>) -> Falling {
        let (mut xs, mut blocks) = (Vec::<f64>::new(), Vec::<PooledBlock>::new());
        let mut places = points.peekable();
        while let Some((x, first)) = places.next() {
            let (mut level, mut weight) = (first, 1.0);
            while let Some((_, y)) = places.next_if(|(next, _)| *next == x) {
                weight += 1.0;
                // A running mean, so that points at one place weigh as much as there are.
                level += (y - level) / weight;
            }
            xs.push(x);
            push(&mut blocks, PooledBlock { level, weight, places: 1 });
        }
        let levels = blocks.iter().flat_map(|block| std::iter::repeat_n(block.level, block.places)).collect();
        Falling { xs, levels }
    }

    /// Adds its values at ascending places to `sums`.
    fn add_to(&self, places: &[f64], sums: &mut [f64]) {
        let (xs, levels) = (&self.xs, &self.levels);
        let last = xs.len() - 1;
        let mut piece = 0;
        for (x, sum) in places.iter().zip(sums) {
            *sum += if *x <= xs[0] {
                levels[0]
            } else if *x >= xs[last] {
                levels[last]
            } else {
                // Places ascend, so the piece only ever moves forward.
                while xs[piece + 1] < *x {
                    piece += 1;
                }
                let share = (x - xs[piece]) / (xs[piece + 1] - xs[piece]);
                levels[piece] + share * (levels[piece + 1] - levels[piece])
            };
        }
    }
}

/// Adds a block and pools from the end while levels rise.
fn push(blocks: &mut Vec<PooledBlock>, mut block: PooledBlock) {
    // A merged block can be above the one before it, so merging goes on backwards; each block is merged at most
    // once, which keeps the fit linear.
    while let Some(before) = blocks.pop_if(|before| before.level < block.level) {
        let weight = before.weight + block.weight;
        let level = (before.level * before.weight + block.level * block.weight) / weight;
        block = PooledBlock { level, weight, places: before.places + block.places };
    }
    blocks.push(block);
}

#[cfg(test)]
mod tests {
    use super::yardstick::ten;
    use super::*;

    fn of(evaluations: &[u32], overhead_ms: &[f64]) -> Run {
        Run { evaluations: evaluations.to_vec(), overhead_ms: overhead_ms.to_vec(), illegal: 0 }
    }

    fn check(runs: &[&[u32]]) -> SpaceScore {
        let yardstick = Yardstick::new(&ten()).unwrap();
        let runs = runs.iter().map(|run| RunProgress::of(&yardstick, &of(run, &[])));
        let runs: Vec<RunProgress> = runs.collect();
        score(&yardstick, &runs)
    }

    #[test]
    fn the_optimum_at_once_is_1() {
        let score = check(&[&[0, 5, 6, 7][..]; 3]);
        assert_eq!(score.score, Some(1.0));
        assert_eq!(score.reached(), [TargetReached { evaluations: Some(1.0), stuck: 0 }; 2]);
    }

    #[test]
    fn staying_at_one_value_is_measured_against_a_falling_baseline() {
        // 4 ns from the first moment, while the baseline falls from 4 to 2 ns: gap 2x over 3 - 2x.
        let score = check(&[&[3, 5, 6, 7][..]; 4]);
        let expected = |x: f64| -2.0 * x / (3.0 - 2.0 * x);
        let mean = (0..1000).map(|at| expected(f64::from(at) / 999.0)).sum::<f64>() / 1000.0;
        assert!((score.score.unwrap() - mean).abs() < 1e-9, "{:?}", score.score);
        assert!((score.curve[999] + 2.0).abs() < 1e-9);
        assert_eq!(score.reached(), [TargetReached { evaluations: None, stuck: 4 }; 2]);
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
        assert_eq!(score.reached(), [TargetReached { evaluations: None, stuck: 30 }; 2]);
    }

    #[test]
    fn runs_that_fail_or_end_early_are_no_trouble() {
        assert_eq!(check(&[&[10, 11], &[]]).score, None);
        assert_eq!(check(&[]).score, None);
        let early = check(&[&[4, 0][..]; 3]);
        assert!(early.score.is_some_and(f64::is_finite));
        assert_eq!(early.reached()[0], TargetReached { evaluations: Some(2.0), stuck: 0 });
    }

    #[test]
    fn aggregates_are_means_over_spaces_with_the_spread_over_time() {
        let total = aggregate([&[1.0, 0.0][..], &[0.0, 0.0], &[]].into_iter()).unwrap();
        assert_eq!(total, (0.25, 0.25));
        assert_eq!(aggregate(std::iter::empty()), None);
    }

    #[test]
    fn the_clock_counts_overhead_failures_and_repeats() {
        let yardstick = Yardstick::new(&ten()).unwrap();
        let progress = RunProgress::of(&yardstick, &of(&[10, 6, 6, 0, 3], &[1.0, 2.0]));
        // A failure for 60 ms, 7 ns for 100 ms, its runs again for 40 ms, the optimum, 4 ns.
        assert_eq!(progress.times, [61.0, 163.0, 203.0, 303.0, 403.0]);
        assert_eq!(progress.best, [None, Some(7.0), Some(7.0), Some(1.0), Some(1.0)]);
        assert_eq!((progress.distinct, progress.failures), (4, 1));
        assert_eq!(progress.hits, [Some(Hit { evaluations: 3, time_ms: 303.0 }); 2]);
        assert_eq!(progress.found(4).collect::<Vec<_>>(), [(163.0, 7.0), (203.0, 7.0), (303.0, 1.0)]);
    }

    fn check_fit(points: &[(f64, f64)], places: &[f64], expected: &[f64]) {
        let mut sums = vec![0.0; places.len()];
        Falling::fit(points.iter().copied()).add_to(places, &mut sums);
        assert_eq!(sums, expected);
    }

    #[test]
    fn risers_are_pooled_and_equal_places_averaged() {
        check_fit(&[(1.0, 5.0)], &[0.0, 1.0, 2.0], &[5.0, 5.0, 5.0]);
        check_fit(&[(1.0, 5.0), (2.0, 3.0)], &[0.0, 1.5, 9.0], &[5.0, 4.0, 3.0]);
        // 2 and 4 rise: both become 3.
        check_fit(&[(1.0, 6.0), (2.0, 2.0), (3.0, 4.0)], &[1.0, 1.5, 2.0, 3.0], &[6.0, 4.5, 3.0, 3.0]);
        // The mean of 0 and 4 weighs twice against 5: (2 + 2 + 5) / 3 = 3.
        check_fit(&[(1.0, 0.0), (1.0, 4.0), (2.0, 5.0)], &[1.0, 2.0], &[3.0, 3.0]);
        // A late riser reaches back over two blocks: all are (3 + 2 + 7) / 3 = 4.
        check_fit(&[(1.0, 3.0), (2.0, 2.0), (3.0, 7.0)], &[1.0, 2.0, 3.0], &[4.0, 4.0, 4.0]);
    }
}
