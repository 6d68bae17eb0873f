//! Candidates in a space that is too large to list: neighbors, samples, and children of the best points so far by one of
//! six operators, from a step of one gene to a difference between two members.
//!
//! Each operator is chosen in proportion to its recent rate of success. This is probability
//! matching with forgetting and a minimum rate. The best operator changes during a search (crossover early, single
//! steps late), so no operator is ever ruled out.

use std::collections::{HashMap, HashSet};

use evo_space::Neighborhood;
use evo_space::genome::Genome;
use evo_space::space::SearchSpace;
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::memory::Unseen;
use crate::strategy::Origin;

/// Members of a population.
const CAPACITY: usize = 24;

/// Made anew for each proposal: about 300 in all. Set on 2026-11-21 with `evolve`.
const CHILDREN: usize = 160;
const SAMPLES: usize = 48;
const NEIGHBORS: usize = 96;

/// Of parents: lower than that of crossover, because the models select among the children anyway.
const GREED_OF_PARENTS: f64 = 0.25;

#[derive(Clone, Debug)]
pub(crate) struct Offspring {
    pub(crate) genome: Genome,
    pub(crate) origin: Origin,
    /// For children: the number of the operator and the objective of the parent.
    operator: Option<(usize, f64)>,
}

#[derive(Debug, Default)]
pub(crate) struct Breeder {
    population: Population,
    bandit: Bandit<{ VARIATIONS.len() }>,
    /// Proposed children without an outcome: the operator and the objective of the parent.
    chosen: HashMap<Genome, (usize, f64)>,
    arrivals: u64,
}

impl Breeder {
    pub(crate) fn members(&self) -> &[Member] {
        &self.population.0
    }

    /// Points that were never proposed or told. With `near`, only neighbors of the best point, if one is left.
    pub(crate) fn children(
        &self,
        space: &SearchSpace,
        unseen: &Unseen,
        near: bool,
        rng: &mut ChaCha8Rng,
    ) -> Vec<Offspring> {
        let mut known = HashSet::new();
        let mut children = Vec::new();
        // A point that is made in several ways keeps the first operator.
        let mut add = |child: Offspring, children: &mut Vec<Offspring>| {
            if !unseen.is_seen(&child.genome) && known.insert(child.genome.clone()) {
                children.push(child);
            }
        };
        if let Some(best) = self.members().first() {
            let mut all: Vec<Genome> = space.iter_neighbors(&best.genome, Neighborhood::Hamming).collect();
            all.shuffle(rng);
            for genome in all.into_iter().take(NEIGHBORS) {
                add(Offspring { genome, origin: Origin::NEIGHBOR, operator: None }, &mut children);
            }
        }
        if near && !children.is_empty() {
            return children;
        }
        for _ in 0..CHILDREN {
            let operator = self.bandit.choose(rng);
            let Some(parent) = self.population.pick(GREED_OF_PARENTS, rng) else { break };
            let (origin, vary) = VARIATIONS[operator];
            let Some(varied) = vary(space, &self.population, &parent.genome, rng) else { continue };
            let Some(genome) = space.repair(&varied, rng) else { continue };
            let operator = Some((operator, parent.objective));
            add(Offspring { genome, origin, operator }, &mut children);
        }
        // Samples keep the models from looking only where the population is.
        for _ in 0..SAMPLES {
            let Some(genome) = space.sample(rng) else { break };
            add(Offspring { genome, origin: Origin::SAMPLE, operator: None }, &mut children);
        }
        children
    }

    pub(crate) fn choose(&mut self, child: &Offspring) {
        if let Some(own) = child.operator {
            self.chosen.insert(child.genome.clone(), own);
        }
    }

    pub(crate) fn tell(&mut self, genome: &Genome, objective: f64) -> bool {
        if let Some((operator, bar)) = self.chosen.remove(genome) {
            // Success means being better than the parent. A new best is too rare to learn from.
            self.bandit.reward(operator, objective < bar);
        }
        let is_best = self.members().first().is_none_or(|best| objective < best.objective);
        self.arrivals += 1;
        self.population.insert(Member { objective, arrival: self.arrivals, genome: genome.clone() });
        is_best
    }

