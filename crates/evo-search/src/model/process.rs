//! A Gaussian process: a distribution over functions, conditioned on the measurements (Rasmussen and
//! Williams, "Gaussian Processes for Machine Learning", 2006, algorithm 2.1).
//!
//! The covariance is a Matérn kernel with a length scale for each feature (automatic relevance
//! determination); length scales, signal and noise maximize the posterior (`likelihood`).
//!
//! Targets and covariances are kept *whitened*. With `K = L Lᵀ`, `L z = y` and `L v = k`, the usual mean
//! `kᵀ K⁻¹ y` is `vᵀ z` and the variance `k₀ - kᵀ K⁻¹ k` is `k₀ - vᵀ v`. A new observation appends a row to
//! `L` and one number each to `z` and `v`, and changes none of the old numbers. So a mean and a variance
//! are updated by one product each.
//!
//! Learning takes time with the cube of the observations, so beyond a capacity the process learns a part of them: the
//! best, because it is asked about points near them, and a random draw of the others, which tell it where not to look.
//!
//! Points that are being measured are the last rows of the factor. Their measurements are taken for the present
//! expectations, which moves no mean and narrows what is expected around them. When one of them is measured, it is
//! exchanged with those before it until it is the first of them, and becomes an observation (`Cholesky::exchange`).
//! Taking all of them back, learning one and taking the others in anew gives the same to rounding, at `O(n²)` for each
//! of them.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::model::cholesky::{Cholesky, Reflection};
use crate::model::likelihood::{Likelihood, correlation, minimize};
use crate::model::matrix::{Matrix, dot};
use crate::model::{ModelPrediction, clipped};

pub use crate::model::likelihood::Hyperparameters;

/// Observations that hyperparameters are tuned by, and steps of that. Each evaluation of the likelihood takes the cube of
/// their number; tuning takes 0.2 to 0.5 s once 1,000 observations are known (2026-11-21, docs/SEARCH.md).
const TUNING_ROWS: usize = 96;
const ITERATIONS: usize = 20;

/// A Gaussian process over features that lie in 0 to 1.
#[derive(Clone, Debug, Default)]
pub struct GaussianProcess {
    hyperparameters: Hyperparameters,
    /// The observed rows, each feature divided by its length scale.
    pub(super) inputs: Matrix,
    pub(super) factor: Cholesky,
    targets: Vec<f64>,
    /// Mean and standard deviation of the targets.
    center: f64,
    scale: f64,
    /// The whitened targets: `z` in `L z = y`, with standardized targets `y`.
    pub(super) whitened: Vec<f64>,
    /// How many of the last rows of the factor are points in flight.
    in_flight: usize,
    /// How often older rows of the factor changed, and how often older targets did. A screen compares these
    /// numbers to know how much of its work is still valid.
    pub(super) generation: u64,
    pub(super) target_generation: u64,
    /// How often all points in flight were taken back.
    pub(super) landings: u64,
}

/// Fewer rows are done before a thread has started.
const ROWS_FOR_THREADS: usize = 32;

/// With fewer cores the threads would take time from what is measured on them.
const CORES_FOR_THREADS: usize = 8;

fn has_cores(rows: usize) -> bool {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    rows >= ROWS_FOR_THREADS && cores() >= CORES_FOR_THREADS
}

impl GaussianProcess {
    pub fn new(columns: usize) -> GaussianProcess {
        GaussianProcess {
            hyperparameters: Hyperparameters::expected(columns),
            inputs: Matrix::with_columns(columns),
            scale: 1.0,
            ..GaussianProcess::default()
        }
    }

