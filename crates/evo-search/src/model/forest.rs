//! Extremely randomized trees (Geurts, Ernst and Wehenkel, "Extremely randomized trees", Machine Learning 63,
//! 2006) for regression with a standard deviation.
//!
//! A forest can be grown whole or one observation at a time. Growing all trees again for each observation
//! would take most of a proposal's time and change little. Instead an observation that arrives at a node of
//! `n` members regrows it with chance `REFRESH / n`, so that no split outlives the data that it was drawn
//! from, and the expected work per observation is logarithmic. This applies the idea of forests that
//! unlearn (Brophy and Lowd, "Machine unlearning for random forests", 2021) and of Mondrian forests to
//! arriving observations.
//!
//! Mean and variance of a prediction follow from the law of total variance over the trees: the variance is
//! the mean of the leaves' variances plus the variance of their means (Hutter, Xu, Hoos and Leyton-Brown,
//! "Algorithm runtime prediction", 2014).

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;

use crate::model::matrix::{Codes, Scales};
pub use crate::model::tree::ForestOptions;
use crate::model::tree::{Growth, Moments, RegressionTree, Splitter, Sums, TrainingSet};
use crate::model::{ModelPrediction, clipped};

#[derive(Debug)]
pub struct Forest {
    options: ForestOptions,
    data: TrainingSet,
    points: Option<Arc<Codes>>,
    sums: Sums,
    trees: Vec<RegressionTree>,
    splitter: Splitter,
}

impl Forest {
    pub fn new(options: ForestOptions, scales: Scales) -> Forest {
        let codes = Codes::with_columns(scales.len());
        let data = TrainingSet { codes, scales, targets: Vec::new() };
        let (sums, splitter) = (Vec::new(), Splitter::default());
        Forest { options, data, points: None, sums, trees: Vec::new(), splitter }
    }

    /// From the next `learn` or `add` on. It takes about `4 trees + 16` bytes a point.
    pub fn watch(&mut self, points: Arc<Codes>) {
        assert_eq!(points.columns(), self.data.scales.len(), "points are coded by the forest's scales");
        self.points = Some(points);
        // Existing trees hold no watched points, so all are grown again.
        self.trees.clear();
    }

    pub fn observations(&self) -> usize {
        self.data.targets.len()
    }

    pub fn learn(&mut self, codes: Codes, targets: &[f64], rng: &mut ChaCha8Rng) {
        assert_eq!(codes.rows(), targets.len(), "each row has a target");
        self.data.codes = codes;
        self.data.targets = clipped(targets);
        self.grow_all(rng);
    }

    pub fn add(&mut self, row: &[u16], target: f64, rng: &mut ChaCha8Rng) {
        if self.trees.is_empty() {
            self.grow_all(rng);
        }
        let member = self.data.targets.len() as u32;
        self.data.codes.push(row);
        self.data.targets.push(target);
        // Clipping depends on the finite targets so far, so all are clipped again.
        if !target.is_finite() {
            self.data.targets = clipped(&self.data.targets);
        }
        // The row is in the data by now: regrowing a node reads all of its members there.
        let Forest { options, data, points, sums, trees, splitter } = self;
        let mut growth = Growth { data, points: points.as_deref(), sums, options, splitter, rng };
        trees.iter_mut().for_each(|tree| tree.insert(member, &mut growth));
    }

    /// Trees keep their splits and get new means.
    pub fn retarget(&mut self, targets: &[f64]) {
        assert_eq!(targets.len(), self.data.targets.len(), "each row has a target");
        self.data.targets = clipped(targets);
        self.sums.fill([0.0; 2]);
        self.trees.iter_mut().for_each(|tree| tree.retarget(&self.data, &mut self.sums));
    }

    pub fn predict_codes(&self, row: &[u16]) -> ModelPrediction {
        let leaves = self.trees.iter().map(|tree| tree.predict(row));
        let square = |leaf: &Moments| leaf.variance() + leaf.mean * leaf.mean;
        let sums = leaves.fold([0.0; 2], |[a, b], leaf| [a + leaf.mean, b + square(&leaf)]);
        total_variance(sums, self.trees.len())
    }

