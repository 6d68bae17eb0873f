//! Strategies by name, as every command of the laboratory finds them.

use evo_search::registry::{self, StrategyOptions, UnknownStrategy};
use evo_search::strategy::Strategy;
use evo_space::space::SearchSpace;

pub(crate) fn check(name: &str) -> Result<(), UnknownStrategy> {
    registry::check_any(name)
}

/// Makes the strategy of that name for a space.
pub(crate) fn create<'a>(
    name: &str,
    space: &'a SearchSpace,
    options: StrategyOptions,
) -> Result<Box<dyn Strategy + 'a>, UnknownStrategy> {
    registry::create_any(name, space, options)
}
