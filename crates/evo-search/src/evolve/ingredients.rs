//! The parts of `evolve`. Each can be left out to measure what it is worth (an ablation).

/// The parts of a search with models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ingredients {
    /// Extremely randomized trees among the models.
    pub(crate) trees: bool,
    /// A Gaussian process among the models.
    pub(crate) process: bool,
    /// Products and quotients of parameters as features.
    pub(crate) pairs: bool,
    /// Sub-expressions of the constraints as features.
    pub(crate) expressions: bool,
    /// Targets that are logarithms of logarithms; without it they are logarithms.
    pub(crate) squeeze: bool,
    /// A share of the proposals chosen by one model alone.
    pub(crate) solo: bool,
    /// A share of the proposals among the neighbors of the best points.
    pub(crate) neighbors: bool,
    /// A small share of random proposals.
    pub(crate) chance: bool,
    /// A model of which points fail.
    pub(crate) validity: bool,
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
    pub(crate) const ALL: Ingredients = Ingredients {
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

    /// Trees as the only model, with every feature; the point of the largest expected improvement each time.
    pub(crate) const TREES: Ingredients =
        Ingredients { process: false, solo: false, neighbors: false, chance: false, ..Ingredients::ALL };

    /// The Gaussian process as the only model, in the same way.
    pub(crate) const PROCESS: Ingredients =
        Ingredients { trees: false, solo: false, neighbors: false, chance: false, ..Ingredients::ALL };

    /// Leaves out the named ingredients. The error is the first name that is not an ingredient.
    pub(crate) fn without<'n>(
        mut self,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<Ingredients, &'n str> {
        for name in names {
            let switch = SWITCHES.iter().find(|(own, _)| *own == name).ok_or(name)?;
            *switch.1(&mut self) = false;
        }
        Ok(self)
    }

    /// The names.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
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
