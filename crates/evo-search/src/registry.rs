//! Strategies by name.

use evo_space::diagnostic::nearest;
use evo_space::space::SearchSpace;
use thiserror::Error;

use super::annealing::Annealing;
use super::differential_evolution::DifferentialEvolution;
use super::evolve::{Evolve, Ingredients};
use super::exhaustive::Exhaustive;
use super::genetic::Genetic;
use super::local_search::LocalSearch;
use super::quasi_random::QuasiRandom;
use super::random::Random;
use super::strategy::Strategy;

/// Spaces with fewer valid points are swept whole by default.
pub const SWEPT_WHOLE_BELOW: u128 = 2_000;

/// What a strategy may want to know beside the space.
#[derive(Clone, Copy, Debug)]
pub struct StrategyOptions {
    pub seed: u64,
    /// Evaluations per generation.
    pub population: usize,
}

/// The strategy of all ingredients.
pub const FULL: &str = "evolve";

type Make = for<'a> fn(&'a SearchSpace, StrategyOptions) -> Box<dyn Strategy + 'a>;

/// Every strategy: its name and how to make it. Adding one is adding a line here.
const STRATEGIES: &[(&str, Make)] = &[
    (FULL, |space, options| Box::new(Evolve::new(FULL, space, Ingredients::ALL, options.seed))),
    ("exhaustive", |space, options| Box::new(Exhaustive::new(space, options.seed))),
    ("random", |space, options| Box::new(Random::new(space, options.seed))),
    ("quasi_random", |space, options| Box::new(QuasiRandom::new(space, options.seed))),
    ("local_search", |space, options| Box::new(LocalSearch::new(space, options.seed))),
    ("annealing", |space, options| Box::new(Annealing::new(space, options.seed))),
    ("differential_evolution", |space, options| Box::new(DifferentialEvolution::new(space, options.seed))),
    ("surrogate_trees", |space, options| {
        Box::new(Evolve::new("surrogate_trees", space, Ingredients::TREES, options.seed))
    }),
    ("surrogate_process", |space, options| {
        Box::new(Evolve::new("surrogate_process", space, Ingredients::PROCESS, options.seed))
    }),
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

impl UnknownStrategy {
    fn new(name: &str) -> UnknownStrategy {
        let list = names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let hint = match nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`? there are {list}"),
            None => format!("there are {list}"),
        };
        UnknownStrategy { name: name.to_string(), hint }
    }

    fn without(name: &str, ingredient: &str) -> UnknownStrategy {
        let list = Ingredients::names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let hint = format!("`{ingredient}` is no ingredient of `{FULL}`; it can go without {list}");
        UnknownStrategy { name: name.to_string(), hint }
    }
}

/// The strategy that a run uses when none is named.
pub fn default_name(valid: u128) -> &'static str {
    if valid < SWEPT_WHOLE_BELOW { "exhaustive" } else { FULL }
}

/// Whether there is a strategy of that name.
pub fn check(name: &str) -> Result<(), UnknownStrategy> {
    match lacking(name) {
        Some(ingredients) => ingredients.map(drop),
        None => find(name).map(drop),
    }
}

/// A strategy by name. `evolve-process-pairs` is `evolve` without the ingredients `process` and `pairs`, to see
/// what they are worth.
pub fn create<'a>(
    name: &str,
    space: &'a SearchSpace,
    options: StrategyOptions,
) -> Result<Box<dyn Strategy + 'a>, UnknownStrategy> {
    match lacking(name) {
        Some(ingredients) => Ok(Box::new(Evolve::new(name, space, ingredients?, options.seed))),
        None => Ok(find(name)?(space, options)),
    }
}

fn find(name: &str) -> Result<Make, UnknownStrategy> {
    let known = STRATEGIES.iter().find(|(own, _)| *own == name);
    known.map(|(_, make)| *make).ok_or_else(|| UnknownStrategy::new(name))
}

/// What is left of the full strategy, if the name is that of one that lacks something.
fn lacking(name: &str) -> Option<Result<Ingredients, UnknownStrategy>> {
    let lacks = name.strip_prefix(FULL)?.strip_prefix('-')?;
    let without = Ingredients::ALL.without(lacks.split('-'));
    Some(without.map_err(|ingredient| UnknownStrategy::without(name, ingredient)))
}
