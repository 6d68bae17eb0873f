//! Iterated local search (Lourenço, Martin and Stützle, 2003) with first improvement.
//!
//! From a point, its neighbors are tried one by one, those one position away mostly first, and the
//! first that is better becomes the new point. Where no neighbor is better the point is kicked: a few
//! genes change at once, more of them the more kicks were in vain, until the search restarts far away.
//! Known neighbors are compared from memory, at no cost. While all neighbors are in flight, kicks and
//! restarts fill the gap.

use std::collections::HashSet;

use evo_space::Neighborhood;
use evo_space::genome::Genome;
use evo_space::space::SearchSpace;
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::memory::{Member, Memory};
use super::operators::random_gene;
use super::strategy::{Outcome, Proposal, Strategy};

/// Chance that a neighbor further away comes among those one position away.
const MIXED: f64 = 0.3;

/// Genes that a first kick changes.
const KICK: u32 = 2;

/// Kicks in vain before a kick changes one gene more.
const PER_STRENGTH: u32 = 3;

/// Kicks in vain before a restart.
const KICKS: u32 = 4;

/// Attempts at a kick that leads to a new point.
const ATTEMPTS: u32 = 32;

/// The strategy.
#[derive(Debug)]
pub struct LocalSearch<'a> {
    memory: Memory<'a>,
    /// Where the search stands.
    at: Option<Member>,
    /// Whether `at` is new, its neighbors not yet listed.
    arrived: bool,
    /// Neighbors of `at` that are to be tried, last first.
    neighbors: Vec<Genome>,
    /// Kicked points and restarts in flight: they are moved to even if they are worse.
    leaps: HashSet<Genome>,
    /// The best end of a descent since the last restart.
    home: Option<Member>,
    /// Kicks from `home` that led to nothing better.
    vain: u32,
}

impl<'a> LocalSearch<'a> {
    /// A search over `space`.
    pub fn new(space: &'a SearchSpace, seed: u64) -> LocalSearch<'a> {
        LocalSearch {
            memory: Memory::new(space, seed),
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
                return Some(Proposal::new(genome, "neighbor"));
            }
        }
        self.end_descent();
        let kicked = self.kick(&mut rng);
        let (genome, origin) = match kicked {
            Some(genome) => (genome, "kick"),
            None => {
                (self.home, self.vain) = (None, 0);
                (self.memory.fresh(&mut rng)?, "restart")
            }
        };
        self.leaps.insert(genome.clone());
        Some(Proposal::new(genome, origin))
    }

    /// Descends over known points as far as they go and lists the neighbors of the last.
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
            let last = |genome: &Genome| distance(genome, &at.genome) == 1 || rng.random_bool(MIXED);
            list.sort_by_cached_key(last);
            self.neighbors = list;
            return;
        }
    }

    /// Goes home, or makes this the new home if it is better.
    fn end_descent(&mut self) {
        let Some(at) = &self.at else { return };
        if self.home.as_ref().is_none_or(|home| at.objective < home.objective) {
            self.home = Some(at.clone());
            self.vain = 0;
        } else {
            self.vain += 1;
        }
    }

    /// A new point some genes away from home; `None` if it is time to restart.
    fn kick(&mut self, rng: &mut ChaCha8Rng) -> Option<Genome> {
        let home = self.home.as_ref().filter(|_| self.vain <= KICKS)?;
        let space = self.memory.space();
        for attempt in 0..ATTEMPTS {
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

/// Sum of the differences of positions.
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
        let leap = self.leaps.remove(&outcome.genome);
        let Some(member) = self.memory.learn(outcome) else { return };
        // The first proposals are waited for before the search chooses where to begin.
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
