//! What an expression's text is made of.

use crate::span::Span;
use crate::value::Value;

/// A token with its place in the expression's text.
#[derive(Clone, Debug, PartialEq)]
pub struct ExprToken {
    pub kind: ExprTokenKind,
    pub span: Span,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprTokenKind {
    /// A number or a quoted text.
    Literal(Value),
    /// A name or a word of the language (`and`, `if`, …).
    Word(String),
    /// An operator or a bracket.
    Symbol(&'static str),
    /// After the last token.
    End,
}