    pub fn watched(&self) -> impl ExactSizeIterator<Item = ModelPrediction> + '_ {
        self.sums.iter().map(|sums| total_variance(*sums, self.trees.len()))
    }

    fn grow_all(&mut self, rng: &mut ChaCha8Rng) {
        self.sums.clear();
        self.sums.resize(self.points.as_ref().map_or(0, |points| points.rows()), [0.0; 2]);
        let Forest { options, data, points, sums, trees, splitter } = self;
        let mut growth = Growth { data, points: points.as_deref(), sums, options, splitter, rng };
        trees.clear();
        for _ in 0..options.trees {
            let mut members: Vec<u32> = (0..data.targets.len() as u32).collect();
            trees.push(RegressionTree::new(&mut members, &mut growth));
        }
    }
}

fn total_variance([means, squares]: [f64; 2], trees: usize) -> ModelPrediction {
    let share = if trees == 0 { 0.0 } else { 1.0 / trees as f64 };
    let mean = means * share;
    // Rounding can make the difference of two nearly equal squares negative.
    ModelPrediction { mean, spread: (squares * share - mean * mean).max(0.0).sqrt() }
}

#[cfg(test)]
mod tests {
    use evo_space::sample::seeded;
    use rand::RngExt;

    use super::*;
    use crate::model::matrix::{ColumnScale, Matrix};

    /// Rows over three features in 0 to 1; the target is a step of the first and a slope of the second.
    fn steps(rows: usize, seed: u64) -> (Matrix, Vec<f64>) {
        let mut rng = seeded(seed);
        let rows: Vec<[f64; 3]> = (0..rows).map(|_| [(); 3].map(|()| rng.random::<f64>())).collect();
        let y = rows.iter().map(|row| if row[0] > 0.5 { 10.0 } else { 0.0 } + 2.0 * row[1]).collect();
        (Matrix::from_rows(&rows), y)
    }

    fn code_row(scales: &Scales, row: &[f64]) -> Vec<u16> {
        row.iter().zip(&**scales).map(|(value, scale)| scale.code(*value)).collect()
    }

    /// A forest over the values of these rows, and their codes.
    fn empty(options: ForestOptions, x: &Matrix) -> (Forest, Codes) {
        let column = |at| ColumnScale::new((0..x.rows()).map(|row| x.at(row, at)).collect());
        let scales: Scales = (0..x.columns()).map(column).collect();
        let codes = Codes::of_rows(x.columns(), x.iter().map(|row| code_row(&scales, row)));
        (Forest::new(options, scales), codes)
    }

    fn fitted(options: ForestOptions, x: &Matrix, y: &[f64], seed: u64) -> Forest {
        let (mut forest, codes) = empty(options, x);
        forest.learn(codes, y, &mut seeded(seed));
        forest
    }

    fn predict(forest: &Forest, row: &[f64]) -> ModelPrediction {
        forest.predict_codes(&code_row(&forest.data.scales, row))
    }

    #[test]
    fn a_step_is_found() {
        let ((x, y), (unseen, truth)) = (steps(300, 1), steps(200, 2));
        let forest = fitted(ForestOptions::extra_trees(), &x, &y, 3);
        let errors =
            unseen.iter().zip(&truth).map(|(row, truth)| (predict(&forest, row).mean - truth).powi(2));
        let error = errors.sum::<f64>() / 200.0;
        assert!(error < 0.6, "mean squared error {error}");
    }

    #[test]
    fn spread_is_larger_where_nothing_was_seen() {
        let (x, y) = steps(60, 5);
        let forest = fitted(ForestOptions::extra_trees(), &x, &y, 1);
        let spread = |row: &[f64]| predict(&forest, row).spread;
        assert!(spread(&[0.5, 0.5, 0.5]) > 4.0 * spread(x.row(0)));
    }

    #[test]
    fn a_single_tree_says_the_moments_of_its_leaf() {
        let options = ForestOptions { trees: 1, ..ForestOptions::extra_trees() };
        let x = Matrix::from_rows(&[[0.0], [0.0], [1.0], [1.0]]);
        let forest = fitted(options, &x, &[1.0, 3.0, 10.0, 10.0], 1);
        let predictions = [0.0, 1.0, 0.4].map(|value| predict(&forest, &[value]));
        assert_eq!(predictions[0], ModelPrediction { mean: 2.0, spread: 1.0 });
        assert_eq!(predictions[1], ModelPrediction { mean: 10.0, spread: 0.0 });
        assert_eq!(predictions[2], predictions[0], "the nearer value decides");
    }

