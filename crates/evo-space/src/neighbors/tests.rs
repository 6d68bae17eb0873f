//! Neighbors against a scan of all valid points, on random spaces and on the small public ones.

use std::path::Path;

use proptest::prelude::*;

use num_bigint::BigUint;
use rand::RngExt;

use super::Neighborhood;
use crate::genome::Genome;
use crate::rng::seeded;
use crate::space::SearchSpace;
use crate::testing::{any_space, brute_force, is_uniform, space};

const ALL: [Neighborhood; 4] = [
    Neighborhood::Hamming,
    Neighborhood::HammingAdjacent,
    Neighborhood::Adjacent,
    Neighborhood::StrictlyAdjacent,
];

/// The definition of each word, by a scan.
fn scan(valid: &[Genome], point: &[u16], neighborhood: Neighborhood) -> Vec<Genome> {
    let differ = |other: &&Genome| other.positions().iter().zip(point).filter(|(a, b)| a != b).count();
    let hamming: Vec<Genome> = valid.iter().filter(|other| differ(other) == 1).cloned().collect();
    let inside = |bounds: &[(u16, u16)]| {
        let inside = |other: &&Genome| {
            other.positions().iter().zip(bounds).all(|(at, (low, high))| low <= at && at <= high)
        };
        valid.iter().filter(|other| differ(other) > 0).filter(inside).cloned().collect()
    };
    match neighborhood {
        Neighborhood::Hamming => hamming,
        Neighborhood::HammingAdjacent => {
            let bounds = nearest(&hamming, point);
            let near = |other: &&Genome| {
                other.positions().iter().zip(&bounds).all(|(at, b)| b.0 <= *at && *at <= b.1)
            };
            hamming.iter().filter(near).cloned().collect()
        }
        Neighborhood::Adjacent => inside(&nearest(valid, point)),
        Neighborhood::StrictlyAdjacent => {
            inside(&point.iter().map(|own| (own.saturating_sub(1), own + 1)).collect::<Vec<_>>())
        }
    }
}

/// For each slot the nearest other positions among some points; the own one where there are none.
fn nearest(points: &[Genome], own: &[u16]) -> Vec<(u16, u16)> {
    let bounds = |(slot, own): (usize, &u16)| {
        let occurring = || points.iter().map(|point| point.positions()[slot]);
        let below = occurring().filter(|at| at < own).max();
        (below.unwrap_or(*own), occurring().filter(|at| at > own).min().unwrap_or(*own))
    };
    own.iter().enumerate().map(bounds).collect()
}

