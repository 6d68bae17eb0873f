//! What a search by variation remembers: which points were proposed, what came of them, what tends to fail.
//!
//! All strategies that vary good points share this, so that they open alike, avoid points that are likely to
//! fail, draw the same numbers after a resume, and look a known point up instead of measuring it twice.

use std::collections::HashMap;

use evo_protocol::verdict::VerdictClass;
use evo_space::genome::Genome;
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::lessons::Lessons;
use super::origin::Origin;
use super::spread::Spread;
use super::strategy::{Outcome, Proposal};
use super::unseen::Unseen;

/// Points of a low-discrepancy sequence at the beginning, the default configuration included. Fewer give
/// too little to recombine; more would be a noticeable part of a budget of fifty.
pub(crate) const OPENING: usize = 8;

/// Chance of proposing a point even if its estimated risk is 1, so that wrong lessons can be corrected.
const FORGIVENESS: f64 = 0.05;

/// A point that worked, with its objective.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) objective: f64,
    /// How many points had worked before it; the earlier of two equal objectives ranks first.
    pub(crate) arrival: u64,
    pub(crate) genome: Genome,
}

/// The memory of a search.
#[derive(Debug)]
pub(crate) struct SearchMemory<'a> {
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

impl<'a> SearchMemory<'a> {
    /// A memory that knows nothing about `space` yet.
    pub(crate) fn new(space: &'a SearchSpace, seed: u64) -> SearchMemory<'a> {
        SearchMemory {
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
    pub(crate) fn space(&self) -> &'a SearchSpace {
        self.unseen.space()
    }

    /// The best point that worked.
    pub(crate) fn best(&self) -> Option<&Member> {
        self.best.as_ref()
    }

    /// A known point with its objective, if it worked.
    pub(crate) fn recall(&self, genome: &Genome) -> Option<Member> {
        let (objective, arrival) = *self.known.get(genome)?;
        Some(Member { objective, arrival, genome: genome.clone() })
    }

    /// Whether nothing is left to propose.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.unseen.is_exhausted()
    }

    /// Starts the next proposal: its generator, and during the opening the proposal itself.
    ///
    /// Each proposal has its own generator, seeded by the search's seed and the number of proposals before
    /// it, so that a resumed search draws what the uninterrupted one would have drawn.
    pub(crate) fn turn(&mut self) -> (ChaCha8Rng, Option<Proposal>) {
        let rng = seeded(self.seed ^ (self.begun as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut proposal = self.unseen.default();
        if proposal.is_none() && self.begun < OPENING {
            let genome = self.spread.next(&mut self.unseen);
            proposal = genome.map(|genome| Proposal::new(genome, Origin::Spread));
        }
        self.begun += usize::from(proposal.is_some());
        (rng, proposal)
    }

    /// Claims a varied point for a proposal and returns whether that worked: it must be new and valid, and
    /// it is rejected at random with its estimated risk of failing.
    pub(crate) fn take(&mut self, genome: &Genome, rng: &mut ChaCha8Rng) -> bool {
        if self.unseen.is_seen(genome) {
            return false;
        }
        // A lottery, not a threshold: the estimate is rough, and points that look risky are still tried
        // sometimes.
        let chance = (1.0 - self.lessons.risk(genome)).max(FORGIVENESS);
        let taken = rng.random_bool(chance.min(1.0)) && self.unseen.claim(genome);
        self.begun += usize::from(taken);
        taken
    }

    /// A point far from known ones: the next of the low-discrepancy sequence, or any that is left.
    pub(crate) fn fresh(&mut self, rng: &mut ChaCha8Rng) -> Option<Genome> {
        let genome = self.spread.next(&mut self.unseen).or_else(|| self.unseen.draw(rng));
        self.begun += usize::from(genome.is_some());
        genome
    }

    /// Learns an outcome and returns the point with its objective if it worked.
    pub(crate) fn learn(&mut self, outcome: &Outcome) -> Option<Member> {
        // A point that was never proposed was told by an earlier run. It counts as begun, so that the
        // generators go on where that run stopped.
        self.begun += usize::from(!self.unseen.is_seen(&outcome.genome));
        self.unseen.note(&outcome.genome);
        // A slow variant worked. A failure of the harness says nothing about the variant, and neither does
        // passing it over.
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
