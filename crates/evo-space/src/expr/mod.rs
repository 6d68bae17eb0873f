//! The expression language of constraints, launch plans and shapes: Python's meaning.
//!
//! `and or not`, comparisons (also chained, `in`, `not in`), `+ - * / // % **`, `a if c else b`,
//! `min max abs ceil_div`, numbers, quoted texts, booleans, names. Arithmetic is checked: an overflow
//! or a division by zero is an error with its place, never a wrapped number.

mod eval;
mod hints;
mod parse;
mod token;
pub mod tree;

use std::fmt;
use std::sync::Arc;

pub use parse::is_name;
use tree::Tree;

use super::document::Span;
use super::value::Value;

/// A parsed expression. Cloning is cheap.
#[derive(Clone)]
pub struct Expr {
    text: Arc<str>,
    parsed: Arc<parse::Parsed>,
}

/// What names mean during evaluation; any function from a name to its value is one.
pub trait Scope {
    /// The value of a name.
    fn get(&self, name: &str) -> Option<Value>;
}

impl<F: Fn(&str) -> Option<Value>> Scope for F {
    fn get(&self, name: &str) -> Option<Value> {
        self(name)
    }
}

/// Why a text is no expression, or has no value. `span` is relative to the expression's text.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ExprError {
    pub message: String,
    pub span: Span,
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

impl Expr {
    /// Parses an expression.
    pub fn parse(text: &str) -> Result<Expr, ExprError> {
        Ok(Expr { text: Arc::from(text), parsed: Arc::new(parse::parse(text)?) })
    }

    /// The text as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Names that are read, with their places, in order of appearance; one that is read twice is
    /// listed twice.
    pub fn names(&self) -> Vec<(String, Span)> {
        let uses = self.parsed.uses.iter();
        uses.map(|(slot, span)| (self.parsed.names[*slot].to_string(), span.clone())).collect()
    }

    /// Each name once; `Kind::Name` counts in this list.
    pub fn distinct_names(&self) -> &[Arc<str>] {
        &self.parsed.names
    }

    /// The parsed tree.
    pub fn tree(&self) -> &Tree {
        &self.parsed.root
    }

    /// The value; checked arithmetic, so overflow and division by zero are errors.
    pub fn evaluate(&self, scope: &dyn Scope) -> Result<Value, ExprError> {
        eval::evaluate(&self.parsed.root, &eval::Context { names: &self.parsed.names, scope })
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expr").field(&self.text).finish()
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        self.text == other.text
    }
}

#[cfg(test)]
mod tests;
