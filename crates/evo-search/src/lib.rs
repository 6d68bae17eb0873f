//! Search strategies for constrained discrete spaces, such as the parameters of a kernel.
#![doc = include_str!("../README.md")]

mod evolve;
pub mod insight;
mod memory;
pub mod model;
mod per_problem;
pub mod registry;
mod seeded;
pub mod strategy;

pub use self::insight::Insight;
pub use self::per_problem::{PerProblem, ProblemSearch};
pub use self::registry::{UnknownStrategy, create};
pub use self::seeded::{SeedRoom, Seeded};
pub use self::strategy::{
    Expectation, Facts, Origin, Outcome, PriorStudy, ProblemTime, Proposal, Strategy, VerdictClass,
};

#[cfg(test)]
pub(crate) mod conformance;
