//! Children of a population: one of six operators, from a step of one gene to a difference between two
//! members.

use evo_space::genome::Genome;
use evo_space::space::SearchSpace;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::operators::{crossover, drift, pool, random_gene, step};
use super::population::Population;

/// The operators by name.
pub const OPERATORS: [&str; 6] = ["step", "mutation", "double", "crossover", "pool", "drift"];

/// Chance of each member, best first, to be the other parent.
const GREED: f64 = 0.4;

/// What the operator of that number makes of `parent`, valid or not; `None` where the population is too
/// small for it.
pub fn vary(
    space: &SearchSpace,
    population: &Population,
    parent: &Genome,
    operator: usize,
    rng: &mut ChaCha8Rng,
) -> Option<Genome> {
    Some(match OPERATORS[operator] {
        "step" => step(space, parent, rng),
        "mutation" => random_gene(space, parent, rng),
        "double" => {
            let first = random_gene(space, parent, rng);
            if rng.random_bool(0.5) { random_gene(space, &first, rng) } else { step(space, &first, rng) }
        }
        "crossover" => crossover(parent, &population.pick(GREED, rng)?.genome, rng),
        "pool" => {
            let genomes: Vec<&Genome> = population.members().iter().map(|member| &member.genome).collect();
            pool(parent, &genomes, rng)
        }
        _ => {
            let (first, second) = (population.any(rng)?, population.any(rng)?);
            let better_first = first.objective <= second.objective;
            let (better, worse) = if better_first { (first, second) } else { (second, first) };
            drift(space, parent, &better.genome, &worse.genome, rng)
        }
    })
}