    /// `learn` must be called next, because the factor belongs to the old hyperparameters.
    pub fn tune(&mut self, x: &Matrix, y: &[f64], rng: &mut ChaCha8Rng) {
        assert_eq!(x.rows(), y.len(), "each row has a target");
        if self.hyperparameters.columns() != x.columns() {
            self.hyperparameters = Hyperparameters::expected(x.columns());
        }
        let y = clipped(y);
        let rows = best_and_random(&y, TUNING_ROWS, TUNING_ROWS / 2, rng);
        // Standardized targets make the same priors fit every kernel: the signal is expected near 1.
        let (standard, ..) = standardized(&rows.iter().map(|row| y[*row]).collect::<Vec<_>>());
        let likelihood = Likelihood::new(&x.select(&rows), &standard);
        // Starting at the present hyperparameters keeps what was found, and starting at the medians of the priors leaves a
        // bad maximum. Gains below 1e-3 in log posterior do not change predictions noticeably.
        let medians = Hyperparameters::expected(x.columns());
        let end = |start: &Hyperparameters| {
            minimize(start.logs(), ITERATIONS, 1e-3, |logs| likelihood.evaluate(logs))
        };
        // Each start by itself, so the result is the same in whichever order they end.
        let ends = match has_cores(rows.len()) {
            false => [end(&self.hyperparameters), end(&medians)],
            true => std::thread::scope(|scope| {
                let other = scope.spawn(|| end(&medians));
                [end(&self.hyperparameters), other.join().ok().flatten()]
            }),
        };
        let best = ends.into_iter().flatten().min_by(|a, b| a.1.total_cmp(&b.1));
        self.hyperparameters = best.map_or(medians, |(logs, _)| Hyperparameters::from_logs(logs));
    }

    pub fn set(&mut self, hyperparameters: Hyperparameters) {
        self.hyperparameters = hyperparameters;
    }

    pub fn hyperparameters(&self) -> &Hyperparameters {
        &self.hyperparameters
    }

    /// Replaces all observations by these, with the present hyperparameters. `O(n³)`.
    pub fn learn(&mut self, x: &Matrix, y: &[f64]) {
        assert_eq!(
            (x.rows(), x.columns()),
            (y.len(), self.hyperparameters.columns()),
            "the shape of observations"
        );
        self.inputs = Matrix::with_columns(x.columns());
        x.iter().for_each(|row| self.inputs.push(&self.scaled(row)));
        let mut covariance = Matrix::zero(x.rows(), x.rows());
        // The factorization reads the lower triangle only.
        for row in 0..x.rows() {
            let values = self.covariances(self.inputs.row(row), row);
            covariance.row_mut(row)[..row].copy_from_slice(&values);
            covariance.row_mut(row)[row] = self.hyperparameters.signal() + self.hyperparameters.noise();
        }
        // With a noise of at least `NOISE_FLOOR` this fails only for inputs that are not finite.
        let factor = Cholesky::new(&covariance);
        if factor.is_none() {
            self.inputs = Matrix::with_columns(x.columns());
        }
        self.factor = factor.unwrap_or_default();
        self.in_flight = 0;
        self.generation += 1;
        self.retarget(&y[..self.factor.size()]);
    }

    /// `O(n²)`: the factor does not depend on targets, so only `L z = y` is solved again.
    pub fn retarget(&mut self, y: &[f64]) {
        assert_eq!(y.len() + self.in_flight, self.factor.size(), "each row has a target");
        self.targets = clipped(y);
        (self.whitened, self.center, self.scale) = standardized(&self.targets);
        self.factor.solve_lower(&mut self.whitened);
        self.whitened.resize(self.factor.size(), 0.0);
        self.target_generation += 1;
    }

    /// Learns one more observation with the present hyperparameters. `O(n²)`: the factor gets a row (see
    /// `Cholesky::append`), and `z` its next element by one step of forward substitution. Mean and scale of
    /// the targets stay as they were at the last `retarget`, or all of `z` would change.
    pub fn append(&mut self, row: &[f64], y: f64) {
        if self.targets.is_empty() {
            return self.learn(&Matrix::of_rows(row.len(), [row]), &[y]);
        }
        assert_eq!(self.in_flight, 0, "points in flight come after all observations");
        self.launch(row);
        self.measure(self.in_flight - 1, y);
    }

