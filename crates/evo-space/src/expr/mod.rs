//! The expression language of constraints, launch plans and shapes: Python's meaning.
//!
//! `and or not`, comparisons (also chained, `in`, `not in`), `+ - * / // % **`, `a if c else b`,
//! `min max abs ceil_div`, numbers, quoted texts, booleans, names. Arithmetic is checked: an overflow
//! or a division by zero is an error with its place, never a wrapped number.

mod error;
mod eval;
mod expression;
mod hints;
mod parse;
mod token;
mod tokenize;
pub mod tree;

pub use error::ExprError;
pub use eval::Scope;
pub use expression::Expr;
pub use parse::is_name;

#[cfg(test)]
mod tests;
