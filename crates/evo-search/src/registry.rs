//! Strategies by name.

use evo_space::diagnostic::nearest;
use evo_space::space::SearchSpace;
use thiserror::Error;

use super::evolve::Evolve;
pub use super::evolve::FULL;
use super::strategy::{Origin, Strategy};
use super::unguided::Unguided;

/// Spaces with fewer valid points are swept whole by default, where the budget covers them.
pub const SWEPT_WHOLE_BELOW: u128 = 2_000;

type Make = for<'a> fn(&'a SearchSpace, u64) -> Box<dyn Strategy + 'a>;

const STRATEGIES: &[(&str, Make)] = &[
    (FULL, |space, seed| Box::new(Evolve::new(space, seed))),
    (Origin::EXHAUSTIVE.0, |space, seed| Box::new(Unguided::new(Origin::EXHAUSTIVE, space, seed))),
    (Origin::RANDOM.0, |space, seed| Box::new(Unguided::new(Origin::RANDOM, space, seed))),
];

pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    STRATEGIES.iter().map(|(name, _)| *name)
}

#[derive(Debug, Error)]
#[error("unknown strategy `{name}`")]
pub struct UnknownStrategy {
    name: String,
    hint: String,
}

impl UnknownStrategy {
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

/// Whether there is a strategy of that name, for callers that make it later.
pub fn check(name: &str) -> Result<(), UnknownStrategy> {
    find(name).map(drop)
}

pub fn create<'a>(
    name: &str,
    space: &'a SearchSpace,
    seed: u64,
) -> Result<Box<dyn Strategy + 'a>, UnknownStrategy> {
    Ok(find(name)?(space, seed))
}

fn find(name: &str) -> Result<Make, UnknownStrategy> {
    let known = STRATEGIES.iter().find(|(own, _)| *own == name);
    known.map(|(_, make)| *make).ok_or_else(|| {
        let list = names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let hint = match nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`? there are {list}"),
            None => format!("there are {list}"),
        };
        UnknownStrategy { name: name.to_string(), hint }
    })
}
