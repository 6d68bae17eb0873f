//! What several tests need: spaces from texts, at random, and their points by brute force.

use num_bigint::BigUint;
use proptest::prelude::*;

use crate::genome::Genome;
use crate::index::Size;
use crate::neighbors::Neighborhood;
use crate::sample::seeded;
use crate::space::SearchSpace;

#[track_caller]
pub fn space(text: &str) -> SearchSpace {
    SearchSpace::parse(text).unwrap_or_else(|diagnostics| panic!("{}", diagnostics.render("test.toml", text)))
}

/// All points in canonical order, filtered by evaluating each constraint as written.
pub fn brute_force(space: &SearchSpace) -> Vec<Genome> {
    let sizes: Vec<u16> = space.parameters().iter().map(|parameter| parameter.values.len() as u16).collect();
    let mut points = vec![vec![]];
    for size in sizes {
        points = points
            .iter()
            .flat_map(|point: &Vec<u16>| (0..size).map(|at| [&point[..], &[at]].concat()))
            .collect();
    }
    let genomes = points.into_iter().map(Genome::from);
    genomes.filter(|genome| space.explain(genome).is_empty()).collect()
}

/// Every operation, of a space that is counted or of one that is too entangled for that.
pub fn check_against_brute_force(space: &SearchSpace) {
    let valid = brute_force(space);
    assert_eq!(space.iter().collect::<Vec<_>>(), valid);
    check_size(space, &valid);
    check_indices(space, &valid);
    check_samples(space, &valid);
    let sizes: Vec<u16> = space.parameters().iter().map(|parameter| parameter.values.len() as u16).collect();
    for number in 0..20u16 {
        let point: Vec<u16> =
            sizes.iter().zip(1u16..).map(|(size, at)| (number * 31 + at * 17) % size).collect();
        check_fixed(space, &valid, usize::from(number) % point.len(), &point);
        check_around(space, &valid, &Genome::from(point));
    }
    valid.iter().step_by(valid.len() / 4 + 1).for_each(|point| check_around(space, &valid, point));
}

fn check_size(space: &SearchSpace, valid: &[Genome]) {
    match space.size() {
        Size::Exact(count) => {
            assert_eq!(count, BigUint::from(valid.len()));
            assert_eq!(space.count(), valid.len() as u128);
            let rank = |genome: &Genome| {
                let digits = genome.positions().iter().zip(space.parameters());
                digits
                    .fold(0u64, |rank, (at, parameter)| rank * parameter.values.len() as u64 + u64::from(*at))
            };
            assert_eq!(space.rank_sum(), BigUint::from(valid.iter().map(rank).sum::<u64>()));
            assert_eq!(space.effective_domains(), occurring(space, valid));
        }
        Size::Unknown { at_most, estimate, spread } => {
            assert_eq!(&at_most, space.valid());
            assert!(at_most >= BigUint::from(valid.len()));
            let off = (estimate - valid.len() as f64).abs();
            // Six standard deviations, because many random spaces are tried and none may fail by chance.
            assert!(off <= 6.0 * spread, "{estimate} ± {spread} for {}", valid.len());
        }
    }
}

fn occurring(space: &SearchSpace, points: &[Genome]) -> Vec<Vec<u16>> {
    let domain = |slot: usize| {
        let mut positions: Vec<u16> = points.iter().map(|point| point.positions()[slot]).collect();
        positions.sort_unstable();
        positions.dedup();
        positions
    };
    (0..space.parameters().len()).map(domain).collect()
}

fn check_indices(space: &SearchSpace, valid: &[Genome]) {
    let indices: Vec<u128> = valid.iter().map(|genome| space.index_of(genome).unwrap()).collect();
    assert!(indices.is_sorted_by(|a, b| a < b) && indices.iter().all(|index| *index < space.count()));
    if space.is_exact() {
        assert!(indices.iter().copied().eq(0..valid.len() as u128));
    }
    assert_eq!((0..space.count()).filter_map(|index| space.genome_at(index)).collect::<Vec<_>>(), valid);
    assert_eq!(space.genome_at(space.count()), None);
    for first in [0, space.count() / 3, space.count().saturating_sub(1), space.count(), u128::MAX] {
        let skipped = indices.partition_point(|index| *index < first);
        assert!(space.iter_from(first).eq(valid[skipped..].iter().cloned()), "from {first}");
    }
}

