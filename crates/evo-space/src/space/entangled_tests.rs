//! Spaces that are too entangled to count, against brute force: either truly, or because a tiny budget makes them so.

use proptest::prelude::*;

use num_bigint::BigUint;

use super::SearchSpace;
use crate::count::RelaxLimits;
use crate::genome::Genome;
use crate::index::{Limits, Size};
use crate::neighbors::Neighborhood;
use crate::sample::seeded;
use crate::space::{Constraint, Parameter};
use crate::testing::{any_space, brute_force, scattered_points};
use crate::value::Value;

/// Nearly every linked group is too much.
fn tiny(steps: u64) -> Limits {
    Limits { steps: 1, relax: RelaxLimits { steps, trials: 8, edges: 1000 } }
}

fn starved(space: &SearchSpace, steps: u64) -> SearchSpace {
    SearchSpace::with_limits(space.parameters().to_vec(), space.constraints().to_vec(), tiny(steps))
}

fn check_against_brute_force(space: &SearchSpace) {
    let valid = brute_force(space);
    assert!(space.valid() >= &BigUint::from(valid.len()));
    assert_eq!(space.iter().collect::<Vec<_>>(), valid);
    check_indices(space, &valid);
    let even = |positions: &[u16]| positions.iter().all(|at| at % 2 == 0);
    let expected: Vec<Genome> = valid.iter().filter(|genome| even(genome.positions())).cloned().collect();
    assert_eq!(space.subspace(|_, at| at % 2 == 0).iter().collect::<Vec<_>>(), expected);
    check_samples(space, &valid);
    check_points(space, &valid);
    match space.size() {
        Size::Exact(count) => assert_eq!(count, BigUint::from(valid.len())),
        Size::Unknown { at_most, estimate, spread } => {
            assert_eq!(&at_most, space.valid());
            let off = (estimate - valid.len() as f64).abs();
            // Six standard deviations, because many random spaces are tried and none may fail by chance.
            assert!(off <= 6.0 * spread, "{estimate} ± {spread} for {}", valid.len());
        }
    }
}

fn check_indices(space: &SearchSpace, valid: &[Genome]) {
    let indices: Vec<u128> = valid.iter().map(|genome| space.index_of(genome).unwrap()).collect();
    assert!(indices.is_sorted_by(|a, b| a < b) && indices.iter().all(|index| *index < space.count()));
    let at = |index: u128| space.genome_at(index);
    let found: Vec<Genome> = (0..space.count()).filter_map(at).collect();
    assert_eq!(found, valid);
    assert_eq!(at(space.count()), None);
    assert_eq!(space.rows(0..u128::MAX).iter().collect::<Vec<_>>(), valid);
}

fn check_samples(space: &SearchSpace, valid: &[Genome]) {
    let mut rng = seeded(3);
    for _ in 0..20 {
        let genome = space.sample(&mut rng);
        assert_eq!(genome.is_none(), valid.is_empty());
        assert!(genome.is_none_or(|genome| valid.contains(&genome)));
    }
    for n in [0, 1, valid.len() / 2, valid.len() + 5] {
        let mut sample = space.sample_distinct(n, &mut rng);
        let drawn = sample.len();
        sample.sort();
        sample.dedup();
        assert!(sample.len() == drawn && drawn <= n && sample.iter().all(|genome| valid.contains(genome)));
        assert_eq!(drawn, n.min(valid.len()));
    }
}

