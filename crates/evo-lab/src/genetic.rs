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

use evo_search::memory::{Member, Spread, Unseen};
use evo_search::population::Population;
use evo_search::strategy::{Origin, Outcome, Proposal, Strategy, VerdictClass};
use evo_search::variation::{Bandit, VARIATIONS};
use evo_space::genome::Genome;
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

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

const CAPACITY: usize = 16;

/// Points of a low-discrepancy sequence at the beginning, the default configuration included. Fewer give
/// too little to recombine; more would be a noticeable part of a budget of fifty.
const OPENING: usize = 8;

/// Chance of proposing a point even if its estimated risk is 1, so that wrong lessons can be corrected.
const FORGIVENESS: f64 = 0.05;

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
    pub(crate) fn new(space: &'a SearchSpace, seed: u64) -> Genetic<'a> {
        let changes: usize = space.parameters().iter().map(|parameter| parameter.values.len() - 1).sum();
        Genetic {
            memory: SearchMemory::new(space, seed),
            population: Population::new(CAPACITY),
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

/// What came of the points that were proposed.
#[derive(Debug)]
struct SearchMemory<'a> {
    unseen: Unseen<'a>,
    spread: Spread<'a>,
    lessons: Lessons,
    /// Objective and arrival of the points that worked.
    known: HashMap<Genome, (f64, u64)>,
    seed: u64,
    /// Points proposed, or told by an earlier run.
    begun: usize,
}

impl<'a> SearchMemory<'a> {
    fn new(space: &'a SearchSpace, seed: u64) -> SearchMemory<'a> {
        SearchMemory {
            unseen: Unseen::new(space, seed),
            spread: Spread::new(space, seed),
            lessons: Lessons::default(),
            known: HashMap::new(),
            seed,
            begun: 0,
        }
    }

    fn space(&self) -> &'a SearchSpace {
        self.unseen.space()
    }

    /// A known point with its objective, if it worked.
    fn recall(&self, genome: &Genome) -> Option<Member> {
        let (objective, arrival) = *self.known.get(genome)?;
        Some(Member { objective, arrival, genome: genome.clone() })
    }

    fn is_exhausted(&self) -> bool {
        self.unseen.is_exhausted()
    }

    /// Starts the next proposal: its generator, and during the opening the proposal itself.
    ///
    /// Each proposal has its own generator, seeded by the search's seed and the number of proposals before
    /// it, so that a resumed search draws what the uninterrupted one would have drawn.
    fn turn(&mut self) -> (ChaCha8Rng, Option<Proposal>) {
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
    fn take(&mut self, genome: &Genome, rng: &mut ChaCha8Rng) -> bool {
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
    fn fresh(&mut self, rng: &mut ChaCha8Rng) -> Option<Genome> {
        let genome = self.spread.next(&mut self.unseen).or_else(|| self.unseen.draw(rng));
        self.begun += usize::from(genome.is_some());
        genome
    }

    /// Learns an outcome and returns the point with its objective if it worked.
    fn learn(&mut self, outcome: &Outcome) -> Option<Member> {
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
        Some(Member { objective, arrival, genome: outcome.genome.clone() })
    }
}

/// Successes that each pattern starts with; they shrink its rate of failures toward 0.
const PRIOR: f64 = 2.0;

/// Failure counts by gene and by pair of genes.
#[derive(Debug, Default)]
struct Lessons {
    /// From (gene, position, gene, position) to (failures, trials). A single gene is paired with itself.
    counts: HashMap<(u16, u16, u16, u16), (u32, u32)>,
}

impl Lessons {
    fn learn(&mut self, genome: &Genome, failed: bool) {
        for pattern in patterns(genome) {
            let (failures, trials) = self.counts.entry(pattern).or_default();
            *failures += u32::from(failed);
            *trials += 1;
        }
    }

    /// The estimated probability that a point fails: the highest rate of its patterns.
    fn risk(&self, genome: &Genome) -> f64 {
        let rate = |pattern| {
            let (failures, trials) = self.counts.get(&pattern).copied().unwrap_or_default();
            f64::from(failures) / (f64::from(trials) + PRIOR)
        };
        patterns(genome).map(rate).fold(0.0, f64::max)
    }
}

fn patterns(genome: &Genome) -> impl Iterator<Item = (u16, u16, u16, u16)> + '_ {
    let positions = genome.positions();
    (0..positions.len()).flat_map(move |first| {
        (first..positions.len())
            .map(move |second| (first as u16, positions[first], second as u16, positions[second]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three parameters of 16 values.
    fn wide() -> SearchSpace {
        let values: Vec<String> = (0..16).map(|value| value.to_string()).collect();
        let lines = ["A", "B", "C"].map(|name| format!("{name} = [{}]\n", values.join(", ")));
        SearchSpace::parse(&format!("[parameters]\n{}", lines.concat())).unwrap()
    }

    /// An outcome with one optimum: the squared distance of positions from somewhere inside.
    fn bowl(genome: &Genome) -> Outcome {
        let distance = genome.positions().iter().map(|position| (f64::from(*position) - 10.5).powi(2));
        Outcome::new(genome.clone(), VerdictClass::Ok, Some(100.0 + distance.sum::<f64>()))
    }

    /// As every strategy: valid points, none of them twice, and all of them before it is done.
    #[test]
    fn every_valid_point_is_proposed_once_and_a_seed_repeats() {
        let text = "constraints = ['A * B <= 32']\n[parameters]\nA = [1, 2, 4, 8, 16]\nB = [1, 2, 4, 8]\nC = [3, 5]\n";
        let space = SearchSpace::parse(text).unwrap();
        for flight in [1, 7, 100] {
            let all = |seed| {
                let (mut strategy, mut all) = (Genetic::new(&space, seed), Vec::new());
                loop {
                    let batch = strategy.ask(flight);
                    if batch.is_empty() {
                        assert!(strategy.is_done());
                        return all;
                    }
                    batch.iter().for_each(|proposal| strategy.tell(&bowl(&proposal.genome)));
                    all.extend(batch.into_iter().map(|proposal| proposal.genome));
                }
            };
            let mut points = all(1);
            assert_eq!(points, all(1));
            assert_ne!(points, all(2));
            assert!(
                points[0] == space.default_genome() && points.iter().all(|genome| space.contains(genome))
            );
            points.sort();
            points.dedup();
            assert_eq!(points.len() as u128, space.count());
        }
    }

    #[test]
    fn a_region_that_fails_is_proposed_less() {
        let space = wide();
        let mut strategy = Genetic::new(&space, 1);
        let mut failures = [0u32; 2];
        for round in 0..300 {
            let proposal = strategy.ask(1).pop().unwrap();
            let failed = proposal.genome.positions()[0] % 2 == 1;
            failures[usize::from(round >= 100)] += u32::from(failed);
            let mut outcome = bowl(&proposal.genome);
            if failed {
                outcome.class = VerdictClass::Crash;
                outcome.objective_ns = None;
            }
            strategy.tell(&outcome);
        }
        // Half of the space fails; the later two thirds of the run must avoid most of it.
        assert!(failures[1] < 70, "{failures:?}");
    }

    #[test]
    fn a_pair_that_always_fails_is_risky_and_its_parts_are_not() {
        let mut lessons = Lessons::default();
        for other in 0..10 {
            lessons.learn(&Genome::from(vec![1, 1, other]), true);
            lessons.learn(&Genome::from(vec![1, 0, other]), false);
            lessons.learn(&Genome::from(vec![0, 1, other]), false);
        }
        assert!(lessons.risk(&Genome::from(vec![1, 1, 20])) > 0.8);
        assert!(lessons.risk(&Genome::from(vec![1, 0, 20])) < 0.5);
        assert_eq!(lessons.risk(&Genome::from(vec![5, 5, 50])), 0.0);
    }
}
