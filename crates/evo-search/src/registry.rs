//! Strategies by name.
//!
//! [`names`] lists the strategies that a user chooses from. Ablations, the default strategy without some of its parts,
//! measure what those parts are worth: [`ablations`] lists and [`create_any`] makes them.

use evo_space::diagnostic::nearest;
use evo_space::space::SearchSpace;
use thiserror::Error;

use super::evolve::{Evolve, Ingredients};
use super::strategy::Strategy;
use super::unguided::Unguided;

/// Spaces with fewer valid points are swept whole by default, where the budget covers them.
pub const SWEPT_WHOLE_BELOW: u128 = 2_000;

/// The default strategy, with all its ingredients.
pub const FULL: &str = "evolve";

/// `evolve` with the trees as its only model, and nothing but the largest expected improvement.
const TREES_ALONE: &str = "surrogate_trees";

const PROCESS_ALONE: &str = "surrogate_process";

type Make = for<'a> fn(&'a SearchSpace, u64) -> Box<dyn Strategy + 'a>;

const STRATEGIES: &[(&str, Make)] = &[
    (FULL, |space, seed| Box::new(Evolve::new(FULL, space, Ingredients::ALL, seed))),
    ("exhaustive", |space, seed| Box::new(Unguided::exhaustive(space, seed))),
    ("random", |space, seed| Box::new(Unguided::random(space, seed))),
];

/// The names of the strategies that a user chooses from.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    STRATEGIES.iter().map(|(name, _)| *name)
}

/// [`create_any`] also takes several ingredients at once, as in `evolve-process-pairs`.
pub fn ablations() -> impl Iterator<Item = String> {
    let alone = [TREES_ALONE, PROCESS_ALONE].map(String::from);
    alone.into_iter().chain(Ingredients::names().map(|name| format!("{FULL}-{name}")))
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

    /// `name` is none of `names`.
    pub fn among<'n>(name: &str, names: impl Iterator<Item = &'n str> + Clone) -> UnknownStrategy {
        let list = names.clone().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let hint = match nearest(name, names) {
            Some(near) => format!("did you mean `{near}`? there are {list}"),
            None => format!("there are {list}"),
        };
        UnknownStrategy { name: name.to_string(), hint }
    }

    fn without(name: &str, ingredient: &str) -> UnknownStrategy {
        let list = Ingredients::names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let hint = format!("`{ingredient}` is not an ingredient of `{FULL}`; it can go without {list}");
        UnknownStrategy { name: name.to_string(), hint }
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
    known.map(|(_, make)| *make).ok_or_else(|| UnknownStrategy::among(name, names()))
}

/// `evolve-process-pairs` is `evolve` without the ingredients `process` and `pairs`.
pub fn create_any<'a>(
    name: &str,
    space: &'a SearchSpace,
    seed: u64,
) -> Result<Box<dyn Strategy + 'a>, UnknownStrategy> {
    match ablation(name)? {
        Some(ingredients) => Ok(Box::new(Evolve::new(name, space, ingredients, seed))),
        None => create(name, space, seed),
    }
}

pub fn check_any(name: &str) -> Result<(), UnknownStrategy> {
    let is_known = ablation(name)?.is_some() || names().any(|own| own == name);
    if is_known { Ok(()) } else { Err(UnknownStrategy::among(name, names())) }
}

/// The ingredients of the ablation of that name; `None` if the name does not look like an ablation's.
fn ablation(name: &str) -> Result<Option<Ingredients>, UnknownStrategy> {
    match name {
        TREES_ALONE => return Ok(Some(Ingredients::TREES)),
        PROCESS_ALONE => return Ok(Some(Ingredients::PROCESS)),
        _ => {}
    }
    let Some(lacks) = name.strip_prefix(FULL).and_then(|rest| rest.strip_prefix('-')) else {
        return Ok(None);
    };
    // No ingredient has a `-` in its name.
    let ingredients = Ingredients::ALL.without(lacks.split('-'));
    ingredients.map(Some).map_err(|ingredient| UnknownStrategy::without(name, ingredient))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::space_of;

    #[test]
    fn ablations_are_made_by_create_any_only() {
        let space = space_of("[parameters]\nA = [1, 2, 4]\n");
        for name in ablations() {
            assert_eq!(create_any(&name, &space, 1).ok().map(|made| made.name() == name), Some(true));
            assert!(check_any(&name).is_ok(), "{name}");
            let refused = create(&name, &space, 1).err().expect("not for users");
            assert_eq!(refused.to_string(), format!("unknown strategy `{name}`"));
            assert!(refused.hint().contains("there are `evolve`"), "{}", refused.hint());
        }
        for name in names() {
            assert!(create(name, &space, 1).is_ok() && create_any(name, &space, 1).is_ok());
            assert!(check_any(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn an_unknown_ingredient_is_refused_with_the_list() {
        let error = check_any("evolve-pairs-salt").unwrap_err();
        insta::assert_snapshot!(format!("{error}\nhint: {}", error.hint()), @"
        unknown strategy `evolve-pairs-salt`
        hint: `salt` is not an ingredient of `evolve`; it can go without `trees`, `process`, `pairs`, `expressions`, `squeeze`, `solo`, `neighbors`, `chance`, `validity`
        ");
        assert!(check_any("psychic").is_err());
    }
}