fn check(space: &SearchSpace, valid: &[Genome], point: &Genome) {
    for neighborhood in ALL {
        let expected = scan(valid, point.positions(), neighborhood);
        assert_eq!(space.neighbors(point, neighborhood), expected, "{neighborhood:?} of {point:?}");
        assert_eq!(space.neighbor_count(point, neighborhood), BigUint::from(expected.len()));
        let random = space.random_neighbor(point, neighborhood, &mut seeded(9));
        assert_eq!(random.is_some(), !expected.is_empty());
        assert!(random.is_none_or(|genome| expected.contains(&genome)), "{neighborhood:?} of {point:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn neighbors_are_what_a_scan_finds(text in any_space(), seed in any::<u64>()) {
        if let Ok(space) = SearchSpace::parse(&text) {
            let valid = brute_force(&space);
            let mut rng = seeded(seed);
            for _ in 0..6 {
                // Any point, then a valid one.
                let any = space.parameters().iter().map(|parameter| rng.random_range(0..parameter.values.len()) as u16);
                check(&space, &valid, &Genome::from(any.collect::<Vec<u16>>()));
                check(&space, &valid, &space.sample(&mut rng).unwrap());
            }
        }
    }
}

#[test]
fn the_four_words_differ() {
    let space = space(
        "parameters = { A = [1, 2, 3, 4, 5, 6], B = [1, 2, 3, 4] }\nconstraints = ['A != 2', 'B <= 2 or A < 6', 'A + B != 5']",
    );
    // A is 3 and B is 1; A + B = 5 leaves out A = 4 there, and A = 2 occurs nowhere.
    let point = Genome::from(vec![2, 0]);
    let list = |neighborhood| {
        let pair = |genome: Genome| (genome.positions()[0] + 1, genome.positions()[1] + 1);
        space.neighbors(&point, neighborhood).into_iter().map(pair).collect::<Vec<_>>()
    };
    assert_eq!(list(Neighborhood::Hamming), [(1, 1), (3, 3), (3, 4), (5, 1), (6, 1)]);
    assert_eq!(list(Neighborhood::HammingAdjacent), [(1, 1), (3, 3), (5, 1)]);
    assert_eq!(list(Neighborhood::Adjacent), [(1, 1), (1, 2), (4, 2)]);
    assert_eq!(list(Neighborhood::StrictlyAdjacent), [(4, 2)]);
}

#[test]
fn random_neighbors_are_uniform() {
    let space = space(
        "parameters = { A = [1, 2, 3, 4, 5], B = [1, 2, 3, 4, 5], C = [0, 1, 2] }\nconstraints = ['A * B <= 12']",
    );
    let mut rng = seeded(4);
    for point in [vec![1, 2, 1], vec![3, 3, 0]].map(Genome::from) {
        for neighborhood in ALL {
            let list = space.neighbors(&point, neighborhood);
            let mut seen = vec![0f64; list.len()];
            for _ in 0..400 * list.len() {
                let drawn = space.random_neighbor(&point, neighborhood, &mut rng).unwrap();
                seen[list.binary_search(&drawn).unwrap()] += 1.0;
            }
            assert!(is_uniform(&seen), "{neighborhood:?} of {point:?}: {seen:?}");
        }
    }
}

#[test]
fn points_of_another_space_have_no_neighbors() {
    let space = space("parameters = { A = [1, 2], B = [1, 2] }");
    for point in [vec![], vec![0], vec![0, 0, 0]].map(Genome::from) {
        for neighborhood in ALL {
            assert_eq!(space.neighbors(&point, neighborhood), []);
            assert_eq!(space.random_neighbor(&point, neighborhood, &mut seeded(1)), None);
        }
    }
    // A position beyond the values is as far as it says.
    assert_eq!(space.neighbors(&Genome::from(vec![9, 0]), Neighborhood::Hamming).len(), 2);
    assert_eq!(space.neighbors(&Genome::from(vec![9, 0]), Neighborhood::StrictlyAdjacent), []);
}

#[test]
fn a_box_is_counted_and_walked_without_a_list() {
    let lines = (0..60).map(|at| format!("P{at} = [1, 2, 3, 4]\n")).collect::<String>();
    let space = space(&format!("constraints = ['P3 < P7']\n[parameters]\n{lines}"));
    let point = Genome::from(vec![1; 60]);
    // P3 is one of 1, 2, 3 and P7 too, in three pairs of nine.
    let expected = BigUint::from(3u8).pow(58) * 3u8;
    assert_eq!(space.neighbor_count(&point, Neighborhood::StrictlyAdjacent), expected);
    let first: Vec<Genome> = space.iter_neighbors(&point, Neighborhood::StrictlyAdjacent).take(100).collect();
    assert!(first.is_sorted() && first.iter().all(|genome| space.contains(genome)));
    assert!(space.random_neighbor(&point, Neighborhood::Adjacent, &mut seeded(3)).is_some());
}

/// Compares neighbors of random points, valid and not, with a scan of all points.
fn check_at_random(file: &Path) {
    let space = space(&std::fs::read_to_string(file).unwrap());
    let valid: Vec<Genome> = space.iter().collect();
    let mut rng = seeded(6);
    for _ in 0..5 {
        let mut point = space.sample(&mut rng).unwrap();
        check(&space, &valid, &point);
        // One parameter elsewhere: usually no longer valid.
        let slot = rng.random_range(0..point.0.len());
        point.0[slot] = rng.random_range(0..space.parameters()[slot].values.len()) as u16;
        check(&space, &valid, &point);
    }
}

#[test]
fn our_own_spaces_agree_with_a_scan() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/spaces");
    check_at_random(&folder.join("chained_tiles.json"));
}

#[test]
fn public_spaces_agree_with_a_scan() {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("EVO_SHARED").map_or_else(beside, Into::into).join("spaces");
    if !folder.is_dir() {
        // Past the harness, which keeps the output of `eprintln!` of passing tests to itself.
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "skipped: no folder `{}` with public spaces", folder.display());
        return;
    }
    for name in ["dedispersion", "atf_prl_2x2", "atf_prl_4x4"] {
        check_at_random(&folder.join(name).with_extension("json"));
    }
}
