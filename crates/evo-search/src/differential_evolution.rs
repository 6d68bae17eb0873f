//! Differential evolution (Storn and Price, 1997) on value positions, steady state.
//!
//! A member moves toward a better one and along the difference of two others. Differences carry the
//! information which parameters must change together, and they shrink as the members agree. Steps are
//! scaled, rounded at random (so that a difference of one position still moves sometimes) and repaired into
//! the space. Scale and rate belong to a member and are inherited if they work (self-adaptation, Brest et
//! al. 2006). A known trial competes from memory, without an evaluation. If nothing improves for a long time,
//! all members but the best are replaced.

use std::collections::HashMap;

use evo_space::genome::Genome;
use evo_space::space::SearchSpace;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::memory::{Member, OPENING, SearchMemory};
use super::strategy::{Outcome, Proposal, Strategy};
use crate::strategy::Origin;
use crate::variation::random_gene;

/// Trials in a row without a new point before a point far from all known ones is proposed.
const ATTEMPTS: u32 = 32;

/// Number of members. More would explore longer, but a budget of fifty evaluations must still see several
/// rounds.
const MEMBERS: usize = OPENING + 2;

/// Outcomes without an improvement before a restart.
const PATIENCE: usize = 60;

/// Chance that a trial draws a new scale, and separately a new rate (the value of Brest et al. 2006).
const RESET: f64 = 0.1;

/// How a member varies.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TrialSettings {
    /// The factor of the differences.
    scale: f64,
    /// The chance of each gene to change.
    rate: f64,
}

const FIRST: TrialSettings = TrialSettings { scale: 0.6, rate: 0.5 };

#[derive(Debug)]
pub(crate) struct DifferentialEvolution<'a> {
    memory: SearchMemory<'a>,
    members: Vec<(Member, TrialSettings)>,
    /// Trials in flight, each with the member that it may replace and the settings that made it.
    trials: HashMap<Genome, (usize, TrialSettings)>,
    /// The member whose turn it is.
    turn: usize,
    /// Outcomes since a member last improved.
    stale: usize,
}

