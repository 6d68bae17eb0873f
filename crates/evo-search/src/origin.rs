//! Which operator of a strategy proposed a point.

use std::fmt;

use evo_protocol::evaluation::DEFAULT_ORIGIN;

/// The operator that proposed a point. Journals and reports keep it by its name, [`Origin::as_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The default configuration of the space, which every search proposes first.
    Default,
    /// The best point of an earlier study.
    Prior,
    /// A point of a cheap ranking that was made before the search.
    Micro,
    /// The next point of a low-discrepancy sequence, at the beginning of a search.
    Spread,
    /// A point far from all others, where a search starts over.
    Restart,
    /// A uniform draw from the space.
    Random,
    /// The next point of a low-discrepancy sequence, by the strategy of that name.
    QuasiRandom,
    /// The next point of the sweep over the whole space.
    Exhaustive,
    /// A neighbor of a good point.
    Neighbor,
    /// A few genes of a local optimum, changed at random.
    Kick,
    /// A step along the difference of two members, by differential evolution.
    Difference,
    /// One gene moved to the value just below or above.
    Step,
    /// One gene set to any other of its values.
    Mutation,
    /// Two changes of one gene each.
    Double,
    /// Each gene from either of two parents.
    Crossover,
    /// A few genes taken from the whole population.
    Pool,
    /// A move along the difference between a worse and a better member.
    Drift,
    /// One of many uniform draws, chosen by the models.
    Sample,
    /// The choice of all models together.
    Model,
    /// The choice of the trees alone.
    Trees,
    /// The choice of the Gaussian process alone.
    Process,
    /// An operator of a strategy from outside this crate.
    Other(&'static str),
}

impl Origin {
    /// Every origin that this crate's strategies give.
    pub const ALL: [Origin; 21] = [
        Origin::Default,
        Origin::Prior,
        Origin::Micro,
        Origin::Spread,
        Origin::Restart,
        Origin::Random,
        Origin::QuasiRandom,
        Origin::Exhaustive,
        Origin::Neighbor,
        Origin::Kick,
        Origin::Difference,
        Origin::Step,
        Origin::Mutation,
        Origin::Double,
        Origin::Crossover,
        Origin::Pool,
        Origin::Drift,
        Origin::Sample,
        Origin::Model,
        Origin::Trees,
        Origin::Process,
    ];

    /// The name in journals and reports. It never changes, because old journals are read too.
    pub const fn as_str(self) -> &'static str {
        match self {
            Origin::Default => DEFAULT_ORIGIN,
            Origin::Prior => "prior",
            Origin::Micro => "micro",
            Origin::Spread => "spread",
            Origin::Restart => "restart",
            Origin::Random => "random",
            Origin::QuasiRandom => "quasi_random",
            Origin::Exhaustive => "exhaustive",
            Origin::Neighbor => "neighbor",
            Origin::Kick => "kick",
            Origin::Difference => "difference",
            Origin::Step => "step",
            Origin::Mutation => "mutation",
            Origin::Double => "double",
            Origin::Crossover => "crossover",
            Origin::Pool => "pool",
            Origin::Drift => "drift",
            Origin::Sample => "sample",
            Origin::Model => "model",
            Origin::Trees => "trees",
            Origin::Process => "process",
            Origin::Other(name) => name,
        }
    }

    /// The origin of that name, as a journal has it; `None` for the name of an operator from elsewhere.
    pub fn from_name(name: &str) -> Option<Origin> {
        Origin::ALL.into_iter().find(|origin| origin.as_str() == name)
    }

    /// Whether its points are spread over the whole space whatever was measured before, so that they stand
    /// for the space as random draws do.
    pub fn is_uniform(self) -> bool {
        matches!(self, Origin::Random | Origin::QuasiRandom)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_origins() {
        for origin in Origin::ALL {
            assert_eq!(Origin::from_name(origin.as_str()), Some(origin));
        }
        assert_eq!(Origin::from_name("somebody"), None);
        assert_eq!(Origin::Other("somebody").to_string(), "somebody");
    }
}
