//! The expression language of constraints, launch plans and shapes: Python's meaning.

use super::document::Span;
use super::value::Value;

/// A parsed expression.
#[derive(Clone, Debug)]
pub struct Expr {
    text: String,
}

/// What names mean during evaluation.
pub trait Scope {
    /// The value of a name.
    fn get(&self, name: &str) -> Option<Value>;
}

/// Why a text is no expression, or has no value. `span` is relative to the expression's text.
#[derive(Clone, Debug, PartialEq)]
pub struct ExprError {
    pub message: String,
    pub span: Span,
    pub hint: Option<String>,
}

impl Expr {
    /// Parses an expression.
    pub fn parse(text: &str) -> Result<Expr, ExprError> {
        Ok(Expr { text: text.to_string() })
    }

    /// The text as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Names that are read, with their places, in order of appearance.
    pub fn names(&self) -> Vec<(String, Span)> {
        panic!("to be written by the space module")
    }

    /// The value; checked arithmetic, so overflow and division by zero are errors.
    pub fn evaluate(&self, scope: &dyn Scope) -> Result<Value, ExprError> {
        let _ = scope;
        panic!("to be written by the space module")
    }
}
