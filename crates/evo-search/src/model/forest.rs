//! Forests: extremely randomized trees (Geurts, Ernst and Wehenkel, "Extremely randomized trees",
//! Machine Learning 63, 2006) and random forests (Breiman 2001), for regression with a spread.
//!
//! A forest can be grown whole or one observation at a time. Growing anew at each observation would
//! cost most of the time and change little: an observation that arrives at a node of `n` members makes
//! it grow anew with chance `refresh / n`, so that no split outlives the data that it was drawn from, and
//! the expected work per observation is logarithmic. The idea is that of unlearning trees (Brophy and
//! Lowd, "Machine unlearning for random forests", 2021) and Mondrian forests, turned to arrivals.
//!
//! Mean and spread follow from the law of total variance over the trees, each of which says mean and
//! variance of its leaf (Hutter, Xu, Hoos and Leyton-Brown, "Algorithm runtime prediction", 2014).

use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::codes::{Codes, Scales, scales_of};
use super::matrix::Matrix;
use super::split::{Data, Splitter};
use super::tree::{Growth, Moments, Sums, Tree};
use super::{Prediction, Regressor, clipped};

/// How thresholds are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Splitting {
    /// One threshold per column, drawn uniformly between its ends; all rows in every tree.
    Drawn,
    /// The best threshold of each column; every tree on its own sample of the rows.
    Searched,
}

/// The settings of a forest.
#[derive(Clone, Debug)]
pub struct ForestOptions {
    pub trees: usize,
    pub splitting: Splitting,
    /// Columns tried at a node; `None` tries all.
    pub features_at_node: Option<usize>,
    /// Fewest members of a leaf.
    pub min_leaf: usize,
    /// Fewest members of a node that is split.
    pub min_split: usize,
    /// How eagerly nodes are grown anew when observations arrive: expected times per doubling of their
    /// members, times 1.4.
    pub refresh: f64,
}

impl ForestOptions {
    /// Extremely randomized trees, with the settings of their paper for regression but smaller
    /// leaves: measurements repeat well.
    pub fn extra_trees() -> ForestOptions {
        ForestOptions {
            trees: 32,
            splitting: Splitting::Drawn,
            features_at_node: None,
            min_leaf: 1,
            min_split: 3,
            refresh: 2.0,
        }
    }

    /// A random forest of a third of `columns` at each node.
    pub fn random_forest(columns: usize) -> ForestOptions {
        ForestOptions {
            splitting: Splitting::Searched,
            features_at_node: Some(columns.div_ceil(3)),
            min_split: 5,
            ..ForestOptions::extra_trees()
        }
    }
}

impl Default for ForestOptions {
    fn default() -> ForestOptions {
        ForestOptions::extra_trees()
    }
}

/// Trees over codes, and the points whose predictions are kept up to date.
#[derive(Debug)]
pub struct Forest {
    options: ForestOptions,
    data: Data,
    points: Option<Arc<Codes>>,
    sums: Sums,
    trees: Vec<Tree>,
    splitter: Splitter,
}

impl Forest {
    /// A forest that knows nothing.
    pub fn new(options: ForestOptions, scales: Scales) -> Forest {
        let codes = Codes::with_columns(scales.len());
        let data = Data { codes, scales, targets: Vec::new(), weights: Vec::new() };
        let (sums, splitter) = (Vec::new(), Splitter::default());
        Forest { options, data, points: None, sums, trees: Vec::new(), splitter }
    }

    /// Keeps predictions for these points from the next `learn` on (about `4 trees + 16` bytes each).
    pub fn watch(&mut self, points: Arc<Codes>) {
        assert_eq!(points.columns(), self.data.scales.len(), "points are coded by the forest's scales");
        self.points = Some(points);
        self.trees.clear();
    }

    /// Number of observations.
    pub fn observations(&self) -> usize {
        self.data.targets.len()
    }

    /// Forgets everything and grows all trees from rows of codes, their targets and weights.
    pub fn learn(&mut self, codes: Codes, targets: &[f64], weights: Option<&[f64]>, rng: &mut ChaCha8Rng) {
        assert_eq!(codes.rows(), targets.len(), "each row has a target");
        self.data.codes = codes;
        self.data.targets = clipped(targets);
        self.data.weights = weights.map_or_else(|| vec![1.0; targets.len()], <[f64]>::to_vec);
        self.grow_all(rng);
    }

    /// Learns one more observation.
    pub fn add(&mut self, row: &[u16], target: f64, weight: f64, rng: &mut ChaCha8Rng) {
        if self.trees.is_empty() {
            self.grow_all(rng);
        }
        let member = self.data.targets.len() as u32;
        self.data.codes.push(row);
        self.data.targets.push(target);
        if !target.is_finite() {
            self.data.targets = clipped(&self.data.targets);
        }
        self.data.weights.push(weight);
        let mut growth = Growth {
            data: &self.data,
            points: self.points.as_deref(),
            sums: &mut self.sums,
            options: &self.options,
            splitter: &mut self.splitter,
            rng,
        };
        for tree in &mut self.trees {
            if is_taken(&self.options, growth.rng) {
                tree.insert(member, &mut growth);
            }
        }
    }

