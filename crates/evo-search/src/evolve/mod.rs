//! The default strategy: an evolutionary search whose candidates are screened by models.
//!
//! If a space is small enough to list, every valid point is a candidate at every proposal. If not, the candidates are
//! neighbors of the best points, children of a population by six operators, and uniform samples; a bandit prefers
//! operators whose children beat their parents. In both cases the models choose by expected improvement. Some proposals
//! are chosen by one model alone and a few are random, because runs that get stuck cost more, averaged over many runs,
//! than these proposals do.

mod encoder;
mod ensemble;
mod observations;
mod process_member;
mod variation;

use std::sync::Arc;

use evo_protocol::evaluation::Facts;
use evo_protocol::verdict::VerdictClass;
use evo_space::Neighborhood;
use evo_space::genome::Genome;
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::evolve::ensemble::{Ensemble, Judges, Lesson, ToldPoint};
use crate::evolve::variation::{Breeder, Member};
use crate::memory::{Spread, Unseen};
use crate::model::facts::FactsModel;
use crate::strategy::{Origin, Outcome, PriorStudy, Proposal, Strategy};

pub const FULL: &str = "evolve";

/// With 117,120 points a proposal takes about 3 ms (docs/SEARCH.md, Why it is cheap).
const POOL_MAX: u128 = 1 << 17;

/// Points of the low-discrepancy sequence at the beginning: as many as the Gaussian process needs to start
/// (`FEWEST` in `process_member`), few enough for a budget of ten.
const OPENING: usize = 4;

/// So many outcomes let the search make good use of one more proposal in flight. Set on 2026-11-22: of an opening
/// of 16 in flight, no model makes up on budgets below a hundred (docs/SEARCH.md, Many in flight).
const OUTCOMES_PER_SLOT: usize = 8;

/// Blind proposals at the beginning on several lanes, at least.
const OPENING_ON_LANES: usize = 8;

/// Share of random proposals. Set on 2026-11-21 with `evolve`; leaving them out changes the score by less
/// than the noise (docs/SEARCH.md, `evolve-chance`), and they guarantee that every point is reachable.
const CHANCE: f64 = 0.03;

/// The same share at most, after a long time without a new best.
const CHANCE_MAX: f64 = 0.25;

/// Random draws that may be rejected for their risk of failing; the next one is taken whatever its risk.
const DRAWS: usize = 8;

/// Set on 2026-11-21; within the noise when left out (docs/SEARCH.md, `evolve-neighbors`).
const NEIGHBORS: f64 = 0.1;

/// How many of the best points are asked for neighbors: the first of them that has any left is used.
const ELITE: usize = 3;

/// Share of proposals chosen by the trees alone, and by the process alone. A quarter each until 2026-11-21;
/// the process got more because it is the better judge while little is known. Without such proposals the
/// score falls from 0.787 to 0.760 (docs/SEARCH.md, `evolve-solo`).
const TREES_ALONE: f64 = 0.1;
const PROCESS_ALONE: f64 = 0.4;

/// Outcomes without a new best before the share of random proposals grows. The number of possible changes to
/// one gene is added, so that all neighbors of the best could have been tried by then.
const PATIENCE: usize = 60;

#[derive(Debug)]
pub(crate) struct Evolve<'a> {
    space: &'a SearchSpace,
    seed: u64,
    unseen: Unseen<'a>,
    spread: Spread<'a>,
    prior: Vec<PriorStudy>,
    /// The best points of earlier studies that are still to be proposed, the next one last.
    inherited: Vec<Genome>,
    /// The models. They are made at the first proposal that needs them, because encoding a pool takes time.
    ensemble: Option<Ensemble>,
    /// Which points of the pool were proposed or told, by canonical index; empty if there is no pool.
    taken: Vec<bool>,
    breeder: Breeder,
    facts: Option<FactsModel>,
    reconsidered: u64,
    backlog: Vec<ToldPoint>,
    flying: Vec<Genome>,
    /// How many of `flying`, from the first on, the models have taken in.
    launched: usize,
    /// Proposals, and points told by an earlier run.
    begun: usize,
    stale: usize,
    patience: usize,
    worth: Vec<f64>,
}

