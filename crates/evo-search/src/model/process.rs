//! A Gaussian process: a distribution over functions, conditioned on what was measured (Rasmussen and
//! Williams, "Gaussian Processes for Machine Learning", 2006, algorithm 2.1).
//!
//! A Matérn covariance with a length scale for each feature, which says how much that feature matters;
//! length scales, signal and noise by maximal posterior. Everything is kept *whitened*, as solutions
//! of `L z = y` and `L v = k`: one more observation then appends one number to each and changes none, so
//! that a mean and a variance are kept up to date by one multiplication each.
//!
//! Work grows with the cube of the observations, so beyond a capacity the process learns from a part:
//! the best, which is where it is asked, and others at random, which tell it where not to look.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::cholesky::Cholesky;
use super::kernel::Kernel;
use super::likelihood::Likelihood;
pub use super::likelihood::Settings;
use super::matrix::{Matrix, dot};
use super::optimize::minimize;
use super::{Prediction, Regressor, clipped};

/// What a process may take time for.
#[derive(Clone, Debug)]
pub struct ProcessOptions {
    pub kernel: Kernel,
    /// Most observations that `fit` learns from.
    pub capacity: usize,
    /// Most observations that the settings are learned from.
    pub tuning_rows: usize,
    /// Most steps of each search for settings.
    pub iterations: usize,
    /// Searches for settings beside the one from the present ones.
    pub restarts: usize,
}

impl Default for ProcessOptions {
    fn default() -> ProcessOptions {
        let kernel = Kernel::Matern32;
        ProcessOptions { kernel, capacity: 400, tuning_rows: 96, iterations: 20, restarts: 1 }
    }
}

/// A Gaussian process over features that lie in 0 to 1.
#[derive(Clone, Debug)]
pub struct GaussianProcess {
    options: ProcessOptions,
    settings: Settings,
    /// The observed rows, each feature divided by its length scale.
    inputs: Matrix,
    factor: Cholesky,
    targets: Vec<f64>,
    /// Of the targets.
    center: f64,
    scale: f64,
    /// `L z = ` standardized targets.
    whitened: Vec<f64>,
    /// Counts the times that older rows of the factor, or older targets, changed.
    generation: u64,
    target_generation: u64,
}

impl GaussianProcess {
    /// A process over `columns` features that knows nothing.
    pub fn new(options: ProcessOptions, columns: usize) -> GaussianProcess {
        GaussianProcess {
            options,
            settings: Settings::expected(columns),
            inputs: Matrix::with_columns(columns),
            factor: Cholesky::default(),
            targets: Vec::new(),
            center: 0.0,
            scale: 1.0,
            whitened: Vec::new(),
            generation: 0,
            target_generation: 0,
        }
    }

    /// Searches for settings that explain the observations, starting at the present ones. `learn`
    /// comes next: what was learned with other settings means nothing.
    pub fn tune(&mut self, x: &Matrix, y: &[f64], rng: &mut ChaCha8Rng) {
        assert_eq!(x.rows(), y.len(), "each row has a target");
        if self.settings.columns() != x.columns() {
            self.settings = Settings::expected(x.columns());
        }
        let y = clipped(y);
        let rows = best_and_random(&y, self.options.tuning_rows, rng);
        let (standard, ..) = standardized(&rows.iter().map(|row| y[*row]).collect::<Vec<_>>());
        let likelihood = Likelihood::new(self.options.kernel, &x.select(&rows), &standard);
        let mut starts = vec![self.settings.logs().to_vec()];
        for restart in 0..self.options.restarts {
            let mut start = Settings::expected(x.columns()).logs().to_vec();
            let jump = |log: &mut f64| *log += rng.random_range(-1.0..1.0);
            start.iter_mut().take(if restart == 0 { 0 } else { x.columns() }).for_each(jump);
            starts.push(start);
        }
        let ends = starts.iter().filter_map(|start| {
            minimize(start, self.options.iterations, 1e-3, |logs| likelihood.evaluate(logs))
        });
        let best = ends.min_by(|a, b| a.1.total_cmp(&b.1));
        self.settings =
            best.map_or_else(|| Settings::expected(x.columns()), |(logs, _)| Settings::from_logs(logs));
    }

    /// Takes settings as they are. `learn` comes next.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Forgets the observations and learns all of these with the present settings.
    pub fn learn(&mut self, x: &Matrix, y: &[f64]) {
        assert_eq!((x.rows(), x.columns()), (y.len(), self.settings.columns()), "the shape of observations");
        self.inputs = Matrix::with_columns(x.columns());
        x.iter().for_each(|row| self.inputs.push(&self.scaled(row)));
        let mut covariance = Matrix::zero(x.rows(), x.rows());
        for row in 0..x.rows() {
            let values = self.covariances(self.inputs.row(row), row);
            covariance.row_mut(row)[..row].copy_from_slice(&values);
            covariance.row_mut(row)[row] = self.settings.signal() + self.settings.noise();
        }
        // With a noise of at least a millionth this fails only for inputs that are no numbers.
        let factor = Cholesky::new(&covariance);
        if factor.is_none() {
            self.inputs = Matrix::with_columns(x.columns());
        }
        self.factor = factor.unwrap_or_default();
        self.generation += 1;
        self.retarget(&y[..self.factor.size()]);
    }

