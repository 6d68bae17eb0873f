//! Simulated annealing (Kirkpatrick, Gelatt and Vecchi, 1983) by several chains.
//!
//! A chain always moves to a better neighbor. It moves to a worse one with a chance that falls as the
//! chain cools. Differences are relative, so that units and scale do not matter, and the temperature is
//! proportional to the differences that moves have made in this space. A known neighbor is decided on from
//! memory, without an evaluation; a chain that is stuck restarts far away. While all chains wait for
//! outcomes, more chains are started, so that any number of proposals can be in flight.

use std::collections::{HashMap, VecDeque};

use evo_space::genome::Genome;
use evo_space::space::SearchSpace;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::memory::{Member, SearchMemory};
use super::strategy::{Outcome, Proposal, Strategy};
use crate::strategy::Origin;
use crate::variation::{random_gene, step};

/// Moves tried in a row, known neighbors included, before a chain restarts. This and the constants below
/// were set on 2026-11-21 with the strategy; docs/SEARCH.md has its scores.
const ATTEMPTS: u32 = 64;

/// Decisions without a new best of the chain before it restarts.
const PATIENCE: u32 = 40;

/// The first temperature, in units of the median difference that a move makes.
const TEMPERATURE: f64 = 0.3;

/// The factor by which the temperature falls with each decision.
const COOLING: f64 = 0.95;

/// Number of differences that are remembered: few, so that the temperature follows the region.
const DIFFERENCES: usize = 64;

/// The median difference before any was measured.
const FIRST_DIFFERENCE: f64 = 0.1;

/// A chain of accepted points.
#[derive(Debug, Default)]
struct Chain {
    at: Option<Member>,
    /// The best objective since the last restart.
    best: Option<f64>,
    /// Decisions since the last restart.
    decisions: u32,
    /// Decisions since `best` improved.
    stale: u32,
    /// Whether its proposal is still in flight.
    waits: bool,
    /// An outcome that is still to be decided on.
    arrived: Option<Member>,
}

#[derive(Debug)]
pub(crate) struct Annealing<'a> {
    memory: SearchMemory<'a>,
    chains: Vec<Chain>,
    /// Proposals in flight and their chains.
    flying: HashMap<Genome, usize>,
    /// The relative changes of the objective by the latest moves.
    differences: VecDeque<f64>,
}

impl<'a> Annealing<'a> {
    pub(crate) fn new(space: &'a SearchSpace, seed: u64) -> Annealing<'a> {
        Annealing {
            memory: SearchMemory::new(space, seed),
            chains: Vec::new(),
            flying: HashMap::new(),
            differences: VecDeque::new(),
        }
    }

    fn propose(&mut self) -> Option<Proposal> {
        let (mut rng, opening) = self.memory.turn();
        if opening.is_some() {
            return opening;
        }
        let chain = self.chains.iter().position(|chain| !chain.waits).unwrap_or_else(|| {
            self.chains.push(Chain::default());
            self.chains.len() - 1
        });
        let (genome, origin) = match self.walk(chain, &mut rng) {
            Some(genome) => (genome, Origin::Neighbor),
            None => {
                // Its temperature depends on the decisions of the chain, so a restarted chain is hot again.
                self.chains[chain] = Chain::default();
                (self.memory.fresh(&mut rng)?, Origin::Restart)
            }
        };
        self.chains[chain].waits = true;
        self.flying.insert(genome.clone(), chain);
        Some(Proposal::new(genome, origin))
    }

    /// Walks over known points until it meets a new one; `None` if the chain is stuck.
    fn walk(&mut self, number: usize, rng: &mut ChaCha8Rng) -> Option<Genome> {
        if let Some(arrived) = self.chains[number].arrived.take() {
            self.decide(number, arrived, rng);
        }
        for _ in 0..ATTEMPTS {
            let chain = &mut self.chains[number];
            // A first chain, or one whose restart failed, begins at the best point known.
            if chain.at.is_none() {
                chain.at = self.memory.best().cloned();
                chain.best = chain.at.as_ref().map(|at| at.objective);
            }
            let at = chain.at.as_ref().filter(|_| chain.stale <= PATIENCE)?;
            let varied = vary(self.memory.space(), &at.genome, rng);
            let genome = self.memory.space().repair(&varied, rng)?;
            if self.memory.take(&genome, rng) {
                return Some(genome);
            }
            if let Some(known) = self.memory.recall(&genome) {
                self.decide(number, known, rng);
            }
        }
        None
    }

    /// Moves to a point or stays (the Metropolis rule).
    fn decide(&mut self, number: usize, to: Member, rng: &mut ChaCha8Rng) {
        let usual = self.usual_difference();
        let chain = &mut self.chains[number];
        chain.stale += 1;
        chain.decisions += 1;
        if let Some(at) = &chain.at {
            let worse = difference(at.objective, to.objective);
            let temperature = TEMPERATURE * usual * COOLING.powf(f64::from(chain.decisions));
            // Draws only for worse moves, as the Metropolis rule needs.
            if worse > 0.0 && !rng.random_bool((-worse / temperature).exp().clamp(0.0, 1.0)) {
                return;
            }
        }
        if chain.best.is_none_or(|best| to.objective < best) {
            chain.best = Some(to.objective);
            chain.stale = 0;
        }
        chain.at = Some(to);
    }

    fn usual_difference(&self) -> f64 {
        // The median, because a few cliffs between neighbors should not heat all chains.
        let mut sorted: Vec<f64> = self.differences.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(FIRST_DIFFERENCE)
    }
}

/// How much worse `to` is than `from`, relative to their mean; between -2 and 2.
fn difference(from: f64, to: f64) -> f64 {
    let scale = (from.abs() + to.abs()) / 2.0;
    if scale > 0.0 { (to - from) / scale } else { 0.0 }
}

/// A step of one gene, another value of one, or two steps.
fn vary(space: &SearchSpace, genome: &Genome, rng: &mut ChaCha8Rng) -> Genome {
    match rng.random_range(0..10u32) {
        0..4 => step(space, genome, rng),
        4..8 => random_gene(space, genome, rng),
        _ => step(space, &step(space, genome, rng), rng),
    }
}

impl Strategy for Annealing<'_> {
    fn name(&self) -> &'static str {
        "annealing"
    }

    fn ask(&mut self, n: usize) -> Vec<Proposal> {
        (0..n).map_while(|_| self.propose()).collect()
    }

    fn tell(&mut self, outcome: &Outcome) {
        let member = self.memory.learn(outcome);
        // A point that was told by an earlier run belongs to no chain.
        let Some(number) = self.flying.remove(&outcome.genome) else { return };
        let chain = &mut self.chains[number];
        chain.waits = false;
        // A failure is not a point to move to, but it counts toward a restart.
        chain.stale += u32::from(member.is_none());
        if let (Some(at), Some(to)) = (&chain.at, &member) {
            // Moves without effect (of unimportant parameters) would pull the temperature to 0.
            let change = difference(at.objective, to.objective).abs();
            if change > 0.0 {
                self.differences.push_back(change);
            }
            if self.differences.len() > DIFFERENCES {
                self.differences.pop_front();
            }
        }
        chain.arrived = member;
    }

    fn is_done(&self) -> bool {
        self.memory.is_exhausted()
    }
}
