//! A parsed expression.

use std::fmt;
use std::sync::Arc;

use super::error::ExprError;
use super::eval::{self, Scope};
use super::parse;
use super::tree::Tree;
use crate::span::Span;
use crate::value::Value;

/// A parsed expression. Cloning is cheap.
///
/// `evaluate` walks the tree and explains what goes wrong; to evaluate one expression at many points,
/// compile it (`Expr::compile`).
///
/// ```
/// use evo_space::{Expr, Value};
///
/// let expr = Expr::parse("BLOCK % 32 == 0 and ceil_div(N, BLOCK) <= 16")?;
/// let scope = |name: &str| match name {
///     "BLOCK" => Some(Value::Int(64)),
///     "N" => Some(Value::Int(1000)),
///     _ => None,
/// };
/// assert_eq!(expr.evaluate(&scope)?, Value::Bool(true));
///
/// let error = Expr::parse("BLOCK & 32").unwrap_err();
/// assert_eq!(&"BLOCK & 32"[error.span], "&");
/// assert_eq!(error.hint.as_deref(), Some("write `and`; there are no bit operations"));
/// # Ok::<(), evo_space::ExprError>(())
/// ```
#[derive(Clone)]
pub struct Expr {
    text: Arc<str>,
    parsed: Arc<parse::Parsed>,
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

    /// The number of operations, names and constants.
    pub fn size(&self) -> usize {
        fn nodes(tree: &Tree) -> usize {
            let mut sum = 1;
            tree.for_children(&mut |child| sum += nodes(child));
            sum
        }
        nodes(&self.parsed.root)
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
