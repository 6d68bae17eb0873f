//! The default strategy: an evolutionary search whose candidates are screened by models.
//!
//! Where a space can be listed, every valid point is a candidate at every proposal. Where it cannot,
//! candidates are the neighbors of the best points, what six operators make of a population, and uniform
//! samples; a bandit pays the operators whose children get better. In both cases the models choose by
//! expected improvement, one of them alone now and then, and a small part of the proposals is left to
//! chance, because a score over many runs is lost by the runs that get stuck.

mod candidates;
mod encoder;
mod ensemble;
mod ingredients;
mod prior_model;
mod process_member;
mod record;

use std::collections::HashSet;
use std::sync::Arc;

use evo_protocol::facts::Facts;
use evo_protocol::verdict::VerdictClass;
use evo_space::Neighborhood;
use evo_space::genome::Genome;
use evo_space::rng::seeded;
use evo_space::space::SearchSpace;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use self::candidates::Breeder;
use self::ensemble::{Ensemble, Judges};
pub use self::ingredients::Ingredients;
use super::memory::Member;
use super::model::facts::FactsModel;
use super::prior::PriorStudy;
use super::spread::Spread;
use super::strategy::{Outcome, Proposal, Strategy};
use super::unseen::Unseen;

/// Most valid points that are all candidates.
const POOL_MAX: u128 = 1 << 17;

/// Spread points at the beginning: enough for a process to learn from, few enough for a budget of ten.
const OPENING: usize = 4;

/// Share of proposals from anywhere.
const CHANCE: f64 = 0.03;

/// The same at most, when nothing better came for long.
const CHANCE_MAX: f64 = 0.25;

/// Draws from anywhere, before one is taken whatever its risk.
const DRAWS: usize = 8;

/// Share of proposals from next to the best points.
const NEIGHBORS: f64 = 0.1;

/// How many of the best points have their neighbors proposed, the first that has any left.
const ELITE: usize = 3;

/// Share of proposals chosen by the trees alone, and by the process alone, which is the better judge while
/// little is known.
const TREES_ALONE: f64 = 0.1;
const PROCESS_ALONE: f64 = 0.4;

/// Outcomes without a new best before chance grows, beside the number of changes to one gene.
const PATIENCE: usize = 60;

/// The strategy.
#[derive(Debug)]
pub struct Evolve<'a> {
    name: String,
    space: &'a SearchSpace,
    ingredients: Ingredients,
    seed: u64,
    unseen: Unseen<'a>,
    spread: Spread<'a>,
    /// Earlier studies, and the best points of them that are still to be proposed, last first.
    prior: Vec<PriorStudy>,
    inherited: Vec<Genome>,
    /// Made at the first proposal that needs it.
    ensemble: Option<Ensemble>,
    /// Which points of the pool were taken, by canonical index; empty where there is no pool.
    taken: Vec<bool>,
    breeder: Breeder,
    /// Judges compiled variants, once some were measured, and how many it was asked about.
    facts: Option<FactsModel>,
    reconsidered: u64,
    /// Outcomes not yet learned.
    backlog: Vec<(Genome, Option<f64>)>,
    /// Proposals in flight, in order, and those of them that the models believe in.
    flying: Vec<Genome>,
    believed: HashSet<Genome>,
    /// What was believed in and not measured.
    withdrawn: Vec<Genome>,
    /// Proposals, and points told by an earlier run.
    begun: usize,
    /// Outcomes since the last new best.
    stale: usize,
    patience: usize,
    worth: Vec<f64>,
}

