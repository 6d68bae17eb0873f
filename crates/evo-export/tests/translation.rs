//! Random expressions mean the same in evo, in C++ and in Python: each is evaluated by evo, and by a program that was
//! generated from it.

use std::fmt::Write as _;
use std::fs;

use evo_export::translate::{Language, Meaning, translate};
use evo_space::expr::Expr;
use evo_space::value::Value;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::support::{is_there, printed};

mod support;

/// Expressions; compiled in one file, which takes g++ some seconds.
const COUNT: usize = 500;

/// Values of the sizes N and M at which each is evaluated.
const SIZES: [(i64, i64); 7] = [
    (0, 1),
    (7, -3),
    (1000, 64),
    (-5, 2),
    (i64::MAX, -1),
    (i64::MIN, 3),
    ((1 << 53) + 1, 9_007_199_254_740_993),
];

fn known(name: &str) -> Option<Value> {
    Some(match name {
        "A" => Value::Int(12),
        "B" => Value::Int(-5),
        "ZERO" => Value::Int(0),
        "BIG" => Value::Int(i64::MIN),
        "F" => Value::Float(2.5),
        "T" => Value::text("xor"),
        "YES" => Value::Bool(true),
        _ => return None,
    })
}

fn leaf() -> impl Strategy<Value = String> {
    let names = ["N", "M", "N", "M", "N", "A", "B", "ZERO", "BIG", "F", "T", "YES"];
    let literals = "0 1 2 3 64 7 0.5 4.0 1e300 9007199254740993 'xor' 'a\u{e9}?' True";
    prop_oneof![
        4 => prop::sample::select(names.to_vec()).prop_map(String::from),
        2 => prop::sample::select(literals.split(' ').collect::<Vec<_>>()).prop_map(String::from),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    leaf().prop_recursive(4, 24, 3, |inner| {
        let operators = ["+", "-", "*", "/", "//", "%", "+", "*", "//", "**"];
        let relations = ["==", "!=", "<", "<=", ">", ">="];
        let pair = (inner.clone(), inner.clone());
        let three = (inner.clone(), inner.clone(), inner.clone());
        let operator = prop::sample::select(operators.to_vec());
        let relation = prop::sample::select(relations.to_vec());
        prop_oneof![
            (pair.clone(), operator.clone()).prop_map(|((a, b), op)| format!("({a} {op} {b})")),
            (pair.clone(), operator).prop_map(|((a, b), op)| format!("{a} {op} {b}")),
            (three.clone(), prop::sample::select(vec!["//", "%", "*", "-"]))
                .prop_map(|((a, b, c), op)| format!("({a} * {b} {op} {c})")),
            pair.clone().prop_map(|(a, b)| format!("ceil_div({a}, {b})")),
            inner.clone().prop_map(|a| format!("abs({a})")),
            inner.clone().prop_map(|a| format!("(-({a}))")),
            inner.clone().prop_map(|a| format!("(not {a})")),
            three.clone().prop_map(|(a, b, c)| format!("min({a}, {b}, {c})")),
            pair.clone().prop_map(|(a, b)| format!("max({a}, {b})")),
            (pair.clone(), relation.clone()).prop_map(|((a, b), r)| format!("({a} {r} {b})")),
            (three.clone(), relation.clone(), relation)
                .prop_map(|((a, b, c), r, s)| format!("({a} {r} {b} {s} {c})")),
            (three.clone(), prop::bool::ANY)
                .prop_map(|((a, b, c), not)| format!("({a} {}in [{b}, {c}])", if not { "not " } else { "" })),
            (pair.clone(), prop::bool::ANY)
                .prop_map(|((a, b), and)| format!("({a} {} {b})", if and { "and" } else { "or" })),
            three.prop_map(|(a, b, c)| format!("({a} if {b} else {c})")),
        ]
    })
}

/// A value as the generated programs print it.
fn shown(value: Result<Value, evo_space::ExprError>) -> String {
    match value {
        Err(_) => "none".to_string(),
        Ok(Value::Text(text)) => format!("text {}", text.len()),
        // As a number 0.0 and -0.0 are the same.
        Ok(Value::Float(own)) => format!("fraction {}", (own + 0.0).to_bits()),
        Ok(other) => format!("whole {}", other.as_int().unwrap()),
    }
}

struct Case {
    text: String,
    expected: Vec<String>,
    cpp: String,
    python: String,
}

fn cases() -> Vec<Case> {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::from_seed(RngAlgorithm::ChaCha, b"evo: the same in three languages"),
    );
    let fixed = [
        "ceil_div(N, A) * ceil_div(M, 64)",
        "1 if N % A == 0 else 1 // ZERO",
        "A // ZERO + N",
        "N and 1 // ZERO",
        "min(N, 2.5)",
        "'a' < ('b' if N > 3 else 4)",
        "('a' if N > 3 else N) + 1",
        "N in [1, 7.0, 1 // M]",
        "1 < N < 1000 < M",
        "(N > 3) / (M > 2)",
        "2 * 4611686018427387904 * N",
        "-N % 3",
        "N ** M",
        "N / M",
        "T == 'xor' and N",
    ];
    let mut texts: Vec<String> = fixed.map(String::from).into();
    while texts.len() < COUNT {
        texts.push(expression().new_tree(&mut runner).unwrap().current());
    }
    texts.into_iter().filter_map(case).collect()
}

