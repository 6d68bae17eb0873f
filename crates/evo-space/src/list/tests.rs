//! Listed rows against the index: every range and every block size gives the same points.

use proptest::prelude::*;

use std::ops::Range;

use super::Rows;
use super::rows::BLOCK_ROWS;
use crate::genome::Genome;
use crate::space::SearchSpace;
use crate::testing::space;

/// Listing a range gives what the index says, in one piece and in blocks.
#[track_caller]
fn check_range(space: &SearchSpace, range: Range<u128>, block_rows: usize) {
    let expected: Vec<Genome> = range.clone().map_while(|index| space.genome_at(index)).collect();
    let rows = space.rows(range.clone());
    assert_eq!((rows.len(), rows.is_empty()), (expected.len(), expected.is_empty()), "{range:?}");
    assert!(rows.iter().eq(expected.iter().cloned()), "{range:?}");
    let blocks: Vec<Rows> = space.row_blocks(range.clone(), block_rows).collect();
    assert!(blocks.iter().all(|block| !block.is_empty() && block.len() <= block_rows));
    assert!(blocks.iter().flat_map(Rows::iter).eq(expected), "{range:?} by {block_rows}");
}

/// The whole list, and ranges with ends everywhere.
fn check(space: &SearchSpace, bytes_per_row: usize) {
    let count = space.count();
    assert_eq!(space.rows(0..0).bytes_per_row(), bytes_per_row);
    // Ranges that end or begin beyond the last point are cut and not refused.
    check_range(space, 0..count + 7, 1 + count as usize / 3);
    let step = (count / 11).max(1);
    for number in 0..12u128 {
        let start = (number * step + number % 3).min(count);
        check_range(space, start..(start + number * number * step / 7 + 1), 1 + number as usize * 5);
    }
    check_range(space, count..count + 1, 1);
    check_range(space, count + 5..u128::MAX, 1);
}

#[test]
fn interleaved_groups_are_listed_in_declared_order() {
    check(&space("parameters = { A = [1, 2, 3] }"), 1);
    check(&space("parameters = { A = [1], B = ['x'] }"), 1);
    check(
        &space(
            "parameters = { A = [1, 2, 3], B = [3, 1, 2], C = [1, 2, 3, 4], D = [2, 1], E = ['x'] }\n\
             constraints = ['A <= C', 'B != D', \"E == 'x'\"]",
        ),
        1,
    );
}

#[test]
fn parameters_with_one_valid_value_take_no_bits() {
    let text = "parameters = { A = [1, 2, 3, 4], B = [4, 1], C = [1, 2, 3, 4], D = [7, 8, 9] }\n\
                constraints = ['A * B == 4 * B', 'C + B <= 3']";
    let space = space(text);
    assert_eq!(space.count(), 2 * 3);
    check(&space, 1);
    check(&SearchSpace::new(space.parameters().to_vec(), Vec::new()), 1);
}

/// A sum over many parameters has nodes that many rows share; its list is longer than tails and than
/// the blocks of threads.
#[test]
fn long_lists_have_no_seams() {
    let names: Vec<String> = (0..8).map(|at| format!("P{at}")).collect();
    let values: Vec<String> = names.iter().map(|name| format!("{name} = [0, 1, 2, 3, 4, 5]")).collect();
    let text =
        format!("parameters = {{ {} }}\nconstraints = ['{} <= 13']", values.join(", "), names.join(" + "));
    let space = space(&text);
    // Several blocks, so that there are seams between what threads wrote.
    assert!(space.count() > 4 * BLOCK_ROWS as u128, "{}", space.count());
    let rows = space.rows(0..u128::MAX);
    assert_eq!(rows.bytes_per_row(), 4);
    assert!(rows.iter().eq(space.iter()));
    check_range(&space, 99_990..170_000, 33_333);
}

