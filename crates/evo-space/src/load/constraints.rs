//! The `constraints` of a file.

use super::fields::{expr_error, quoted, read_expr, read_text, refuse_unknown_keys};
use crate::constraint::Constraint;
use crate::diagnostic::{Diagnostics, nearest};
use crate::document::{Data, Node};
use crate::expr::{Expr, ExprError};
use crate::kinds;
use crate::parameter::Parameter;

/// Names in expressions are checked only if all parameters could be read, so that one mistake is
/// reported once.
pub fn read_constraints(
    root: &Node,
    parameters: &[Parameter],
    names_known: bool,
    diagnostics: &mut Diagnostics,
) -> Vec<Constraint> {
    let Some(node) = root.get("constraints") else { return Vec::new() };
    let Data::List(items) = &node.data else {
        let message = format!("expected a list of constraints, found {}", node.kind());
        let hint = "write `[[constraints]]` and below it `require = \"A % B == 0\"`";
        diagnostics.error_with_hint(node.span.clone(), message, hint);
        return Vec::new();
    };
    let mut constraints = Vec::new();
    for item in items {
        let Some((expr, text, because)) = read_constraint(item, diagnostics) else { continue };
        // Kinds are checked only where all names are known, because one mistake should give one error.
        if names_known && check_names(&expr, text, parameters, diagnostics) {
            let errors = kinds::check(&expr, parameters);
            errors.iter().for_each(|error| expr_error(text, error, diagnostics));
        }
        let reads = |parameter: &Parameter| expr.distinct_names().contains(&parameter.name);
        let read = (0..parameters.len()).filter(|at| reads(&parameters[*at])).collect();
        constraints.push(Constraint { expr, because, parameters: read, span: Some(text.span.clone()) });
    }
    constraints
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
    let mut sound = true;
    for (name, span) in expr.names().iter().filter(|(name, _)| !names.contains(&name.as_str())) {
        sound = false;
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