    /// Replaces all targets, as when they are relative to a best that changed.
    pub fn retarget(&mut self, y: &[f64]) {
        assert_eq!(y.len(), self.factor.size(), "each row has a target");
        self.targets = clipped(y);
        (self.whitened, self.center, self.scale) = standardized(&self.targets);
        self.factor.solve_lower(&mut self.whitened);
        self.target_generation += 1;
    }

    /// Learns one more observation with the present settings, in the square of their number.
    pub fn append(&mut self, row: &[f64], y: f64) {
        if self.targets.is_empty() {
            return self.learn(&Matrix::from_rows(&[row]), &[y]);
        }
        let scaled = self.scaled(row);
        let covariances = self.covariances(&scaled, self.inputs.rows());
        self.factor.append(&covariances, self.settings.signal() + self.settings.noise());
        self.inputs.push(&scaled);
        let worst = self.targets.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let y = if y.is_finite() { y } else { worst };
        self.targets.push(y);
        let own = self.factor.row(self.factor.size() - 1);
        let (before, diagonal) = (&own[..own.len() - 1], own[own.len() - 1]);
        self.whitened.push(((y - self.center) / self.scale - dot(before, &self.whitened)) / diagonal);
    }

    /// What is expected of a point: the target itself, without the noise of measuring it.
    pub fn predict_row(&self, row: &[f64]) -> Prediction {
        let whitened = self.whitened_row(row);
        let mean = dot(&whitened, &self.whitened);
        let variance = self.settings.signal() - dot(&whitened, &whitened);
        self.in_units(mean, variance)
    }

    /// The standard deviation of one measurement, in units of the target.
    pub fn noise_spread(&self) -> f64 {
        self.settings.noise().sqrt() * self.scale
    }

    /// Number of observations.
    pub fn observations(&self) -> usize {
        self.targets.len()
    }

    /// How strongly each feature matters: the inverse of its length scale, as a share of all.
    pub fn importance(&self) -> Vec<f64> {
        let inverse: Vec<f64> = self.settings.lengths().map(f64::recip).collect();
        let total: f64 = inverse.iter().sum();
        inverse.iter().map(|value| value / total).collect()
    }

    pub(super) fn generations(&self) -> (u64, u64) {
        (self.generation, self.target_generation)
    }

    pub(super) fn kernel(&self) -> Kernel {
        self.options.kernel
    }

    pub(super) fn factor(&self) -> &Cholesky {
        &self.factor
    }

    pub(super) fn inputs(&self) -> &Matrix {
        &self.inputs
    }

    pub(super) fn whitened_targets(&self) -> &[f64] {
        &self.whitened
    }

    /// `L v = k` of a point.
    pub(super) fn whitened_row(&self, row: &[f64]) -> Vec<f64> {
        let mut covariances = self.covariances(&self.scaled(row), self.inputs.rows());
        self.factor.solve_lower(&mut covariances);
        covariances
    }

    /// From standardized targets to given ones.
    pub(super) fn in_units(&self, mean: f64, variance: f64) -> Prediction {
        Prediction { mean: self.center + self.scale * mean, spread: self.scale * variance.max(0.0).sqrt() }
    }

    fn scaled(&self, row: &[f64]) -> Vec<f64> {
        row.iter().zip(self.settings.lengths()).map(|(value, length)| value / length).collect()
    }

    /// Of a scaled point with the first `count` observations.
    fn covariances(&self, scaled: &[f64], count: usize) -> Vec<f64> {
        let signal = self.settings.signal();
        let covariance = |other| {
            let pairs = scaled.iter().zip(self.inputs.row(other));
            signal * self.options.kernel.correlation(pairs.map(|(a, b)| (a - b) * (a - b)).sum())
        };
        (0..count).map(covariance).collect()
    }
}

impl Regressor for GaussianProcess {
    /// Tunes the settings and learns, from `capacity` observations at most.
    fn fit(&mut self, x: &Matrix, y: &[f64], rng: &mut ChaCha8Rng) {
        self.tune(x, y, rng);
        let rows = best_and_random(y, self.options.capacity, rng);
        let targets: Vec<f64> = rows.iter().map(|row| y[*row]).collect();
        self.learn(&x.select(&rows), &targets);
    }

    fn predict(&self, x: &Matrix) -> Vec<Prediction> {
        x.iter().map(|row| self.predict_row(row)).collect()
    }
}

/// Up to `most` rows in ascending order: the lowest targets, and from the rest a uniform draw of
/// the same number.
pub fn best_and_random(y: &[f64], most: usize, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..y.len()).collect();
    if rows.len() > most {
        rows.sort_by(|a, b| y[*a].total_cmp(&y[*b]).then(a.cmp(b)));
        for at in most.div_ceil(2)..most {
            rows.swap(at, rng.random_range(at..y.len()));
        }
        rows.truncate(most);
        rows.sort_unstable();
    }
    rows
}

/// Targets of mean 0 and variance 1, their mean and standard deviation; constants become 0.
fn standardized(targets: &[f64]) -> (Vec<f64>, f64, f64) {
    let count = targets.len().max(1) as f64;
    let center = targets.iter().sum::<f64>() / count;
    let square = targets.iter().map(|target| (target - center).powi(2)).sum::<f64>() / count;
    let scale = if square > 1e-24 * (1.0 + center * center) { square.sqrt() } else { 1.0 };
    (targets.iter().map(|target| (target - center) / scale).collect(), center, scale)
}

#[cfg(test)]
mod tests;