impl<'a> Evolve<'a> {
    /// A search over `space` with these ingredients.
    pub fn new(name: &str, space: &'a SearchSpace, ingredients: Ingredients, seed: u64) -> Evolve<'a> {
        let changes: usize = space.parameters().iter().map(|parameter| parameter.values.len() - 1).sum();
        let pool = if space.is_exact() && space.count() <= POOL_MAX { space.count() as usize } else { 0 };
        Evolve {
            name: name.to_string(),
            space,
            ingredients,
            seed,
            unseen: Unseen::new(space, seed),
            spread: Spread::new(space, seed),
            prior: Vec::new(),
            inherited: Vec::new(),
            ensemble: None,
            taken: vec![false; pool],
            breeder: Breeder::default(),
            facts: None,
            reconsidered: 0,
            backlog: Vec::new(),
            flying: Vec::new(),
            believed: HashSet::new(),
            withdrawn: Vec::new(),
            begun: 0,
            stale: 0,
            patience: PATIENCE + changes,
            worth: Vec::new(),
        }
    }

    fn propose(&mut self) -> Option<Proposal> {
        let mut rng = seeded(self.seed ^ (self.begun as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if let Some(first) = self.unseen.default() {
            return Some(first);
        }
        while let Some(genome) = self.inherited.pop() {
            if self.unseen.claim(&genome) {
                return Some(Proposal::new(genome, "prior"));
            }
        }
        if self.begun < OPENING {
            return self.elsewhere("spread", &mut rng);
        }
        self.catch_up();
        if !self.ensemble.as_ref().is_some_and(Ensemble::is_ready) {
            return self.elsewhere("spread", &mut rng);
        }
        let ticket = rng.random::<f64>();
        let chance = if self.ingredients.chance { self.chance() } else { 0.0 };
        if ticket < chance {
            let genome = self.anywhere(&mut rng)?;
            return Some(self.explained(genome, "random"));
        }
        let near = self.ingredients.neighbors && ticket < chance + NEIGHBORS;
        let judges = self.judges(&mut rng);
        let chosen = if self.taken.is_empty() {
            self.breed(near, judges, &mut rng)
        } else {
            self.choose_from_pool(near, judges)
        };
        match chosen {
            Some((genome, origin)) if self.unseen.claim(&genome) => Some(self.explained(genome, origin)),
            _ => {
                let genome = self.anywhere(&mut rng)?;
                Some(self.explained(genome, "random"))
            }
        }
    }

    /// A proposal with what the models expect of it.
    fn explained(&self, genome: Genome, origin: &'static str) -> Proposal {
        let expected = self.ensemble.as_ref().map(|ensemble| ensemble.expectation(&genome));
        Proposal { genome, origin, expected }
    }

    /// A point that is far from all others, or any that is left.
    fn elsewhere(&mut self, origin: &'static str, rng: &mut ChaCha8Rng) -> Option<Proposal> {
        let genome = self.spread.next(&mut self.unseen).or_else(|| self.unseen.draw(rng))?;
        Some(Proposal::new(genome, origin))
    }

    /// A point from anywhere, but rarely one that is likely to fail.
    fn anywhere(&mut self, rng: &mut ChaCha8Rng) -> Option<Genome> {
        for _ in 0..DRAWS {
            let Some(genome) = self.space.sample(rng) else { break };
            let risk = self.ensemble.as_ref().map_or(0.0, |ensemble| ensemble.risk(&genome));
            if rng.random_bool(1.0 - risk) && self.unseen.claim(&genome) {
                return Some(genome);
            }
        }
        self.unseen.draw(rng)
    }

    fn make_ensemble(&mut self) {
        if self.ensemble.is_none() {
            let pool: Option<Vec<Genome>> = (!self.taken.is_empty()).then(|| self.space.iter().collect());
            let (space, ingredients, prior) = (self.space, self.ingredients, &self.prior);
            self.ensemble = Some(Ensemble::new(space, pool.as_deref(), ingredients, prior, self.seed));
        }
    }

    /// Learns what a variant took, given what the compiler had reported of it.
    fn learn_facts(&mut self, genome: &Genome, facts: &Facts, objective: f64) {
        self.make_ensemble();
        let Some(ensemble) = &self.ensemble else { return };
        let best = ensemble.best().map_or(objective, |best| best.min(objective));
        let model = self.facts.get_or_insert_with(|| FactsModel::new(Arc::clone(ensemble.features())));
        model.learn(genome, facts, objective, best);
    }

    /// Lets the models learn what was told, and believe in what is in flight.
    fn catch_up(&mut self) {
        self.make_ensemble();
        let Some(ensemble) = &mut self.ensemble else { return };
        self.withdrawn.drain(..).for_each(|genome| ensemble.withdraw(genome));
        ensemble.learn(&std::mem::take(&mut self.backlog));
        if ensemble.is_ready() {
            for genome in &self.flying {
                if self.believed.insert(genome.clone()) {
                    ensemble.believe(genome);
                }
            }
        }
    }

    /// How often chance decides: more often the longer nothing better came.
    fn chance(&self) -> f64 {
        let rounds = (self.stale / self.patience) as f64;
        (CHANCE * (1.0 + rounds)).min(CHANCE_MAX)
    }

    fn judges(&self, rng: &mut ChaCha8Rng) -> Judges {
        let ticket = rng.random::<f64>();
        match self.ingredients.solo {
            true if ticket < TREES_ALONE => Judges::Trees,
            true if ticket < TREES_ALONE + PROCESS_ALONE => Judges::Process,
            _ => Judges::All,
        }
    }

    /// The most promising point of the pool, none if all would fail; `near` one of the best points, if there are any.
    fn choose_from_pool(&mut self, near: bool, judges: Judges) -> Option<(Genome, &'static str)> {
        self.ensemble.as_ref()?.worth_of_pool(judges, &mut self.worth);
        let (worth, taken) = (&self.worth, &self.taken);
        let better = |a: &usize, b: &usize| worth[*a].total_cmp(&worth[*b]).then(b.cmp(a));
        let neighbors = |elite: &Member| {
            let places = self.space.iter_neighbors(&elite.genome, Neighborhood::Hamming);
            let places = places.filter_map(|neighbor| self.space.index_of(&neighbor)).map(|at| at as usize);
            places.filter(|at| !taken[*at] && worth[*at] >= 0.0).max_by(better)
        };
        let elite = self.breeder.members().iter().take(if near { ELITE } else { 0 });
        let neighbor = elite.filter_map(neighbors).next();
        let place = neighbor
            .or_else(|| (0..taken.len()).filter(|at| !taken[*at] && worth[*at] >= 0.0).max_by(better))?;
        let origin = match judges {
            _ if neighbor.is_some() => "neighbor",
            Judges::All => "model",
            Judges::Trees => "trees",
            Judges::Process => "process",
        };
        Some((self.space.genome_at(place as u128)?, origin))
    }

    /// The most promising of many children, none if all would fail.
    fn breed(&mut self, near: bool, judges: Judges, rng: &mut ChaCha8Rng) -> Option<(Genome, &'static str)> {
        let children = self.breeder.children(self.space, &self.unseen, near, rng);
        let genomes: Vec<Genome> = children.iter().map(|child| child.genome.clone()).collect();
        let worth = self.ensemble.as_ref()?.worth_of(&genomes, judges);
        let hopeful = (0..worth.len()).filter(|at| worth[*at] >= 0.0);
        let best = hopeful.max_by(|a, b| worth[*a].total_cmp(&worth[*b]).then(b.cmp(a)))?;
        self.breeder.choose(&children[best]);
        Some((children[best].genome.clone(), children[best].origin))
    }

    fn note_taken(&mut self, genome: &Genome) {
        if !self.taken.is_empty()
            && let Some(place) = self.space.index_of(genome)
        {
            self.taken[place as usize] = true;
        }
    }
}

impl Strategy for Evolve<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(&mut self, n: usize) -> Vec<Proposal> {
        let mut proposals = Vec::new();
        while proposals.len() < n
            && let Some(proposal) = self.propose()
        {
            self.begun += 1;
            self.note_taken(&proposal.genome);
            self.flying.push(proposal.genome.clone());
            proposals.push(proposal);
        }
        proposals
    }

    fn tell(&mut self, outcome: &Outcome) {
        self.begun += usize::from(!self.unseen.is_seen(&outcome.genome));
        self.unseen.note(&outcome.genome);
        self.note_taken(&outcome.genome);
        self.flying.retain(|genome| *genome != outcome.genome);
        self.stale += 1;
        let worked = matches!(outcome.class, VerdictClass::Ok | VerdictClass::Slow | VerdictClass::Noisy);
        let objective = outcome.objective_ns.filter(|value| worked && value.is_finite());
        if let Some(objective) = objective {
            if self.breeder.tell(&outcome.genome, objective) {
                self.stale = 0;
            }
        } else {
            self.breeder.fail(&outcome.genome);
        }
        if self.believed.remove(&outcome.genome) && objective.is_none() {
            self.withdrawn.push(outcome.genome.clone());
        }
        if let (Some(facts), Some(objective)) = (&outcome.facts, objective) {
            self.learn_facts(&outcome.genome, facts, objective);
        }
        // Our own trouble says nothing about the variant, nor does passing it over.
        let says_nothing = matches!(outcome.class, VerdictClass::Harness | VerdictClass::PassedOver);
        if !says_nothing && (!worked || objective.is_some()) {
            self.backlog.push((outcome.genome.clone(), objective));
        }
    }

    fn reconsider(&mut self, genome: &Genome, facts: &Facts) -> bool {
        let best = self.ensemble.as_ref().and_then(Ensemble::best);
        let (Some(model), Some(best)) = (&mut self.facts, best) else { return true };
        self.reconsidered += 1;
        let mut rng = seeded(self.seed ^ self.reconsidered.wrapping_mul(0xa24b_aed4_963e_e407));
        model.judge(genome, facts, best, &mut rng).runs()
    }

    fn inherit(&mut self, studies: &[PriorStudy]) -> bool {
        self.prior.extend_from_slice(studies);
        self.inherited = self.prior.iter().rev().filter_map(|study| study.best_point().cloned()).collect();
        true
    }

    fn is_done(&self) -> bool {
        self.unseen.is_exhausted()
    }
}

#[cfg(test)]
mod tests;
