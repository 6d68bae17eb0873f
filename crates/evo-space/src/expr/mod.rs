//! The expression language of constraints, launch plans and shapes, with Python's meaning: `and or not`, comparisons
//! (also chained, `in`, `not in`), `+ - * / // % **`, `a if c else b`, `min max abs ceil_div`, numbers, quoted texts,
//! booleans, names. Arithmetic is checked: an overflow or a division by zero is an error with its place, never a
//! wrapped number.

mod hints;
mod parse;
pub mod tree;

use std::fmt;
use std::sync::Arc;

use crate::diagnostic::Span;
use crate::expr::tree::Tree;
use crate::value::Value;

pub use crate::expr::parse::is_name;
pub use crate::expr::tree::Scope;

/// Cheap to clone. `evaluate` walks the tree and explains what goes wrong; to evaluate one expression at many points,
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
    pub fn parse(text: &str) -> Result<Expr, ExprError> {
        Ok(Expr { text: Arc::from(text), parsed: Arc::new(parse::parse(text)?) })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// With their places, in order of appearance; one that is read twice is listed twice.
    pub fn names(&self) -> Vec<(String, Span)> {
        let uses = self.parsed.uses.iter();
        uses.map(|(slot, span)| (self.parsed.names[*slot].to_string(), span.clone())).collect()
    }

    pub fn with_words(&self, word: impl Fn(&str) -> Option<String>) -> String {
        let mut text = self.text.to_string();
        // From the end, so that the places before stay where they are.
        for (name, span) in self.names().into_iter().rev() {
            if let Some(word) = word(&name) {
                text.replace_range(span, &word);
            }
        }
        text
    }

    /// Each name once; `Kind::Name` counts in this list.
    pub fn distinct_names(&self) -> &[Arc<str>] {
        &self.parsed.names
    }

    pub fn tree(&self) -> &Tree {
        &self.parsed.root
    }

    pub fn size(&self) -> usize {
        let mut nodes = 0;
        self.parsed.root.visit(&mut |_| nodes += 1);
        nodes
    }

    pub fn evaluate(&self, scope: &dyn Scope) -> Result<Value, ExprError> {
        tree::evaluate(&self.parsed.root, &tree::Context { names: &self.parsed.names, scope })
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

/// Why a text is not an expression, or has no value. `span` is relative to the expression's text.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ExprError {
    pub message: String,
    /// The part of the expression that is to blame, in bytes.
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

    pub(crate) fn shifted(mut self, by: usize) -> ExprError {
        self.span = self.span.start + by..self.span.end + by;
        self
    }
}

#[derive(Clone, Debug, PartialEq)]
struct ExprToken {
    kind: ExprTokenKind,
    span: Span,
}

#[derive(Clone, Debug, PartialEq)]
enum ExprTokenKind {
    Literal(Value),
    /// A name or a word of the language (`and`, `if`, …).
    Word(String),
    Symbol(&'static str),
    End,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    fn scope(name: &str) -> Option<Value> {
        Some(match name {
            "A" => Value::Int(12),
            "B" => Value::Int(5),
            "ZERO" => Value::Int(0),
            "F" => Value::Float(2.5),
            "T" => Value::text("xor"),
            "YES" => Value::Bool(true),
            _ => return None,
        })
    }

    /// A line for each: its value, or why it has none and what of it is to blame.
    #[test]
    fn values_are_pythons() {
        let lines = include_str!("values.txt").lines().filter(|line| !line.starts_with("# "));
        let shown = lines.map(|text| {
            let expr = Expr::parse(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
            match expr.evaluate(&scope) {
                Ok(value) => format!("{text} -> {} {value}\n", value.kind()),
                Err(error) => format!("{text} -> error: {} @ {}\n", error.message, &text[error.span]),
            }
        });
        insta::assert_snapshot!(shown.collect::<String>());
    }

    #[test]
    fn names_come_with_their_places() {
        let expr = Expr::parse("B + min(A, B) > 'C'").unwrap();
        let names: Vec<_> =
            expr.names().into_iter().map(|(name, span)| format!("{name}@{}", span.start)).collect();
        assert_eq!(names, ["B@0", "A@8", "B@11"]);
        assert_eq!(expr.text(), "B + min(A, B) > 'C'");
        let word = |name: &str| (name == "B").then(|| "64".to_string());
        let expr = Expr::parse("ceil_div(N, B * BB) + B").unwrap();
        assert_eq!(expr.with_words(word), "ceil_div(N, 64 * BB) + 64");
    }

    #[test]
    fn many_names_are_told_apart() {
        let names: Vec<String> = (0..40).chain(0..40).map(|number| format!("N{number}")).collect();
        let expr = Expr::parse(&names.join(" + ")).unwrap();
        let found: Vec<String> = expr.names().into_iter().map(|(name, _)| name).collect();
        assert_eq!(found, names);
        let scope = |name: &str| name[1..].parse().ok().map(|number: i64| Value::Int(1 << number));
        assert_eq!(expr.evaluate(&scope).unwrap(), Value::Int(2 * ((1 << 40) - 1)));
    }

    #[test]
    fn no_input_overflows_the_stack() {
        let deep = [("(", ")"), ("-", ""), ("not ", ""), ("1 ** ", ""), ("1 if 1 else ", ""), ("min(", ")")];
        for (open, close) in deep {
            let text = format!("{}1{}", open.repeat(20_000), close.repeat(20_000));
            let error = Expr::parse(&text).unwrap_err();
            assert!(["deeper", "longer"].iter().any(|word| error.message.contains(word)), "{error}");
            assert!(error.hint.is_some() && !error.span.is_empty() && error.span.end <= text.len());
        }
        let wide = "1".to_string() + &" + 1".repeat(20_000);
        assert_eq!(Expr::parse(&wide).unwrap().evaluate(&scope).unwrap(), Value::Int(20_001));
        // The expression itself is the fiftieth level.
        let most = format!("{}1{}", "(".repeat(49), ")".repeat(49));
        assert_eq!(Expr::parse(&most).unwrap().evaluate(&scope).unwrap(), Value::Int(1));
    }
}
