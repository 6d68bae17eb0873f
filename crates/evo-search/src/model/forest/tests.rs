//! Forests against functions that they must find, and against what may come in.

use evo_space::rng::seeded;

use super::*;

/// Rows over three features in 0 to 1; the target is a step of the first and a slope of the second.
fn steps(rows: usize, seed: u64) -> (Matrix, Vec<f64>) {
    let mut rng = seeded(seed);
    let rows: Vec<[f64; 3]> = (0..rows).map(|_| [(); 3].map(|()| rng.random::<f64>())).collect();
    let y = rows.iter().map(|row| if row[0] > 0.5 { 10.0 } else { 0.0 } + 2.0 * row[1]).collect();
    (Matrix::from_rows(&rows), y)
}

fn both() -> [ForestOptions; 2] {
    [
        ForestOptions::extra_trees(),
        ForestOptions { features_at_node: Some(2), ..ForestOptions::random_forest(3) },
    ]
}

fn fitted(options: ForestOptions, x: &Matrix, y: &[f64], seed: u64) -> Forest {
    let mut forest = Forest::new(options, scales_of(x));
    forest.fit(x, y, &mut seeded(seed));
    forest
}

#[test]
fn a_step_is_found_and_so_is_what_matters() {
    let ((x, y), (unseen, truth)) = (steps(300, 1), steps(200, 2));
    for options in both() {
        let forest = fitted(options, &x, &y, 3);
        let errors =
            forest.predict(&unseen).into_iter().zip(&truth).map(|(p, truth)| (p.mean - truth).powi(2));
        let error = errors.sum::<f64>() / 200.0;
        assert!(error < 0.6, "mean squared error {error}");
        let importance = forest.importance();
        assert!(importance[0] > 0.85 && importance[1] > importance[2], "{importance:?}");
        assert!((importance.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let shuffled = forest.permutation_importance(&mut seeded(4));
        assert!(shuffled[0] > 0.5 && shuffled[1] > shuffled[2], "{shuffled:?}");
    }
}

#[test]
fn spread_is_larger_where_nothing_was_seen() {
    let (x, y) = steps(60, 5);
    let forest = fitted(ForestOptions::extra_trees(), &x, &y, 1);
    let spread = |row: [f64; 3]| forest.predict(&Matrix::from_rows(&[row]))[0].spread;
    let seen = x.row(0);
    assert!(spread([0.5, 0.5, 0.5]) > 4.0 * spread([seen[0], seen[1], seen[2]]));
}

#[test]
fn a_single_tree_says_the_moments_of_its_leaf() {
    let options = ForestOptions { trees: 1, min_leaf: 2, ..ForestOptions::extra_trees() };
    let x = Matrix::from_rows(&[[0.0], [0.0], [1.0], [1.0]]);
    let forest = fitted(options, &x, &[1.0, 3.0, 10.0, 10.0], 1);
    let predictions = forest.predict(&Matrix::from_rows(&[[0.0], [1.0], [0.4]]));
    assert_eq!(predictions[0], Prediction { mean: 2.0, spread: 1.0 });
    assert_eq!(predictions[1], Prediction { mean: 10.0, spread: 0.0 });
    assert_eq!(predictions[2], predictions[0], "the nearer value decides");
}

/// A watched forest of codes, and the rows it is fed with.
fn watched(rows: usize) -> (Forest, Codes, Vec<f64>) {
    let (x, y) = steps(rows, 7);
    let scales = scales_of(&x);
    let codes = Codes::of_matrix(&x, &scales);
    let mut forest = Forest::new(ForestOptions::extra_trees(), scales);
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
        forest.add(&codes.row(row), *target, 1.0, &mut rng);
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
    let mut part = Codes::with_columns(3);
    (0..200).for_each(|row| part.push(&codes.row(row)));
    forest.learn(part, &y[..200], None, &mut rng);
    let whole = error(&forest);
    assert!(grown < 1.3 * whole + 0.05, "grown {grown}, whole {whole}");
    assert!(forest.importance()[0] > 0.85);
}

#[test]
fn changed_targets_reach_every_leaf() {
    let (mut forest, codes, y) = watched(100);
    let mut rng = seeded(9);
    (0..60).for_each(|row| forest.add(&codes.row(row), y[row], 1.0, &mut rng));
    let before: Vec<Prediction> = forest.watched().collect();
    let twice: Vec<f64> = y[..60].iter().map(|y| 2.0 * y + 1.0).collect();
    forest.retarget(&twice);
    screen_is_exact(&forest, &codes);
    for (old, new) in before.iter().zip(forest.watched()) {
        assert!(
            (new.mean - (2.0 * old.mean + 1.0)).abs() < 1e-9 && (new.spread - 2.0 * old.spread).abs() < 1e-6
        );
    }
}

#[test]
fn weights_count_like_copies() {
    let x = Matrix::from_rows(&[[0.0], [0.0]]);
    let mut forest = Forest::new(ForestOptions::extra_trees(), scales_of(&x));
    let codes = Codes::of_matrix(&x, &scales_of(&x));
    forest.learn(codes, &[1.0, 5.0], Some(&[3.0, 1.0]), &mut seeded(1));
    assert!((forest.predict_codes(&[0]).mean - 2.0).abs() < 1e-12);
    forest.add(&[0], 4.0, 4.0, &mut seeded(2));
    assert!((forest.predict_codes(&[0]).mean - 3.0).abs() < 1e-12);
}

#[track_caller]
fn survives(rows: &[[f64; 2]], y: &[f64]) -> Prediction {
    let x = Matrix::from_rows(rows);
    for options in [ForestOptions::extra_trees(), ForestOptions::random_forest(2)] {
        let forest = fitted(options, &x, y, 1);
        let there = forest.predict(&Matrix::from_rows(&[[0.3, f64::NAN]]))[0];
        assert!(there.mean.is_finite() && there.spread.is_finite(), "{there:?}");
        assert!(forest.importance().iter().all(|share| share.is_finite()));
        assert!(forest.permutation_importance(&mut seeded(2)).iter().all(|share| share.is_finite()));
    }
    fitted(ForestOptions::extra_trees(), &x, y, 1).predict(&Matrix::from_rows(&[[0.3, 0.3]]))[0]
}

#[test]
fn duplicates_constants_single_points_and_wild_targets() {
    assert_eq!(survives(&[[0.5, 0.5]; 4], &[1.0, 3.0, 1.0, 3.0]), Prediction { mean: 2.0, spread: 1.0 });
    assert_eq!(survives(&[[0.1, 0.5], [0.2, 0.6], [0.3, 0.7]], &[4.0; 3]).mean, 4.0);
    assert_eq!(survives(&[[0.1, 0.5]], &[4.0]), Prediction { mean: 4.0, spread: 0.0 });
    survives(&[[0.1, 0.5], [0.2, 0.6], [0.3, 0.7]], &[f64::INFINITY, 1.0, f64::NAN]);
    survives(&[[0.1, 0.5], [0.2, 0.6], [f64::NAN, 0.7]], &[f64::MAX, 1.0, -f64::MAX]);
    survives(&[[0.1, 0.5], [f64::INFINITY, 0.6], [0.3, 0.7]], &[3.0, 1.0, 2.0]);
    survives(&[], &[]);
}

#[test]
fn without_features_it_is_the_mean() {
    let mut forest = Forest::new(ForestOptions::extra_trees(), scales_of(&Matrix::with_columns(0)));
    forest.watch(Arc::new(Codes::from_columns(Vec::new(), 2)));
    let mut rng = seeded(1);
    [1.0, 2.0, 6.0].into_iter().for_each(|y| forest.add(&[], y, 1.0, &mut rng));
    assert!(forest.watched().len() == 2 && forest.watched().all(|p| (p.mean - 3.0).abs() < 1e-9));
}

#[test]
fn the_same_seed_gives_the_same_forest() {
    let (x, y) = steps(80, 11);
    for options in both() {
        let grown = |seed| {
            let mut forest = Forest::new(options.clone(), scales_of(&x));
            let codes = Codes::of_matrix(&x, &scales_of(&x));
            forest.watch(Arc::new(codes.clone()));
            let mut rng = seeded(seed);
            (0..80).for_each(|row| forest.add(&codes.row(row), y[row], 1.0, &mut rng));
            forest.watched().collect::<Vec<_>>()
        };
        assert_eq!(grown(1), grown(1));
        assert_ne!(grown(1), grown(2));
    }
}