fn check_points(space: &SearchSpace, valid: &[Genome]) {
    let mut rng = seeded(7);
    for point in scattered_points(space) {
        let genome = Genome::from(point.clone());
        assert_eq!(space.contains(&genome), valid.contains(&genome));
        let distance = |other: &Genome| {
            let pairs = || other.positions().iter().zip(&point);
            let moved: u16 = pairs().map(|(a, b)| a.abs_diff(*b)).sum();
            (pairs().filter(|(a, b)| a != b).count(), moved)
        };
        let hamming: Vec<Genome> = valid.iter().filter(|other| distance(other).0 == 1).cloned().collect();
        assert_eq!(space.neighbors(&genome, Neighborhood::Hamming), hamming);
        let is_near = |other: &&Genome| {
            **other != genome && other.positions().iter().zip(&point).all(|(a, b)| a.abs_diff(*b) <= 1)
        };
        let near: Vec<Genome> = valid.iter().filter(is_near).cloned().collect();
        assert_eq!(space.neighbors(&genome, Neighborhood::StrictlyAdjacent), near);
        assert_eq!(space.neighbor_count(&genome, Neighborhood::StrictlyAdjacent), near.len().into());
        let repaired = space.repair(&genome, &mut rng);
        assert!(repaired.as_ref().is_none_or(|genome| valid.contains(genome)));
        assert_eq!(repaired.as_ref().map(distance), valid.iter().map(distance).min());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn starved_spaces_agree_with_brute_force(text in any_space(), steps in 1u64..60) {
        if let Ok(space) = SearchSpace::parse(&text) {
            check_against_brute_force(&starved(&space, steps));
        }
    }
}

const LINKED: &str = "constraints = ['A * B + C <= 14', 'B % D != 1', '(A + 2 * B + 3 * C + 5 * D) % 7 < 3', 'E > F']\n\
                      [parameters]\nA = [1, 2, 3, 4, 5]\nB = [1, 2, 3, 4, 5]\nC = [1, 2, 3, 4, 5]\nD = [2, 3, 4]\n\
                      E = [1, 2, 3]\nF = [1, 2, 3]\nG = [1, 2]";

#[test]
fn leaving_out_goes_as_far_as_it_must() {
    let space = SearchSpace::parse(LINKED).unwrap();
    let sizes: Vec<BigUint> = (0..12)
        .map(|power| {
            let starved = starved(&space, 1 << power);
            check_against_brute_force(&starved);
            assert_eq!(starved.is_exact(), starved.valid() == space.valid());
            starved.valid().clone()
        })
        .collect();
    let different: std::collections::BTreeSet<&BigUint> = sizes.iter().collect();
    assert!(sizes.is_sorted_by(|a, b| a >= b) && different.len() > 2, "{sizes:?}");
    assert_eq!((&sizes[11], space.is_exact()), (space.valid(), true));
}

#[test]
fn an_empty_space_is_empty_in_every_way() {
    let whole = SearchSpace::parse(
        "constraints = ['A + B > 4', 'C < B', 'A + B + C < 99']\n[parameters]\nA = [1, 5]\nB = [1, 5]\nC = [1, 5]",
    )
    .unwrap();
    let mut constraints = whole.constraints().to_vec();
    constraints[2].expr = crate::expr::Expr::parse("A < C").unwrap();
    let empty = SearchSpace::with_limits(whole.parameters().to_vec(), constraints, tiny(1));
    check_against_brute_force(&empty);
    assert_eq!(brute_force(&empty), []);
}

#[test]
fn rejection_is_uniform() {
    let space = starved(&SearchSpace::parse(LINKED).unwrap(), 20);
    assert!(!space.is_exact());
    let valid = brute_force(&space);
    let mut seen = vec![0f64; valid.len()];
    let mut rng = seeded(11);
    for _ in 0..100 * valid.len() {
        seen[valid.binary_search(&space.sample(&mut rng).unwrap()).unwrap()] += 1.0;
    }
    let chi_squared: f64 = seen.iter().map(|n| (n - 100.0).powi(2) / 100.0).sum();
    let count = valid.len() as f64;
    assert!(chi_squared < count + 5.0 * (2.0 * count).sqrt(), "{chi_squared}");
}

fn hashed(count: usize, constraint: &str, limits: Limits) -> SearchSpace {
    let values: Vec<Value> = (1..=60i64).map(|value| Value::Int(value * 7919 % 10_007)).collect();
    let parameter = |at: usize| Parameter {
        name: format!("P{at}").into(),
        values: values.clone(),
        default: 0,
        help: None,
    };
    let expr = crate::expr::Expr::parse(constraint).unwrap();
    let constraint = Constraint { expr, because: None, parameters: (0..count).collect(), span: None };
    SearchSpace::with_limits((0..count).map(parameter).collect(), vec![constraint], limits)
}

fn bounded() -> Limits {
    Limits { steps: 100_000, ..Limits::default() }
}

#[test]
fn an_entangled_space_degrades_within_its_budget() {
    let text = "(P0 * 3 + P1 * 5 + P2 * 7 + P3 * P4 * 11 + P5 * P0) % 10007 == 17";
    let space = hashed(6, text, bounded());
    assert!(!space.is_exact());
    let Size::Unknown { at_most, estimate, spread } = space.size() else { panic!("counted") };
    assert_eq!((&at_most, &space.cartesian()), (space.valid(), space.valid()));
    let expected = 60f64.powi(6) / 10_007.0;
    assert!((estimate - expected).abs() < 6.0 * spread && spread < expected, "{estimate} ± {spread}");
    let mut rng = seeded(2);
    let sample = space.sample_distinct(5, &mut rng);
    assert!(sample.len() == 5 && sample.iter().all(|genome| space.explain(genome).is_empty()));
    let default = space.default_genome();
    let near = space.repair(&default, &mut rng).unwrap();
    let differ = |other: &Genome| other.positions().iter().filter(|at| **at != 0).count();
    assert!(!space.contains(&default) && space.contains(&near) && differ(&near) <= 2, "{near:?}");
    let first = space.iter().next().unwrap();
    assert_eq!(space.genome_at(space.index_of(&first).unwrap()), Some(first));
}

#[test]
fn thirty_hashed_parameters_are_searched() {
    let sum = (0..30).map(|at| format!("P{at} * P{} * {}", (at + 7) % 30, at + 2)).collect::<Vec<_>>();
    let space = hashed(30, &format!("({}) % 1000003 == 17", sum.join(" + ")), bounded());
    assert!(!space.is_exact());
    assert!(matches!(space.size(), Size::Unknown { estimate: 0.0, spread, .. } if spread > 0.0));
    let mut rng = seeded(2);
    let sample = space.sample(&mut rng);
    assert!(sample.is_none_or(|genome| space.contains(&genome)));
    let repaired = space.repair(&space.default_genome(), &mut rng);
    assert!(repaired.is_none_or(|genome| space.contains(&genome)));
}
