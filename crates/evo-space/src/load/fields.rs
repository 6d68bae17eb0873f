//! Parts of a file that spaces and kernels share: expressions, values, texts, unknown keys.

use crate::diagnostic::{Diagnostics, nearest};
use crate::document::{Data, Node, TableEntry};
use crate::expr::{Expr, ExprError};
use crate::span::Span;
use crate::value::Value;

/// An expression that stands in the file as a text; errors point into the text.
pub fn read_expr(node: &Node, diagnostics: &mut Diagnostics) -> Option<Expr> {
    let Data::Text(text) = &node.data else {
        diagnostics
            .error(node.span.clone(), format!("expected an expression as a text, found {}", node.kind()));
        return None;
    };
    Expr::parse(text).map_err(|error| expr_error(node, &error, diagnostics)).ok()
}

/// Reports an error about an expression's part.
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
    // How much longer the source is tells the quotes apart: a pair, three on each side, or those and a
    // first line break, which TOML drops. Escapes give other differences.
    let quotes = match node.span.len().checked_sub(text.len()) {
        Some(2) => 1,
        Some(6) if text.contains('\n') => 3,
        Some(7) if text.contains('\n') => 4,
        _ => return node.span.clone(),
    };
    let start = node.span.start + quotes;
    start + part.start..start + part.end.max(part.start)
}

/// Reports keys outside `known`.
pub fn refuse_unknown_keys(
    entries: &[TableEntry],
    known: &[&str],
    what: &str,
    diagnostics: &mut Diagnostics,
) {
    for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
        if diagnostics.is_full() {
            return;
        }
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

/// A text.
pub(super) fn read_text(node: &Node, diagnostics: &mut Diagnostics) -> Option<String> {
    match &node.data {
        Data::Text(text) => Some(text.clone()),
        _ => {
            diagnostics.error(node.span.clone(), format!("expected a text, found {}", node.kind()));
            None
        }
    }
}

/// Names as a message lists them.
pub(super) fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
