//! Random small spaces meant to find faults, made of choices from any source: a seeded generator here, a
//! fuzzer's bytes in `fuzz/`, which includes this folder's files.

use std::fmt;

use evo_space::expr::Expr;
use evo_space::space::{Constraint, Parameter, SearchSpace};
use evo_space::value::Value;

use super::grammar::Grammar;

/// Brute force stays quick below this many points.
const MAX_POINTS: usize = 2000;

/// The kind of values whose sums and products may or may not fit.
const HUGE: usize = 8;

/// Where random decisions come from.
pub trait Choices {
    /// A number below `n`, which is at least 1.
    fn below(&mut self, n: usize) -> usize;

    /// True that often.
    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// A parameter's name and values.
pub type NamedValues = (String, Vec<Value>);

/// A space as it would be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub parameters: Vec<NamedValues>,
    pub constraints: Vec<String>,
}

impl Spec {
    /// Up to six parameters and up to six constraints; every kind of value and of expression.
    pub fn random(choices: &mut impl Choices) -> Spec {
        let count = 1 + choices.below(6);
        let wide = choices.chance(12).then(|| choices.below(count));
        let all_huge = choices.chance(8);
        let mut points = 1;
        let mut parameters = Vec::new();
        for at in 0..count {
            let room = MAX_POINTS / points;
            let most = if wide == Some(at) { wide_size(choices) } else { 1 + choices.below(6) };
            let kind = if all_huge { HUGE } else { choices.below(13) };
            let values = values(choices, most.min(room).max(1), kind, wide == Some(at));
            points *= values.len();
            parameters.push((["A", "B", "C", "D", "E", "F"][at].to_string(), values));
        }
        let constraints = constraints(choices, &parameters, all_huge);
        Spec { parameters, constraints }
    }

    /// The space as the library builds it from parts; the reader of files refuses empty ones.
    pub fn build(&self) -> Result<SearchSpace, String> {
        let parameter = |(name, values): &NamedValues| Parameter {
            name: name.as_str().into(),
            values: values.clone(),
            default: 0,
            help: None,
        };
        let constraint = |text: &String| {
            let expr = Expr::parse(text).map_err(|error| format!("{text}: {error} at {:?}", error.span))?;
            let reads = |name: &str| expr.distinct_names().iter().any(|own| &**own == name);
            let parameters = (0..self.parameters.len()).filter(|at| reads(&self.parameters[*at].0)).collect();
            Ok(Constraint { expr, because: None, parameters, span: None })
        };
        let constraints = self.constraints.iter().map(constraint).collect::<Result<Vec<_>, String>>()?;
        let parameters = self.parameters.iter().map(parameter).collect();
        Ok(SearchSpace::new(parameters, constraints))
    }

    /// The same as a space file in JSON.
    pub fn to_json(&self) -> String {
        let value = |value: &Value| serde_json::to_string(value).expect("values are serializable");
        let parameters = self.parameters.iter().map(|(name, values)| {
            let values = values.iter().map(value).collect::<Vec<_>>().join(", ");
            format!("\"{name}\": [{values}]")
        });
        let constraints = self.constraints.iter().map(|text| format!("{text:?}"));
        format!(
            "{{\"parameters\": {{{}}},\n \"constraints\": [{}]}}",
            parameters.collect::<Vec<_>>().join(", "),
            constraints.collect::<Vec<_>>().join(", ")
        )
    }