fn check_samples(space: &SearchSpace, valid: &[Genome]) {
    let mut rng = seeded(3);
    for _ in 0..20 {
        let genome = space.sample(&mut rng);
        assert_eq!(genome.is_none(), valid.is_empty());
        assert!(genome.is_none_or(|genome| valid.contains(&genome)));
    }
    for n in [0, 1, 3, valid.len() / 2, valid.len(), valid.len() + 5] {
        let mut sample = space.sample_distinct(n, &mut rng);
        assert!(sample.iter().all(|genome| valid.contains(genome)));
        sample.sort();
        sample.dedup();
        assert_eq!(sample.len(), n.min(valid.len()));
        let spread = space.sample_stratified(n, &mut rng);
        assert!(spread.is_sorted_by(|a, b| a < b) && spread.iter().all(|genome| valid.contains(genome)));
        assert!(spread.len() == sample.len() || (!space.is_exact() && spread.len() < sample.len()));
    }
}

fn check_fixed(space: &SearchSpace, valid: &[Genome], slot: usize, point: &[u16]) {
    let part = space.fixed(&[(slot, point[slot])]);
    let expected: Vec<Genome> =
        valid.iter().filter(|genome| genome.positions()[slot] == point[slot]).cloned().collect();
    assert_eq!(part.iter().collect::<Vec<_>>(), expected);
    assert_eq!((0..part.count()).filter_map(|index| part.genome_at(index)).collect::<Vec<_>>(), expected);
    assert!(valid.iter().all(|genome| part.contains(genome) == expected.contains(genome)));
    let mut all = part.sample_distinct(expected.len() + 1, &mut seeded(5));
    all.sort();
    assert_eq!(all, expected);
    if space.is_exact() {
        assert_eq!(part.count(), expected.len() as u128);
        assert_eq!(part.effective_domains(), occurring(space, &expected));
    }
}

/// Membership, the nearest valid point and the neighbors of a point, valid or not.
pub fn check_around(space: &SearchSpace, valid: &[Genome], point: &Genome) {
    let is_valid = valid.binary_search(point).is_ok();
    assert_eq!((space.contains(point), space.index_of(point).is_some()), (is_valid, is_valid), "{point:?}");
    let distance = |other: &Genome| {
        let pairs = || other.positions().iter().zip(point.positions());
        let moved: u16 = pairs().map(|(a, b)| a.abs_diff(*b)).sum();
        (pairs().filter(|(a, b)| a != b).count(), moved)
    };
    let repaired = space.repair(point, &mut seeded(7));
    assert_eq!(repaired.as_ref().map(distance), valid.iter().map(distance).min());
    assert!(repaired.is_none_or(|genome| valid.binary_search(&genome).is_ok()));
    for neighborhood in NEIGHBORHOODS {
        // What occurs in any valid point is known of exact spaces only.
        if neighborhood != Neighborhood::Adjacent || space.is_exact() {
            let expected = scan(valid, point.positions(), neighborhood);
            assert_eq!(space.neighbors(point, neighborhood), expected, "{neighborhood:?} of {point:?}");
            assert_eq!(space.neighbor_count(point, neighborhood), BigUint::from(expected.len()));
        }
    }
}

pub const NEIGHBORHOODS: [Neighborhood; 4] = [
    Neighborhood::Hamming,
    Neighborhood::HammingAdjacent,
    Neighborhood::Adjacent,
    Neighborhood::StrictlyAdjacent,
];

