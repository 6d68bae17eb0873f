//! One value of a parameter or of an expression.
//!
//! Values keep the kind their author wrote (`4` is not `4.0`), because the text that reaches the
//! compiler is made from them; comparison follows Python and calls `4 == 4.0` true.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::number::Number;

/// A number, a boolean or a text, as written in a space file.
#[derive(Clone, Debug, Serialize, Deserialize)]
// Readers try the variants in this order, so an integer is never read as a float.
#[serde(untagged)]
pub enum Value {
    /// `true` or `false`; counts as 1 or 0 in arithmetic.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// A 64-bit float.
    Float(f64),
    /// A text such as `xor`.
    Text(Arc<str>),
}

impl Value {
    /// A text value.
    pub fn text(text: impl Into<Arc<str>>) -> Value {
        Value::Text(text.into())
    }

    /// The integer, if this is an integer or a boolean.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(value) => Some(*value),
            Value::Bool(value) => Some(i64::from(*value)),
            Value::Float(_) | Value::Text(_) => None,
        }
    }

    /// The number as a float, unless this is a text.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Value::Int(value) => Some(*value as f64),
            Value::Float(value) => Some(*value),
            Value::Bool(value) => Some(f64::from(u8::from(*value))),
            Value::Text(_) => None,
        }
    }

    /// The number as arithmetic sees it (a boolean is 0 or 1), unless this is a text.
    pub fn as_number(&self) -> Option<Number> {
        match self {
            Value::Float(value) => Some(Number::Float(*value)),
            other => other.as_int().map(Number::Int),
        }
    }

    /// Python's truth: zero and the empty text are false.
    pub fn is_true(&self) -> bool {
        match self {
            Value::Bool(value) => *value,
            Value::Int(value) => *value != 0,
            Value::Float(value) => *value != 0.0,
            Value::Text(text) => !text.is_empty(),
        }
    }

    /// Order between two numbers or two texts; `None` between a number and a text.
    pub fn compare(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
            (Value::Text(_), _) | (_, Value::Text(_)) => None,
            (a, b) => Some(a.as_number()?.compare(b.as_number()?)),
        }
    }

    /// `int`, `float`, `bool` or `text`, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Text(_) => "text",
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.compare(other) == Some(Ordering::Equal)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Int(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::text(value)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            // `Debug` writes `4.0` where `Display` would write `4` and lose the kind.
            Value::Float(value) => write!(f, "{value:?}"),
            Value::Text(text) => f.write_str(text),
        }
    }
}