    /// Spaces that are smaller by one step: without a constraint, with a constraint's part instead
    /// of it, without a parameter that nothing reads, without a value.
    pub fn smaller(&self) -> Vec<Spec> {
        let mut list = Vec::new();
        for at in 0..self.constraints.len() {
            let mut without = self.clone();
            without.constraints.remove(at);
            list.push(without);
            let Ok(expr) = Expr::parse(&self.constraints[at]) else { continue };
            expr.tree().for_children(&mut |child| {
                let part = &self.constraints[at][child.span.clone()];
                if Expr::parse(part).is_ok() && part.len() < self.constraints[at].len() {
                    let mut with_part = self.clone();
                    with_part.constraints[at] = part.to_string();
                    list.push(with_part);
                }
            });
        }
        for at in 0..self.parameters.len() {
            let name = &self.parameters[at].0;
            if self.parameters.len() > 1 && !self.constraints.iter().any(|text| text.contains(name.as_str()))
            {
                let mut without = self.clone();
                without.parameters.remove(at);
                list.push(without);
            }
            for value in 0..self.parameters[at].1.len().min(40) {
                let mut without = self.clone();
                without.parameters[at].1.remove(value);
                if !without.parameters[at].1.is_empty() {
                    list.push(without);
                }
            }
        }
        list
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

/// Around the borders of one and of several machine words, and far beyond.
fn wide_size(choices: &mut impl Choices) -> usize {
    match choices.below(4) {
        0 => 63 + choices.below(4),
        1 => 120 + choices.below(20),
        2 => 300 + choices.below(300),
        _ => 1000 + choices.below(500),
    }
}

/// Distinct values of one kind or of all, in random order.
fn values(choices: &mut impl Choices, count: usize, kind: usize, wide: bool) -> Vec<Value> {
    let kind = if wide { kind % 3 } else { kind };
    let mut list: Vec<Value> = Vec::new();
    for at in 0..count {
        let value = match kind {
            0 if wide => Value::Int(at as i64),
            1 if wide => Value::Int(at as i64 * 7 - 300),
            _ if wide => Value::Float(at as f64 / 4.0),
            0..=3 => Value::Int(choices.below(17) as i64),
            4 | 5 => Value::Int(choices.below(19) as i64 - 9),
            6 => Value::Int(1 << choices.below(12)),
            7 => Value::Float(choices.below(33) as f64 / 4.0 - 2.0),
            HUGE => huge(choices),
            9 => Value::Bool(choices.chance(50)),
            10 => Value::text(["", "a", "b", "row", "column", "1"][choices.below(6)]),
            _ => any_value(choices),
        };
        if !list.contains(&value) {
            list.push(value);
        }
    }
    match choices.below(4) {
        0 => list.reverse(),
        1 => {}
        _ => (1..list.len()).for_each(|at| list.swap(at, choices.below(at + 1))),
    }
    list
}

/// Near the ends of 64 bits, where a sum or product of two just fits or just does not.
fn huge(choices: &mut impl Choices) -> Value {
    const INTEGERS: [i64; 14] = [
        i64::MAX,
        i64::MAX - 1,
        i64::MIN,
        i64::MIN + 1,
        i64::MAX / 2,
        i64::MAX / 3,
        1 << 62,
        3_037_000_499,
        3_037_000_500,
        -3_037_000_500,
        1 << 32,
        (1 << 53) + 1,
        2_097_151,
        2_097_152,
    ];
    const FLOATS: [f64; 6] = [1e300, -1e308, 1e-300, 9_007_199_254_740_992.0, 1e18, 0.1];
    match choices.below(8) {
        0 => Value::Float(FLOATS[choices.below(FLOATS.len())]),
        1 | 2 => Value::Int(choices.below(4) as i64 - 1),
        _ => Value::Int(INTEGERS[choices.below(INTEGERS.len())]),
    }
}

fn any_value(choices: &mut impl Choices) -> Value {
    match choices.below(6) {
        0 => Value::Bool(choices.chance(50)),
        1 => Value::text(["", "a", "b", "row"][choices.below(4)]),
        2 => Value::Float(choices.below(17) as f64 / 2.0 - 3.0),
        3 => huge(choices),
        _ => Value::Int(choices.below(9) as i64 - 2),
    }
}

/// Most constraints read two or three parameters, so that groups form and interleave.
fn constraints(choices: &mut impl Choices, parameters: &[NamedValues], all_huge: bool) -> Vec<String> {
    let mut list = Vec::new();
    let all: Vec<usize> = (0..parameters.len()).collect();
    if choices.chance(8) {
        let name = |at: &usize| parameters[*at].0.as_str();
        let pairs = all.iter().flat_map(|a| all.iter().filter(move |b| a < b).map(move |b| (a, b)));
        list.extend(pairs.map(|(a, b)| format!("{} != {}", name(a), name(b))));
    }
    // Most constraints hold at one point chosen beforehand, or few spaces would have any.
    let anchor: Vec<u16> = parameters.iter().map(|(_, values)| choices.below(values.len()) as u16).collect();
    let count = if choices.chance(5) { 0 } else { 1 + choices.below(5) };
    for _ in 0..count {
        let mut text = constraint(choices, parameters, all_huge);
        for _ in 0..3 {
            if holds_at(parameters, &anchor, &text) || choices.chance(10) {
                break;
            }
            let negated = format!("not ({text})");
            let turned = holds_at(parameters, &anchor, &negated) && choices.chance(50);
            text = if turned { negated } else { constraint(choices, parameters, all_huge) };
        }
        list.push(text);
    }
    list
}

fn constraint(choices: &mut impl Choices, parameters: &[NamedValues], all_huge: bool) -> String {
    let all: Vec<usize> = (0..parameters.len()).collect();
    let few = 1 + choices.below(3);
    let readable = match choices.below(5) {
        0 => all,
        _ => (0..few).map(|_| choices.below(all.len())).collect(),
    };
    let overflowing = all_huge && choices.chance(60);
    let mut grammar = Grammar { choices, parameters, readable };
    if overflowing { grammar.overflowing() } else { grammar.constraint() }
}

/// Whether an expression is true at a point; a failing one is not.
fn holds_at(parameters: &[NamedValues], point: &[u16], text: &str) -> bool {
    let lookup = |name: &str| {
        let at = parameters.iter().position(|(own, _)| own == name)?;
        Some(parameters[at].1[usize::from(point[at])].clone())
    };
    Expr::parse(text).is_ok_and(|expr| expr.evaluate(&lookup).is_ok_and(|value| value.is_true()))
}