    /// Replaces all targets, as when they are relative to a best that changed; trees keep their
    /// splits and learn new means.
    pub fn retarget(&mut self, targets: &[f64]) {
        assert_eq!(targets.len(), self.data.targets.len(), "each row has a target");
        self.data.targets = clipped(targets);
        self.sums.fill([0.0; 2]);
        for tree in &mut self.trees {
            tree.retarget(&self.data, &mut self.sums);
        }
    }

    /// The prediction for a row of codes.
    pub fn predict_codes(&self, row: &[u16]) -> Prediction {
        let leaves = self.trees.iter().map(|tree| tree.predict(row));
        let square = |leaf: &Moments| leaf.variance() + leaf.mean * leaf.mean;
        let sums = leaves.fold([0.0; 2], |[a, b], leaf| [a + leaf.mean, b + square(&leaf)]);
        total_variance(sums, self.trees.len())
    }

    /// The predictions for the watched points, in their order.
    pub fn watched(&self) -> impl ExactSizeIterator<Item = Prediction> + '_ {
        self.sums.iter().map(|sums| total_variance(*sums, self.trees.len()))
    }

    /// The share of each column in the variance that splits explain; sums to 1, or is all 0.
    pub fn importance(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.data.scales.len()];
        self.trees.iter().for_each(|tree| tree.add_importance(&mut sums));
        let total: f64 = sums.iter().sum();
        if total > 0.0 {
            sums.iter_mut().for_each(|sum| *sum /= total);
        }
        sums
    }

    /// How much the mean squared error on the forest's own observations grows when a column is
    /// shuffled (Breiman 2001), as a share of the variance of the targets.
    pub fn permutation_importance(&self, rng: &mut ChaCha8Rng) -> Vec<f64> {
        let rows = self.observations();
        let mut all = Moments::default();
        self.data.targets.iter().for_each(|target| all.add(*target, 1.0));
        let mut table: Vec<Vec<u16>> = (0..rows).map(|row| self.data.codes.row(row)).collect();
        let error = |table: &[Vec<u16>]| {
            let squares = table.iter().zip(&self.data.targets);
            squares.map(|(row, target)| (self.predict_codes(row).mean - target).powi(2)).sum::<f64>()
        };
        let own = error(&table);
        let mut importance = Vec::new();
        for column in 0..self.data.scales.len() {
            let mut shuffled = self.data.codes.column(column).to_vec();
            for at in (1..rows).rev() {
                shuffled.swap(at, rng.random_range(0..=at));
            }
            table.iter_mut().zip(&shuffled).for_each(|(row, code)| row[column] = *code);
            let worse = error(&table) - own;
            let codes = self.data.codes.column(column);
            table.iter_mut().zip(codes).for_each(|(row, code)| row[column] = *code);
            importance.push(if all.scatter > 0.0 { worse / all.scatter } else { 0.0 });
        }
        importance
    }

    fn grow_all(&mut self, rng: &mut ChaCha8Rng) {
        self.sums.clear();
        self.sums.resize(self.points.as_ref().map_or(0, |points| points.rows()), [0.0; 2]);
        let mut growth = Growth {
            data: &self.data,
            points: self.points.as_deref(),
            sums: &mut self.sums,
            options: &self.options,
            splitter: &mut self.splitter,
            rng,
        };
        self.trees.clear();
        for _ in 0..self.options.trees {
            let mut members: Vec<u32> = (0..self.data.targets.len() as u32).collect();
            members.retain(|_| is_taken(&self.options, growth.rng));
            self.trees.push(Tree::new(&mut members, &mut growth));
        }
    }
}

/// Whether a tree takes an observation: always; where each tree has its own sample, with the chance of
/// being in a bootstrap, which needs no list of the others (after Oza and Russell, "Online bagging", 2001).
fn is_taken(options: &ForestOptions, rng: &mut ChaCha8Rng) -> bool {
    /// 1 - 1/e.
    const DRAWN: f64 = 0.632_120_558_828_557_7;
    match options.splitting {
        Splitting::Drawn => true,
        Splitting::Searched => rng.random_bool(DRAWN),
    }
}

fn total_variance([means, squares]: [f64; 2], trees: usize) -> Prediction {
    let share = if trees == 0 { 0.0 } else { 1.0 / trees as f64 };
    let mean = means * share;
    Prediction { mean, spread: (squares * share - mean * mean).max(0.0).sqrt() }
}

impl Regressor for Forest {
    /// Takes the scales from `x`: codes of other tables mean nothing afterwards.
    fn fit(&mut self, x: &Matrix, y: &[f64], rng: &mut ChaCha8Rng) {
        self.data.scales = scales_of(x);
        self.points = None;
        self.learn(Codes::of_matrix(x, &self.data.scales), y, None, rng);
    }

    fn predict(&self, x: &Matrix) -> Vec<Prediction> {
        let codes = |row: &[f64]| -> Vec<u16> {
            row.iter().zip(&*self.data.scales).map(|(value, scale)| scale.code(*value)).collect()
        };
        x.iter().map(|row| self.predict_codes(&codes(row))).collect()
    }
}

#[cfg(test)]
mod tests;
