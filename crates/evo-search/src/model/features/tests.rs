//! Features of small spaces, listed; of larger ones, counted.

use evo_space::genome::Genome;

use super::Features;
use crate::conformance::space_of;

const TILED: &str = "constraints = ['BX * BY <= 256', 'BX * BY * TX % 32 == 0', 'PAD == 0 or SHARED']\n\
    [parameters]\nBX = [16, 32, 64, 128]\nBY = [1, 2, 4, 8]\nTX = [1, 2, 4]\nPAD = [0, 1]\nSHARED = [false, true]\n\
    ONE = [7]\nHOW = [\"a\", \"b\", \"c\"]\nSCALE = [0.5, 1.5]\n";

#[test]
fn what_trees_see() {
    let space = space_of(TILED);
    let labels = Features::new(&space).tree_labels(&space);
    insta::assert_snapshot!(labels.join(", "), @"BX, BY, TX, PAD, SHARED, HOW, SCALE, HOW == 0, HOW == 1, HOW == 2, BX * BY, (BX * BY) * TX, BX / BY, BY * TX, BY / TX, BX * TX, BX / TX, TX * SCALE, TX / SCALE, BY * SCALE, BY / SCALE, BX * SCALE, BX / SCALE");
}

#[test]
fn what_a_process_sees() {
    let space = space_of(TILED);
    let features = Features::new(&space);
    insta::assert_snapshot!(features.process_labels(&space).join(", "), @"BX, BY, TX, PAD, SHARED, SCALE, HOW == 0, HOW == 1, HOW == 2, BX * BY, (BX * BY) * TX");
    let matrix = features.process_matrix(space.iter());
    assert_eq!((matrix.rows() as u128, matrix.columns()), (space.count(), features.process_columns()));
    for column in 0..matrix.columns() {
        let values = || matrix.iter().map(|row| row[column]);
        assert!(values().all(|value| (0.0..=1.0).contains(&value)));
        assert!(values().any(|value| value != matrix.at(0, column)), "feature {column} is constant");
    }
    let logs: Vec<f64> =
        (0..4).map(|at| features.process_row(&Genome::from(vec![at, 0, 0, 0, 0, 0, 0, 0]))[0]).collect();
    // 16 to 128 by doublings are equal steps of the logarithm.
    assert_eq!(logs, [0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0]);
}

#[test]
fn codes_are_the_same_one_by_one_and_together() {
    let space = space_of(TILED);
    let features = Features::new(&space);
    let codes = features.codes(space.iter());
    for (row, genome) in space.iter().enumerate() {
        assert_eq!(codes.row(row), features.code_row(&genome));
    }
    // The product of the first two orders as it should.
    let at = features.tree_labels(&space).iter().position(|label| label == "BX * BY").unwrap();
    let product = |bx: u16, by: u16| features.code_row(&Genome::from(vec![bx, by, 0, 0, 0, 0, 0, 0]))[at];
    assert!(product(0, 0) < product(0, 1) && product(1, 0) == product(0, 1) && product(3, 1) > product(1, 2));
}

#[test]
fn undefined_values_and_odd_numbers_have_a_place() {
    let space = space_of(
        "constraints = ['A == 0 or 12 / A > -20', 'A + B < 2e6']\n[parameters]\nA = [-3, -1, 0, 4]\nB = [0, 1, 1000000]\n",
    );
    let features = Features::new(&space);
    let codes = features.codes(space.iter());
    for column in 0..codes.columns() {
        let scale = &features.scales()[column];
        assert!(codes.column(column).iter().all(|code| usize::from(*code) < scale.len()));
    }
    let label = |text: &str| features.tree_labels(&space).iter().position(|label| label == text);
    let undefined = label("12 / A").expect("a sub-expression");
    let of = |a| features.code_row(&Genome::from(vec![a, 0]))[undefined];
    // Position 2 is `A = 0`, where the quotient has no value and ranks lowest.
    assert!(of(2) < of(1) && of(1) < of(0) && of(0) < of(3));
}

#[test]
fn many_parameters_are_capped_and_few_are_fine() {
    let many: String = (0..30).map(|at| format!("P{at} = [1, 2, 3, 4, 5, 6, 7, 8]\n")).collect();
    let space = space_of(&format!("constraints = ['P3 * P28 < 40']\n[parameters]\n{many}"));
    let features = Features::new(&space);
    let labels = features.tree_labels(&space);
    // Parameters, sub-expressions and pairs, the latter two up to their limits.
    assert!(labels.len() <= 30 + 32 + 112, "{}", labels.len());
    assert!(labels.contains(&"P3 / P28".to_string()), "named together in a constraint");
    let single = space_of("[parameters]\nA = [5]\n");
    let none = Features::new(&single);
    assert_eq!((none.scales().len(), none.process_columns()), (0, 0));
    assert_eq!(none.codes(single.iter()).rows(), 1);
    assert_eq!(none.process_matrix(single.iter()).rows(), 1);
}

#[test]
fn formulas_of_too_many_combinations_are_computed() {
    let values: Vec<String> = (1..=50).map(|value| value.to_string()).collect();
    let list = values.join(", ");
    let space = space_of(&format!(
        "constraints = ['A * B * C <= 5000']\n[parameters]\nA = [{list}]\nB = [{list}]\nC = [{list}]\n"
    ));
    let features = Features::new(&space);
    let at = features
        .tree_labels(&space)
        .iter()
        .position(|label| label.contains("* C)") || label.ends_with("* C"));
    let code =
        |a, b, c| features.code_row(&Genome::from(vec![a, b, c]))[at.expect("the constraint's product")];
    assert!(code(0, 0, 0) <= code(9, 9, 9) && code(9, 9, 9) < code(20, 9, 19));
}
