//! The `constraints` of a file.

use std::collections::HashSet;

use super::fields::{expr_error, quoted, read_expr, read_text, refuse_unknown_keys};
use crate::constraint::Constraint;
use crate::diagnostic::{Diagnostics, nearest};
use crate::document::{Data, Node};
use crate::expr::{Expr, ExprError};
use crate::kinds;
use crate::parameter::Parameter;
use crate::watch::SpaceWatch;

/// Constraints of one space; the largest public spaces have a few dozen.
const MAX_CONSTRAINTS: usize = 10_000;

/// Bytes of all constraints together.
const MAX_BYTES: usize = 1 << 20;

/// Names in expressions are checked only if all parameters could be read, so that one mistake is
/// reported once.
pub fn read_constraints(
    root: &Node,
    parameters: &[Parameter],
    names_known: bool,
    watch: &SpaceWatch,
    diagnostics: &mut Diagnostics,
) -> Vec<Constraint> {
    let Some(node) = root.get("constraints") else { return Vec::new() };
    let Data::List(items) = &node.data else {
        let message = format!("expected a list of constraints, found {}", node.kind());
        let hint = "write `[[constraints]]` and below it `require = \"A % B == 0\"`";
        diagnostics.error_with_hint(node.span.clone(), message, hint);
        return Vec::new();
    };
    if let Some(why) = too_many(items) {
        let hint = "a space of this size is better listed: make a parameter of each group, whose values are its rows";
        diagnostics.error_with_hint(node.span.clone(), why, hint);
        return Vec::new();
    }
    let mut constraints = Vec::new();
    for (number, item) in items.iter().enumerate() {
        watch.at(Some(number));
        if watch.is_over() || diagnostics.is_full() {
            break;
        }
        let Some((expr, text, because)) = read_constraint(item, diagnostics) else { continue };
        // Kinds are checked only where all names are known, because one mistake should give one error.
        if names_known && check_names(&expr, text, parameters, diagnostics) {
            let errors = kinds::check(&expr, parameters);
            errors.iter().for_each(|error| expr_error(text, error, diagnostics));
        }
        let names: HashSet<&str> = expr.distinct_names().iter().map(|name| &**name).collect();
        let read = (0..parameters.len()).filter(|at| names.contains(&*parameters[*at].name)).collect();
        constraints.push(Constraint { expr, because, parameters: read, span: Some(text.span.clone()) });
    }
    constraints
}

/// Why there are more constraints than evo counts with. Each costs about two hundred times the memory of its text
/// until the space is ready.
fn too_many(items: &[Node]) -> Option<String> {
    if items.len() > MAX_CONSTRAINTS {
        return Some(format!("more than {MAX_CONSTRAINTS} constraints"));
    }
    let length = |item: &Node| match (&item.data, item.get("require").map(|node| &node.data)) {
        (Data::Text(text), _) | (_, Some(Data::Text(text))) => text.len(),
        _ => 0,
    };
    let bytes: usize = items.iter().map(length).sum();
    (bytes > MAX_BYTES).then(|| format!("more than {} KiB of constraints", MAX_BYTES >> 10))
}

/// The expression, the node that holds it, and the reason.
fn read_constraint<'a>(
    item: &'a Node,
    diagnostics: &mut Diagnostics,
) -> Option<(Expr, &'a Node, Option<String>)> {
    let Data::Table(entries) = &item.data else {
        return read_expr(item, diagnostics).map(|expr| (expr, item, None));
    };
    refuse_unknown_keys(entries, &["require", "because"], "a constraint", diagnostics);
    let because = item.get("because").and_then(|node| read_text(node, diagnostics));
    let Some(node) = item.get("require") else {
        let hint = "write `require = \"A % B == 0\"`";
        diagnostics.error_with_hint(item.span.clone(), "this constraint has no `require`", hint);
        return None;
    };
    read_expr(node, diagnostics).map(|expr| (expr, node, because))
}

fn check_names(expr: &Expr, node: &Node, parameters: &[Parameter], diagnostics: &mut Diagnostics) -> bool {
    let names: Vec<&str> = parameters.iter().map(|parameter| &*parameter.name).collect();
    let known: HashSet<&str> = names.iter().copied().collect();
    let mut sound = true;
    for (name, span) in expr.names().iter().filter(|(name, _)| !known.contains(name.as_str())) {
        sound = false;
        // Looking for a similar name takes far longer than the rest, and the reader has seen enough.
        if diagnostics.is_full() {
            break;
        }
        let mut error =
            ExprError::new(span.clone(), format!("constraint reads `{name}`, which is not a parameter"));
        error.hint = match nearest(name, names.iter().copied()) {
            Some(near) => Some(format!("did you mean `{near}`?")),
            None if names.len() <= 12 => Some(format!("the parameters are {}", quoted(&names))),
            None => None,
        };
        expr_error(node, &error, diagnostics);
    }
    sound
}
