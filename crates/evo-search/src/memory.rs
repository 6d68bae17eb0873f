//! What all strategies that vary good points share: which points were proposed, what came of them, what tends to fail.
//!
//! So they open alike, avoid points that are likely to fail, draw the same numbers after a resume, and look a known
//! point up instead of measuring it twice. All strategies claim their points in `Unseen`, so that none of them repeats
//! a point, proposes an invalid one, or goes on when nothing is left.
//!
//! A GPU variant mostly fails for a reason that one or two parameters decide (a tile that overflows shared memory, a
//! vector width that misaligns). Rates are shrunk toward 0, so one failure says little and twenty say much. The
//! estimate only lowers a point's chance to be proposed, so that a wrong lesson can be unlearned.

use std::collections::{HashMap, HashSet};

use evo_protocol::verdict::VerdictClass;
use evo_space::QuasiRandom;
use evo_space::genome::Genome;
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::permutation::Permutation;
use crate::strategy::{Origin, Outcome, Proposal};

/// Points of a low-discrepancy sequence, the default configuration included: uniform draws often put two of so few side
/// by side. Fewer give too little to recombine; more would be a noticeable part of a budget of fifty.
pub(crate) const OPENING: usize = 8;

/// Chance of proposing a point even if its estimated risk is 1, so that wrong lessons can be corrected.
const FORGIVENESS: f64 = 0.05;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) objective: f64,
    /// How many points had worked before it; the earlier of two equal objectives ranks first.
    pub(crate) arrival: u64,
    pub(crate) genome: Genome,
}

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

    pub(crate) fn space(&self) -> &'a SearchSpace {
        self.unseen.space()
    }

    pub(crate) fn best(&self) -> Option<&Member> {
        self.best.as_ref()
    }

    pub(crate) fn recall(&self, genome: &Genome) -> Option<Member> {
        let (objective, arrival) = *self.known.get(genome)?;
        Some(Member { objective, arrival, genome: genome.clone() })
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.unseen.is_exhausted()
    }

    /// Starts the next proposal: its generator, and during the opening the proposal itself. The generator is seeded by
    /// the number of proposals before it, so that a resumed search draws what the uninterrupted one would have drawn.
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

    /// The point must be new and valid, and is rejected at random with its estimated risk of failing.
    pub(crate) fn take(&mut self, genome: &Genome, rng: &mut ChaCha8Rng) -> bool {
        if self.unseen.is_seen(genome) {
            return false;
        }
        // A lottery, not a threshold: the estimate is rough.
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

    pub(crate) fn learn(&mut self, outcome: &Outcome) -> Option<Member> {
        // Told by an earlier run: the generators go on where that run stopped.
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

/// Before falling back to the walk over all points. With a tenth of the points left, 32 draws find one 97 times in 100.
const DRAWS: u32 = 32;

/// Most indices in a row without a valid point. In a space that is not counted exactly, such holes may
/// outnumber the points by any factor; after this many, points are drawn instead.
const HOLES: u32 = 1 << 14;

/// Larger spaces are not walked by canonical index: a run ends long before.
const WALKABLE: u128 = 1 << 100;

#[derive(Debug)]
pub(crate) struct Unseen<'a> {
    space: &'a SearchSpace,
    seen: HashSet<Genome>,
    valid_seen: u128,
    count: u128,
    walk: Option<Permutation>,
    cursor: u128,
    /// Whether nothing new could be found in a space that is not counted exactly.
    given_up: bool,
}

impl<'a> Unseen<'a> {
    pub(crate) fn new(space: &'a SearchSpace, seed: u64) -> Unseen<'a> {
        let count = space.count();
        let walk = (count <= WALKABLE).then(|| Permutation::new(count, seed));
        Unseen { space, seen: HashSet::new(), valid_seen: 0, count, walk, cursor: 0, given_up: false }
    }

    pub(crate) fn space(&self) -> &'a SearchSpace {
        self.space
    }

    pub(crate) fn is_seen(&self, genome: &Genome) -> bool {
        self.seen.contains(genome)
    }

    pub(crate) fn seen_count(&self) -> usize {
        self.seen.len()
    }

    pub(crate) fn claim(&mut self, genome: &Genome) -> bool {
        // Known points first, because a lookup costs less than a walk through the space's diagrams.
        if self.seen.contains(genome) || !self.space.contains(genome) {
            return false;
        }
        self.valid_seen += 1;
        self.seen.insert(genome.clone())
    }

    /// Claimed, as every search proposes it first; `None` if it was claimed before or the space has none.
    pub(crate) fn default(&mut self) -> Option<Proposal> {
        if !self.space.has_default() {
            return None;
        }
        let genome = self.space.default_genome();
        self.claim(&genome).then_some(Proposal::new(genome, Origin::Default))
    }

    pub(crate) fn note(&mut self, genome: &Genome) {
        // An earlier run may tell points that this space does not hold.
        if self.seen.insert(genome.clone()) && self.space.contains(genome) {
            self.valid_seen += 1;
        }
    }

    /// Whether every valid point is known, or no other could be found in a space that is not counted exactly.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.valid_seen >= self.count || self.given_up
    }

    /// Claimed, in the seeded order; `None` if nothing is left or the space is too large to walk.
    pub(crate) fn next_in_order(&mut self) -> Option<Genome> {
        let mut holes = 0;
        while !self.is_exhausted() && holes < HOLES {
            let walk = self.walk.as_ref()?;
            let Some(index) = walk.at(self.cursor) else {
                // The walk has passed every index, so nothing is left whatever the count says.
                self.given_up = true;
                break;
            };
            self.cursor += 1;
            match self.space.genome_at(index) {
                Some(genome) if self.claim(&genome) => return Some(genome),
                Some(_) => {}
                None => holes += 1,
            }
        }
        None
    }

    /// Uniform, claimed; `None` if nothing is left, or nothing new was found in a space that is not counted exactly.
    pub(crate) fn draw(&mut self, rng: &mut ChaCha8Rng) -> Option<Genome> {
        if self.is_exhausted() {
            return None;
        }
        for _ in 0..DRAWS {
            let Some(genome) = self.space.sample(rng) else { break };
            if self.claim(&genome) {
                return Some(genome);
            }
        }
        // When nearly all points are known, draws keep meeting known ones; walking finds the rest for sure.
        let last = self.next_in_order();
        self.given_up |= last.is_none() && !self.space.is_exact();
        last
    }
}