    /// The signal, without the noise of measuring it. Points in flight do not count.
    pub fn predict_row(&self, row: &[f64]) -> ModelPrediction {
        self.predict_both(row).0
    }

    /// The prediction for a point, and what it will be once the points in flight are measured if they are as
    /// expected: the same mean and at most the same spread.
    pub fn predict_both(&self, row: &[f64]) -> (ModelPrediction, ModelPrediction) {
        // `v` in `L v = k`.
        let mut whitened = self.covariances(&self.scaled(row), self.inputs.rows());
        self.factor.solve_lower(&mut whitened);
        let mean = dot(&whitened, &self.whitened);
        let (measured, in_flight) = whitened.split_at(self.observations());
        // Rounding may make this slightly negative at observed points; `in_units` takes it for 0.
        let variance = self.hyperparameters.signal() - dot(measured, measured);
        (self.in_units(mean, variance), self.in_units(mean, variance - dot(in_flight, in_flight)))
    }

    pub fn observations(&self) -> usize {
        self.targets.len()
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn in_units(&self, mean: f64, variance: f64) -> ModelPrediction {
        ModelPrediction {
            mean: self.center + self.scale * mean,
            spread: self.scale * variance.max(0.0).sqrt(),
        }
    }

    fn scaled(&self, row: &[f64]) -> Vec<f64> {
        row.iter().zip(self.hyperparameters.lengths()).map(|(value, length)| value / length).collect()
    }

    fn covariances(&self, scaled: &[f64], count: usize) -> Vec<f64> {
        let signal = self.hyperparameters.signal();
        let covariance = |other| {
            let pairs = scaled.iter().zip(self.inputs.row(other));
            signal * correlation(pairs.map(|(a, b)| (a - b) * (a - b)).sum())
        };
        (0..count).map(covariance).collect()
    }
}

/// Ascending: all if there are no more than `most`, else the `best` with the lowest targets, and others drawn uniformly
/// from the rest.
pub(crate) fn best_and_random(y: &[f64], most: usize, best: usize, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..y.len()).collect();
    if rows.len() > most {
        rows.sort_by(|a, b| y[*a].total_cmp(&y[*b]).then(a.cmp(b)));
        for at in best..most {
            rows.swap(at, rng.random_range(at..y.len()));
        }
        rows.truncate(most);
        rows.sort_unstable();
    }
    rows
}

/// Mean 0 and variance 1, with the original mean and standard deviation. Equal targets become 0.
fn standardized(targets: &[f64]) -> (Vec<f64>, f64, f64) {
    let count = targets.len().max(1) as f64;
    let center = targets.iter().sum::<f64>() / count;
    let square = targets.iter().map(|target| (target - center).powi(2)).sum::<f64>() / count;
    // Below this the variance is the rounding error of targets of this size.
    let scale = if square > 1e-24 * (1.0 + center * center) { square.sqrt() } else { 1.0 };
    (targets.iter().map(|target| (target - center) / scale).collect(), center, scale)
}

impl GaussianProcess {
    /// Takes in a point that is being measured, after those that are in flight already: a whitened target of 0, so that
    /// no mean changes, and the variance falls around the point. `land` takes all such points back.
    pub fn launch(&mut self, row: &[f64]) {
        if self.targets.is_empty() {
            return;
        }
        let scaled = self.scaled(row);
        let covariances = self.covariances(&scaled, self.inputs.rows());
        self.factor.append(&covariances, self.hyperparameters.signal() + self.hyperparameters.noise());
        self.inputs.push(&scaled);
        self.whitened.push(0.0);
        self.in_flight += 1;
    }

    pub fn land(&mut self) {
        let observations = self.observations();
        self.inputs.truncate(observations);
        self.factor.truncate(observations);
        self.whitened.truncate(observations);
        self.landings += u64::from(self.in_flight > 0);
        self.in_flight = 0;
    }

