//! Candidates in a space that is too large to list: neighbors, children of a population, and samples.

use std::collections::{HashMap, HashSet};

use evo_space::Neighborhood;
use evo_space::genome::Genome;
use evo_space::space::SearchSpace;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::evolve::variation::{Bandit, Member, Population, VARIATIONS};
use crate::memory::Unseen;
use crate::strategy::Origin;

const CAPACITY: usize = 24;

/// Made anew for each proposal: about 300 in all. Set on 2026-11-21 with `evolve`.
const CHILDREN: usize = 160;
const SAMPLES: usize = 48;
const NEIGHBORS: usize = 96;

/// Lower than that of crossover, because the models select among the children anyway.
const GREED: f64 = 0.25;

#[derive(Clone, Debug)]
pub(crate) struct Offspring {
    pub(crate) genome: Genome,
    pub(crate) origin: Origin,
    /// For children: the number of the operator and the objective of the parent.
    operator: Option<(usize, f64)>,
}

#[derive(Debug)]
pub(crate) struct Breeder {
    population: Population,
    bandit: Bandit<{ VARIATIONS.len() }>,
    /// Proposed children without an outcome: the operator and the objective of the parent.
    chosen: HashMap<Genome, (usize, f64)>,
    arrivals: u64,
}

impl Default for Breeder {
    fn default() -> Breeder {
        Breeder {
            population: Population::new(CAPACITY),
            bandit: Bandit::default(),
            chosen: HashMap::new(),
            arrivals: 0,
        }
    }
}

impl Breeder {
    pub(crate) fn members(&self) -> &[Member] {
        self.population.members()
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
            let Some(parent) = self.population.pick(GREED, rng) else { break };
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
