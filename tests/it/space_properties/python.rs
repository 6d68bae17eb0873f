//! Expressions mean what they mean in Python: thousands of random ones, each with the values of one
//! point, against `python3` itself where there is one.
//!
//! Two differences are deliberate. Brackets around one item are a list behind `in`. Arithmetic beyond 64 bits (and infinities, and complex powers) is an
//! error here, so the script checks every intermediate result. Arithmetic on texts is skipped: here it is an error.

use std::process::Command;

use evo_space::expr::Expr;
use evo_space::sample::seeded;
use evo_space::value::Value;

use super::generator::{Choices, NamedValues, Spec};
use super::random::{FIRST_SEED, Random, from_environment};

const CASES: usize = 4000;

/// Reads lines of `[expression, values]`, writes a line for each: kind and value, or `error` and why.
const SCRIPT: &str = include_str!("../../data/expressions.py");

/// A random expression and a point of its parameters.
fn case(seed: u64) -> Option<(String, Vec<(String, Value)>)> {
    let mut random = Random(seeded(seed));
    let spec = Spec::random(&mut random);
    let text = spec.constraints.first()?.clone();
    let value = |(name, values): &NamedValues, random: &mut Random| {
        (name.clone(), values[random.below(values.len())].clone())
    };
    let values = spec.parameters.iter().map(|parameter| value(parameter, &mut random)).collect();
    Some((text, values))
}

/// Every operator between numbers that are awkward: at the ends of integers and of floats, around zero,
/// with quotients that need rounding.
fn operator_grid() -> Vec<(String, Vec<(String, Value)>)> {
    let integers =
        [0, 1, -1, 2, -3, 7, 10, 1 << 53, (1 << 53) + 1, i64::MAX, i64::MAX - 1, i64::MIN, -(1 << 62) - 1];
    let floats =
        [0.0, -0.0, 0.1, -0.1, 0.3, 1.0, 2.5, -7.5, 1e16, 1e300, -1e308, 5e-324, 9_007_199_254_740_992.0];
    let texts = [
        "A + B",
        "A - B",
        "A * B",
        "A / B",
        "A // B",
        "A % B",
        "A ** B",
        "A < B",
        "A == B",
        "ceil_div(A, B)",
    ];
    let numbers: Vec<Value> =
        integers.into_iter().map(Value::Int).chain(floats.into_iter().map(Value::Float)).collect();
    let mut cases = Vec::new();
    for text in texts {
        for a in &numbers {
            let values = |b: &Value| vec![("A".to_string(), a.clone()), ("B".to_string(), b.clone())];
            cases.extend(numbers.iter().map(|b| (text.to_string(), values(b))));
        }
    }
    cases
}

/// What the script would print; `None` where a text is computed with.
fn ours(text: &str, values: &[(String, Value)]) -> Option<String> {
    let lookup = |name: &str| values.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
    match Expr::parse(text).unwrap().evaluate(&lookup) {
        Ok(value) => Some(format!("{} {value}", value.kind())),
        Err(error) if error.message.contains("is used as a number") => None,
        Err(error) => Some(format!("error {}", error.message)),
    }
}

/// Equal, but for the spelling of booleans, floats and errors.
fn agree(ours: &str, python: &str) -> bool {
    let (kind, value) = ours.split_once(' ').unwrap();
    let (other, text) = python.split_once(' ').unwrap();
    let same = match kind {
        "bool" => text.to_lowercase() == value,
        "float" => text.parse::<f64>() == value.parse::<f64>(),
        // Which of several errors comes first is not a matter of meaning.
        "error" => true,
        _ => text == value,
    };
    kind == other && same
}

#[test]
fn expressions_mean_what_they_mean_in_python() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        crate::skip::skipped("there is no `python3`");
        return;
    }
    let first = from_environment("EVO_SEED", FIRST_SEED) + 2_000_000;
    let random = (first..).filter_map(case).filter(|(t, v)| ours(t, v).is_some()).take(CASES);
    let cases: Vec<_> = random.chain(operator_grid()).collect();
    let line = |(text, values): &(String, Vec<(String, Value)>)| {
        let map: serde_json::Map<String, serde_json::Value> =
            values.iter().map(|(name, value)| (name.clone(), serde_json::to_value(value).unwrap())).collect();
        serde_json::to_string(&(text, map)).unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cases.jsonl");
    std::fs::write(&path, cases.iter().map(line).collect::<Vec<_>>().join("\n")).unwrap();
    let output = Command::new("python3").args(["-W", "ignore", "-c", SCRIPT]).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answers = String::from_utf8(output.stdout).unwrap();
    assert_eq!(answers.lines().count(), cases.len());
    let mut failing = 0;
    let mut wrong = Vec::new();
    for ((text, values), python) in cases.iter().zip(answers.lines()) {
        let own = ours(text, values).unwrap();
        failing += usize::from(own.starts_with("error"));
        if !agree(&own, python) {
            wrong.push(format!("{text}\n  with {values:?}\n  here `{own}`, in Python `{python}`"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert!(failing * 2 < cases.len(), "{failing} of {} have no value", cases.len());
}