    /// Learns the target of the point in flight at `place`. Whatever else was whitened by the factor is to be
    /// reflected in turn, as the answer says.
    pub(crate) fn measure(&mut self, place: usize, y: f64) -> Vec<Reflection> {
        assert!(place < self.in_flight, "it is in flight");
        let first = self.observations();
        let reflections = (first..first + place).rev().map(|at| self.exchange(at)).collect();
        self.in_flight -= 1;
        let worst = self.targets.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // A missing time counts as the worst so far.
        let y = if y.is_finite() { y } else { worst };
        self.targets.push(y);
        let own = self.factor.row(first);
        let standard = (y - self.center) / self.scale;
        self.whitened[first] = (standard - dot(&own[..first], &self.whitened[..first])) / own[first];
        reflections
    }

    /// Takes back the point at `place` alone: it becomes the last one and is dropped. The answer is that of `measure`.
    pub(crate) fn abandon(&mut self, place: usize) -> Vec<Reflection> {
        assert!(place < self.in_flight, "it is in flight");
        let (first, last) = (self.observations() + place, self.factor.size() - 1);
        let reflections = (first..last).map(|at| self.exchange(at)).collect();
        self.inputs.truncate(last);
        self.factor.truncate(last);
        self.whitened.truncate(last);
        self.in_flight -= 1;
        reflections
    }

    /// Exchanges two neighbors in flight, whose whitened targets are 0 before and after.
    fn exchange(&mut self, at: usize) -> Reflection {
        self.inputs.exchange(at);
        self.factor.exchange(at)
    }
}

#[cfg(test)]
mod tests {
    use evo_space::sample::seeded;

    use super::*;

    fn plain(columns: usize) -> GaussianProcess {
        let mut process = GaussianProcess::new(columns);
        let mut logs = vec![0.0; columns + 1];
        logs.push(1e-9f64.ln());
        process.set(Hyperparameters::from_logs(logs));
        process
    }

    fn fit(process: &mut GaussianProcess, x: &Matrix, y: &[f64], seed: u64) {
        process.tune(x, y, &mut seeded(seed));
        process.learn(x, y);
    }

    /// In the unit square; the second feature hardly counts.
    fn grid(side: usize) -> (Matrix, Vec<f64>) {
        let axis = |at: usize| at as f64 / (side - 1) as f64;
        let rows: Vec<[f64; 2]> = (0..side * side).map(|at| [axis(at / side), axis(at % side)]).collect();
        let y = rows.iter().map(|row| (6.0 * row[0]).sin() + 0.05 * row[1]).collect();
        (Matrix::from_rows(&rows), y)
    }

    #[test]
    fn two_observations_by_hand() {
        let mut process = plain(1);
        process.learn(&Matrix::from_rows(&[[0.0], [1.0]]), &[1.0, 5.0]);
        // Standardized: -1 and 1, center 3, scale 2. K = [[v, c], [c, v]], solved directly.
        let near = |x: f64| correlation(x * x);
        let (v, c) = (1.0 + process.hyperparameters().noise(), near(1.0));
        let (a, b) = (near(0.3), near(0.7));
        let determinant = v * v - c * c;
        let solve = |x: f64, y: f64| ((v * x - c * y) / determinant, (v * y - c * x) / determinant);
        let (alpha, beta) = solve(-1.0, 1.0);
        let (p, q) = solve(a, b);
        let there = process.predict_row(&[0.3]);
        assert!((there.mean - (3.0 + 2.0 * (a * alpha + b * beta))).abs() < 1e-10);
        assert!((there.spread - 2.0 * (1.0 - a * p - b * q).sqrt()).abs() < 1e-8);
    }

    #[test]
    fn observations_are_interpolated_and_far_points_are_uncertain() {
        let (x, y) = grid(5);
        let mut process = plain(2);
        process.learn(&x, &y);
        for (row, target) in x.iter().zip(&y) {
            let there = process.predict_row(row);
            assert!((there.mean - target).abs() < 1e-3 && there.spread < 5e-3, "{there:?}");
        }
        let far = process.predict_row(&[50.0, 50.0]);
        let mean = y.iter().sum::<f64>() / 25.0;
        assert!((far.mean - mean).abs() < 1e-9 && far.spread > 0.3, "{far:?}");
    }

