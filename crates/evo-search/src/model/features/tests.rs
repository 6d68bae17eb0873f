//! Features of small spaces, listed; of larger ones, counted.

use evo_space::expr::Expr;

use super::*;
use crate::conformance::space_of;

const TILED: &str = "constraints = ['BX * BY <= 256', 'BX * BY * TX % 32 == 0', 'PAD == 0 or SHARED']\n\
    [parameters]\nBX = [16, 32, 64, 128]\nBY = [1, 2, 4, 8]\nTX = [1, 2, 4]\nPAD = [0, 1]\nSHARED = [false, true]\n\
    ONE = [7]\nHOW = [\"a\", \"b\", \"c\"]\nSCALE = [0.5, 1.5]\n";

/// What trees and a process would see if these expressions were the features.
fn expected(space: &SearchSpace, texts: &[&str]) -> Features {
    let parameters = space.parameters();
    let formula = |text: &&str| match parameters.iter().position(|parameter| *parameter.name == **text) {
        Some(slot) => Formula::of_parameter(slot),
        None => {
            let expr = Expr::parse(text).unwrap();
            let slots = slots_of(expr.distinct_names(), parameters).unwrap();
            Formula::of_tree(expr.tree(), &slots, parameters).unwrap()
        }
    };
    let formulas: Vec<Formula> = texts.iter().map(formula).collect();
    let numbers = Numbers::new(parameters);
    let columns = Candidates::new(space, &numbers, sample(space)).columns(&formulas);
    Features { trees: columns.clone(), process: columns, scales: Vec::new().into(), numbers }
}

/// Where the feature stands for trees that this expression is.
fn place(features: &Features, space: &SearchSpace, text: &str) -> usize {
    let [codes, wanted] = [features, &expected(space, &[text])].map(|own| own.codes(sample(space)));
    let place = (0..codes.columns()).find(|at| codes.column(*at) == wanted.column(0));
    place.unwrap_or_else(|| panic!("there is no feature `{text}`"))
}

#[test]
fn what_trees_see() {
    let space = space_of(TILED);
    let products = ["BX * BY", "BX * BY * TX", "BX / BY", "BY * TX", "BY / TX", "BX * TX", "BX / TX"];
    let scaled = ["TX * SCALE", "TX / SCALE", "BY * SCALE", "BY / SCALE", "BX * SCALE", "BX / SCALE"];
    let plain = ["BX", "BY", "TX", "PAD", "SHARED", "HOW", "SCALE"];
    let texts = ["HOW == 'a'", "HOW == 'b'", "HOW == 'c'"];
    let all = [&plain[..], &texts, &products, &scaled].concat();
    let codes = |features: &Features| {
        let codes = features.codes(space.iter());
        (0..codes.columns()).map(|at| codes.column(at).to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(codes(&Features::new(&space)), codes(&expected(&space, &all)));
}

#[test]
fn what_a_process_sees() {
    let space = space_of(TILED);
    let features = Features::new(&space);
    let matrix = features.process_matrix(space.iter());
    let plain = ["BX", "BY", "TX", "PAD", "SHARED", "SCALE"];
    let others = ["HOW == 'a'", "HOW == 'b'", "HOW == 'c'", "BX * BY", "BX * BY * TX"];
    let expected = expected(&space, &[&plain[..], &others].concat());
    assert_eq!(matrix, expected.process_matrix(space.iter()));
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
fn a_product_orders_as_it_should() {
    let space = space_of(TILED);
    let features = Features::new(&space);
    let at = place(&features, &space, "BX * BY");
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
    let undefined = place(&features, &space, "12 / A");
    let of = |a| features.code_row(&Genome::from(vec![a, 0]))[undefined];
    // Position 2 is `A = 0`, where the quotient has no value and ranks lowest.
    assert!(of(2) < of(1) && of(1) < of(0) && of(0) < of(3));
}

#[test]
fn many_parameters_are_capped_and_few_are_fine() {
    let many: String = (0..30).map(|at| format!("P{at} = [1, 2, 3, 4, 5, 6, 7, 8]\n")).collect();
    let space = space_of(&format!("constraints = ['P3 * P28 < 40']\n[parameters]\n{many}"));
    let features = Features::new(&space);
    // Parameters, sub-expressions and pairs, the latter two up to their limits.
    assert!(features.scales().len() <= 30 + EXPRESSIONS + PAIRS, "{}", features.scales().len());
    // Named together in a constraint.
    place(&features, &space, "P3 / P28");
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
    let at = place(&features, &space, "A * B * C");
    let code = |a, b, c| features.code_row(&Genome::from(vec![a, b, c]))[at];
    assert!(code(0, 0, 0) <= code(9, 9, 9) && code(9, 9, 9) < code(20, 9, 19));
}
