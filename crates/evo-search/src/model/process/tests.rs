//! Gaussian processes against formulas worked by hand.

use evo_space::rng::seeded;

use super::*;

/// Little noise, lengths and signal of 1.
fn plain(columns: usize) -> GaussianProcess {
    let mut process = GaussianProcess::new(ProcessOptions::default(), columns);
    let mut logs = vec![0.0; columns + 1];
    logs.push(1e-9f64.ln());
    process.set(Settings::from_logs(logs));
    process
}

/// A smooth function over a grid of `side` by `side` in the unit square; the second feature hardly counts.
fn grid(side: usize) -> (Matrix, Vec<f64>) {
    let axis = |at: usize| at as f64 / (side - 1) as f64;
    let rows: Vec<[f64; 2]> = (0..side * side).map(|at| [axis(at / side), axis(at % side)]).collect();
    let y = rows.iter().map(|row| (6.0 * row[0]).sin() + 0.05 * row[1]).collect();
    (Matrix::from_rows(&rows), y)
}

#[test]
fn one_observation_by_hand() {
    let mut process = plain(1);
    process.learn(&Matrix::from_rows(&[[0.0]]), &[3.0]);
    let k = Kernel::Matern32.correlation(0.25);
    let v = 1.0 + process.settings().noise();
    let there = process.predict_row(&[0.5]);
    // One target is its own mean, so the expected mean is that everywhere.
    assert!((there.mean - 3.0).abs() < 1e-12);
    assert!((there.spread - (1.0 - k * k / v).sqrt()).abs() < 1e-12);
}

#[test]
fn two_observations_by_hand() {
    let mut process = plain(1);
    process.learn(&Matrix::from_rows(&[[0.0], [1.0]]), &[1.0, 5.0]);
    // Standardized: -1 and 1, center 3, scale 2. K = [[v, c], [c, v]], solved directly.
    let correlation = |x: f64| Kernel::Matern32.correlation(x * x);
    let (v, c) = (1.0 + process.settings().noise(), correlation(1.0));
    let (a, b) = (correlation(0.3), correlation(0.7));
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
    let mut process = GaussianProcess::new(ProcessOptions::default(), 2);
    process.fit(&x, &y, &mut seeded(1));
    assert!(process.importance()[0] > 0.75, "{:?}", process.settings());
    let error = |row: [f64; 2]| process.predict_row(&row).mean - ((6.0 * row[0]).sin() + 0.05 * row[1]);
    assert!(error([0.42, 0.42]).abs() < 0.08 && error([0.9, 0.1]).abs() < 0.08);
    assert!(process.noise_spread() < 0.1);
}

#[test]
fn appending_is_learning() {
    let (x, y) = grid(4);
    let mut grown = plain(2);
    let mut whole = plain(2);
    x.iter().zip(&y).for_each(|(row, target)| grown.append(row, *target));
    grown.retarget(&y);
    whole.learn(&x, &y);
    for row in [[0.1, 0.1], [0.8, 0.3]] {
        let (a, b) = (grown.predict_row(&row), whole.predict_row(&row));
        assert!((a.mean - b.mean).abs() < 1e-6 && (a.spread - b.spread).abs() < 1e-6, "{a:?} {b:?}");
    }
}

#[test]
fn targets_that_change_give_what_learning_gives() {
    let (x, y) = grid(4);
    let logs: Vec<f64> = y.iter().map(|y| (y + 2.0).ln()).collect();
    let (mut changed, mut fresh) = (plain(2), plain(2));
    changed.learn(&x, &y);
    changed.retarget(&logs);
    fresh.learn(&x, &logs);
    assert_eq!(changed.predict(&x), fresh.predict(&x));
}

/// Fits, and asks about a point: whatever comes in, numbers come out.
#[track_caller]
fn survives(rows: &[[f64; 2]], y: &[f64]) -> Prediction {
    let mut process = GaussianProcess::new(ProcessOptions::default(), 2);
    process.fit(&Matrix::from_rows(rows), y, &mut seeded(2));
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
    let mut none = GaussianProcess::new(ProcessOptions::default(), 2);
    none.fit(&Matrix::with_columns(2), &[], &mut seeded(1));
    assert_eq!(none.predict_row(&[0.1, 0.2]), Prediction { mean: 0.0, spread: 1.0 });
}

#[test]
fn without_features_it_is_the_mean() {
    let mut process = GaussianProcess::new(ProcessOptions::default(), 0);
    process.fit(&Matrix::from_rows(&[[0.0; 0]; 4]), &[1.0, 2.0, 3.0, 4.0], &mut seeded(1));
    assert!((process.predict_row(&[]).mean - 2.5).abs() < 1e-9);
}

#[test]
fn the_same_seed_gives_the_same_settings() {
    let (x, y) = grid(12);
    let fitted = |seed| {
        let mut process = GaussianProcess::new(ProcessOptions::default(), 2);
        process.fit(&x, &y, &mut seeded(seed));
        process.settings().clone()
    };
    assert_eq!(fitted(5), fitted(5));
    assert_ne!(fitted(5), fitted(6), "it learns from a part of the rows, drawn by the seed");
}

#[test]
fn a_part_holds_the_best() {
    let y: Vec<f64> = (0..100).map(|at| f64::from((at * 37) % 100)).collect();
    let rows = best_and_random(&y, 20, &mut seeded(1));
    assert_eq!(rows.len(), 20);
    assert!(rows.windows(2).all(|pair| pair[0] < pair[1]));
    assert!((0..100).filter(|row| y[*row] < 10.0).all(|row| rows.contains(&row)));
    assert_eq!(best_and_random(&y, 200, &mut seeded(1)).len(), 100);
}
