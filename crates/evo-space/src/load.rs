//! `[parameters]` and `[[constraints]]` of a space file to a `SearchSpace`; every error at once.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use super::constraint::Constraint;
use super::diagnostic::{Diagnostic, Diagnostics, nearest};
use super::document::{self, Data, Entry, Node, Span};
use super::explain::{conflict, removal};
use super::expr::{Expr, ExprError, is_name};
use super::kinds;
use super::parameter::Parameter;
use super::space::SearchSpace;
use super::value::Value;

/// Positions are 16-bit numbers.
const MAX_VALUES: usize = u16::MAX as usize;

/// The search recurses once per parameter.
const MAX_PARAMETERS: usize = 500;

impl SearchSpace {
    /// Reads the `parameters` and `constraints` of a TOML or JSON text; every other key is ignored.
    ///
    /// # Errors
    /// All errors of the text at once, each with its place; `Diagnostics::render` prints them with carets.
    pub fn parse(text: &str) -> Result<SearchSpace, Diagnostics> {
        let mut diagnostics = Diagnostics::default();
        let root = document::parse(text, &mut diagnostics);
        let space = root.and_then(|root| read_space(&root, &mut diagnostics));
        space.ok_or(diagnostics)
    }
}

/// Reads `parameters` and `constraints` of a file's root table, and nothing else of it. `None` means
/// that `diagnostics` holds at least one new error. A space that is proven to have no
/// valid point is an error that names the constraints to blame.
pub fn read_space(root: &Node, diagnostics: &mut Diagnostics) -> Option<SearchSpace> {
    let before = diagnostics.list().len();
    let parameters = read_parameters(root, diagnostics);
    let names_known = diagnostics.list().len() == before;
    let constraints = read_constraints(root, &parameters, names_known, diagnostics);
    if diagnostics.list().len() > before {
        return None;
    }
    let place = root.get("parameters").map_or(0..0, |node| node.span.clone());
    let space = SearchSpace::new(parameters, constraints);
    if space.count() == 0 {
        explain_empty(space.parameters(), space.constraints(), place, diagnostics);
        return None;
    }
    Some(space)
}

/// An expression that stands in the file as a text; complaints point into the text.
pub fn read_expr(node: &Node, diagnostics: &mut Diagnostics) -> Option<Expr> {
    let Data::Text(text) = &node.data else {
        diagnostics
            .error(node.span.clone(), format!("expected an expression as a text, found {}", node.kind()));
        return None;
    };
    Expr::parse(text).map_err(|error| expr_error(node, &error, diagnostics)).ok()
}

/// A complaint about an expression's part.
pub fn expr_error(node: &Node, error: &ExprError, diagnostics: &mut Diagnostics) {
    let span = inner_span(node, &error.span);
    match &error.hint {
        Some(hint) => diagnostics.error_with_hint(span, &error.message, hint),
        None => diagnostics.error(span, &error.message),
    }
}

/// The place in the file of a part of a text; of the whole text where escapes make that uncertain.
pub fn inner_span(node: &Node, part: &Span) -> Span {
    let Data::Text(text) = &node.data else { return node.span.clone() };
    let quotes = match node.span.len().checked_sub(text.len()) {
        Some(2) => 1,
        Some(6) if text.contains('\n') => 3,
        Some(7) if text.contains('\n') => 4,
        _ => return node.span.clone(),
    };
    let start = node.span.start + quotes;
    start + part.start..start + part.end.max(part.start)
}

