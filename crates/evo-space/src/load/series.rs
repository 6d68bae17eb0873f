//! Values of a parameter that are a series: `"range(32, 1025, 32)"`, `"pow2(1, 64)"`, `"pow2(1, 64) | 48"`.

use std::collections::BTreeSet;

use super::fields::inner_span;
use crate::diagnostic::{Diagnostics, nearest};
use crate::document::Node;
use crate::span::Span;
use crate::value::Value;

const EXAMPLE: &str = "a series is `range(32, 1025, 32)`, which ends before 1025, `pow2(1, 64)`, or a union such as \
                       `pow2(1, 64) | 48`";

const FUNCTIONS: [&str; 2] = ["range", "pow2"];

/// What is wrong, where in the text, and a way out.
struct Mistake {
    at: Span,
    message: String,
    hint: Option<String>,
}

/// Reads a series: whole numbers, ascending, each once.
pub(super) fn read(
    node: &Node,
    text: &str,
    count_max: usize,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<Value>> {
    let mut values = BTreeSet::new();
    let mut begin = 0;
    for part in text.split('|') {
        let start = begin + (part.len() - part.trim_start().len());
        let at = start..start + part.trim().len();
        begin += part.len() + 1;
        if let Err(mistake) = add(part.trim(), &at, count_max, &mut values) {
            let hint = mistake.hint.unwrap_or_else(|| EXAMPLE.to_string());
            diagnostics.error_with_hint(inner_span(node, &mistake.at), mistake.message, hint);
            return None;
        }
    }
    Some(values.into_iter().map(Value::Int).collect())
}

fn add(part: &str, at: &Span, count_max: usize, values: &mut BTreeSet<i64>) -> Result<(), Mistake> {
    let wrong = |message: String| Mistake { at: at.clone(), message, hint: None };
    if let Ok(value) = part.parse::<i64>() {
        values.insert(value);
        return Ok(());
    }
    let call = part.strip_suffix(')').and_then(|own| own.split_once('('));
    let Some((name, inside)) = call else {
        let hint = Some(format!("values that are texts are a list: `[\"{part}\"]`; {EXAMPLE}"));
        return Err(Mistake { hint, ..wrong(format!("expected a series of whole numbers, found `{part}`")) });
    };
    let name = name.trim();
    let numbers: Result<Vec<i64>, Mistake> = inside
        .split(',')
        .map(|own| {
            let own = own.trim();
            own.parse().map_err(|_| wrong(format!("`{own}` in `{part}` is not a whole number")))
        })
        .collect();
    let found: Box<dyn Iterator<Item = i64>> = match (name, numbers?[..].as_ref()) {
        ("range", [end]) => Box::new(range(0, *end, 1)),
        ("range", [start, end]) => Box::new(range(*start, *end, 1)),
        ("range", [_, _, step]) if *step < 1 => {
            return Err(wrong(format!("the step of `{part}` is {step}, expected 1 or more")));
        }
        ("range", [start, end, step]) => Box::new(range(*start, *end, *step)),
        ("pow2", [low, high]) => {
            let power = |value: i64| value > 0 && value & (value - 1) == 0;
            if let Some(other) = [*low, *high].into_iter().find(|own| !power(*own)) {
                return Err(wrong(format!("`{other}` in `{part}` is not a power of two")));
            }
            let (low, high) = (*low, *high);
            Box::new(
                std::iter::successors(Some(low), |own| own.checked_mul(2))
                    .take_while(move |own| *own <= high),
            )
        }
        ("range", _) => {
            return Err(wrong(format!("`{part}` has the wrong number of numbers, expected one to three")));
        }
        ("pow2", _) => return Err(wrong(format!("`{part}` has the wrong number of numbers, expected two"))),
        (other, _) => {
            let hint = nearest(other, FUNCTIONS).map(|near| format!("did you mean `{near}`?"));
            return Err(Mistake { hint, ..wrong(format!("unknown series `{other}`")) });
        }
    };
    let mut is_empty = true;
    for value in found {
        is_empty = false;
        values.insert(value);
        if values.len() > count_max {
            return Err(wrong(format!("more than {count_max} values")));
        }
    }
    if is_empty { Err(wrong(format!("`{part}` has no values"))) } else { Ok(()) }
}

/// As in Python: the end does not occur.
fn range(start: i64, end: i64, step: i64) -> impl Iterator<Item = i64> {
    std::iter::successors(Some(start), move |own| own.checked_add(step)).take_while(move |own| *own < end)
}