    pub(crate) fn fail(&mut self, genome: &Genome) {
        if let Some((operator, _)) = self.chosen.remove(genome) {
            self.bandit.reward(operator, false);
        }
    }
}

/// A child of `parent`, valid or not; `None` if the population is too small for the operator.
type Vary = fn(&SearchSpace, &Population, parent: &Genome, &mut ChaCha8Rng) -> Option<Genome>;

/// All operators. A bandit knows each by its position, so their order decides what a seed draws.
const VARIATIONS: [(Origin, Vary); 6] = [
    (Origin::STEP, |space, _, parent, rng| Some(step(space, parent, rng))),
    (Origin::MUTATION, |space, _, parent, rng| Some(random_gene(space, parent, rng))),
    (Origin::DOUBLE, |space, _, parent, rng| {
        let first = random_gene(space, parent, rng);
        Some(if rng.random_bool(0.5) { random_gene(space, &first, rng) } else { step(space, &first, rng) })
    }),
    (Origin::CROSSOVER, |_, population, parent, rng| {
        Some(crossover(parent, &population.pick(GREED, rng)?.genome, rng))
    }),
    (Origin::POOL, |_, population, parent, rng| Some(pool(parent, &population.0, rng))),
    (Origin::DRIFT, |space, population, parent, rng| {
        let (first, second) = (population.any(rng)?, population.any(rng)?);
        let better_first = first.objective <= second.objective;
        let (better, worse) = if better_first { (first, second) } else { (second, first) };
        Some(drift(space, parent, &better.genome, &worse.genome, rng))
    }),
];

const GREED: f64 = 0.4;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub(super) objective: f64,
    /// How many points had worked before it; the earlier of two equal objectives ranks first.
    pub(super) arrival: u64,
    pub(super) genome: Genome,
}

/// Members in order of objective; among equals, earlier ones come first.
#[derive(Debug, Default)]
struct Population(Vec<Member>);

impl Population {
    /// Adds a point unless it is a member already. The worst member leaves if there are too many.
    fn insert(&mut self, member: Member) {
        let before =
            |own: &Member| own.objective.total_cmp(&member.objective).then(own.arrival.cmp(&member.arrival));
        // Arrival breaks ties: a point that comes back from memory takes the place that it had.
        let at = self.0.partition_point(|own| before(own).is_lt());
        if at < CAPACITY && self.0.iter().all(|own| own.genome != member.genome) {
            self.0.insert(at, member);
            self.0.truncate(CAPACITY);
        }
    }

    /// Draws a member by rank: each, best first, is taken with chance `greed`, and a uniform one if none was.
    fn pick(&self, greed: f64, rng: &mut ChaCha8Rng) -> Option<&Member> {
        self.0.iter().find(|_| rng.random_bool(greed)).or_else(|| self.any(rng))
    }

    fn any(&self, rng: &mut ChaCha8Rng) -> Option<&Member> {
        (!self.0.is_empty()).then(|| &self.0[rng.random_range(0..self.0.len())])
    }
}

fn crossover(first: &Genome, second: &Genome, rng: &mut ChaCha8Rng) -> Genome {
    let pick = |(a, b): (&u16, &u16)| if rng.random_bool(0.5) { *a } else { *b };
    Genome(first.positions().iter().zip(second.positions()).map(pick).collect())
}

/// Moves one gene to the value just below or above it.
fn step(space: &SearchSpace, genome: &Genome, rng: &mut ChaCha8Rng) -> Genome {
    with_a_gene(space, genome, rng, |here, values, rng| {
        let up = if here == 0 { true } else { here < values - 1 && rng.random_bool(0.5) };
        if up { here + 1 } else { here - 1 }
    })
}

fn random_gene(space: &SearchSpace, genome: &Genome, rng: &mut ChaCha8Rng) -> Genome {
    with_a_gene(space, genome, rng, |here, values, rng| {
        // One of the other values: the present one is skipped by shifting, which takes one draw.
        let drawn = rng.random_range(0..values - 1);
        if drawn >= here { drawn + 1 } else { drawn }
    })
}

