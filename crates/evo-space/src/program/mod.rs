//! The one compiled form of expressions: what counts spaces, checks points and computes features.
//!
//! A tree is lowered to `Code` (names become slots, texts become ranks, constants fold) and compiled
//! to a `Program` over registers. `CompiledExpr` is all of it for readers outside this crate. Trees
//! are evaluated directly in `expr` only where an error has to be explained; ordinary tests and the
//! fuzz target `expression` hold the two evaluators against each other.

mod code;
mod compiled;
mod lower;
mod machine;

pub(crate) use code::{Atom, Code, Texts};
pub use compiled::{CompiledExpr, Scratch};
pub(crate) use lower::{Domains, conjuncts};
pub(crate) use machine::{Program, Register, Registers};

#[cfg(test)]
mod tests;