impl<'a> Evolve<'a> {
    pub(crate) fn new(space: &'a SearchSpace, seed: u64) -> Evolve<'a> {
        // The number of Hamming neighbors of a point, before constraints.
        let changes: usize = space.parameters().iter().map(|parameter| parameter.values.len() - 1).sum();
        // `taken` is indexed by canonical index, and only in an exact space does every index have a point.
        let pool = if space.is_exact() && space.count() <= POOL_MAX { space.count() as usize } else { 0 };
        Evolve {
            space,
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
            launched: 0,
            begun: 0,
            stale: 0,
            patience: PATIENCE + changes,
            worth: Vec::new(),
        }
    }

    /// A generator for each proposal, seeded by the number of proposals before it, so that a resumed search draws what the
    /// uninterrupted one would have drawn. The factor is 2^64 over the golden ratio, which spreads consecutive numbers
    /// over all bits (Knuth, TAOCP 3, 6.4).
    fn generator(&self) -> ChaCha8Rng {
        seeded(self.seed ^ (self.begun as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn propose(&mut self) -> Option<Proposal> {
        let mut rng = self.generator();
        if let Some(first) = self.unseen.default() {
            return Some(first);
        }
        while let Some(genome) = self.inherited.pop() {
            if self.unseen.claim(&genome) {
                return Some(Proposal::new(genome, Origin::PRIOR));
            }
        }
        if self.begun < OPENING {
            return self.elsewhere(&mut rng);
        }
        self.catch_up();
        if !self.ensemble.as_ref().is_some_and(Ensemble::is_ready) {
            return self.elsewhere(&mut rng);
        }
        let ticket = rng.random::<f64>();
        let chance = self.chance();
        let chosen = if ticket < chance {
            None
        } else {
            let (near, judges) = (ticket < chance + NEIGHBORS, self.judges(&mut rng));
            match self.taken.is_empty() {
                true => self.breed(near, judges, &mut rng),
                false => self.choose_from_pool(near, judges),
            }
        };
        // If everything left is expected to fail a random point is taken: the model of failures may be wrong.
        let (genome, origin) = match chosen {
            Some(chosen) if self.unseen.claim(&chosen.0) => chosen,
            _ => (self.anywhere(&mut rng)?, Origin::RANDOM),
        };
        let expected = self.ensemble.as_ref().map(|ensemble| ensemble.expectation(&genome));
        Some(Proposal { expected, ..Proposal::new(genome, origin) })
    }

    fn elsewhere(&mut self, rng: &mut ChaCha8Rng) -> Option<Proposal> {
        let genome = self.spread.next(&mut self.unseen).or_else(|| self.unseen.draw(rng))?;
        Some(Proposal::new(genome, Origin::SPREAD))
    }

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
            self.ensemble = Some(Ensemble::new(self.space, pool.as_deref(), &self.prior, self.seed));
        }
    }

    fn learn_facts(&mut self, genome: &Genome, facts: &Facts, objective: f64) {
        self.make_ensemble();
        let Some(ensemble) = &self.ensemble else { return };
        // The backlog is learned at the next proposal only, so the best may be this very objective.
        let best = ensemble.best().map_or(objective, |best| best.min(objective));
        let model = self.facts.get_or_insert_with(|| FactsModel::new(Arc::clone(ensemble.features())));
        model.learn(genome, facts, objective, best);
    }

    /// What is in flight is taken in last, as points that will turn out as expected.
    fn catch_up(&mut self) {
        self.make_ensemble();
        let Some(ensemble) = &mut self.ensemble else { return };
        if !self.backlog.is_empty() {
            ensemble.learn(&std::mem::take(&mut self.backlog));
        }
        ensemble.launch(&self.flying[self.launched..]);
        self.launched = self.flying.len();
    }

    fn chance(&self) -> f64 {
        let rounds = (self.stale / self.patience) as f64;
        (CHANCE * (1.0 + rounds)).min(CHANCE_MAX)
    }

    fn judges(&self, rng: &mut ChaCha8Rng) -> Judges {
        let ticket = rng.random::<f64>();
        if ticket < TREES_ALONE {
            Judges::Trees
        } else if ticket < TREES_ALONE + PROCESS_ALONE {
            Judges::Process
        } else {
            Judges::All
        }
    }

    /// `None` if all are expected to fail. With `near`, a neighbor of one of the best points, if one is left.
    fn choose_from_pool(&mut self, near: bool, judges: Judges) -> Option<(Genome, Origin)> {
        self.ensemble.as_ref()?.worth_of_pool(judges, &mut self.worth);
        let (worth, taken) = (&self.worth, &self.taken);
        // Of equal worth the lower index wins, so that the choice does not depend on the order of iteration.
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
            _ if neighbor.is_some() => Origin::NEIGHBOR,
            Judges::All => Origin::MODEL,
            Judges::Trees => Origin::TREES,
            Judges::Process => Origin::PROCESS,
        };
        Some((self.space.genome_at(place as u128)?, origin))
    }

    /// The most promising of many candidates; `None` if all are expected to fail.
    fn breed(&mut self, near: bool, judges: Judges, rng: &mut ChaCha8Rng) -> Option<(Genome, Origin)> {
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
        // Told by a resumed study: the generators continue where the interrupted run stopped.
        self.begun += usize::from(!self.unseen.is_seen(&outcome.genome));
        self.unseen.note(&outcome.genome);
        self.note_taken(&outcome.genome);
        let place = self.flying.iter().position(|genome| *genome == outcome.genome);
        place.map(|place| self.flying.remove(place));
        let place = place.filter(|place| *place < self.launched);
        self.launched -= usize::from(place.is_some());
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
        // A variant may be judged before the next proposal is asked for.
        if let (Some(facts), Some(objective)) = (&outcome.facts, objective) {
            self.learn_facts(&outcome.genome, facts, objective);
        }
        let says_nothing = matches!(outcome.class, VerdictClass::Harness | VerdictClass::PassedOver);
        let lesson = match objective {
            Some(objective) => Lesson::Time(objective),
            None if worked || says_nothing => Lesson::Nothing,
            None => Lesson::Failure,
        };
        if lesson != Lesson::Nothing || place.is_some() {
            self.backlog.push(ToldPoint { genome: outcome.genome.clone(), lesson, place });
        }
    }

    fn reconsider(&mut self, genome: &Genome, facts: &Facts) -> bool {
        let best = self.ensemble.as_ref().and_then(Ensemble::best);
        let (Some(model), Some(best)) = (&mut self.facts, best) else { return true };
        // A generator of their own, so that judging variants does not change later proposals.
        self.reconsidered += 1;
        let mut rng = seeded(self.seed ^ self.reconsidered.wrapping_mul(0xa24b_aed4_963e_e407));
        model.judge(genome, facts, best, &mut rng)
    }

    fn inherit(&mut self, studies: &[PriorStudy]) -> bool {
        self.prior.extend_from_slice(studies);
        // Reversed, because points are taken from the end.
        self.inherited = self.prior.iter().rev().filter_map(|study| Some(study.best()?.0.clone())).collect();
        true
    }

    fn useful_in_flight(&self, lanes: usize) -> usize {
        let outcomes = self.begun - self.flying.len();
        // At first each further proposal in flight is one more blind draw.
        let on_one = OPENING + outcomes / OUTCOMES_PER_SLOT;
        // A blind opening on all of many lanes costs more than some lanes that idle while the first outcomes come:
        // with a quarter of them, and two proposals for each outcome, it is one and a quarter of an evaluation's time.
        (OPENING_ON_LANES.max(lanes / 4) + outcomes).min(on_one.saturating_mul(lanes.max(1)))
    }

    fn is_done(&self) -> bool {
        self.unseen.is_exhausted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{bowl, failure, run, space_of};

    fn space() -> SearchSpace {
        space_of(
            "constraints = ['X * Y <= 1024']\n[parameters]\nX = [1, 2, 4, 8, 16, 32, 64, 128]\nY = [1, 2, 4, 8, 16, 32]\n\
         TILE = [1, 2, 3, 4, 6, 8]\nSHARED = [false, true]\nLAYOUT = ['row', 'column', 'tiled']\n",
        )
    }

    /// Tells `count` outcomes of the bowl, one at a time, and returns the best objective after each.
    fn bests(strategy: &mut Evolve, space: &SearchSpace, count: usize) -> Vec<f64> {
        let proposals = run(strategy, 1, count, |_, proposal| bowl(space, &proposal.genome));
        assert_eq!(proposals.len(), count);
        let objectives = proposals.iter().filter_map(|proposal| bowl(space, &proposal.genome).objective_ns);
        let least = |best: &mut f64, objective: f64| {
            *best = best.min(objective);
            Some(*best)
        };
        objectives.scan(f64::INFINITY, least).collect()
    }

    fn study(space: &SearchSpace, objective: impl Fn(f64) -> f64) -> PriorStudy {
        let points = space.sample_distinct(200, &mut seeded(9));
        let outcome = |genome: Genome| {
            let value = bowl(space, &genome).objective_ns.map(&objective);
            (genome, value)
        };
        PriorStudy { outcomes: points.into_iter().map(outcome).collect() }
    }

    #[test]
    fn proposals_say_what_is_expected_of_them() {
        let space = space();
        let mut strategy = Evolve::new(&space, 1);
        bests(&mut strategy, &space, 30);
        let proposal = strategy.ask(1).pop().unwrap();
        let expected = proposal.expected.expect("models are at work");
        assert!(expected.low_ns <= expected.objective_ns && expected.objective_ns <= expected.high_ns);
        assert!(expected.objective_ns > 50.0 && expected.objective_ns < 300.0, "{expected:?}");
        assert_eq!(expected.risk, 0.0);
    }

    #[test]
    fn what_fails_in_flight_leaves_nothing_behind() {
        let space = space();
        let mut strategy = Evolve::new(&space, 2);
        bests(&mut strategy, &space, 20);
        for round in 1..=3 {
            let flight = strategy.ask(8);
            let known = strategy.ensemble.as_ref().unwrap().observations();
            assert_eq!(known.1, 7, "all but the last, which nobody was asked after");
            for (at, proposal) in flight.into_iter().enumerate() {
                let genome = &proposal.genome;
                strategy.tell(&if at % 2 == 0 { failure(genome) } else { bowl(&space, genome) });
            }
            let last = strategy.ask(1).pop().unwrap();
            let known = strategy.ensemble.as_ref().unwrap().observations();
            assert_eq!(known, (20 + 5 * round - 1, 0));
            strategy.tell(&bowl(&space, &last.genome));
        }
    }

    #[test]
    fn many_in_flight_are_kept_up_to_date_as_if_they_were_taken_in_anew() {
        let space = space();
        let mut strategy = Evolve::new(&space, 2);
        bests(&mut strategy, &space, 20);
        let mut flight = strategy.ask(40);
        for round in 0..30 {
            let proposal = flight.remove(round * 7 % flight.len());
            strategy.tell(&match round % 6 {
                4 => failure(&proposal.genome),
                5 => Outcome::new(proposal.genome, VerdictClass::PassedOver, None),
                _ => bowl(&space, &proposal.genome),
            });
            if round % 3 > 0 {
                flight.extend(strategy.ask(1));
            }
        }
        strategy.catch_up();
        let known = strategy.ensemble.as_ref().unwrap().observations();
        assert_eq!(known, (20 + 20, flight.len()));
        let worth = |strategy: &Evolve| {
            let mut worth = Vec::new();
            strategy.ensemble.as_ref().unwrap().worth_of_pool(Judges::All, &mut worth);
            worth
        };
        let kept = worth(&strategy);
        let ensemble = strategy.ensemble.as_mut().unwrap();
        ensemble.relaunch();
        let anew = worth(&strategy);
        let most = anew.iter().copied().fold(0.0, f64::max);
        assert!(most > 0.0 && kept.iter().zip(&anew).all(|(kept, anew)| (kept - anew).abs() < 0.01 * most));
    }

    #[test]
    fn useful_in_flight_grows_with_what_is_known_and_many_lanes_begin_with_a_few_of_them() {
        let space = space();
        let mut strategy = Evolve::new(&space, 3);
        let lanes = |strategy: &Evolve| [1, 2, 8, 64].map(|lanes| strategy.useful_in_flight(lanes));
        assert_eq!(lanes(&strategy), [4, 8, 8, 16]);
        strategy.ask(16);
        assert_eq!(lanes(&strategy), [4, 8, 8, 16], "nothing is known of what is in flight");
        bests(&mut strategy, &space, 48);
        assert_eq!(lanes(&strategy), [10, 20, 56, 64]);
    }

    #[test]
    fn many_outcomes_at_once_are_learned_together_and_as_well() {
        let space = space();
        let told = space.sample_distinct(300, &mut seeded(3));
        let mut strategy = Evolve::new(&space, 3);
        told.iter().for_each(|genome| strategy.tell(&bowl(&space, genome)));
        let least = |genomes: &[Genome]| {
            genomes.iter().filter_map(|genome| bowl(&space, genome).objective_ns).fold(f64::MAX, f64::min)
        };
        let found = bests(&mut strategy, &space, 25);
        let (best, optimum) = (least(&told), least(&space.iter().collect::<Vec<_>>()));
        assert!(found[24].min(best) == optimum, "{found:?} of {optimum}");
    }

    #[test]
    fn an_earlier_study_that_agrees_is_followed_and_one_that_lies_is_outvoted() {
        let space = space();
        let mean = |objective: Option<fn(f64) -> f64>| {
            let runs = (1..=5).map(|seed| {
                let mut strategy = Evolve::new(&space, seed);
                if let Some(objective) = objective {
                    assert!(strategy.inherit(&[study(&space, objective)]));
                }
                let found = bests(&mut strategy, &space, 60);
                (found[5], found[59])
            });
            runs.fold((0.0, 0.0), |sum, run| (sum.0 + run.0 / 5.0, sum.1 + run.1 / 5.0))
        };
        let (alone, agreed, lied) =
            (mean(None), mean(Some(|value| 3.0 * value)), mean(Some(|value| 1e4 / value)));
        assert!(agreed.0 < alone.0, "early on {agreed:?} is not better than {alone:?}");
        assert!(lied.1 < alone.1 * 1.02, "in the end {lied:?} is much worse than {alone:?}");
    }

    #[test]
    fn what_fails_is_avoided_once_it_is_known() {
        let space = space();
        let mut strategy = Evolve::new(&space, 4);
        let fails = |genome: &Genome| genome.positions()[3] == 1;
        let fate = |genome: &Genome| if fails(genome) { failure(genome) } else { bowl(&space, genome) };
        let proposals = run(&mut strategy, 1, 120, |_, proposal| fate(&proposal.genome));
        let (early, late) = proposals.split_at(40);
        let failures = [early, late].map(|part| part.iter().filter(|one| fails(&one.genome)).count());
        // Half of the space fails; the second phase must not prefer what fails to what is known to be worse.
        assert!(failures[0] > 0 && failures[1] <= 8, "{failures:?}");
    }

    #[test]
    fn what_works_is_found_where_nearly_all_fails() {
        let space = space();
        let works = |genome: &Genome| {
            let at = genome.positions();
            (3..=5).contains(&at[0]) && (2..=3).contains(&at[1]) && at[3] == 0 && at[4] == 0
        };
        let share = space.iter().filter(works).count() as f64 / space.count() as f64;
        assert!(share < 0.05, "{share} of the space works");
        let optimum = space.iter().filter(works).filter_map(|genome| bowl(&space, &genome).objective_ns);
        let optimum = optimum.fold(f64::MAX, f64::min);
        let fate = |genome: &Genome| if works(genome) { bowl(&space, genome) } else { failure(genome) };
        // Random search needs half of the space.
        let enough = space.count() as usize / 8 - 1;
        let found = (1..=8).filter(|seed| {
            let all = run(&mut Evolve::new(&space, *seed), 1, enough, |_, proposal| fate(&proposal.genome));
            all.iter().any(|proposal| fate(&proposal.genome).objective_ns == Some(optimum))
        });
        let found = found.count();
        assert!(found >= 5, "{found} of 8 find it with {enough} evaluations");
    }

    #[test]
    fn chance_grows_while_nothing_better_comes() {
        let space = space();
        let mut strategy = Evolve::new(&space, 5);
        bests(&mut strategy, &space, 10);
        let early = strategy.chance();
        strategy.stale = 10 * strategy.patience;
        assert!(strategy.chance() > early && strategy.chance() <= CHANCE_MAX);
    }

    #[test]
    fn a_space_too_large_to_list_is_searched_by_its_children() {
        let values = (1..=40).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
        let parameters = (0..10).map(|at| format!("P{at} = [{values}]\n")).collect::<String>();
        let space = space_of(&format!("constraints = ['P0 + P1 <= 70']\n[parameters]\n{parameters}"));
        let mut strategy = Evolve::new(&space, 6);
        let found = bests(&mut strategy, &space, 150);
        let mut rng = seeded(6);
        let random = (0..3000).map(|_| bowl(&space, &space.sample(&mut rng).unwrap()).objective_ns.unwrap());
        let random = random.fold(f64::MAX, f64::min);
        assert!(found[149] < random, "{} is not below the best of 3,000 samples, {random}", found[149]);
    }
}