/// Successes that each pattern starts with; they shrink its rate of failures toward 0.
const PRIOR: f64 = 2.0;

#[derive(Debug, Default)]
pub(crate) struct Lessons {
    /// From (gene, position, gene, position) to (failures, trials). A single gene is paired with itself.
    counts: HashMap<(u16, u16, u16, u16), (u32, u32)>,
}

impl Lessons {
    pub(crate) fn learn(&mut self, genome: &Genome, failed: bool) {
        for pattern in patterns(genome) {
            let (failures, trials) = self.counts.entry(pattern).or_default();
            *failures += u32::from(failed);
            *trials += 1;
        }
    }

    /// The estimated probability that a point fails: the highest rate of its patterns.
    pub(crate) fn risk(&self, genome: &Genome) -> f64 {
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

/// Known points in a row that are skipped at least.
const PATIENCE: usize = 32;

#[derive(Debug)]
pub(crate) struct Spread<'a> {
    points: QuasiRandom<'a>,
    spent: bool,
}

impl<'a> Spread<'a> {
    pub(crate) fn new(space: &'a SearchSpace, seed: u64) -> Spread<'a> {
        Spread { points: space.quasi_random(seed), spent: false }
    }

    /// The next point that is not known, claimed; `None` once nearly all points are known.
    pub(crate) fn next(&mut self, unseen: &mut Unseen) -> Option<Genome> {
        // A resumed search meets all points that were told at the beginning.
        let patience = PATIENCE + 2 * unseen.seen_count();
        if self.spent || unseen.is_exhausted() {
            return None;
        }
        let next = self.points.by_ref().take(patience).find(|genome| unseen.claim(genome));
        self.spent = next.is_none();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::space_of;
    use crate::registry::{self, StrategyOptions};

    /// Its points cannot be counted, for one constraint links all ten parameters; about one in 10,007 is valid.
    fn entangled() -> SearchSpace {
        let values: Vec<String> = (1..=60i64).map(|value| (value * 7919 % 10_007).to_string()).collect();
        let parameters = (0..10).map(|at| format!("P{at} = [{}]\n", values.join(", "))).collect::<String>();
        let sum = (0..10).map(|at| format!("P{at} * P{} * {}", (at + 3) % 10, at + 2)).collect::<Vec<_>>();
        space_of(&format!(
            "constraints = ['({}) % 10007 == 17']\n[parameters]\n{parameters}",
            sum.join(" + ")
        ))
    }

    #[test]
    fn strategies_go_on_where_points_are_not_counted() {
        let space = entangled();
        assert!(!space.is_exact());
        for name in registry::names().chain(["surrogate_trees", "surrogate_process"]) {
            let mut strategy =
                registry::create_any(name, &space, StrategyOptions { seed: 1, population: 4 }).unwrap();
            let proposals = strategy.ask(3);
            assert_eq!(proposals.len(), 3, "{name}");
            assert!(proposals.iter().all(|proposal| space.contains(&proposal.genome)), "{name}");
        }
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
