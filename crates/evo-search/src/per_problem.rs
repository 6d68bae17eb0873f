//! One search for each timed problem, over the same evaluations.
//!
//! Where problems differ, the best configuration of one is far from the best of another, and a search for the least
//! mean finds neither. Here each problem has a strategy of its own that is told every evaluation by its time on that
//! problem. For each proposal one problem is the target, by lot: its chance follows what it has left to gain.
//! The strategies share what is measured.
//!
//! What is left is the natural logarithm of the best time over the least that the device allows, so a problem at 8
//! times its bound has three times as much left as one at twice. Where the bound is not known, it is what was
//! gained lately: the logarithm of the best time some outcomes ago over the best now. Many bounds are out of reach
//! (a launch of 3 µs may move so few bytes that its bound is 50 ns), so what is left counts for less with every
//! proposal that was aimed at the problem and brought nothing.
//!
//! The outcomes in their order decide, so a resumed search goes on as the interrupted one would have.

use std::collections::{HashMap, HashSet, VecDeque};

use evo_protocol::evaluation::Facts;
use evo_protocol::verdict::VerdictClass;
use evo_space::genome::Genome;
use evo_space::sample::seeded;
use rand::RngExt;

use crate::strategy::{Origin, Outcome, PriorStudy, Proposal, Strategy};

pub struct ProblemSearch<'a> {
    strategy: Box<dyn Strategy + 'a>,
    progress: ProblemProgress,
}

impl<'a> ProblemSearch<'a> {
    /// `bound_ns` is the least time that the device's peaks allow for one call; `None` where that is not known.
    pub fn new(strategy: Box<dyn Strategy + 'a>, bound_ns: Option<f64>) -> ProblemSearch<'a> {
        ProblemSearch { strategy, progress: ProblemProgress::new(bound_ns) }
    }

    fn tell(&mut self, outcome: &Outcome, problem: usize) {
        let time = outcome.times.get(problem).copied().flatten();
        let (class, objective_ns) = match (outcome.class, time) {
            (VerdictClass::Ok | VerdictClass::Noisy, Some(time)) => (outcome.class, Some(time.time_ns)),
            (VerdictClass::Slow, Some(time)) if time.is_bound => (VerdictClass::Slow, Some(time.time_ns)),
            // Too slow in some other respect, which does not matter here.
            (VerdictClass::Slow, Some(time)) => (VerdictClass::Ok, Some(time.time_ns)),
            // It ran and was not timed on this problem: nothing is known, and it is not to be proposed again.
            (VerdictClass::Ok | VerdictClass::Noisy | VerdictClass::Slow, None) => {
                (VerdictClass::PassedOver, None)
            }
            (class, _) => (class, None),
        };
        self.strategy.tell(&Outcome {
            class,
            objective_ns,
            times: Vec::new(),
            target: None,
            ..outcome.clone()
        });
        // Only what passed every gate may be the best.
        let passed = time.filter(|time| outcome.class == VerdictClass::Ok && !time.is_bound);
        self.progress.tell(passed.map(|time| time.time_ns), outcome.target == Some(problem));
    }
}

pub struct PerProblem<'a> {
    /// In the order of [`Outcome::times`]; at least one.
    searches: Vec<ProblemSearch<'a>>,
    seed: u64,
    /// What was proposed or told: the strategies do not know of each other's proposals before they are told.
    seen: HashSet<Genome>,
    targets: HashMap<Genome, usize>,
}

impl<'a> PerProblem<'a> {
    /// One search for each timed problem, in their order; `None` without any. The strategies are to begin alike, with
    /// one seed, so that their openings are the same points.
    pub fn new(searches: Vec<ProblemSearch<'a>>, seed: u64) -> Option<PerProblem<'a>> {
        let (seen, targets) = (HashSet::new(), HashMap::new());
        (!searches.is_empty()).then_some(PerProblem { searches, seed, seen, targets })
    }

    /// Each problem's chance to be the target of the next proposal, in order; they add up to 1.
    pub fn shares(&self) -> Vec<f64> {
        shares(self.searches.iter().map(|one| &one.progress))
    }

    /// The problem that the next proposal is aimed at. The generator is that of the number of points before it, so that a
    /// resumed search draws what the uninterrupted one would have drawn.
    fn target(&self) -> usize {
        let begun = self.seen.len() as u64;
        // The factor is another than those of the strategies, whose draws must not go with these.
        let mut rng = seeded(self.seed ^ begun.wrapping_mul(0xd6e8_feb8_6659_fd93));
        pick(&self.shares(), rng.random::<f64>())
    }

    fn propose(&mut self) -> Option<Proposal> {
        let (target, count) = (self.target(), self.searches.len());
        // A strategy may have to wait, or have nothing left; then another one proposes.
        let order = (0..count).map(|step| (target + step) % count);
        for problem in order {
            while let Some(mut proposal) = self.searches[problem].strategy.ask(1).pop() {
                if !self.seen.insert(proposal.genome.clone()) {
                    continue;
                }
                // What it is expected to take is a time on this problem, and not the objective of a journal.
                proposal.expected = None;
                let is_for_all = matches!(proposal.origin, Origin::DEFAULT | Origin::SPREAD | Origin::PRIOR);
                if !is_for_all {
                    proposal.target = Some(problem);
                    self.targets.insert(proposal.genome.clone(), problem);
                }
                return Some(proposal);
            }
        }
        None
    }

    fn search_of(&mut self, genome: &Genome) -> Option<&mut ProblemSearch<'a>> {
        let problem = *self.targets.get(genome)?;
        self.searches.get_mut(problem)
    }
}

