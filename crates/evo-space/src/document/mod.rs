//! A TOML or JSON file as a tree in which every key and value knows its place.
//!
//! Both formats become the same tree, so the readers of spaces and kernels see one form and every
//! error can point at line and column.

mod json;
mod node;
mod parse;
mod toml_syntax;

pub use node::{Data, Node, TableEntry};
pub use parse::parse;

pub use crate::span::Span;
