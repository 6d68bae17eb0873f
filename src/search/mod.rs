//! Search: ask/tell strategies; they know no device and no file.

pub mod exhaustive;
pub mod genetic;
pub mod lessons;
pub mod model;
pub mod operators;
pub mod permutation;
pub mod random;
pub mod registry;
pub mod strategy;
pub mod unseen;

#[cfg(test)]
pub(crate) mod conformance;
