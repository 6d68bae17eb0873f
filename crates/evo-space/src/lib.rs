//! Search spaces: parameters, constraints, their valid points. Knows no kernel and no device.
//!
//! `document` reads files, `expr` the language in them, `load` makes a `SearchSpace` of both. Behind
//! the space, `lower` and `code` turn constraints into what `problem`, `merge` and `order` count with;
//! `index` is the result: index ⇄ point without a list.

pub mod constraint;
mod count;
pub mod diagnostic;
pub mod document;
pub mod explain;
pub mod expr;
pub mod genome;
mod index;
mod kinds;
pub mod list;
mod listed;
pub mod load;
mod low_discrepancy;
mod neighbors;
pub mod number;
pub mod parameter;
pub mod program;
mod quasi_random;
pub mod rng;
mod sample;
pub mod shape;
pub mod shell;
pub mod space;
mod span;
mod subspace;
#[cfg(test)]
mod testing;
pub mod value;

pub use count::relax::RelaxLimits;
pub use index::{Limits, Size};
pub use neighbors::Neighborhood;
pub use quasi_random::QuasiRandom;
pub use subspace::Subspace;