fn scan(valid: &[Genome], point: &[u16], neighborhood: Neighborhood) -> Vec<Genome> {
    let differ = |other: &&Genome| other.positions().iter().zip(point).filter(|(a, b)| a != b).count();
    let hamming: Vec<Genome> = valid.iter().filter(|other| differ(other) == 1).cloned().collect();
    // Of a list, what lies within the bounds of each parameter.
    let inside = |points: &[Genome], bounds: Vec<(u16, u16)>| {
        let is_inside = |other: &&Genome| {
            other.positions().iter().zip(&bounds).all(|(at, (low, high))| low <= at && at <= high)
        };
        points.iter().filter(|other| differ(other) > 0).filter(is_inside).cloned().collect()
    };
    // The nearest on either side that occurs in a list.
    let nearest = |points: &[Genome]| {
        let bounds = |(slot, own): (usize, &u16)| {
            let occurring = || points.iter().map(|point| point.positions()[slot]);
            let below = occurring().filter(|at| at < own).max();
            (below.unwrap_or(*own), occurring().filter(|at| at > own).min().unwrap_or(*own))
        };
        point.iter().enumerate().map(bounds).collect()
    };
    match neighborhood {
        Neighborhood::HammingAdjacent => inside(&hamming, nearest(&hamming)),
        Neighborhood::Hamming => hamming,
        Neighborhood::Adjacent => inside(valid, nearest(valid)),
        Neighborhood::StrictlyAdjacent => {
            inside(valid, point.iter().map(|at| (at.saturating_sub(1), at + 1)).collect())
        }
    }
}

pub fn is_uniform(seen: &[f64]) -> bool {
    let mean = seen.iter().sum::<f64>() / seen.len() as f64;
    let chi_squared: f64 = seen.iter().map(|n| (n - mean).powi(2) / mean).sum();
    // Its mean is one less than the cells, its deviation the root of twice that; five are far out.
    let cells = seen.len() as f64;
    chi_squared < cells + 5.0 * (2.0 * cells).sqrt()
}

/// A small random space: values of every kind, constraints that may overflow or divide by zero.
pub fn any_space() -> impl Strategy<Value = String> {
    let integers = prop::collection::btree_set(-3i64..20, 1..6)
        .prop_map(|set| set.iter().map(i64::to_string).collect::<Vec<_>>());
    let floats = prop::collection::btree_set(0i32..8, 1..4)
        .prop_map(|set| set.iter().map(|value| format!("{:?}", f64::from(*value) / 4.0)).collect::<Vec<_>>());
    // The square of the second number exceeds 64 bits, so that overflow is met too.
    let huge = Just(vec!["9223372036854775807".to_string(), "3037000500".to_string(), "-2".to_string()]);
    let values = prop_oneof![6 => integers, 2 => floats, 1 => huge];
    let parameters = prop::collection::vec(values, 1..6);
    (parameters, prop::collection::vec(any_condition(), 0..4)).prop_map(|(parameters, conditions)| {
        let count = parameters.len();
        let name = |at: usize| format!("P{}", at % count);
        let fill =
            |text: &String| (0..5).fold(text.clone(), |text, at| text.replace(&format!("${at}"), &name(at)));
        let lines =
            parameters.iter().enumerate().map(|(at, values)| format!("P{at} = [{}]\n", values.join(", ")));
        let texts = conditions.iter().map(fill).map(|text| format!("'''{text}'''")).collect::<Vec<_>>();
        format!("constraints = [{}]\n[parameters]\n{}", texts.join(", "), lines.collect::<String>())
    })
}

fn any_number() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        3 => (0..5usize).prop_map(|at| format!("${at}")),
        1 => (-2i64..9).prop_map(|value| format!("({value})")),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let operator = prop::sample::select(vec!["+", "-", "*", "*", "/", "//", "%", "**"]);
        prop_oneof![
            5 => (inner.clone(), operator, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            2 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} - {b} + {c})")),
            2 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("{a} * {b} * {c}")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("max({a}, -{b})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("ceil_div(abs({a}), {b})")),
        ]
    })
}

fn any_condition() -> impl Strategy<Value = String> {
    let comparison = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let leaf = prop_oneof![
        4 => (any_number(), comparison, any_number()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        2 => (any_number(), any_number(), any_number()).prop_map(|(a, b, c)| format!("{a} <= {b} < {c}")),
        1 => (any_number(), any_number()).prop_map(|(a, b)| format!("{a} in [1, {b}, 4.0]")),
        1 => any_number(),
    ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} and {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} or {b})")),
            inner.clone().prop_map(|a| format!("(not {a})")),
            (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| format!("({a} if {b} else {c})")),
        ]
    })
}
