//! Children of a population by one of six operators, from a step of one gene to a difference between two
//! members.

use evo_space::genome::Genome;
use evo_space::space::SearchSpace;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::operators::{crossover, drift, pool, random_gene, step};
use super::origin::Origin;
use super::population::Population;

/// How a child is made of its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variation {
    Step,
    Mutation,
    Double,
    Crossover,
    Pool,
    Drift,
}

/// All operators. A bandit knows each by its position, so their order decides what a seed draws.
pub(crate) const VARIATIONS: [Variation; 6] = [
    Variation::Step,
    Variation::Mutation,
    Variation::Double,
    Variation::Crossover,
    Variation::Pool,
    Variation::Drift,
];

/// Chance of each member, best first, to be the other parent.
const GREED: f64 = 0.4;

impl Variation {
    /// The name of its children's origin.
    pub(crate) fn origin(self) -> Origin {
        match self {
            Variation::Step => Origin::Step,
            Variation::Mutation => Origin::Mutation,
            Variation::Double => Origin::Double,
            Variation::Crossover => Origin::Crossover,
            Variation::Pool => Origin::Pool,
            Variation::Drift => Origin::Drift,
        }
    }

    /// A child of `parent`, valid or not; `None` if the population is too small for the operator.
    pub(crate) fn child(
        self,
        space: &SearchSpace,
        population: &Population,
        parent: &Genome,
        rng: &mut ChaCha8Rng,
    ) -> Option<Genome> {
        Some(match self {
            Variation::Step => step(space, parent, rng),
            Variation::Mutation => random_gene(space, parent, rng),
            Variation::Double => {
                let first = random_gene(space, parent, rng);
                if rng.random_bool(0.5) { random_gene(space, &first, rng) } else { step(space, &first, rng) }
            }
            Variation::Crossover => crossover(parent, &population.pick(GREED, rng)?.genome, rng),
            Variation::Pool => {
                let genomes: Vec<&Genome> =
                    population.members().iter().map(|member| &member.genome).collect();
                pool(parent, &genomes, rng)
            }
            Variation::Drift => {
                let (first, second) = (population.any(rng)?, population.any(rng)?);
                let better_first = first.objective <= second.objective;
                let (better, worse) = if better_first { (first, second) } else { (second, first) };
                drift(space, parent, &better.genome, &worse.genome, rng)
            }
        })
    }
}