/// The genome with a gene changed that has several values, if there is one. `change` is told where the gene is and how
/// many values it has.
fn with_a_gene(
    space: &SearchSpace,
    genome: &Genome,
    rng: &mut ChaCha8Rng,
    change: impl FnOnce(u16, u16, &mut ChaCha8Rng) -> u16,
) -> Genome {
    let values = |gene: &usize| space.parameters()[*gene].values.len() as u16;
    let movable: Vec<usize> = (0..space.parameters().len()).filter(|gene| values(gene) > 1).collect();
    let mut genome = genome.clone();
    if !movable.is_empty() {
        let gene = movable[rng.random_range(0..movable.len())];
        genome.0[gene] = change(genome.0[gene], values(&gene), rng);
    }
    genome
}

/// Replaces about two genes by those of other members, each of a member drawn by rank, so that values that
/// are frequent among good points spread.
fn pool(genome: &Genome, members: &[Member], rng: &mut ChaCha8Rng) -> Genome {
    let mut positions = genome.positions().to_vec();
    let rate = (2.0 / positions.len().max(1) as f64).min(1.0);
    for (gene, position) in positions.iter_mut().enumerate() {
        if rng.random_bool(rate) {
            let donor = rank_pick(members.len(), rng);
            *position = donor.map_or(*position, |donor| members[donor].genome.positions()[gene]);
        }
    }
    Genome::from(positions)
}

/// Moves along the difference from a worse point to a better one, each gene with a chance of one half, so
/// that genes that must change together can do so.
fn drift(
    space: &SearchSpace,
    genome: &Genome,
    better: &Genome,
    worse: &Genome,
    rng: &mut ChaCha8Rng,
) -> Genome {
    let moved = |(gene, own): (usize, &u16)| {
        let way = i32::from(better.positions()[gene]) - i32::from(worse.positions()[gene]);
        let last = space.parameters()[gene].values.len() as i32 - 1;
        if rng.random_bool(0.5) { (i32::from(*own) + way).clamp(0, last) as u16 } else { *own }
    };
    Genome(genome.positions().iter().enumerate().map(moved).collect())
}

/// Draws a position in a list that is sorted best first, with weights that fall linearly from `len` to 1.
fn rank_pick(len: usize, rng: &mut ChaCha8Rng) -> Option<usize> {
    let total = len * (len + 1) / 2;
    let mut left = (total > 0).then(|| rng.random_range(0..total))?;
    (0..len).find(|position| {
        let is_hit = left < len - position;
        left = left.saturating_sub(len - position);
        is_hit
    })
}

/// The weight that an older trial keeps each time its operator is tried again: about ten trials count.
const KEEP: f64 = 0.9;

/// Successes and trials that every operator starts with, so that one early success does not decide.
const PRIOR: (f64, f64) = (1.0, 4.0);

/// Added to each rate of success.
const FLOOR: f64 = 0.02;

#[derive(Debug)]
struct Bandit<const OPERATORS: usize> {
    /// Weighted successes and trials of each operator.
    counts: [(f64, f64); OPERATORS],
}

impl<const OPERATORS: usize> Default for Bandit<OPERATORS> {
    fn default() -> Bandit<OPERATORS> {
        Bandit { counts: [PRIOR; OPERATORS] }
    }
}

impl<const OPERATORS: usize> Bandit<OPERATORS> {
    fn choose(&self, rng: &mut ChaCha8Rng) -> usize {
        let weights = self.counts.map(|(successes, trials)| successes / trials + FLOOR);
        let mut ticket = rng.random::<f64>() * weights.iter().sum::<f64>();
        let hit = weights.iter().position(|weight| {
            ticket -= weight;
            ticket < 0.0
        });
        // Rounding may leave the ticket beyond the last weight.
        hit.unwrap_or(OPERATORS - 1)
    }

    fn reward(&mut self, operator: usize, success: bool) {
        let (successes, trials) = &mut self.counts[operator];
        *successes = *successes * KEEP + f64::from(u8::from(success));
        *trials = *trials * KEEP + 1.0;
    }
}

