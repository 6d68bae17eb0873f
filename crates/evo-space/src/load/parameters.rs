//! The `parameters` of a file.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use super::fields::{read_text, read_value, refuse_unknown_keys};
use super::series;
use crate::diagnostic::Diagnostics;
use crate::document::{Data, Node, TableEntry};
use crate::expr::is_name;
use crate::parameter::Parameter;
use crate::span::Span;
use crate::value::Value;

/// Positions are 16-bit numbers.
const MAX_VALUES: usize = u16::MAX as usize;

/// The search recurses once per parameter.
const MAX_PARAMETERS: usize = 500;

/// Longer names fill a screen, and are beyond what a compiler is told on a command line.
const MAX_NAME: usize = 128;

/// Reads all parameters, as far as they are sound.
pub fn read_parameters(root: &Node, diagnostics: &mut Diagnostics) -> Vec<Parameter> {
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

fn read_parameter(entry: &TableEntry, diagnostics: &mut Diagnostics) -> Option<Parameter> {
    let name = entry.key.as_str();
    if name.len() > MAX_NAME {
        let message = format!("the name of a parameter is longer than {MAX_NAME} letters");
        diagnostics.error(entry.key_span.clone(), message);
        return None;
    }
    if !is_name(name) {
        let hint = "names are made of letters, digits and `_`, and are not words such as `and` or `if`";
        diagnostics.error_with_hint(
            entry.key_span.clone(),
            format!("`{name}` cannot be a parameter's name"),
            hint,
        );
    }
    // Reading goes on after a bad name, so that mistakes in the values show at the same time.
    let (list, default, help) = match &entry.value.data {
        Data::List(_) | Data::Text(_) => (&entry.value, None, None),
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
    if let Data::Text(text) = &list.data {
        return series::read(list, text, MAX_VALUES, diagnostics);
    }
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
            // Equal values need equal keys, and `1`, `1.0` and `true` are equal.
            Value::Float(value) if value.fract() != 0.0 || value.abs() >= 9.2e18 => {
                EqualityKey::Float(value.to_bits())
            }
            Value::Float(value) => EqualityKey::Int(*value as i64),
            other => EqualityKey::Int(other.as_int().unwrap_or(0)),
        }
    }
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
