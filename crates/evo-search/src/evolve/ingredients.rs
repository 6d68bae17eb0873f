//! What `evolve` is made of, each part of which can be left out to see what it is worth.

/// The parts of a search with models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ingredients {
    /// Extremely randomized trees among the models.
    pub trees: bool,
    /// A Gaussian process among the models.
    pub process: bool,
    /// Products and quotients of parameters as features.
    pub pairs: bool,
    /// Sub-expressions of the constraints as features.
    pub expressions: bool,
    /// Targets squeezed twice by logarithms, not once.
    pub squeeze: bool,
    /// A part of the proposals by one model alone.
    pub solo: bool,
    /// A part of the proposals from next to the best points.
    pub neighbors: bool,
    /// A small part of the proposals at random.
    pub chance: bool,
    /// A model of what fails.
    pub validity: bool,
}

/// A switch by its name.
type Switch = (&'static str, fn(&mut Ingredients) -> &mut bool);

const SWITCHES: &[Switch] = &[
    ("trees", |all| &mut all.trees),
    ("process", |all| &mut all.process),
    ("pairs", |all| &mut all.pairs),
    ("expressions", |all| &mut all.expressions),
    ("squeeze", |all| &mut all.squeeze),
    ("solo", |all| &mut all.solo),
    ("neighbors", |all| &mut all.neighbors),
    ("chance", |all| &mut all.chance),
    ("validity", |all| &mut all.validity),
];

impl Ingredients {
    /// All of them.
    pub const ALL: Ingredients = Ingredients {
        trees: true,
        process: true,
        pairs: true,
        expressions: true,
        squeeze: true,
        solo: true,
        neighbors: true,
        chance: true,
        validity: true,
    };

    /// Trees alone, with every feature, and the point of the largest expected improvement each time.
    pub const TREES: Ingredients =
        Ingredients { process: false, solo: false, neighbors: false, chance: false, ..Ingredients::ALL };

    /// A process alone, in the same way.
    pub const PROCESS: Ingredients =
        Ingredients { trees: false, solo: false, neighbors: false, chance: false, ..Ingredients::ALL };

    /// Without the named ones; the first name that is none of an ingredient is returned.
    pub fn without<'n>(mut self, names: impl Iterator<Item = &'n str>) -> Result<Ingredients, &'n str> {
        for name in names {
            let switch = SWITCHES.iter().find(|(own, _)| *own == name).ok_or(name)?;
            *switch.1(&mut self) = false;
        }
        Ok(self)
    }

    /// The names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SWITCHES.iter().map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_switch_off_what_they_name() {
        for name in Ingredients::names() {
            assert_ne!(Ingredients::ALL.without([name].into_iter()), Ok(Ingredients::ALL), "{name}");
        }
        let both = Ingredients::ALL.without(["solo", "process"].into_iter()).unwrap();
        assert_eq!(both, Ingredients { solo: false, process: false, ..Ingredients::ALL });
        assert_eq!(Ingredients::ALL.without(["solo", "salt"].into_iter()), Err("salt"));
    }
}
