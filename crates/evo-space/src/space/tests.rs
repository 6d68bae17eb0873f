//! Spaces against brute force: every operation is compared with a plain filter of all points.

use num_bigint::BigUint;
use proptest::prelude::*;

use super::SearchSpace;
use crate::constraint::Constraint;
use crate::genome::Genome;
use crate::rng::seeded;
use crate::testing::{any_space, brute_force, scattered_points, space};

fn check_against_brute_force(space: &SearchSpace) {
    let expected = brute_force(space);
    assert_eq!(space.count(), expected.len() as u128);
    assert_eq!(space.iter().collect::<Vec<_>>(), expected);
    for (index, genome) in expected.iter().enumerate() {
        assert_eq!(space.genome_at(index as u128).as_ref(), Some(genome));
        assert_eq!(space.index_of(genome), Some(index as u128));
        assert!(space.contains(genome));
    }
    assert_eq!(space.genome_at(expected.len() as u128), None);
    check_rank_sum(space, &expected);
    check_points(space, &expected);
    check_samples(space, &expected);
}

fn check_rank_sum(space: &SearchSpace, valid: &[Genome]) {
    let rank = |genome: &Genome| {
        let digits = genome.positions().iter().zip(space.parameters());
        digits.fold(0u64, |rank, (at, parameter)| rank * parameter.values.len() as u64 + u64::from(*at))
    };
    assert_eq!(space.rank_sum(), BigUint::from(valid.iter().map(rank).sum::<u64>()));
}

/// Membership and repair of random points, valid or not.
fn check_points(space: &SearchSpace, valid: &[Genome]) {
    let mut rng = seeded(7);
    for point in scattered_points(space) {
        let genome = Genome::from(point.clone());
        assert_eq!(space.contains(&genome), valid.contains(&genome));
        let differ = |other: &Genome| other.positions().iter().zip(&point).filter(|(a, b)| a != b).count();
        let repaired = space.repair(&genome, &mut rng);
        assert_eq!(repaired.as_ref().map(&differ), valid.iter().map(differ).min());
        assert!(repaired.is_none_or(|genome| valid.contains(&genome)));
    }
}

fn check_samples(space: &SearchSpace, valid: &[Genome]) {
    let mut rng = seeded(3);
    assert_eq!(space.sample(&mut rng).is_none(), valid.is_empty());
    for n in [0, 1, 3, valid.len(), valid.len() + 5] {
        let mut sample = space.sample_distinct(n, &mut rng);
        assert!(sample.iter().all(|genome| space.contains(genome)));
        sample.sort();
        sample.dedup();
        assert_eq!(sample.len(), n.min(valid.len()));
    }
}

#[test]
fn interleaved_groups_keep_the_declared_order() {
    let space = space(
        "parameters = { A = [1, 2, 3], B = [3, 1, 2], C = [1, 2, 3, 4], D = [2, 1], E = ['x'] }\n\
                       constraints = ['A <= C', 'B != D', \"E == 'x'\"]",
    );
    check_against_brute_force(&space);
    assert_eq!(space.count(), 9 * 4);
}

#[test]
fn an_empty_space_is_empty_in_every_way() {
    let read = space("parameters = { A = [1, 2], B = [1, 2] }");
    let constraint = |text: &str| Constraint {
        expr: crate::expr::Expr::parse(text).unwrap(),
        because: None,
        parameters: vec![0, 1],
        span: None,
    };
    for text in ["A + B > 9", "A < B and B < A", "A // (B - B) == 1", "False"] {
        let space = SearchSpace::new(read.parameters().to_vec(), vec![constraint(text)]);
        check_against_brute_force(&space);
        assert_eq!(space.count(), 0, "{text}");
    }
}