impl Strategy for PerProblem<'_> {
    fn ask(&mut self, n: usize) -> Vec<Proposal> {
        (0..n).map_while(|_| self.propose()).collect()
    }

    fn tell(&mut self, outcome: &Outcome) {
        self.seen.insert(outcome.genome.clone());
        self.targets.remove(&outcome.genome);
        for (problem, search) in self.searches.iter_mut().enumerate() {
            search.tell(outcome, problem);
        }
    }

    fn learns(&self) -> bool {
        self.searches.iter().any(|search| search.strategy.learns())
    }

    fn reconsider(&mut self, genome: &Genome, facts: &Facts) -> bool {
        self.search_of(genome).is_none_or(|search| search.strategy.reconsider(genome, facts))
    }

    fn inherit(&mut self, studies: &[PriorStudy]) -> bool {
        // What is good in the mean is a hint for each problem. All of them hear it, so nothing ends at the first.
        let used: Vec<bool> = self.searches.iter_mut().map(|one| one.strategy.inherit(studies)).collect();
        used.contains(&true)
    }

    fn useful_in_flight(&self, lanes: usize) -> usize {
        self.searches.iter().map(|search| search.strategy.useful_in_flight(lanes)).max().unwrap_or(1)
    }

    fn is_done(&self) -> bool {
        self.searches.iter().all(|search| search.strategy.is_done())
    }
}

/// Outcomes over which the gain of a problem without a bound is measured.
const LATELY: usize = 32;

/// After so many proposals in a row that brought nothing, what is left counts for half.
const PATIENCE: f64 = 16.0;

/// Least share of the best chance: bounds may be wrong, and a search may sit in a local optimum.
const LEAST: f64 = 0.1;

/// A best time that is less than 1 % below the one before is within what two measurements differ by.
const GAIN: f64 = 0.99;

#[derive(Clone, Debug, Default)]
struct ProblemProgress {
    bound_ns: Option<f64>,
    best_ns: Option<f64>,
    /// The best after each of the last outcomes, the oldest first.
    lately: VecDeque<f64>,
    mark_ns: Option<f64>,
    fruitless: u32,
}

impl ProblemProgress {
    fn new(bound_ns: Option<f64>) -> ProblemProgress {
        let bound_ns = bound_ns.filter(|bound| bound.is_finite() && *bound > 0.0);
        ProblemProgress { bound_ns, ..ProblemProgress::default() }
    }

    fn tell(&mut self, time_ns: Option<f64>, is_target: bool) {
        self.fruitless += u32::from(is_target);
        if let Some(time) = time_ns.filter(|time| time.is_finite() && *time > 0.0) {
            self.best_ns = Some(self.best_ns.map_or(time, |best| best.min(time)));
            if self.mark_ns.is_none_or(|mark| time < mark * GAIN) {
                self.mark_ns = Some(time);
                self.fruitless = 0;
            }
        }
        if let Some(best) = self.best_ns {
            self.lately.push_back(best);
            if self.lately.len() > LATELY {
                self.lately.pop_front();
            }
        }
    }

    /// What is left to gain, as a logarithm; `None` before anything passed.
    fn left(&self) -> Option<f64> {
        let best = self.best_ns?;
        let ratio = match self.bound_ns {
            Some(bound) => best / bound,
            None => self.lately.front()? / best,
        };
        Some(ratio.ln().max(0.0))
    }
}

fn shares<'p>(problems: impl Iterator<Item = &'p ProblemProgress> + Clone) -> Vec<f64> {
    // Where nothing passed yet, as much is left as anywhere.
    let most = problems.clone().filter_map(ProblemProgress::left).fold(0.0, f64::max);
    let patience = |one: &ProblemProgress| PATIENCE / (PATIENCE + f64::from(one.fruitless));
    let weights: Vec<f64> = problems.map(|one| one.left().unwrap_or(most) * patience(one)).collect();
    let largest = weights.iter().copied().fold(0.0, f64::max);
    let raised = weights.iter().map(|weight| match largest > 0.0 {
        true => weight.max(LEAST * largest),
        false => 1.0,
    });
    let raised: Vec<f64> = raised.collect();
    let sum: f64 = raised.iter().sum();
    raised.iter().map(|weight| weight / sum).collect()
}

fn pick(shares: &[f64], ticket: f64) -> usize {
    let mut left = ticket;
    let hit = shares.iter().position(|share| {
        left -= share;
        left < 0.0
    });
    // Rounding may leave a ticket of almost 1 over.
    hit.unwrap_or(shares.len().saturating_sub(1))
}

#[cfg(test)]
mod tests;
