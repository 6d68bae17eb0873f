//! Candidates where a space is too large to list: the children of a population.

use std::collections::{HashMap, HashSet};

use evo_space::Neighborhood;
use evo_space::genome::Genome;
use evo_space::space::SearchSpace;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::bandit::Bandit;
use crate::memory::Member;
use crate::population::Population;
use crate::unseen::Unseen;
use crate::variation::{OPERATORS, vary};

/// Members of the population.
const CAPACITY: usize = 24;

/// Children by operators, uniform samples, and neighbors of the best, for each proposal.
const CHILDREN: usize = 160;
const SAMPLES: usize = 48;
const NEIGHBORS: usize = 96;

/// Chance of each member, best first, to be the parent.
const GREED: f64 = 0.25;

/// A candidate, and what made it.
#[derive(Clone, Debug)]
pub struct Child {
    pub genome: Genome,
    pub origin: &'static str,
    /// The operator and the objective of the parent.
    operator: Option<(usize, f64)>,
}

/// A population and the operators that vary it.
#[derive(Debug)]
pub struct Breeder {
    population: Population,
    bandit: Bandit<{ OPERATORS.len() }>,
    /// Proposed children: operator and the objective of the parent.
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
    /// The best points, best first.
    pub fn members(&self) -> &[Member] {
        self.population.members()
    }

    /// Distinct valid points that nobody took; `near` the best points only, if there are any.
    pub fn children(
        &self,
        space: &SearchSpace,
        unseen: &Unseen,
        near: bool,
        rng: &mut ChaCha8Rng,
    ) -> Vec<Child> {
        let mut known = HashSet::new();
        let mut children = Vec::new();
        let mut add = |child: Child, children: &mut Vec<Child>| {
            if !unseen.is_seen(&child.genome) && known.insert(child.genome.clone()) {
                children.push(child);
            }
        };
        if let Some(best) = self.members().first() {
            let mut all: Vec<Genome> = space.iter_neighbors(&best.genome, Neighborhood::Hamming).collect();
            all.shuffle(rng);
            for genome in all.into_iter().take(NEIGHBORS) {
                add(Child { genome, origin: "neighbor", operator: None }, &mut children);
            }
        }
        if near && !children.is_empty() {
            return children;
        }
        for _ in 0..CHILDREN {
            let operator = self.bandit.choose(rng);
            let Some(parent) = self.population.pick(GREED, rng) else { break };
            let Some(varied) = vary(space, &self.population, &parent.genome, operator, rng) else { continue };
            let Some(genome) = space.repair(&varied, rng) else { continue };
            let (origin, operator) = (OPERATORS[operator], Some((operator, parent.objective)));
            add(Child { genome, origin, operator }, &mut children);
        }
        for _ in 0..SAMPLES {
            let Some(genome) = space.sample(rng) else { break };
            add(Child { genome, origin: "sample", operator: None }, &mut children);
        }
        children
    }

    /// Notes that a child was proposed.
    pub fn choose(&mut self, child: &Child) {
        if let Some(own) = child.operator {
            self.chosen.insert(child.genome.clone(), own);
        }
    }

    /// Learns an objective; whether it is the best so far.
    pub fn tell(&mut self, genome: &Genome, objective: f64) -> bool {
        if let Some((operator, bar)) = self.chosen.remove(genome) {
            self.bandit.reward(operator, objective < bar);
        }
        let is_best = self.members().first().is_none_or(|best| objective < best.objective);
        self.arrivals += 1;
        self.population.insert(Member { objective, arrival: self.arrivals, genome: genome.clone() });
        is_best
    }

    /// Learns a failure.
    pub fn fail(&mut self, genome: &Genome) {
        if let Some((operator, _)) = self.chosen.remove(genome) {
            self.bandit.reward(operator, false);
        }
    }
}