#[cfg(test)]
mod tests {
    use evo_space::sample::seeded;

    use super::*;
    use crate::conformance::space_of;

    #[test]
    fn step_and_random_gene_change_exactly_one_gene() {
        let space = space_of("[parameters]\nA = [1, 2, 4, 8]\nB = [1]\nC = [1, 2, 3]\n");
        let mut rng = seeded(1);
        let start = space.default_genome();
        for _ in 0..200 {
            for changed in [step(&space, &start, &mut rng), random_gene(&space, &start, &mut rng)] {
                let pairs = start.positions().iter().zip(changed.positions());
                assert_eq!(pairs.filter(|(a, b)| a != b).count(), 1);
                for (position, parameter) in changed.positions().iter().zip(space.parameters()) {
                    assert!(usize::from(*position) < parameter.values.len());
                }
            }
        }
    }

    #[test]
    fn rank_selection_prefers_the_front() {
        let mut rng = seeded(3);
        let mut hits = [0u32; 4];
        for _ in 0..4000 {
            hits[rank_pick(4, &mut rng).unwrap()] += 1;
        }
        assert!(hits[0] > hits[1] && hits[1] > hits[2] && hits[2] > hits[3], "{hits:?}");
        assert_eq!(rank_pick(0, &mut rng), None);
    }

    #[test]
    fn crossover_takes_only_genes_of_the_parents() {
        let (first, second) = (Genome::from(vec![0, 1, 2]), Genome::from(vec![3, 1, 5]));
        let mut rng = seeded(5);
        for _ in 0..50 {
            let child = crossover(&first, &second, &mut rng);
            for (gene, position) in child.positions().iter().enumerate() {
                assert!([first.positions()[gene], second.positions()[gene]].contains(position));
            }
        }
    }

    #[test]
    fn what_pays_is_chosen_more_often_until_it_stops_paying() {
        let (mut bandit, mut rng) = (Bandit::<3>::default(), seeded(1));
        let share = |bandit: &mut Bandit<3>, rng: &mut ChaCha8Rng, good: usize| {
            let mut chosen = 0;
            for _ in 0..600 {
                let operator = bandit.choose(rng);
                bandit.reward(operator, operator == good && rng.random_bool(0.5));
                chosen += u32::from(operator == good);
            }
            chosen
        };
        assert!(share(&mut bandit, &mut rng, 1) > 400);
        assert!(share(&mut bandit, &mut rng, 2) > 400);
    }

    fn member(objective: f64, arrival: u64, gene: u16) -> Member {
        Member { objective, arrival, genome: Genome::from(vec![gene]) }
    }

    #[test]
    fn the_best_stay_in_order_and_nobody_twice() {
        let mut population = Population::default();
        // All but three places are taken by equals.
        let objectives = [5.0, 3.0, 9.0, 3.0, 4.0, 8.0].into_iter().chain([2.0; CAPACITY - 3]);
        for (arrival, objective) in objectives.enumerate() {
            population.insert(member(objective, arrival as u64, arrival as u16));
        }
        population.insert(member(1.0, 99, 3));
        let order: Vec<u16> = population.0.iter().map(|own| own.genome.positions()[0]).collect();
        assert!(order[..CAPACITY - 3].iter().copied().eq(6..CAPACITY as u16 + 3), "{order:?}");
        assert_eq!(order[CAPACITY - 3..], [1, 3, 4]);
    }

    #[test]
    fn the_front_is_picked_more_often_and_everyone_sometimes() {
        let mut population = Population::default();
        assert_eq!(population.pick(0.3, &mut seeded(1)), None);
        (0..5).for_each(|at| population.insert(member(f64::from(at), 0, at)));
        let mut hits = [0; 5];
        let mut rng = seeded(1);
        for _ in 0..4000 {
            hits[usize::from(population.pick(0.4, &mut rng).unwrap().genome.positions()[0])] += 1;
        }
        assert!(hits.is_sorted_by(|a, b| a > b) && hits[4] > 100, "{hits:?}");
    }
}
