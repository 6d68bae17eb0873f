//! What a space is made of: parameters and the constraints between them.

use std::sync::Arc;

use crate::diagnostic::Span;
use crate::expr::{Expr, ExprError, Scope};
use crate::value::Value;

/// A name and the values it may take, in the order that defines steps between neighbors.
#[derive(Clone, Debug)]
pub struct Parameter {
    pub name: Arc<str>,
    /// At least one value, no value twice.
    pub values: Vec<Value>,
    pub default: usize,
    pub help: Option<String>,
}

impl Parameter {
    /// The position of `value`, compared as expressions compare (`4 == 4.0`).
    pub fn position(&self, value: &Value) -> Option<usize> {
        self.values.iter().position(|candidate| candidate == value)
    }

    pub fn default_value(&self) -> &Value {
        &self.values[self.default]
    }
}

#[derive(Clone, Debug)]
pub struct Constraint {
    pub expr: Expr,
    /// The author's reason, shown when it refuses something.
    pub because: Option<String>,
    /// Positions of the parameters it reads, ascending.
    pub parameters: Vec<usize>,
    pub span: Option<Span>,
}

impl Constraint {
    /// Whether it holds; an error (such as a division by zero) refuses the point as well.
    pub fn evaluate(&self, scope: &dyn Scope) -> Result<bool, ExprError> {
        self.expr.evaluate(scope).map(|value| value.is_true())
    }
}
