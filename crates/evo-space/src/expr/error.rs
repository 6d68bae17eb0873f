//! Why a text is not an expression, or why an expression has no value.

use crate::span::Span;

/// Why a text is not an expression, or has no value. `span` is relative to the expression's text.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ExprError {
    /// What is wrong: lower case, no final period.
    pub message: String,
    /// The part of the expression that is to blame, in bytes.
    pub span: Span,
    /// What to write instead.
    pub hint: Option<String>,
}

impl ExprError {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> ExprError {
        ExprError { message: message.into(), span, hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> ExprError {
        self.hint = Some(hint.into());
        self
    }

    /// The same error, `by` bytes further to the right.
    pub(crate) fn shifted(mut self, by: usize) -> ExprError {
        self.span = self.span.start + by..self.span.end + by;
        self
    }
}
