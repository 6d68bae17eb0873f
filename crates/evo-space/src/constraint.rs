//! A constraint: its text, its expression, the parameters it reads, and why it is there.

use crate::expr::{Expr, ExprError, Scope};
use crate::span::Span;

/// Something that every valid point satisfies.
#[derive(Clone, Debug)]
pub struct Constraint {
    /// The condition.
    pub expr: Expr,
    /// The author's reason, shown when it refuses something.
    pub because: Option<String>,
    /// Positions of the parameters it reads, ascending.
    pub parameters: Vec<usize>,
    /// Where it stands in the file, if it came from one.
    pub span: Option<Span>,
}

impl Constraint {
    /// Whether it holds; an error (such as a division by zero) refuses the point as well.
    pub fn evaluate(&self, scope: &dyn Scope) -> Result<bool, ExprError> {
        self.expr.evaluate(scope).map(|value| value.is_true())
    }
}