impl<'a> DifferentialEvolution<'a> {
    pub(crate) fn new(space: &'a SearchSpace, seed: u64) -> DifferentialEvolution<'a> {
        let memory = SearchMemory::new(space, seed);
        DifferentialEvolution { memory, members: Vec::new(), trials: HashMap::new(), turn: 0, stale: 0 }
    }

    fn propose(&mut self) -> Option<Proposal> {
        let (mut rng, opening) = self.memory.turn();
        if opening.is_some() {
            return opening;
        }
        if self.stale >= PATIENCE {
            self.restart();
        }
        // Half of the members are enough for differences; waiting for all would waste proposals in flight.
        if self.members.len() >= MEMBERS / 2 {
            let trial = (0..ATTEMPTS).find_map(|_| self.trial(&mut rng));
            // If all members agree, differences lead nowhere; single mutations explore their surroundings.
            let near = || (0..ATTEMPTS).find_map(|_| self.mutation(&mut rng));
            let proposal = trial.or_else(near);
            if proposal.is_some() {
                return proposal;
            }
        }
        let genome = self.memory.fresh(&mut rng)?;
        Some(Proposal::new(genome, Origin::Random))
    }

    /// A new trial for the next member; `None` if it is known or looks like failing.
    fn trial(&mut self, rng: &mut ChaCha8Rng) -> Option<Proposal> {
        self.turn = (self.turn + 1) % self.members.len();
        let target = self.turn;
        let mut settings = self.members[target].1;
        // Drawn before the trial is made, so that its success speaks for the settings that made it.
        if rng.random_bool(RESET) {
            settings.scale = rng.random_range(0.3..1.0);
        }
        if rng.random_bool(RESET) {
            settings.rate = rng.random_range(0.1..1.0);
        }
        let mutant = self.mutant(target, settings, rng);
        self.try_out(&mutant, (target, settings), Origin::Difference, rng)
    }

    /// Another value for one gene of any member.
    fn mutation(&mut self, rng: &mut ChaCha8Rng) -> Option<Proposal> {
        let target = rng.random_range(0..self.members.len());
        let (member, settings) = &self.members[target];
        let mutant = random_gene(self.memory.space(), &member.genome, rng);
        self.try_out(&mutant, (target, *settings), Origin::Mutation, rng)
    }

    fn try_out(
        &mut self,
        mutant: &Genome,
        (target, settings): (usize, TrialSettings),
        origin: Origin,
        rng: &mut ChaCha8Rng,
    ) -> Option<Proposal> {
        let genome = self.memory.space().repair(mutant, rng)?;
        if self.memory.take(&genome, rng) {
            self.trials.insert(genome.clone(), (target, settings));
            return Some(Proposal::new(genome, origin));
        }
        if let Some(known) = self.memory.recall(&genome) {
            self.compete(target, settings, known);
        }
        None
    }

    /// The target, moved toward one of the better members and along the difference of two others.
    fn mutant(&self, target: usize, settings: TrialSettings, rng: &mut ChaCha8Rng) -> Genome {
        let mut any = || rng.random_range(0..self.members.len());
        let (first, second, guides) = (any(), any(), [any(), any(), any()]);
        let guide = self.best_of(guides.into_iter()).unwrap_or(target);
        let genes = |member: usize| self.members[member].0.genome.positions();
        let own = genes(target);
        // At least one gene changes, as in the binomial crossover of Storn and Price.
        let sure = rng.random_range(0..own.len().max(1));
        let mut moved = |gene: usize| {
            if gene != sure && !rng.random_bool(settings.rate) {
                return own[gene];
            }
            let at = |member: usize| f64::from(genes(member)[gene]);
            let last = self.memory.space().parameters()[gene].values.len() as f64 - 1.0;
            let way = at(guide) - at(target) + at(first) - at(second);
            // Adding a uniform number before rounding down rounds at random, with the right mean.
            (at(target) + settings.scale * way + rng.random::<f64>()).floor().clamp(0.0, last) as u16
        };
        Genome::from((0..own.len()).map(&mut moved).collect::<Vec<u16>>())
    }

    /// Replaces the member if the trial is at least as good and not a member already.
    fn compete(&mut self, target: usize, settings: TrialSettings, trial: Member) {
        // Twins would shrink the differences without the members having agreed.
        let twin = self.members.iter().any(|(member, _)| member.genome == trial.genome);
        let Some(own) = self.members.get_mut(target).filter(|_| !twin) else { return };
        // Equals replace too, so that members can drift across a plateau.
        if trial.objective <= own.0.objective {
            *own = (trial, settings);
            self.stale = 0;
        }
    }

    fn best_of(&self, members: impl Iterator<Item = usize>) -> Option<usize> {
        let objective = |member: usize| self.members[member].0.objective;
        members.min_by(|a, b| objective(*a).total_cmp(&objective(*b)))
    }

    /// Keeps only the best member.
    fn restart(&mut self) {
        self.stale = 0;
        if let Some(best) = self.best_of(0..self.members.len()) {
            self.members.swap(0, best);
            // With too few members for differences, `propose` fills up with points far apart.
            self.members.truncate(1);
        }
    }
}

impl Strategy for DifferentialEvolution<'_> {
    fn name(&self) -> &'static str {
        "differential_evolution"
    }

    fn ask(&mut self, n: usize) -> Vec<Proposal> {
        (0..n).map_while(|_| self.propose()).collect()
    }

    fn tell(&mut self, outcome: &Outcome) {
        let trial = self.trials.remove(&outcome.genome);
        self.stale += 1;
        let Some(member) = self.memory.learn(outcome) else { return };
        if let Some((target, settings)) = trial {
            self.compete(target, settings, member);
        } else if self.members.len() < MEMBERS {
            self.members.push((member, FIRST));
        } else {
            // An outcome without a trial, from a resumed study for example, competes with the worst member.
            let objective = |at: &usize| self.members[*at].0.objective;
            let worst = (0..self.members.len()).max_by(|a, b| objective(a).total_cmp(&objective(b)));
            if let Some(worst) = worst {
                self.compete(worst, FIRST, member);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.memory.is_exhausted()
    }
}