/// Complains about keys outside `known`.
pub fn refuse_unknown_keys(entries: &[Entry], known: &[&str], what: &str, diagnostics: &mut Diagnostics) {
    for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
        let hint = match nearest(&entry.key, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known keys are {}", quoted(known)),
        };
        diagnostics.error_with_hint(
            entry.key_span.clone(),
            format!("unknown key `{}` in {what}", entry.key),
            hint,
        );
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn read_parameters(root: &Node, diagnostics: &mut Diagnostics) -> Vec<Parameter> {
    let example = "write for example `[parameters]` and below it `BLOCK = [64, 128, 256]`";
    let Some(node) = root.get("parameters") else {
        diagnostics.error_with_hint(
            root.span.start..root.span.start,
            "the file has no `parameters`",
            example,
        );
        return Vec::new();
    };
    let Some(entries) = node.entries() else {
        let message = format!("expected a table of parameters, found {}", node.kind());
        diagnostics.error_with_hint(node.span.clone(), message, example);
        return Vec::new();
    };
    if entries.is_empty() {
        diagnostics.error_with_hint(node.span.clone(), "`parameters` is empty", example);
    }
    if entries.len() > MAX_PARAMETERS {
        diagnostics.error(node.span.clone(), format!("more than {MAX_PARAMETERS} parameters"));
        return Vec::new();
    }
    entries.iter().filter_map(|entry| read_parameter(entry, diagnostics)).collect()
}

fn read_parameter(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Parameter> {
    let name = entry.key.as_str();
    if !is_name(name) {
        let hint = "names are made of letters, digits and `_`, and are not words such as `and` or `if`";
        diagnostics.error_with_hint(
            entry.key_span.clone(),
            format!("`{name}` cannot be a parameter's name"),
            hint,
        );
    }
    let (list, default, help) = match &entry.value.data {
        Data::List(_) => (&entry.value, None, None),
        Data::Table(entries) => {
            refuse_unknown_keys(entries, &["values", "default", "help"], "a parameter", diagnostics);
            let Some(list) = entry.value.get("values") else {
                let hint = format!("write `{name} = {{ values = [1, 2, 4] }}`");
                diagnostics.error_with_hint(
                    entry.key_span.clone(),
                    format!("`{name}` has no `values`"),
                    hint,
                );
                return None;
            };
            (list, entry.value.get("default"), entry.value.get("help"))
        }
        _ => {
            let message = format!("expected a list of values, found {}", entry.value.kind());
            diagnostics.error_with_hint(
                entry.value.span.clone(),
                message,
                "a single value is a list too: `[4]`",
            );
            return None;
        }
    };
    let values = read_values(list, &entry.key_span, name, diagnostics)?;
    let help = help.and_then(|node| read_text(node, diagnostics));
    let default = default.map_or(Some(0), |node| read_default(node, &values, diagnostics))?;
    Some(Parameter { name: Arc::from(name), values, default, help })
}

fn read_values(list: &Node, key: &Span, name: &str, diagnostics: &mut Diagnostics) -> Option<Vec<Value>> {
    let Data::List(items) = &list.data else {
        let message = format!("expected a list of values, found {}", list.kind());
        diagnostics.error_with_hint(list.span.clone(), message, "a single value is a list too: `[4]`");
        return None;
    };
    if items.is_empty() {
        diagnostics.error_with_hint(key.clone(), format!("`{name}` has no values"), "list at least one");
        return None;
    }
    if items.len() > MAX_VALUES {
        diagnostics.error(key.clone(), format!("`{name}` has more than {MAX_VALUES} values"));
        return None;
    }
    let before = diagnostics.list().len();
    let (places, values): (Vec<&Node>, Vec<Value>) =
        items.iter().filter_map(|item| Some((item, read_value(item, diagnostics)?))).unzip();
    refuse_repeated_values(name, &places, &values, diagnostics);
    (diagnostics.list().len() == before).then_some(values)
}

fn refuse_repeated_values(name: &str, places: &[&Node], values: &[Value], diagnostics: &mut Diagnostics) {
    // Nearly every list ascends, which is quicker to see than that no value repeats.
    if values.windows(2).all(|pair| pair[0].compare(&pair[1]) == Some(Ordering::Less)) {
        return;
    }
    let mut seen: HashMap<EqualityKey, &Value> = HashMap::with_capacity(values.len());
    for (item, value) in places.iter().zip(values) {
        let Some(earlier) = seen.insert(EqualityKey::of(value), value) else { continue };
        let message = format!("`{name}` has the value `{value}` twice");
        match earlier.to_string() {
            earlier if earlier == value.to_string() => diagnostics.error(item.span.clone(), message),
            earlier => {
                let hint = format!("`{value}` equals `{earlier}`");
                diagnostics.error_with_hint(item.span.clone(), message, hint);
            }
        }
    }
}

/// The same for values that compare equal, such as `4` and `4.0`.
#[derive(PartialEq, Eq, Hash)]
enum EqualityKey {
    Int(i64),
    /// The bits of a float that no integer equals.
    Float(u64),
    Text(Arc<str>),
}

impl EqualityKey {
    fn of(value: &Value) -> EqualityKey {
        match value {
            Value::Text(text) => EqualityKey::Text(text.clone()),
            Value::Float(value) if value.fract() != 0.0 || value.abs() >= 9.2e18 => {
                EqualityKey::Float(value.to_bits())
            }
            Value::Float(value) => EqualityKey::Int(*value as i64),
            other => EqualityKey::Int(other.as_int().unwrap_or(0)),
        }
    }
}

/// A number, a boolean or a text.
pub fn read_value(node: &Node, diagnostics: &mut Diagnostics) -> Option<Value> {
    let message = match &node.data {
        Data::Bool(value) => return Some(Value::Bool(*value)),
        Data::Int(value) => return Some(Value::Int(*value)),
        Data::Float(value) if value.is_finite() => return Some(Value::Float(*value)),
        Data::Text(text) if !text.chars().any(char::is_control) => return Some(Value::text(text.as_str())),
        Data::Float(_) => "a value is a finite number".to_string(),
        Data::Text(_) => "a value has no control characters".to_string(),
        Data::BigInt(digits) => format!("`{digits}` does not fit 64 bits"),
        Data::List(_) | Data::Table(_) | Data::Null => {
            format!("expected a number, a boolean or a text, found {}", node.kind())
        }
    };
    diagnostics.error(node.span.clone(), message);
    None
}

fn read_default(node: &Node, values: &[Value], diagnostics: &mut Diagnostics) -> Option<usize> {
    let value = read_value(node, diagnostics)?;
    let position = values.iter().position(|candidate| *candidate == value);
    if position.is_none() {
        let shown: Vec<String> = values.iter().take(12).map(|value| format!("`{value}`")).collect();
        let more = if values.len() > shown.len() { ", …" } else { "" };
        let message = format!("the default `{value}` is not among the values");
        diagnostics.error_with_hint(
            node.span.clone(),
            message,
            format!("the values are {}{more}", shown.join(", ")),
        );
    }
    position
}

fn read_text(node: &Node, diagnostics: &mut Diagnostics) -> Option<String> {
    match &node.data {
        Data::Text(text) => Some(text.clone()),
        _ => {
            diagnostics.error(node.span.clone(), format!("expected a text, found {}", node.kind()));
            None
        }
    }
}

/// Names in expressions are checked only if all parameters could be read, so that one mistake is
/// reported once.
fn read_constraints(
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
            ExprError::new(span.clone(), format!("constraint reads `{name}`, which is no parameter"));
        error.hint = match nearest(name, names.iter().copied()) {
            Some(near) => Some(format!("did you mean `{near}`?")),
            None if names.len() <= 12 => Some(format!("the parameters are {}", quoted(&names))),
            None => None,
        };
        expr_error(node, &error, diagnostics);
    }
    sound
}

fn explain_empty(
    parameters: &[Parameter],
    constraints: &[Constraint],
    place: Span,
    diagnostics: &mut Diagnostics,
) {
    let guilty = conflict(parameters, constraints);
    let alone = |constraint: &Constraint| {
        let single = std::slice::from_ref(constraint);
        !conflict(parameters, single).is_empty()
    };
    match guilty.as_slice() {
        [] => diagnostics.error(place, "the space has no valid point"),
        [first, ..] if alone(&constraints[*first]) => {
            for at in &guilty {
                let failure = removal(parameters, &constraints[*at]).failure;
                let message = "no point satisfies this constraint, so the space has no valid point";
                blame(&constraints[*at], message, failure, &place, diagnostics);
            }
        }
        [first, rest @ ..] => {
            let message = format!(
                "the space has no valid point: these {} constraints exclude each other",
                guilty.len()
            );
            blame(&constraints[*first], &message, None, &place, diagnostics);
            rest.iter()
                .for_each(|at| blame(&constraints[*at], "… and this constraint", None, &place, diagnostics));
        }
    }
}

fn blame(
    constraint: &Constraint,
    message: &str,
    failure: Option<String>,
    place: &Span,
    diagnostics: &mut Diagnostics,
) {
    let span = constraint.span.clone().unwrap_or_else(|| place.clone());
    let failure = failure.map(|failure| format!("it has no value at some points: {failure}"));
    let because = constraint.because.as_ref().map(|because| format!("it is there because: {because}"));
    diagnostics.push(Diagnostic {
        message: message.to_string(),
        span: Some(span),
        hint: failure.or(because),
    });
}

#[cfg(test)]
mod tests;
