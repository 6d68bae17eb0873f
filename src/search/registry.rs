//! Strategies by name.

use thiserror::Error;

use super::annealing::Annealing;
use super::differential_evolution::DifferentialEvolution;
use super::exhaustive::Exhaustive;
use super::genetic::Genetic;
use super::local_search::LocalSearch;
use super::quasi_random::QuasiRandom;
use super::random::Random;
use super::strategy::Strategy;
use crate::space::diagnostic::nearest;
use crate::space::space::SearchSpace;

/// Spaces with fewer valid points are swept whole by default.
pub const SWEPT_WHOLE_BELOW: u128 = 2_000;

/// What a strategy may want to know beside the space.
#[derive(Clone, Copy, Debug)]
pub struct StrategyOptions {
    pub seed: u64,
    /// Evaluations per generation.
    pub population: usize,
}

type Make = for<'a> fn(&'a SearchSpace, StrategyOptions) -> Box<dyn Strategy + 'a>;

/// Every strategy: its name and how to make it. Adding one is adding a line here.
const STRATEGIES: &[(&str, Make)] = &[
    ("exhaustive", |space, options| Box::new(Exhaustive::new(space, options.seed))),
    ("random", |space, options| Box::new(Random::new(space, options.seed))),
    ("quasi_random", |space, options| Box::new(QuasiRandom::new(space, options.seed))),
    ("local_search", |space, options| Box::new(LocalSearch::new(space, options.seed))),
    ("annealing", |space, options| Box::new(Annealing::new(space, options.seed))),
    ("differential_evolution", |space, options| Box::new(DifferentialEvolution::new(space, options.seed))),
    ("genetic", |space, options| Box::new(Genetic::new(space, options.seed, options.population))),
];

/// The names.
pub fn names() -> impl Iterator<Item = &'static str> {
    STRATEGIES.iter().map(|(name, _)| *name)
}

/// No strategy has this name.
#[derive(Debug, Error)]
#[error("unknown strategy `{name}`\nhint: {hint}")]
pub struct UnknownStrategy {
    name: String,
    hint: String,
}

/// The strategy that a run uses when none is named.
pub fn default_name(valid: u128) -> &'static str {
    if valid < SWEPT_WHOLE_BELOW { "exhaustive" } else { "genetic" }
}

/// A strategy by name.
pub fn create<'a>(
    name: &str,
    space: &'a SearchSpace,
    options: StrategyOptions,
) -> Result<Box<dyn Strategy + 'a>, UnknownStrategy> {
    if let Some((_, make)) = STRATEGIES.iter().find(|(own, _)| *own == name) {
        return Ok(make(space, options));
    }
    let list = names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let hint = match nearest(name, names()) {
        Some(near) => format!("did you mean `{near}`? there are {list}"),
        None => format!("there are {list}"),
    };
    Err(UnknownStrategy { name: name.to_string(), hint })
}
