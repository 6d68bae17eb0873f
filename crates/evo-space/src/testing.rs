//! What several tests need: spaces from texts, at random, and their points by brute force.

use proptest::prelude::*;

use crate::genome::Genome;
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

pub fn scattered_points(space: &SearchSpace) -> impl Iterator<Item = Vec<u16>> {
    let sizes: Vec<u16> = space.parameters().iter().map(|parameter| parameter.values.len() as u16).collect();
    (0..20u16).map(move |number| {
        sizes.iter().zip(1u16..).map(|(size, at)| (number * 31 + at * 17) % size).collect()
    })
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
