//! How far the variables of a body run, from the comparisons and loops in which they stand, and what follows for the
//! arrays that they index.

use std::collections::{BTreeMap, BTreeSet};

use super::definitions::is_name;
use super::model::SketchArgument;

/// Axes of a launch, fastest first.
pub(super) const AXES: [&str; 3] = ["x", "y", "z"];

/// Variables of a body with the expression that they stay below.
pub(super) struct IndexExtents<'s> {
    bounds: BTreeMap<&'s str, String>,
    /// For each axis, the variables that its block index makes, nearest first.
    of_axis: [Vec<&'s str>; 3],
    /// Those of them that are the block index alone.
    alone: Vec<(&'s str, usize)>,
}

impl<'s> IndexExtents<'s> {
    pub(super) fn of(arguments: &[SketchArgument], body: &[&'s str]) -> IndexExtents<'s> {
        let argument = |token: &str| arguments.iter().find(|own| own.name == token);
        let size = |token: &str| argument(token).and_then(SketchArgument::size).map(str::to_string);
        let mut bounds = BTreeMap::new();
        for at in 1..body.len().saturating_sub(1) {
            // `i < n`, `i <= n` in a condition that leaves, `i >= n`.
            let behind = at + 1 + usize::from(body[at + 1] == "=");
            let shift = body[at + 1] == body[at] || body[at - 1] == body[at];
            if !matches!(body[at], "<" | ">") || shift || !is_name(body[at - 1]) {
                continue;
            }
            if let Some(bound) = product(&body[behind.min(body.len())..], &size) {
                bounds.entry(body[at - 1]).or_insert(bound);
            }
        }
        let mut extents = IndexExtents { bounds, of_axis: Default::default(), alone: Vec::new() };
        for axis in 0..AXES.len() {
            extents.follow(axis, body);
        }
        extents
    }

    /// Finds the variables that an axis makes: those whose first value has its block index, then what is made of them.
    fn follow(&mut self, axis: usize, body: &[&'s str]) {
        let values = assignments(body);
        let own = ["blockIdx", ".", AXES[axis]];
        let (mut found, mut known) = (Vec::new(), BTreeSet::new());
        for (name, value) in &values {
            if value.windows(3).any(|words| words == own) && known.insert(*name) {
                found.push(*name);
                if value[..] == own {
                    self.alone.push((*name, axis));
                }
            }
        }
        for _ in 0..3 {
            for (name, value) in &values {
                if !known.contains(name) && value.iter().any(|word| known.contains(word)) {
                    known.insert(*name);
                    found.push(*name);
                }
            }
        }
        self.of_axis[axis] = found;
    }

    /// What the index of an axis stays below.
    pub(super) fn of_axis(&self, axis: usize) -> Option<&str> {
        self.of_axis[axis].iter().find_map(|name| self.bounds.get(name)).map(String::as_str)
    }

    /// Gives the block index of an axis, where it is a variable of its own and nothing bounds it, this bound.
    pub(super) fn bound_alone(&mut self, axis: usize, bound: &str) {
        for (name, _) in self.alone.iter().filter(|(_, own)| *own == axis) {
            self.bounds.entry(name).or_insert_with(|| bound.to_string());
        }
    }

    /// The shape that the indices of an array say, outermost first: `x[row * n + column]`, `x[i]`, `x[0]`.
    pub(super) fn shape(&self, name: &str, body: &[&str], brackets: &[usize]) -> Option<Vec<String>> {
        let places = (0..body.len().saturating_sub(1)).filter(|at| body[*at] == name && body[at + 1] == "[");
        let shapes: Option<Vec<Vec<String>>> = places
            .map(|at| {
                let end = brackets[at + 1];
                self.index(&body[at + 2..end.saturating_sub(1).max(at + 2)])
            })
            .collect();
        // A place that says nothing may be anywhere in the array.
        let shapes = shapes?;
        let longest = shapes.iter().max_by_key(|shape| shape.len())?;
        shapes.iter().all(|own| own == longest || *own == ["1"]).then(|| longest.clone())
    }

    fn index(&self, tokens: &[&str]) -> Option<Vec<String>> {
        let bound = |name: &str| self.bounds.get(name).cloned();
        match *tokens {
            ["0"] => Some(vec!["1".to_string()]),
            [name] => Some(vec![bound(name)?]),
            [a, "*", stride, "+", b] | ["(", a, "*", stride, ")", "+", b] | [b, "+", a, "*", stride] => {
                // Rows of the length that the inner index runs over.
                let inner = bound(b)?;
                let is_length = inner.eq_ignore_ascii_case(stride);
                is_length.then_some(())?;
                Some(vec![bound(a)?, inner])
            }
            _ => None,
        }
    }
}

/// Tokens of a value that are looked at, and values.
const VALUE_TOKENS: usize = 64;
const VALUES_MAX: usize = 4096;

/// Names with the values that they get first: `int i = …;`.
fn assignments<'b, 's>(body: &'b [&'s str]) -> Vec<(&'s str, &'b [&'s str])> {
    let mut found = Vec::new();
    for at in 1..body.len().saturating_sub(1) {
        let plain = body[at] == "=" && body[at + 1] != "=" && is_name(body[at - 1]);
        let declares = at >= 2 && (is_name(body[at - 2]) || body[at - 2] == ",");
        if plain && declares {
            let mut depth = 0i32;
            let end = body[at + 1..].iter().take(VALUE_TOKENS).take_while(|token| {
                depth += i32::from(matches!(**token, "(" | "[")) - i32::from(matches!(**token, ")" | "]"));
                depth >= 0 && !(**token == ";" || (**token == "," && depth == 0))
            });
            found.push((body[at - 1], &body[at + 1..at + 1 + end.count()]));
            if found.len() == VALUES_MAX {
                break;
            }
        }
    }
    found
}

/// A product of sizes at the start of some tokens.
fn product(tokens: &[&str], size: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let mut factors = Vec::new();
    let mut at = 0;
    while let Some(factor) = tokens.get(at).and_then(|token| size(token)) {
        factors.push(factor);
        at += 1;
        if tokens.get(at) != Some(&"*") {
            break;
        }
        at += 1;
    }
    // `i < n / 4`, `i < n - 1`: another bound, which a multiple of it hides.
    (!factors.is_empty() && !matches!(tokens.get(at), Some(&("/" | "%")))).then(|| factors.join(" * "))
}
