//! `[parameters]` and `[[constraints]]` of a space file to a `SearchSpace`; every error at once.

mod constraints;
mod fields;
mod parameters;
mod series;
mod space_file;

pub(crate) use fields::{expr_error, inner_span, read_expr, read_value, refuse_unknown_keys};
pub use space_file::read_space;

#[cfg(test)]
mod tests;
