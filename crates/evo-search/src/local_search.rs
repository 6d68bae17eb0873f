//! Iterated local search (Lourenço, Martin and Stützle, 2003) with first improvement.
//!
//! The neighbors of a point are tried one by one, mostly beginning with neighbors one position away, and the
//! first better one becomes the new point. If no neighbor is better, the point is kicked: a few genes change
//! at once. Every few kicks without success one more gene is changed, and in the end the search restarts far
//! away. Known neighbors are compared from memory, without an evaluation. While all neighbors are in flight,
//! kicks and restarts fill the gap.

use std::collections::HashSet;

use evo_space::Neighborhood;
use evo_space::genome::Genome;
use evo_space::space::SearchSpace;
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::memory::{Member, SearchMemory};
use super::strategy::{Outcome, Proposal, Strategy};
use crate::strategy::Origin;
use crate::variation::random_gene;

/// Chance that a neighbor further away is tried among the neighbors one position away. This and the
/// constants below were set on 2026-11-21 with the strategy; docs/SEARCH.md has its scores.
const MIXED: f64 = 0.3;

/// Number of genes that a first kick changes.
const KICK: u32 = 2;

/// Kicks without success before a kick changes one more gene.
const PER_STRENGTH: u32 = 3;

/// Kicks without success before a restart.
const KICKS: u32 = 4;

/// Attempts at a kick that leads to a new point.
const ATTEMPTS: u32 = 32;

#[derive(Debug)]
pub(crate) struct LocalSearch<'a> {
    memory: SearchMemory<'a>,
    /// Where the search stands.
    at: Option<Member>,
    /// Whether `at` is new, its neighbors not yet listed.
    arrived: bool,
    /// Neighbors of `at` that are still to be tried, the next one last.
    neighbors: Vec<Genome>,
    /// Kicked points and restarts in flight. The search moves to them even if they are worse.
    leaps: HashSet<Genome>,
    /// The best local optimum since the last restart.
    home: Option<Member>,
    /// Kicks from `home` that led to no better local optimum.
    vain: u32,
}

impl<'a> LocalSearch<'a> {
    pub(crate) fn new(space: &'a SearchSpace, seed: u64) -> LocalSearch<'a> {
        LocalSearch {
            memory: SearchMemory::new(space, seed),
            at: None,
            arrived: false,
            neighbors: Vec::new(),
            leaps: HashSet::new(),
            home: None,
            vain: 0,
        }
    }

    fn propose(&mut self) -> Option<Proposal> {
        let (mut rng, opening) = self.memory.turn();
        if opening.is_some() {
            return opening;
        }
        if self.at.is_none() {
            self.at = self.memory.best().cloned();
            self.arrived = true;
        }
        if self.arrived {
            self.look_around(&mut rng);
        }
        while let Some(genome) = self.neighbors.pop() {
            if self.memory.take(&genome, &mut rng) {
                return Some(Proposal::new(genome, Origin::Neighbor));
            }
        }
        self.end_descent();
        let kicked = self.kick(&mut rng);
        let (genome, origin) = match kicked {
            Some(genome) => (genome, Origin::Kick),
            None => {
                // What follows is a new climb with an optimum of its own.
                (self.home, self.vain) = (None, 0);
                (self.memory.fresh(&mut rng)?, Origin::Restart)
            }
        };
        // Kicks and restarts are followed whatever comes of them, see `tell`.
        self.leaps.insert(genome.clone());
        Some(Proposal::new(genome, origin))
    }

    /// Descends over known points as far as possible and lists the neighbors of the last one.
    fn look_around(&mut self, rng: &mut ChaCha8Rng) {
        self.arrived = false;
        while let Some(at) = &self.at {
            let mut list = self.memory.space().neighbors(&at.genome, Neighborhood::Hamming);
            let known = list.iter().filter_map(|genome| self.memory.recall(genome));
            let best = known.min_by(|a, b| a.objective.total_cmp(&b.objective));
            if let Some(better) = best.filter(|best| best.objective < at.objective) {
                self.at = Some(better);
                continue;
            }
            list.shuffle(rng);
            // Points are popped from the end, and `false` sorts before `true`: adjacent neighbors go to the
            // end.
            let last = |genome: &Genome| distance(genome, &at.genome) == 1 || rng.random_bool(MIXED);
            list.sort_by_cached_key(last);
            self.neighbors = list;
            return;
        }
    }

    /// Makes this local optimum the new home if it is better, else counts a kick without success.
    fn end_descent(&mut self) {
        let Some(at) = &self.at else { return };
        // Kicks start from the best optimum of this climb, so a kick that led nowhere is taken back.
        if self.home.as_ref().is_none_or(|home| at.objective < home.objective) {
            self.home = Some(at.clone());
            self.vain = 0;
        } else {
            self.vain += 1;
        }
    }

    /// A new point a few genes away from home; `None` if it is time to restart.
    fn kick(&mut self, rng: &mut ChaCha8Rng) -> Option<Genome> {
        let home = self.home.as_ref().filter(|_| self.vain <= KICKS)?;
        let space = self.memory.space();
        for attempt in 0..ATTEMPTS {
            // Near an exhausted optimum all small kicks lead to known points, so attempts reach further too.
            let changes = KICK + self.vain / PER_STRENGTH + attempt / 8;
            let far = (0..changes).fold(home.genome.clone(), |genome, _| random_gene(space, &genome, rng));
            let genome = space.repair(&far, rng)?;
            if self.memory.take(&genome, rng) {
                return Some(genome);
            }
        }
        None
    }
}

/// The sum of the differences of positions.
fn distance(first: &Genome, second: &Genome) -> u32 {
    let pairs = first.positions().iter().zip(second.positions());
    pairs.map(|(a, b)| u32::from(a.abs_diff(*b))).sum()
}

impl Strategy for LocalSearch<'_> {
    fn name(&self) -> &'static str {
        "local_search"
    }

    fn ask(&mut self, n: usize) -> Vec<Proposal> {
        (0..n).map_while(|_| self.propose()).collect()
    }

    fn tell(&mut self, outcome: &Outcome) {
        // A kick must be followed even if it leads to a worse point, or the search would not leave its
        // optimum.
        let leap = self.leaps.remove(&outcome.genome);
        let Some(member) = self.memory.learn(outcome) else { return };
        // `at` stays empty until the opening is over; the search then begins at the best point.
        let better = self.at.as_ref().is_some_and(|at| member.objective < at.objective);
        if leap || better {
            self.at = Some(member);
            self.arrived = true;
        }
    }

    fn is_done(&self) -> bool {
        self.memory.is_exhausted()
    }
}
