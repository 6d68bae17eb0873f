//! Search spaces: parameters, constraints, their valid points. Knows no kernel and no device.
//!
//! `document` reads files, `expr` the language in them, `load` makes a `SearchSpace` of both. Behind
//! the space, `lower` and `code` turn constraints into what `problem`, `merge` and `order` count with;
//! `index` is the result: index ⇄ point without a list.

pub mod constraint;
pub mod diagnostic;
pub mod document;
pub mod explain;
pub mod expr;
pub mod genome;
mod hasher;
mod index;
pub mod json;
mod keys;
mod kinds;
pub mod list;
mod listed;
pub mod load;
mod low_discrepancy;
mod merge;
mod neighbors;
pub mod number;
mod order;
pub mod parameter;
mod plan;
mod problem;
pub mod program;
mod quasi_random;
mod relax;
mod residual;
pub mod rng;
mod sample;
pub mod shape;
pub mod shell;
pub mod space;
mod subspace;
mod table;
mod toml_syntax;
pub mod value;
mod value_set;

pub use index::{Limits, Size};
pub use neighbors::Neighborhood;
pub use quasi_random::QuasiRandom;
pub use relax::RelaxLimits;
pub use subspace::Subspace;
