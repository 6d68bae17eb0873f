//! A tunable parameter: a name, its ordered values, its default.

use std::sync::Arc;

use crate::value::Value;

/// A name and the values it may take, in the order that defines steps between neighbors.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The name, as constraints, templates and macros use it.
    pub name: Arc<str>,
    /// At least one value, no value twice.
    pub values: Vec<Value>,
    /// Position of the default in `values`.
    pub default: usize,
    /// One sentence for people.
    pub help: Option<String>,
}

impl Parameter {
    /// The position of `value`, compared as expressions compare (`4 == 4.0`).
    pub fn position(&self, value: &Value) -> Option<usize> {
        self.values.iter().position(|candidate| candidate == value)
    }

    /// The default value.
    pub fn default_value(&self) -> &Value {
        &self.values[self.default]
    }
}
