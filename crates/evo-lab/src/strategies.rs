//! Strategies by name, as every command of the laboratory finds them: those of the product, their ablations, and a rival
//! that the product does not offer.

use evo_search::registry::{self, UnknownStrategy};
use evo_search::strategy::Strategy;
use evo_space::space::SearchSpace;

use crate::genetic::Genetic;

/// The best of the classical searches that stood beside `evolve` in `evidence/search/`.
const RIVAL: &str = "genetic";

pub(crate) fn names() -> impl Iterator<Item = &'static str> + Clone {
    registry::names().chain([RIVAL])
}

pub(crate) fn check(name: &str) -> Result<(), UnknownStrategy> {
    match registry::check_any(name) {
        // An ablation without an ingredient that there is has its own list.
        Err(error) if name.starts_with(registry::FULL) => Err(error),
        Err(_) if name != RIVAL => Err(UnknownStrategy::among(name, names())),
        _ => Ok(()),
    }
}

/// Makes the strategy of that name for a space.
pub(crate) fn create<'a>(
    name: &str,
    space: &'a SearchSpace,
    seed: u64,
) -> Result<Box<dyn Strategy + 'a>, UnknownStrategy> {
    check(name)?;
    if name == RIVAL {
        Ok(Box::new(Genetic::new(space, seed)))
    } else {
        registry::create_any(name, space, seed)
    }
}