    #[test]
    fn tuning_finds_which_feature_matters() {
        let (x, y) = grid(7);
        let mut process = GaussianProcess::new(2);
        fit(&mut process, &x, &y, 1);
        let inverse: Vec<f64> = process.hyperparameters().lengths().map(f64::recip).collect();
        assert!(inverse[0] > 3.0 * inverse[1], "{:?}", process.hyperparameters());
        let error = |row: [f64; 2]| process.predict_row(&row).mean - ((6.0 * row[0]).sin() + 0.05 * row[1]);
        assert!(error([0.42, 0.42]).abs() < 0.08 && error([0.9, 0.1]).abs() < 0.08);
        assert!(process.hyperparameters().noise().sqrt() * process.scale < 0.1);
    }

    #[test]
    fn appending_and_changing_targets_is_learning() {
        let (x, y) = grid(4);
        let logs: Vec<f64> = y.iter().map(|y| (y + 2.0).ln()).collect();
        let [mut grown, mut changed, mut whole] = [(); 3].map(|()| plain(2));
        x.iter().zip(&y).for_each(|(row, target)| grown.append(row, *target));
        // Appending keeps the center and scale of the first target. From here on all have those of all.
        grown.retarget(&logs);
        changed.learn(&x, &y);
        changed.retarget(&logs);
        whole.learn(&x, &logs);
        for row in x.iter().chain([&[0.1, 0.1][..], &[0.8, 0.3]]) {
            let (a, b) = (grown.predict_row(row), whole.predict_row(row));
            assert!((a.mean - b.mean).abs() < 1e-6 && (a.spread - b.spread).abs() < 1e-6, "{a:?} {b:?}");
            assert_eq!(changed.predict_row(row), b);
        }
    }

    /// Fits, and asks about a point: whatever comes in, numbers come out.
    #[track_caller]
    fn survives(rows: &[[f64; 2]], y: &[f64]) -> ModelPrediction {
        let mut process = GaussianProcess::new(2);
        fit(&mut process, &Matrix::from_rows(rows), y, 2);
        let there = process.predict_row(&[0.3, 0.4]);
        assert!(there.mean.is_finite() && there.spread.is_finite() && there.spread >= 0.0, "{there:?}");
        process.append(&[0.3, 0.4], f64::NAN);
        process.append(&[0.3, 0.4], 7.0);
        process.append(&[0.3, 0.4], 7.0);
        assert!(process.predict_row(&[0.3, 0.4]).mean.is_finite());
        there
    }

