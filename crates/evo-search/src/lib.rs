//! Search strategies for constrained discrete spaces, such as the parameters of a kernel.
//!
//! A [`Strategy`] is *asked* for points to evaluate and *told* what came of them. It knows no device, file or clock, so
//! it serves live runs, replays and tests alike. It never proposes a point twice, any number of proposals may be in
//! flight, and the same seed and the same outcomes in the same order give the same proposals.
//!
//! The default strategy, `evolve`, learns from every outcome with extremely randomized trees, a Gaussian
//! process and a model of failures. `exhaustive` and `random` stand beside it ([`registry::names`]).
//!
//! # Example
//!
//! Spaces are those of `evo-space`. The objective is a formula here; a tuner would compile and time a
//! kernel.
//!
//! ```
//! use evo_search::{Outcome, VerdictClass, create};
//! use evo_space::space::SearchSpace;
//!
//! let space = SearchSpace::parse(
//!     r#"
//!     constraints = ["BLOCK_X * BLOCK_Y <= 1024", "BLOCK_X * TILE % 4 == 0"]
//!     [parameters]
//!     BLOCK_X = [1, 2, 4, 8, 16, 32, 64, 128]
//!     BLOCK_Y = [1, 2, 4, 8, 16, 32]
//!     TILE = [1, 2, 3, 4, 5, 6, 7, 8]
//!     UNROLL = [1, 2, 4, 8]
//!     "#,
//! )
//! .unwrap();
//!
//! // The invented time of a variant: 256 threads, tiles of 6 and some unrolling are best.
//! let time_ns = |point: &evo_space::genome::Configuration| {
//!     let value = |name: &str| point.get(name).and_then(|value| value.as_float()).unwrap();
//!     let threads = (value("BLOCK_X") * value("BLOCK_Y")).log2();
//!     1000.0 * (1.0 + (threads - 8.0).abs() + 0.2 * (value("TILE") - 6.0).abs() + 0.1 / value("UNROLL"))
//! };
//!
//! let mut strategy = create("evolve", &space, 1).unwrap();
//! let mut best: Option<(f64, String)> = None;
//! for _ in 0..60 {
//!     let Some(proposal) = strategy.ask(1).pop() else { break };
//!     let configuration = space.configuration(&proposal.genome);
//!     let time = time_ns(&configuration);
//!     if best.as_ref().is_none_or(|(least, _)| time < *least) {
//!         best = Some((time, configuration.to_string()));
//!     }
//!     strategy.tell(&Outcome::new(proposal.genome, VerdictClass::Ok, Some(time)));
//! }
//! let (time, configuration) = best.unwrap();
//! println!("{configuration} takes {time} ns, after 60 of {} points", space.count());
//! assert!(time < 1100.0);
//! ```
//!
//! # Beyond the loop
//!
//! - [`Strategy::inherit`] starts a search from earlier studies of the same kernel.
//! - [`Strategy::reconsider`] judges a variant by what the compiler reported, before it runs.
//! - [`PerProblem`] searches for the best configuration of each of several problems.
//! - [`Insight`] says what a finished study tells beyond its winner.
//! - [`model`] holds the surrogate models, for use without a strategy.

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