/// Fifteen parameters of 300 values each need three 64-bit words; the range lies far inside.
#[test]
fn wide_rows_take_several_words() {
    let values: Vec<String> = (0..300).map(|value| value.to_string()).collect();
    let text = |count: usize| {
        let parameters: Vec<String> =
            (0..count).map(|at| format!("P{at} = [{}]", values.join(","))).collect();
        format!("parameters = {{ {} }}\nconstraints = ['P0 + P{} <= 150']", parameters.join(", "), count - 1)
    };
    for (count, bytes) in [(14, 16), (15, 24)] {
        let space = space(&text(count));
        assert_eq!(space.rows(0..0).bytes_per_row(), bytes);
        for start in [0, 12_345, 300u128.pow(9) + 17, space.count() - 7_000] {
            check_range(&space, start..start.saturating_add(6_000), 2_500);
        }
    }
}

#[test]
fn a_part_of_a_space_lists_its_own_points() {
    let space = space(
        "parameters = { A = [1, 2, 3], B = [3, 1, 2], C = [1, 2, 3, 4], D = [2, 1], E = ['x', 'y'] }\n\
         constraints = ['A <= C', 'B != D']",
    );
    let check = |fixed: &[(usize, u16)], bytes: usize| {
        let part = space.fixed(fixed);
        let holds = |genome: &Genome| fixed.iter().all(|(slot, at)| genome.positions()[*slot] == *at);
        let expected: Vec<Genome> = space.iter().filter(holds).collect();
        let rows = part.rows(0..u128::MAX);
        assert!(rows.iter().eq(expected.iter().cloned()) && rows.bytes_per_row() == bytes, "{fixed:?}");
        let blocks = part.row_blocks(1..7, 4).flat_map(|block| block.iter().collect::<Vec<_>>());
        assert!(blocks.eq(expected.into_iter().take(7).skip(1)), "{fixed:?}");
    };
    check(&[], 1);
    check(&[(1, 2)], 1);
    check(&[(0, 1), (3, 0), (4, 1)], 1);
    check(&[(1, 1), (3, 1)], 1);
}

#[test]
fn an_empty_space_lists_nothing() {
    let read = space("parameters = { A = [1, 2], B = [1, 2] }");
    for text in ["A + B > 9", "False"] {
        let constraint = crate::constraint::Constraint {
            expr: crate::expr::Expr::parse(text).unwrap(),
            because: None,
            parameters: vec![0, 1],
            span: None,
        };
        let space = SearchSpace::new(read.parameters().to_vec(), vec![constraint]);
        assert_eq!((space.rows(0..9).len(), space.row_blocks(0..9, 2).count()), (0, 0), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Random sizes and links between random pairs: groups of every shape, interleaved.
    #[test]
    fn random_spaces_are_listed_as_they_are_indexed(
        sizes in prop::collection::vec(1usize..6, 1..8),
        links in prop::collection::vec((0usize..8, 0usize..8, 0u8..4), 0..5),
    ) {
        let parameters: Vec<String> = sizes.iter().enumerate().map(|(at, size)| {
            let values: Vec<String> = (0..*size).map(|value| (value * (at + 2) % 7).to_string()).collect();
            format!("P{at} = [{}]", { let mut seen = values; seen.sort(); seen.dedup(); seen.join(", ") })
        }).collect();
        let constraints: Vec<String> = links.iter().map(|(a, b, kind)| {
            let (a, b) = (a % sizes.len(), b % sizes.len());
            match kind {
                0 => format!("'P{a} <= P{b} + 3'"),
                1 => format!("'P{a} != P{b} or P{a} == P{b}'"),
                2 => format!("'(P{a} + P{b}) % 3 != 2'"),
                _ => format!("'P{a} * P{b} < 20'"),
            }
        }).collect();
        let text =
            format!("parameters = {{ {} }}\nconstraints = [{}]", parameters.join(", "), constraints.join(", "));
        if let Ok(space) = SearchSpace::parse(&text) {
            let rows = space.rows(0..u128::MAX);
            prop_assert!(rows.iter().eq(space.iter()));
            prop_assert!(rows.bytes_per_row() <= 4);
            let third = space.count() / 3;
            check_range(&space, third..third * 2, 7);
        }
    }
}
