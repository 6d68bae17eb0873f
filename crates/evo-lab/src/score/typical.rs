//! The typical run: from many runs, the value that a search has found by each point in time.
//!
//! The mean is taken over ranks, by isotonic regression on bootstrap samples of all runs' points. One run in
//! ten that is stuck at rank 200 costs as much as all ten at rank 20.

use super::RunProgress;
use super::yardstick::Yardstick;
use evo_timing::stats::median;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Bootstrap samples. The method takes one per run; at ten runs that alone moves a score by 0.03.
const SAMPLES: usize = 1000;

/// The method bags over at least so many runs.
const FEWEST_RUNS: usize = 3;

/// The typical value at each point of the yardstick's grid, nanoseconds; `None` if no run found a valid
/// configuration in time.
pub(super) fn values(yardstick: &Yardstick, runs: &[RunProgress], rng: &mut ChaCha8Rng) -> Option<Vec<f64>> {
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
    use super::*;

    fn check(points: &[(f64, f64)], places: &[f64], expected: &[f64]) {
        let mut sums = vec![0.0; places.len()];
        Falling::fit(points.iter().copied()).add_to(places, &mut sums);
        assert_eq!(sums, expected);
    }

    #[test]
    fn risers_are_pooled_and_equal_places_averaged() {
        check(&[(1.0, 5.0)], &[0.0, 1.0, 2.0], &[5.0, 5.0, 5.0]);
        check(&[(1.0, 5.0), (2.0, 3.0)], &[0.0, 1.5, 9.0], &[5.0, 4.0, 3.0]);
        // 2 and 4 rise: both become 3.
        check(&[(1.0, 6.0), (2.0, 2.0), (3.0, 4.0)], &[1.0, 1.5, 2.0, 3.0], &[6.0, 4.5, 3.0, 3.0]);
        // The mean of 0 and 4 weighs twice against 5: (2 + 2 + 5) / 3 = 3.
        check(&[(1.0, 0.0), (1.0, 4.0), (2.0, 5.0)], &[1.0, 2.0], &[3.0, 3.0]);
        // A late riser reaches back over two blocks: all are (3 + 2 + 7) / 3 = 4.
        check(&[(1.0, 3.0), (2.0, 2.0), (3.0, 7.0)], &[1.0, 2.0, 3.0], &[4.0, 4.0, 4.0]);
    }
}
