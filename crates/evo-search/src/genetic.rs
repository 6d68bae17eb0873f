//! A steady-state genetic algorithm: any number of proposals in flight, no barrier between
//! generations, nothing proposed twice.
//!
//! The population is the best evaluations so far. Parents are drawn by rank. Six operators vary them, from a
//! step of one gene to a difference between two members, and a bandit prefers the operators whose children
//! beat their parents. Children are repaired into the space. A known child joins the population from memory,
//! without an evaluation. Points like those that failed are proposed less often but never excluded. After a
//! long time without a new best, a new population starts from points far from all others; the old points stay
//! in memory and are not measured again.

use std::collections::HashMap;

use evo_space::genome::Genome;
use evo_space::space::SearchSpace;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::memory::{Member, OPENING, SearchMemory};
use super::population::Population;
use super::strategy::{Outcome, Proposal, Strategy};
use super::variation::VARIATIONS;
use crate::strategy::Origin;
use crate::variation::Bandit;

/// Attempts at a child before a point far from all known ones is proposed: near the end of a small space,
/// or of a basin, most children are known already. This and the constants below were set by 2026-11-21;
/// docs/SEARCH.md has the strategy's scores.
const ATTEMPTS: u32 = 40;

/// Chance of each member, best first, to be the parent.
const GREED: f64 = 0.4;

/// Share of later proposals that come from anywhere in the space, so that the search does not get stuck.
const IMMIGRATION: f64 = 0.03;

/// Outcomes without a new best before a restart; the number of possible changes to one gene is added.
const PATIENCE: usize = 60;

/// Fewest members, however small the generations are.
const CAPACITY: usize = 16;

#[derive(Debug)]
pub(crate) struct Genetic<'a> {
    memory: SearchMemory<'a>,
    population: Population,
    bandit: Bandit<{ VARIATIONS.len() }>,
    /// Children in flight, each with its operator and the objective of its parent.
    children: HashMap<Genome, (usize, f64)>,
    /// Points from anywhere that the present population still waits for.
    settlers: usize,
    /// Outcomes since the last new best of this population.
    stale: usize,
    patience: usize,
}

impl<'a> Genetic<'a> {
    pub(crate) fn new(space: &'a SearchSpace, seed: u64, population: usize) -> Genetic<'a> {
        let changes: usize = space.parameters().iter().map(|parameter| parameter.values.len() - 1).sum();
        Genetic {
            memory: SearchMemory::new(space, seed),
            population: Population::new(population.max(CAPACITY)),
            bandit: Bandit::default(),
            children: HashMap::new(),
            settlers: 0,
            stale: 0,
            patience: PATIENCE + changes,
        }
    }

    fn propose(&mut self) -> Option<Proposal> {
        let (mut rng, opening) = self.memory.turn();
        if opening.is_some() {
            return opening;
        }
        let settles = self.settlers > 0 || self.population.members().len() < 2;
        self.settlers = self.settlers.saturating_sub(1);
        if !settles && !rng.random_bool(IMMIGRATION) {
            let child = (0..ATTEMPTS).find_map(|_| self.child(&mut rng));
            if child.is_some() {
                return child;
            }
        }
        let genome = self.memory.fresh(&mut rng)?;
        Some(Proposal::new(genome, Origin::Random))
    }

    /// A new child; `None` if this attempt gave a known point or one that is likely to fail.
    fn child(&mut self, rng: &mut ChaCha8Rng) -> Option<Proposal> {
        let operator = self.bandit.choose(rng);
        let parent = self.population.pick(GREED, rng)?;
        let bar = parent.objective;
        let varied =
            VARIATIONS[operator].child(self.memory.space(), &self.population, &parent.genome, rng)?;
        let genome = self.memory.space().repair(&varied, rng)?;
        if self.memory.take(&genome, rng) {
            self.children.insert(genome.clone(), (operator, bar));
            return Some(Proposal::new(genome, VARIATIONS[operator].origin()));
        }
        // A known child joins the population for free, which matters after a restart: good points of the old
        // population return once the new one comes near them.
        if let Some(known) = self.memory.recall(&genome) {
            self.population.insert(known);
        }
        None
    }

    /// Adds an outcome to the population, and starts a new population after a long time without a new best.
    fn settle(&mut self, member: Option<Member>) {
        self.stale += 1;
        if let Some(member) = member {
            let best = self.population.members().first();
            if best.is_none_or(|best| member.objective < best.objective) {
                self.stale = 0;
            }
            self.population.insert(member);
        }
        if self.stale > self.patience {
            self.stale = 0;
            self.population.clear();
            // A new population opens as the search did, with points far from all others.
            self.settlers = OPENING;
        }
    }
}

impl Strategy for Genetic<'_> {
    fn name(&self) -> &'static str {
        "genetic"
    }

    fn ask(&mut self, n: usize) -> Vec<Proposal> {
        (0..n).map_while(|_| self.propose()).collect()
    }

    fn tell(&mut self, outcome: &Outcome) {
        let child = self.children.remove(&outcome.genome);
        let member = self.memory.learn(outcome);
        if let Some((operator, bar)) = child {
            let better = member.as_ref().is_some_and(|member| member.objective < bar);
            self.bandit.reward(operator, better);
        }
        self.settle(member);
    }

    fn is_done(&self) -> bool {
        self.memory.is_exhausted()
    }
}

#[cfg(test)]
mod tests {
    use evo_protocol::verdict::VerdictClass;

    use super::*;
    use crate::conformance::{bowl, space_of};

    const WIDE: &str = "[parameters]\nA = [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]\n\
                        B = [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]\n\
                        C = [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]\n";

    fn best_after(mut strategy: impl Strategy, space: &SearchSpace, budget: usize) -> f64 {
        let mut best = f64::INFINITY;
        for _ in 0..budget {
            let Some(proposal) = strategy.ask(1).pop() else { break };
            let outcome = bowl(space, &proposal.genome);
            best = best.min(outcome.objective_ns.unwrap_or(f64::INFINITY));
            strategy.tell(&outcome);
        }
        best
    }

    #[test]
    fn it_beats_random_search_on_a_bowl() {
        let space = space_of(WIDE);
        let sum = |make: &dyn Fn(u64) -> f64| (1..=11).map(make).sum::<f64>();
        let genetic = sum(&|seed| best_after(Genetic::new(&space, seed, 12), &space, 150));
        let random = sum(&|seed| best_after(crate::unguided::Unguided::random(&space, seed), &space, 150));
        assert!(genetic < random, "genetic {genetic} is not below random {random}");
    }

    #[test]
    fn a_region_that_fails_is_proposed_less() {
        let space = space_of(WIDE);
        let mut strategy = Genetic::new(&space, 1, 12);
        let mut failures = [0u32; 2];
        for round in 0..300 {
            let proposal = strategy.ask(1).pop().unwrap();
            let failed = proposal.genome.positions()[0] % 2 == 1;
            failures[usize::from(round >= 100)] += u32::from(failed);
            let mut outcome = bowl(&space, &proposal.genome);
            if failed {
                outcome.class = VerdictClass::Crash;
                outcome.objective_ns = None;
            }
            strategy.tell(&outcome);
        }
        // Half of the space fails; the later two thirds of the run must avoid most of it.
        assert!(failures[1] < 70, "{failures:?}");
    }
}
