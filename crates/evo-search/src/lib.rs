//! Search: ask/tell strategies; they know no device and no file.

pub mod annealing;
pub mod bandit;
pub mod differential_evolution;
pub mod evolve;
pub mod exhaustive;
pub mod genetic;
pub mod insight;
pub mod lessons;
pub mod local_search;
pub mod memory;
pub mod model;
pub mod operators;
pub mod permutation;
pub mod population;
pub mod prior;
pub mod quasi_random;
pub mod random;
pub mod registry;
pub mod spread;
pub mod strategy;
pub mod unseen;
mod variation;

#[cfg(test)]
pub(crate) mod conformance;
