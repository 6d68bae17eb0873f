//! The search space: parameters, constraints and the points that satisfy them.

mod search_space;

pub(crate) use search_space::cartesian;
pub use search_space::{SearchSpace, Violation};

#[cfg(test)]
mod entangled_tests;
#[cfg(test)]
mod tests;
