//! A value that may not be known: null in files, with its reason under the dotted path of the field.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

/// A value, or why there is none. It serializes to the value, or to a mark that [`told`] turns into null and a reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Known<T> {
    Is(T),
    Unknown(String),
}

/// The one key of a mark. No field of ours has this name, and users' names hold no control characters.
const MARK: &str = "\u{1}unknown";

impl<T> Known<T> {
    /// The value, or `why` it is not known.
    pub fn of(value: Option<T>, why: impl Into<String>) -> Known<T> {
        value.map_or_else(|| Known::Unknown(why.into()), Known::Is)
    }

    pub fn value(&self) -> Option<&T> {
        match self {
            Known::Is(value) => Some(value),
            Known::Unknown(_) => None,
        }
    }
}

impl Known<f64> {
    /// A number as files can hold it: NaN and infinities are not known.
    pub fn number(value: Option<f64>, why: impl Into<String>) -> Known<f64> {
        Known::of(value.filter(|value| value.is_finite()), why)
    }
}

impl<T> From<Result<T, String>> for Known<T> {
    fn from(result: Result<T, String>) -> Known<T> {
        result.map_or_else(Known::Unknown, Known::Is)
    }
}

impl<T: Serialize> Serialize for Known<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Known::Is(value) => value.serialize(serializer),
            Known::Unknown(why) => {
                let mut mark = serializer.serialize_map(Some(1))?;
                mark.serialize_entry(MARK, why)?;
                mark.end()
            }
        }
    }
}

impl<T: JsonSchema> JsonSchema for Known<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Option::<T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Option::<T>::json_schema(generator)
    }
}

/// The same value with each null in it marked as unknown, for the reason that its dotted path decides, if there is one.
pub fn because<R: Into<Option<String>>>(mut value: Value, why: &impl Fn(&str) -> R) -> Value {
    walk(&mut value, &mut String::new(), &mut |path, value| {
        if value.is_null()
            && let Some(why) = why(path).into()
        {
            *value = json!({ MARK: why });
        }
    });
    value
}

/// An answer as JSON, and why fields of it are null, by dotted path: `problems.0.latency_ms`.
///
/// # Panics
/// The answer has a map with keys other than texts, or its own `Serialize` fails.
pub fn told(answer: &impl Serialize) -> (Value, BTreeMap<String, String>) {
    let mut value = serde_json::to_value(answer).expect("answers are made of names, numbers and texts");
    let mut reasons = BTreeMap::new();
    walk(&mut value, &mut String::new(), &mut |path, value| {
        if let Value::Object(fields) = value
            && let (1, Some(Value::String(why))) = (fields.len(), fields.get_mut(MARK))
        {
            reasons.insert(path.to_string(), std::mem::take(why));
            *value = Value::Null;
        }
    });
    (value, reasons)
}

/// Every value with its path, what holds others before them.
fn walk(value: &mut Value, path: &mut String, see: &mut dyn FnMut(&str, &mut Value)) {
    see(path, value);
    let mut within = |name: &str, inner: &mut Value| {
        let end = path.len();
        path.push_str(if end == 0 { "" } else { "." });
        path.push_str(name);
        walk(inner, path, see);
        path.truncate(end);
    };
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, inner)| within(name, inner)),
        Value::Array(items) => {
            items.iter_mut().enumerate().for_each(|(at, inner)| within(&at.to_string(), inner));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, JsonSchema)]
    struct Row {
        time_ns: Known<f64>,
    }

    #[derive(Serialize, JsonSchema)]
    struct Answer {
        rows: Vec<Row>,
        other: Value,
    }

    #[test]
    fn an_unknown_value_is_null_with_a_reason_at_its_path() {
        let row = |time| Row { time_ns: Known::number(time, "it was not measured") };
        let other = because(json!({ "a": null, "b": [{ "a": 1, "c": null }] }), &|path| format!("no {path}"));
        let (value, reasons) = told(&Answer { rows: vec![row(Some(2.0)), row(Some(f64::NAN))], other });
        assert_eq!(value["rows"], json!([{ "time_ns": 2.0 }, { "time_ns": null }]));
        assert_eq!(value["other"], json!({ "a": null, "b": [{ "a": 1, "c": null }] }));
        let expected =
            [("other.a", "no a"), ("other.b.0.c", "no b.0.c"), ("rows.1.time_ns", "it was not measured")];
        assert_eq!(reasons.iter().map(|(path, why)| (&path[..], &why[..])).collect::<Vec<_>>(), expected);
        let schema = schemars::schema_for!(Row).to_value();
        assert_eq!(schema["properties"]["time_ns"]["type"], json!(["number", "null"]));
    }
}