fn case(text: String) -> Option<Case> {
    // A generated text may nest too deeply.
    let expr = Expr::parse(&text).ok()?;
    let meaning = |name: &str| match name {
        "N" | "M" => Some(Meaning::Variable(name.to_string())),
        _ => known(name).map(Meaning::Known),
    };
    let expected = SIZES.map(|(n, m)| {
        shown(expr.evaluate(&|name: &str| match name {
            "N" => Some(Value::Int(n)),
            "M" => Some(Value::Int(m)),
            _ => known(name),
        }))
    });
    let code = |language| translate(&expr, language, &meaning).unwrap().text;
    Some(Case { expected: expected.into(), cpp: code(Language::Cpp), python: code(Language::Python), text })
}

/// Writes the files, runs the commands, and compares what the last one prints.
fn check(cases: &[Case], files: [(&str, &str); 2], commands: &[&str], code: impl Fn(&Case) -> &str) {
    let folder = tempfile::tempdir().unwrap();
    files.into_iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
    let printed = commands.iter().fold(String::new(), |_, command| printed(folder.path(), command));
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), cases.len() * SIZES.len(), "{commands:?} printed another number of lines");
    for (case, lines) in cases.iter().zip(lines.chunks(SIZES.len())) {
        assert_eq!(lines, case.expected, "{commands:?}: `{}` became `{}`", case.text, code(case));
    }
}

#[test]
fn expressions_mean_the_same_in_cpp() {
    if !is_there("g++") {
        return;
    }
    let cases = cases();
    let mut text = include_str!("translation/main.cpp").to_string();
    for (at, case) in cases.iter().enumerate() {
        writeln!(text, "static exact f{at}(exact N, exact M) {{ return {}; }}", case.cpp).unwrap();
    }
    text.push_str("int main() {\n");
    for at in 0..cases.len() {
        for (n, m) in SIZES {
            let literal = |own: i64| if own == i64::MIN { "INT64_MIN".to_string() } else { own.to_string() };
            writeln!(text, "  show(f{at}, {}, {});", literal(n), literal(m)).unwrap();
        }
    }
    text.push_str("}\n");
    let files = [("exact.hpp", include_str!("../templates/exact.hpp")), ("main.cpp", &text)];
    let compile = "g++ -std=c++17 -O0 -Wall -Wno-unused-function -o main main.cpp";
    check(&cases, files, &[compile, "./main"], |case| &case.cpp);
}

#[test]
fn expressions_mean_the_same_in_python() {
    if !is_there("python3") {
        return;
    }
    let cases = cases();
    let mut text = include_str!("translation/main.py").to_string();
    for case in &cases {
        writeln!(text, "f = lambda N, M: {}", case.python).unwrap();
        for (n, m) in SIZES {
            writeln!(text, "show(f, {n}, {m})").unwrap();
        }
    }
    let files = [("exact.py", include_str!("../templates/exact.py")), ("main.py", &text)];
    check(&cases, files, &["python3 main.py"], |case| &case.python);
}
