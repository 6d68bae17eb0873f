//! A strategy that begins with points of a cheap ranking (`evo micro`) and tests whether the ranking holds.
//!
//! Any strategy can be wrapped. Ranked points take turns with the strategy's own, so that at no time more than half of
//! what was proposed comes from the ranking, and only generation 0 takes any. Once eight of them are measured, their
//! rank correlation with the ranking decides whether the rest is still tried. Like every strategy this one is
//! deterministic: the outcomes in their order decide.

use std::collections::VecDeque;

use evo_protocol::facts::Facts;
use evo_space::genome::Genome;

use crate::micro::{JUDGED, MicroAgreement, counted_time};
use crate::origin::Origin;
use crate::prior::PriorStudy;
use crate::strategy::{Outcome, Proposal, Strategy};

/// What of generation 0 is left for ranked points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeedRoom {
    /// Proposals of generation 0 that are still to come.
    pub proposals: usize,
    /// Ranked points that may be among them.
    pub seeds: usize,
}

impl SeedRoom {
    /// The room in a study with so many evaluations in a generation: at most half of the first one, less what a run
    /// before has used.
    pub fn of(population: usize, evaluated: usize, seeded: usize) -> SeedRoom {
        let proposals = population.saturating_sub(evaluated);
        SeedRoom { proposals, seeds: (population / 2).saturating_sub(seeded).min(proposals) }
    }
}

/// A ranked point that was proposed.
#[derive(Debug)]
struct Given {
    genome: Genome,
    /// Place in the order of proposal.
    place: usize,
    is_told: bool,
}

/// A strategy with ranked points at its beginning.
pub struct Seeded<'a> {
    inner: Box<dyn Strategy + 'a>,
    /// Ranked points that were not proposed, the best first.
    left: VecDeque<Genome>,
    given: Vec<Given>,
    /// Place and time of those that were measured, in the order of their outcomes.
    measured: Vec<(usize, f64)>,
    room: SeedRoom,
    /// The other one proposed last.
    is_seeds_turn: bool,
    /// Whether enough were measured, and the ranking holds.
    holds: Option<bool>,
}

impl<'a> Seeded<'a> {
    /// `inner` with the points of a ranking, the best first. The strategy itself proposes the default configuration,
    /// so that is not among them.
    pub fn new(inner: Box<dyn Strategy + 'a>, ranked: Vec<Genome>, room: SeedRoom) -> Seeded<'a> {
        let (given, measured) = (Vec::new(), Vec::new());
        Seeded { inner, left: ranked.into(), given, measured, room, is_seeds_turn: false, holds: None }
    }

    /// Whether a ranked point may be proposed now. The ninth waits until eight are measured.
    fn may_seed(&self) -> bool {
        let has_room = self.room.proposals > 0 && self.room.seeds > 0 && !self.left.is_empty();
        let is_tested = match self.holds {
            Some(holds) => holds,
            None => self.measured.len() + self.in_flight() < JUDGED,
        };
        has_room && is_tested
    }

    /// Ranked points that were proposed and not told.
    fn in_flight(&self) -> usize {
        self.given.iter().filter(|one| !one.is_told).count()
    }

    fn seed(&mut self) -> Option<Proposal> {
        if !self.may_seed() {
            return None;
        }
        let genome = self.left.pop_front()?;
        self.room.seeds -= 1;
        let place = self.given.len();
        self.given.push(Given { genome: genome.clone(), place, is_told: false });
        self.is_seeds_turn = false;
        Some(Proposal::new(genome, Origin::Micro))
    }

    /// The strategy's next point that was not proposed from the ranking. It does not know of those before it is told.
    fn own(&mut self) -> Option<Proposal> {
        let proposal = loop {
            let proposal = self.inner.ask(1).pop()?;
            if !self.is_given(&proposal.genome) {
                break proposal;
            }
        };
        self.left.retain(|genome| *genome != proposal.genome);
        self.is_seeds_turn = true;
        Some(proposal)
    }

    fn is_given(&self, genome: &Genome) -> bool {
        self.given.iter().any(|one| one.genome == *genome)
    }

    fn next(&mut self) -> Option<Proposal> {
        let proposal = match self.is_seeds_turn {
            true => self.seed().or_else(|| self.own()),
            false => self.own().or_else(|| self.seed()),
        }?;
        self.room.proposals = self.room.proposals.saturating_sub(1);
        Some(proposal)
    }
}

impl Strategy for Seeded<'_> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn ask(&mut self, n: usize) -> Vec<Proposal> {
        (0..n).map_while(|_| self.next()).collect()
    }

    fn tell(&mut self, outcome: &Outcome) {
        self.inner.tell(outcome);
        self.left.retain(|genome| *genome != outcome.genome);
        let Some(given) = self.given.iter_mut().find(|one| one.genome == outcome.genome && !one.is_told)
        else {
            return;
        };
        given.is_told = true;
        let place = given.place;
        if let Some(time) = counted_time(outcome.class, outcome.objective_ns) {
            self.measured.push((place, time));
        }
        if self.holds.is_none() && self.measured.len() >= JUDGED {
            let holds = !MicroAgreement::of(&self.measured).dropped;
            self.holds = Some(holds);
            if !holds {
                self.left.clear();
            }
        }
    }

    fn is_worth_compiling(&mut self, genome: &Genome) -> bool {
        // The ranking can only be tested by what runs.
        self.is_given(genome) || self.inner.is_worth_compiling(genome)
    }

    fn learns(&self) -> bool {
        self.inner.learns() || !self.left.is_empty()
    }

    fn reconsider(&mut self, genome: &Genome, facts: &Facts) -> bool {
        self.is_given(genome) || self.inner.reconsider(genome, facts)
    }

    fn inherit(&mut self, studies: &[PriorStudy]) -> bool {
        self.inner.inherit(studies)
    }

    fn useful_in_flight(&self) -> usize {
        // Ranked points are chosen whatever comes of the others.
        self.inner.useful_in_flight().saturating_add(self.in_flight())
    }

    fn useful_on_lanes(&self, lanes: usize) -> usize {
        self.inner.useful_on_lanes(lanes).saturating_add(self.in_flight())
    }

    fn likely(&self, n: usize) -> Vec<Genome> {
        let mut likely = self.inner.likely(n);
        likely.retain(|genome| !self.is_given(genome));
        likely
    }

    fn is_done(&self) -> bool {
        self.inner.is_done()
    }
}

#[cfg(test)]
mod tests;
