//! The parameters of a T1 file: their values stand in a text, as Python writes a list.

use serde_json::Value;

use super::error::T1Error;
use super::read::T1Node;
use crate::first_file::is_plain;

/// A tuning parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct T1Parameter {
    pub(super) name: String,
    /// Numbers, booleans or texts, in the file's order.
    pub(super) values: Vec<Value>,
    pub(super) default: Value,
}

/// Most parameters of a file.
const PARAMETERS_MAX: usize = 256;

/// Most values of a range.
const VALUES_MAX: i64 = 1 << 16;

/// Reads `ConfigurationSpace.TuningParameters`.
pub(super) fn parameters(root: &T1Node<'_>) -> Result<Vec<T1Parameter>, T1Error> {
    let list = root.need("ConfigurationSpace")?.need("TuningParameters")?;
    let mut found = Vec::new();
    for own in list.items()? {
        let name = own.need("Name")?.name()?.to_string();
        let values = own.need("Values")?;
        let all = match values.value {
            Value::Array(all) => all.clone(),
            Value::String(text) => list_of(text).ok_or_else(|| {
                values.unsupported(
                    &format!("`{text}`"),
                    "write a list such as `[1, 2, 4]`, or `range(1, 9)`, in the file",
                )
            })?,
            _ => return Err(values.wrong("it is neither a list nor the text of one")),
        };
        let plain = |value: &Value| match value {
            Value::String(text) => is_plain(text),
            other => other.is_number() || other.is_boolean(),
        };
        if all.is_empty() || !all.iter().all(plain) {
            return Err(values.wrong("it is not a list of numbers, booleans or plain texts"));
        }
        let stated = own.find("Default").map(|own| own.value.clone());
        let default = stated.filter(|own| all.contains(own)).unwrap_or_else(|| all[0].clone());
        found.push(T1Parameter { name, values: all, default });
    }
    if found.is_empty() || found.len() > PARAMETERS_MAX {
        let count = found.len();
        return Err(list.wrong(&format!("it has {count} parameters, expected 1 to {PARAMETERS_MAX}")));
    }
    Ok(found)
}

/// `[1, 2]`, `["a", True]`, `range(1, 9, 2)`, `list(range(9))`.
fn list_of(text: &str) -> Option<Vec<Value>> {
    let text = text.trim();
    let inside = text.strip_prefix("list(").and_then(|rest| rest.strip_suffix(')'));
    let text = inside.map_or(text, str::trim);
    if let Some(inside) = text.strip_prefix("range(").and_then(|rest| rest.strip_suffix(')')) {
        let numbers: Option<Vec<i64>> = inside.split(',').map(|own| own.trim().parse().ok()).collect();
        let (from, to, step) = match numbers?[..] {
            [to] => (0, to, 1),
            [from, to] => (from, to, 1),
            [from, to, step] if step != 0 => (from, to, step),
            _ => return None,
        };
        let count = (i128::from(to) - i128::from(from)).div_euclid(i128::from(step));
        if count > i128::from(VALUES_MAX) {
            return None;
        }
        let within = |value: &i64| if step > 0 { *value < to } else { *value > to };
        let all = std::iter::successors(Some(from), |value| value.checked_add(step)).take_while(within);
        return Some(all.map(Value::from).collect());
    }
    let inside = text.strip_prefix('[').or_else(|| text.strip_prefix('('))?;
    let inside = inside.strip_suffix([']', ')'])?.trim().trim_end_matches(',');
    inside.split(',').map(|own| element(own.trim())).collect()
}

fn element(text: &str) -> Option<Value> {
    let quoted = |sign: char| text.strip_prefix(sign).and_then(|rest| rest.strip_suffix(sign));
    match text {
        "True" | "true" => Some(true.into()),
        "False" | "false" => Some(false.into()),
        _ => quoted('\'').or_else(|| quoted('"')).map(Value::from).or_else(|| {
            let number: Value = serde_json::from_str(text).ok()?;
            number.is_number().then_some(number)
        }),
    }
}

impl T1Parameter {
    /// The largest value, where all are numbers.
    pub(super) fn largest(&self) -> Option<i64> {
        self.values.iter().map(Value::as_i64).collect::<Option<Vec<i64>>>()?.into_iter().max()
    }

    /// The default as a macro has it.
    pub(super) fn as_macro(&self) -> String {
        match &self.default {
            Value::Bool(own) => u8::from(*own).to_string(),
            Value::String(own) => own.clone(),
            other => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_are_read_as_python_writes_them() {
        let read = |text: &str| list_of(text).map(Value::Array);
        assert_eq!(read("[1, 2, 4]"), Some(json!([1, 2, 4])));
        assert_eq!(read("(1, 0.5,)"), Some(json!([1, 0.5])));
        assert_eq!(read("['a', \"b\", True]"), Some(json!(["a", "b", true])));
        assert_eq!(read("list(range(1, 5))"), Some(json!([1, 2, 3, 4])));
        assert_eq!(read("range(8, 0, -4)"), Some(json!([8, 4])));
        assert_eq!(read("range(3)"), Some(json!([0, 1, 2])));
        for text in [
            "[2**i for i in range(5)]",
            "range(1, 2, 0)",
            "range(0, 9999999)",
            "[x]",
            "",
            "[",
            "open('f')",
            "list(list([1]))",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