#[test]
fn counts_beyond_128_bits_are_exact() {
    let values = (0..1000).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
    let lines = (0..50).map(|at| format!("P{at} = [{values}]\n")).collect::<String>();
    let space = space(&format!("constraints = ['P3 < P7']\n[parameters]\n{lines}"));
    assert_eq!(space.cartesian(), BigUint::from(1000u32).pow(50));
    assert_eq!(*space.valid(), BigUint::from(1000u32).pow(48) * 499_500u32);
    assert_eq!(space.count(), u128::MAX);
    let mut rng = seeded(1);
    let genome = space.sample(&mut rng).unwrap();
    assert!(space.contains(&genome));
    let index = u128::MAX / 3;
    let genome = space.genome_at(index).unwrap();
    assert_eq!(space.index_of(&genome), Some(index));
}

#[test]
fn a_linked_group_beyond_128_bits_is_counted_and_sampled() {
    let values = (0..150).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
    let lines = (0..40).map(|at| format!("P{at} = [{values}]\n")).collect::<String>();
    let chain = (1..40).map(|at| format!("'P{} <= P{at}'", at - 1)).collect::<Vec<_>>().join(", ");
    let space = space(&format!("constraints = [{chain}]\n[parameters]\n{lines}"));
    // Ascending sequences of 40 out of 150: multisets, 189 over 40.
    let binomial = (1..=40u32).fold(BigUint::from(1u8), |all, k| all * (149 + k) / k);
    assert!(binomial.bits() > 128 && *space.valid() == binomial);
    // The k-th least of 40 is 149 * k / 41 on average.
    let weighted = (1..=40u32).fold(BigUint::ZERO, |sum, k| sum * 150u32 + k);
    assert_eq!(space.rank_sum() * 41u8, &binomial * 149u32 * weighted);
    let mut rng = seeded(5);
    let mut sum = 0.0;
    for _ in 0..400 {
        let genome = space.sample(&mut rng).unwrap();
        assert!(space.contains(&genome) && space.violations(&genome).is_empty());
        sum += f64::from(genome.positions()[0]);
    }
    // The deviation of the least is about its average; 400 draws divide it by 20.
    let (least, expected) = (sum / 400.0, 149.0 / 41.0);
    assert!((least - expected).abs() < 5.0 * expected / 20.0, "{least}");
    for index in [0, 12345, 1 << 90, u128::MAX - 1] {
        let genome = space.genome_at(index).unwrap();
        assert_eq!(space.index_of(&genome), Some(index));
    }
    assert_eq!(space.genome_at(u128::MAX), None);
    // The index of the last point does not fit 128 bits, but the point is as valid as any.
    let last = Genome::from(vec![149; 40]);
    assert!(space.contains(&last));
    assert_eq!(space.index_of(&last), None);
}

#[test]
fn sampling_is_uniform() {
    let space = space(
        "parameters = { A = [1, 2, 3, 4, 5], B = [1, 2, 3, 4, 5], C = [0, 1] }\nconstraints = ['A * B <= 6']",
    );
    let count = space.count() as usize;
    let mut seen = vec![0f64; count];
    let mut rng = seeded(11);
    let draws = 400 * count;
    (0..draws).for_each(|_| seen[space.index_of(&space.sample(&mut rng).unwrap()).unwrap() as usize] += 1.0);
    let chi_squared: f64 = seen.iter().map(|n| (n - 400.0).powi(2) / 400.0).sum();
    // Mean is count - 1, standard deviation its root of twice that; five deviations are far out.
    assert!(chi_squared < count as f64 + 5.0 * (2.0 * count as f64).sqrt(), "{chi_squared}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_operation_agrees_with_brute_force(text in any_space()) {
        // An empty space is refused by the reader; it has a test of its own.
        match SearchSpace::parse(&text) {
            Ok(space) => check_against_brute_force(&space),
            Err(diagnostics) => {
                let rendered = diagnostics.render("test.toml", &text);
                prop_assert!(rendered.contains("no valid point"), "{rendered}");
            }
        }
    }
}
