//! What a search by variation remembers: what was taken, what came of it, what tends to fail.
//!
//! Every strategy that varies good points goes through here, so that all of them open alike, avoid
//! what looks like failing, draw the same numbers after a resume, and can look a known point up
//! where they would otherwise measure it twice.

use std::collections::HashMap;

use evo_protocol::verdict::VerdictClass;
use evo_space::genome::Genome;
use evo_space::rng::seeded;
use evo_space::space::SearchSpace;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::lessons::Lessons;
use super::spread::Spread;
use super::strategy::{Outcome, Proposal};
use super::unseen::Unseen;

/// Spread points at the beginning, the default configuration included: every start-up evaluation
/// shows in a budget of fifty, and fewer give nothing to recombine.
pub const OPENING: usize = 8;

/// Chance of proposing a point although its risk is 1.
const FORGIVENESS: f64 = 0.05;

/// A point and what it measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    pub objective: f64,
    /// Counts the points that worked; it decides between equal objectives.
    pub arrival: u64,
    pub genome: Genome,
}

/// The memory of a search.
#[derive(Debug)]
pub struct Memory<'a> {
    unseen: Unseen<'a>,
    spread: Spread<'a>,
    lessons: Lessons,
    /// Objective and arrival of the points that worked.
    known: HashMap<Genome, (f64, u64)>,
    best: Option<Member>,
    seed: u64,
    /// Points proposed, or told by an earlier run.
    begun: usize,
}

impl<'a> Memory<'a> {
    /// Nothing known about `space` yet.
    pub fn new(space: &'a SearchSpace, seed: u64) -> Memory<'a> {
        Memory {
            unseen: Unseen::new(space, seed),
            spread: Spread::new(space, seed),
            lessons: Lessons::default(),
            known: HashMap::new(),
            best: None,
            seed,
            begun: 0,
        }
    }

    /// The space itself.
    pub fn space(&self) -> &'a SearchSpace {
        self.unseen.space()
    }

    /// The best point that worked.
    pub fn best(&self) -> Option<&Member> {
        self.best.as_ref()
    }

    /// A known point with its objective, if it worked.
    pub fn recall(&self, genome: &Genome) -> Option<Member> {
        let (objective, arrival) = *self.known.get(genome)?;
        Some(Member { objective, arrival, genome: genome.clone() })
    }

    /// Whether a point was proposed or told.
    pub fn is_seen(&self, genome: &Genome) -> bool {
        self.unseen.is_seen(genome)
    }

    /// Points proposed, or told by an earlier run.
    pub fn begun(&self) -> usize {
        self.begun
    }

    /// Whether nothing is left to propose.
    pub fn is_exhausted(&self) -> bool {
        self.unseen.is_exhausted()
    }

    /// Up to `n` proposals: the opening, then what `next` makes of the generator of each turn.
    ///
    /// The generator starts anew for each proposal from the seed and the number of proposals before
    /// it, so that a resumed search draws as the uninterrupted one would have.
    pub fn turn(&mut self) -> (ChaCha8Rng, Option<Proposal>) {
        let rng = seeded(self.seed ^ (self.begun as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut proposal = self.unseen.default();
        if proposal.is_none() && self.begun < OPENING {
            let genome = self.spread.next(&mut self.unseen);
            proposal = genome.map(|genome| Proposal::new(genome, "spread"));
        }
        self.begun += usize::from(proposal.is_some());
        (rng, proposal)
    }

    /// Takes a varied point for a proposal, unless it is known, invalid or loses the lottery against its
    /// risk of failing.
    pub fn take(&mut self, genome: &Genome, rng: &mut ChaCha8Rng) -> bool {
        if self.unseen.is_seen(genome) {
            return false;
        }
        let chance = (1.0 - self.lessons.risk(genome)).max(FORGIVENESS);
        let taken = rng.random_bool(chance.min(1.0)) && self.unseen.claim(genome);
        self.begun += usize::from(taken);
        taken
    }

    /// A point far from what is known: the next of the sequence, or any that is left.
    pub fn fresh(&mut self, rng: &mut ChaCha8Rng) -> Option<Genome> {
        let genome = self.spread.next(&mut self.unseen).or_else(|| self.unseen.draw(rng));
        self.begun += usize::from(genome.is_some());
        genome
    }

    /// Learns an outcome; the point with its objective if it worked.
    pub fn learn(&mut self, outcome: &Outcome) -> Option<Member> {
        self.begun += usize::from(!self.unseen.is_seen(&outcome.genome));
        self.unseen.note(&outcome.genome);
        // Our own trouble says nothing about the variant, nor does passing it over; a slow one worked.
        let worked = matches!(outcome.class, VerdictClass::Ok | VerdictClass::Slow | VerdictClass::Noisy);
        if !matches!(outcome.class, VerdictClass::Harness | VerdictClass::PassedOver) {
            self.lessons.learn(&outcome.genome, !worked);
        }
        let objective = outcome.objective_ns.filter(|value| worked && value.is_finite())?;
        let arrival = self.known.len() as u64;
        self.known.insert(outcome.genome.clone(), (objective, arrival));
        let member = Member { objective, arrival, genome: outcome.genome.clone() };
        if self.best.as_ref().is_none_or(|best| objective < best.objective) {
            self.best = Some(member.clone());
        }
        Some(member)
    }
}