    fn watched(rows: usize) -> (Forest, Codes, Vec<f64>) {
        let (x, y) = steps(rows, 7);
        let (mut forest, codes) = empty(ForestOptions::extra_trees(), &x);
        forest.watch(Arc::new(codes.clone()));
        (forest, codes, y)
    }

    #[track_caller]
    fn screen_is_exact(forest: &Forest, codes: &Codes) {
        for (row, fast) in forest.watched().enumerate() {
            let slow = forest.predict_codes(&codes.row(row));
            let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
            assert!(near(fast.mean, slow.mean) && near(fast.spread, slow.spread), "{fast:?} is not {slow:?}");
        }
    }

    #[test]
    fn a_forest_grown_one_by_one_is_as_good_as_one_grown_whole() {
        let (mut forest, codes, y) = watched(400);
        let mut rng = seeded(8);
        for (row, target) in y.iter().enumerate().take(200) {
            forest.add(&codes.row(row), *target, &mut rng);
            if row % 40 == 3 {
                screen_is_exact(&forest, &codes);
            }
        }
        screen_is_exact(&forest, &codes);
        let error = |forest: &Forest| {
            let pairs = forest.watched().zip(&y).skip(200);
            pairs.map(|(p, truth)| (p.mean - truth).powi(2)).sum::<f64>() / 200.0
        };
        let grown = error(&forest);
        let part = Codes::of_rows(3, (0..200).map(|row| codes.row(row)));
        forest.learn(part, &y[..200], &mut rng);
        let whole = error(&forest);
        assert!(grown < 1.3 * whole + 0.05, "grown {grown}, whole {whole}");
    }

    #[test]
    fn changed_targets_reach_every_leaf() {
        let (mut forest, codes, y) = watched(100);
        let mut rng = seeded(9);
        (0..60).for_each(|row| forest.add(&codes.row(row), y[row], &mut rng));
        let before: Vec<ModelPrediction> = forest.watched().collect();
        let twice: Vec<f64> = y[..60].iter().map(|y| 2.0 * y + 1.0).collect();
        forest.retarget(&twice);
        screen_is_exact(&forest, &codes);
        for (old, new) in before.iter().zip(forest.watched()) {
            assert!((new.mean - (2.0 * old.mean + 1.0)).abs() < 1e-9);
            assert!((new.spread - 2.0 * old.spread).abs() < 1e-6);
        }
    }

    #[track_caller]
    fn survives(rows: &[[f64; 2]], y: &[f64]) -> ModelPrediction {
        let x = Matrix::from_rows(rows);
        let forest = fitted(ForestOptions::extra_trees(), &x, y, 1);
        let there = predict(&forest, &[0.3, f64::NAN]);
        assert!(there.mean.is_finite() && there.spread.is_finite(), "{there:?}");
        predict(&forest, &[0.3, 0.3])
    }

    #[test]
    fn duplicates_constants_single_points_and_wild_targets() {
        let both = ModelPrediction { mean: 2.0, spread: 1.0 };
        assert_eq!(survives(&[[0.5, 0.5]; 4], &[1.0, 3.0, 1.0, 3.0]), both);
        assert_eq!(survives(&[[0.1, 0.5], [0.2, 0.6], [0.3, 0.7]], &[4.0; 3]).mean, 4.0);
        assert_eq!(survives(&[[0.1, 0.5]], &[4.0]), ModelPrediction { mean: 4.0, spread: 0.0 });
        survives(&[[0.1, 0.5], [0.2, 0.6], [0.3, 0.7]], &[f64::INFINITY, 1.0, f64::NAN]);
        survives(&[[0.1, 0.5], [0.2, 0.6], [f64::NAN, 0.7]], &[f64::MAX, 1.0, -f64::MAX]);
        survives(&[[0.1, 0.5], [f64::INFINITY, 0.6], [0.3, 0.7]], &[3.0, 1.0, 2.0]);
        survives(&[], &[]);
    }

    #[test]
    fn without_features_it_is_the_mean() {
        let (mut forest, _) = empty(ForestOptions::extra_trees(), &Matrix::with_columns(0));
        forest.watch(Arc::new(Codes::of_rows(0, [vec![], vec![]])));
        let mut rng = seeded(1);
        [1.0, 2.0, 6.0].into_iter().for_each(|y| forest.add(&[], y, &mut rng));
        assert!(forest.watched().len() == 2 && forest.watched().all(|p| (p.mean - 3.0).abs() < 1e-9));
    }
}