    #[test]
    fn duplicates_constants_single_points_and_wild_targets() {
        survives(&[[0.5, 0.5]; 6], &[1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
        assert_eq!(survives(&[[0.1, 0.2], [0.5, 0.9], [0.7, 0.1]], &[4.0; 3]).mean, 4.0);
        assert_eq!(survives(&[[0.5, 0.5]], &[4.0]).mean, 4.0);
        survives(&[[0.1, 0.2], [0.5, 0.9], [0.7, 0.1]], &[f64::INFINITY, 1.0, 1e300]);
        survives(&[[0.1, 0.2], [0.5, 0.9]], &[f64::NAN, f64::NAN]);
        survives(&[[f64::NAN, 0.2], [0.5, 0.9]], &[1.0, 2.0]);
        let mut none = GaussianProcess::new(2);
        fit(&mut none, &Matrix::with_columns(2), &[], 1);
        assert_eq!(none.predict_row(&[0.1, 0.2]), ModelPrediction { mean: 0.0, spread: 1.0 });
    }

    #[test]
    fn without_features_it_is_the_mean() {
        let mut process = GaussianProcess::new(0);
        fit(&mut process, &Matrix::from_rows(&[[0.0; 0]; 4]), &[1.0, 2.0, 3.0, 4.0], 1);
        assert!((process.predict_row(&[]).mean - 2.5).abs() < 1e-9);
    }

    #[test]
    fn a_part_holds_the_best() {
        let y: Vec<f64> = (0..100).map(|at| f64::from((at * 37) % 100)).collect();
        let rows = best_and_random(&y, 20, 10, &mut seeded(1));
        assert_eq!(rows.len(), 20);
        assert!(rows.windows(2).all(|pair| pair[0] < pair[1]));
        assert!((0..100).filter(|row| y[*row] < 10.0).all(|row| rows.contains(&row)));
        assert_eq!(best_and_random(&y, 200, 100, &mut seeded(1)).len(), 100);
    }

    #[test]
    fn points_in_flight_narrow_what_is_expected_and_move_nothing() {
        let (x, y) = grid(5);
        let mut process = plain(2);
        let (first, here, far) = ([0.31, 0.4], [0.33, 0.42], [0.9, 0.05]);
        process.launch(&first);
        assert_eq!(process.in_flight(), 0, "nothing is expected before the first observation");
        process.learn(&x, &y);
        let before = process.predict_row(&here);
        assert_eq!(process.predict_both(&here), (before, before));
        let expected = process.predict_row(&first).mean;
        process.launch(&first);
        let (now, then) = process.predict_both(&here);
        assert_eq!((process.in_flight(), process.observations(), now), (1, 25, before));
        assert!(then.mean == before.mean && then.spread < 0.7 * before.spread, "{then:?}");
        assert!(process.predict_both(&far).1.spread > 0.95 * process.predict_row(&far).spread);
        // The same as measuring what is expected, to rounding.
        let mut measured = plain(2);
        measured.learn(&x, &y);
        measured.append(&first, expected);
        let exact = measured.predict_row(&here);
        assert!((then.mean - exact.mean).abs() < 1e-9 && (then.spread - exact.spread).abs() < 1e-9);
        // Afterwards the process goes on as if nothing had been in flight.
        process.land();
        assert_eq!((process.in_flight(), process.predict_row(&here)), (0, before));
        process.append(&first, expected);
        assert_eq!(process.predict_row(&here), exact);
    }

    #[test]
    fn measuring_out_of_order_is_learning_in_that_order() {
        let (x, y) = grid(5);
        let flight = [[0.31, 0.4], [0.33, 0.42], [0.9, 0.05], [0.62, 0.61], [0.11, 0.95]];
        let mut process = plain(2);
        process.learn(&x, &y);
        flight.iter().for_each(|row| process.launch(row));
        let mut fresh = plain(2);
        fresh.learn(&x, &y);
        // The fourth is measured, then what was the second; the first is given up, and one more is launched.
        process.measure(3, 0.7);
        process.measure(1, -0.2);
        process.abandon(0);
        process.launch(&[0.5, 0.55]);
        [(3, 0.7), (1, -0.2)].into_iter().for_each(|(at, y)| fresh.append(&flight[at], y));
        [flight[2], flight[4], [0.5, 0.55]].iter().for_each(|row| fresh.launch(row));
        assert_eq!((process.observations(), process.in_flight()), (27, 3));
        let same = |process: &GaussianProcess, fresh: &GaussianProcess| {
            for row in [[0.1, 0.1], [0.3, 0.41], [0.8, 0.3], [0.51, 0.56]] {
                let [one, other] = [process, fresh].map(|process| {
                    let (now, then) = process.predict_both(&row);
                    [now.mean, now.spread, then.mean, then.spread]
                });
                assert!(one.iter().zip(other).all(|(a, b)| (a - b).abs() < 1e-9), "{one:?} {other:?}");
            }
        };
        same(&process, &fresh);
        // Targets may change meanwhile.
        let targets: Vec<f64> = y.iter().copied().chain([0.7, -0.2]).map(|y| (y + 2.0).ln()).collect();
        process.retarget(&targets);
        fresh.retarget(&targets);
        same(&process, &fresh);
        process.land();
        fresh.land();
        same(&process, &fresh);
    }
}
