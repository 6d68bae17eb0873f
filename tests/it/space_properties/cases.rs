//! Spaces with one property each, and files with many points, asked for everything.

use std::collections::BTreeSet;
use std::path::Path;

use evo_space::expr::Expr;
use evo_space::genome::Genome;
use evo_space::sample::seeded;
use evo_space::space::{Constraint, SearchSpace};
use evo_space::{Limits, RelaxLimits};
use rand::RngExt;

use super::check::{check_around, check_operations};
use crate::space::{open, own_spaces, shared_spaces};

/// The same space where nearly every linked group is too much to count.
pub fn starved(space: &SearchSpace, steps: u64) -> SearchSpace {
    let limits = Limits { steps: 1, relax: RelaxLimits { steps, trials: 8, edges: 1000 } };
    SearchSpace::with_limits(space.parameters().to_vec(), space.constraints().to_vec(), limits)
}

fn space(text: &str) -> SearchSpace {
    SearchSpace::parse(text).unwrap_or_else(|diagnostics| panic!("{}", diagnostics.render("test.toml", text)))
}

#[track_caller]
fn check(space: &SearchSpace) {
    check_operations(space).unwrap();
}

#[test]
fn leaving_out_goes_as_far_as_it_must() {
    let space = space(
        "constraints = ['A * B + C <= 14', 'B % D != 1', '(A + 2 * B + 3 * C + 5 * D) % 7 < 3', 'E > F']\n\
         [parameters]\nA = [1, 2, 3, 4, 5]\nB = [1, 2, 3, 4, 5]\nC = [1, 2, 3, 4, 5]\nD = [2, 3, 4]\n\
         E = [1, 2, 3]\nF = [1, 2, 3]\nG = [1, 2]",
    );
    let counts: Vec<u128> = (0..12)
        .map(|power| {
            let starved = starved(&space, 1 << power);
            check(&starved);
            assert_eq!(starved.is_exact(), starved.count() == space.count());
            starved.count()
        })
        .collect();
    let different: BTreeSet<&u128> = counts.iter().collect();
    assert!(counts.is_sorted_by(|a, b| a >= b) && different.len() > 2, "{counts:?}");
    assert_eq!((counts[11], space.is_exact()), (space.count(), true));
}

#[test]
fn indices_follow_the_declared_order() {
    let interleaved = "constraints = ['A + D < 5', 'B != E', 'C * F % 2 == 0', 'G > 1']\n[parameters]\n\
         A = [1, 2, 3]\nB = [1, 2, 3]\nC = [1, 2, 3]\nD = [3, 1, 2]\nE = [2, 3]\nF = [1, 2, 4]\nG = [1, 2, 3]";
    let nested = "parameters = { A = [1, 2, 3], B = [3, 1, 2], C = [1, 2, 3, 4], D = [2, 1], E = ['x'] }\n\
         constraints = ['A <= C', 'B != D', \"E == 'x'\"]";
    let gaps_between_positions = "constraints = ['(A + B) % 3 != 1', 'A * C > B', 'B != 2']\n[parameters]\n\
         A = [1, 2, 3, 4, 5]\nB = [1, 2, 3, 4, 6]\nC = [1, 3]";
    let single_value = "[parameters]\nA = [7]\nB = ['x', 'y']\nC = [1, 2, 3]";
    for text in [interleaved, nested, gaps_between_positions, single_value] {
        check(&space(text));
    }
    let more_groups_than_fit_the_stack: Vec<String> =
        (0..40).map(|at| format!("P{at} = [{}]", ["1", "1, 2"][at % 7 / 6])).collect();
    let names = more_groups_than_fit_the_stack.join("\n");
    check(&space(&format!("constraints = ['P0 + P39 == 2']\n[parameters]\n{names}")));
}

#[test]
fn an_empty_space_is_empty_in_every_way() {
    let read = space("parameters = { A = [1, 5], B = [1, 5], C = [1, 5] }");
    let constraint = |text: &&str| Constraint {
        expr: Expr::parse(text).unwrap(),
        because: None,
        parameters: (0..3).collect(),
        span: None,
    };
    for texts in [
        &["A + B > 10"][..],
        &["A < B and B < A"],
        &["A // (B - B) == 1"],
        &["False"],
        &["A + B > 4", "C < B", "A < C"],
    ] {
        let constraints = texts.iter().map(constraint).collect();
        let space = SearchSpace::new(read.parameters().to_vec(), constraints);
        assert_eq!(space.count(), 0, "{texts:?}");
        check(&space);
        check(&starved(&space, 1));
    }
}

fn check_at_random(file: &Path) {
    let space = open(file);
    let valid: Vec<Genome> = space.iter().collect();
    let mut rng = seeded(6);
    for _ in 0..5 {
        let mut point = space.sample(&mut rng).unwrap();
        check_around(&space, &valid, &point).unwrap();
        let slot = rng.random_range(0..point.0.len());
        point.0[slot] = rng.random_range(0..space.parameters()[slot].values.len()) as u16;
        check_around(&space, &valid, &point).unwrap();
    }
}

#[test]
fn files_agree_with_a_scan() {
    check_at_random(&own_spaces().join("chained_tiles.json"));
    let Some(folder) = shared_spaces() else { return };
    for name in ["dedispersion", "atf_prl_2x2", "atf_prl_4x4"] {
        check_at_random(&folder.join(name).with_extension("json"));
    }
}
