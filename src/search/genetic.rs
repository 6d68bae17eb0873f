//! A steady-state genetic algorithm: any number of proposals in flight, no barrier between
//! generations, nothing proposed twice.
//!
//! The population is the best evaluations so far. Parents are drawn by rank, children made by
//! uniform crossover, a step of one gene, or one gene at random, and repaired into the space. What
//! tended to fail is proposed less often, never excluded.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::lessons::Lessons;
use super::operators::{crossover, random_gene, rank_pick, step};
use super::strategy::{Outcome, Proposal, Strategy};
use super::unseen::Unseen;
use crate::genome::Genome;
use crate::space::rng::seeded;
use crate::space::space::SearchSpace;
use crate::verdict::VerdictClass;

/// Attempts at a child before a random point is taken instead: near the end of a small space
/// most children exist already.
const ATTEMPTS: u32 = 24;

/// Chance of proposing a child although its risk is 1.
const FORGIVENESS: f64 = 0.05;

/// Share of later proposals that are uniform random points, against getting stuck.
const IMMIGRATION: f64 = 0.05;

/// The genetic strategy.
#[derive(Debug)]
pub struct Genetic<'a> {
    unseen: Unseen<'a>,
    seed: u64,
    /// Restarted for each proposal from the seed and the number of proposals before it, so that a
    /// resumed search draws as the uninterrupted one would have.
    rng: ChaCha8Rng,
    capacity: usize,
    /// Points proposed, or told by an earlier run.
    begun: usize,
    /// Best first: objective, order of arrival, genome.
    population: Vec<(f64, u64, Genome)>,
    arrivals: u64,
    lessons: Lessons,
}

impl<'a> Genetic<'a> {
    /// A search over `space` with `population` members (at least 4).
    pub fn new(space: &'a SearchSpace, seed: u64, population: usize) -> Genetic<'a> {
        Genetic {
            unseen: Unseen::new(space, seed),
            seed,
            rng: seeded(seed),
            capacity: population.max(4),
            begun: 0,
            population: Vec::new(),
            arrivals: 0,
            lessons: Lessons::default(),
        }
    }

    fn propose(&mut self) -> Option<Proposal> {
        if let Some(default) = self.unseen.default() {
            return Some(default);
        }
        self.rng = seeded(self.seed ^ (self.begun as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let young = self.begun < self.capacity || self.population.len() < 2;
        if !young && !self.rng.random_bool(IMMIGRATION) {
            for _ in 0..ATTEMPTS {
                if let Some(proposal) = self.child() {
                    return Some(proposal);
                }
            }
        }
        let genome = self.unseen.draw(&mut self.rng)?;
        Some(Proposal { genome, origin: "random" })
    }

    /// A new child; `None` if this attempt gave a known point or one that looks like failing.
    fn child(&mut self) -> Option<Proposal> {
        let space = self.unseen.space();
        let parent = self.parent()?;
        let (genome, origin) = match self.rng.random_range(0..10u32) {
            0..4 => {
                let other = self.parent()?;
                (crossover(&parent, &other, &mut self.rng), "crossover")
            }
            4..8 => (step(space, &parent, &mut self.rng), "step"),
            _ => (random_gene(space, &parent, &mut self.rng), "mutation"),
        };
        // A crossover of near twins is a parent again; a second change makes it a new point.
        let genome = if self.unseen.is_seen(&genome) || self.rng.random_bool(0.2) {
            random_gene(space, &genome, &mut self.rng)
        } else {
            genome
        };
        let genome = space.repair(&genome, &mut self.rng)?;
        if self.unseen.is_seen(&genome) {
            return None;
        }
        let chance = (1.0 - self.lessons.risk(&genome)).max(FORGIVENESS);
        if !self.rng.random_bool(chance.min(1.0)) || !self.unseen.claim(&genome) {
            return None;
        }
        Some(Proposal { genome, origin })
    }

    fn parent(&mut self) -> Option<Genome> {
        let position = rank_pick(self.population.len(), &mut self.rng)?;
        Some(self.population[position].2.clone())
    }
}

impl Strategy for Genetic<'_> {
    fn name(&self) -> &'static str {
        "genetic"
    }

    fn ask(&mut self, n: usize) -> Vec<Proposal> {
        let mut proposals = Vec::new();
        while proposals.len() < n
            && let Some(proposal) = self.propose()
        {
            self.begun += 1;
            proposals.push(proposal);
        }
        proposals
    }

    fn tell(&mut self, outcome: &Outcome) {
        if !self.unseen.is_seen(&outcome.genome) {
            self.begun += 1;
        }
        self.unseen.note(&outcome.genome);
        // Our own trouble says nothing about the variant; a slow variant worked.
        let worked = matches!(outcome.class, VerdictClass::Ok | VerdictClass::Slow | VerdictClass::Noisy);
        if outcome.class != VerdictClass::Harness {
            self.lessons.learn(&outcome.genome, !worked);
        }
        if let Some(objective) = outcome.objective_ns.filter(|value| worked && value.is_finite()) {
            self.arrivals += 1;
            self.population.push((objective, self.arrivals, outcome.genome.clone()));
            self.population.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            self.population.truncate(self.capacity);
        }
    }

    fn is_done(&self) -> bool {
        self.unseen.is_exhausted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::conformance::{bowl, space_of};

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
        let random = sum(&|seed| best_after(super::super::random::Random::new(&space, seed), &space, 150));
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
