//! A strategy that begins with points of a cheap ranking (`evo micro`) and tests whether the ranking holds.
//!
//! Any strategy can be wrapped. Ranked points take turns with the strategy's own, so that at no time more than half of
//! what was proposed comes from the ranking, and only generation 0 takes any. Once eight of them are measured, their
//! rank correlation with the ranking decides whether the rest is still tried.

use std::collections::VecDeque;

use evo_protocol::evaluation::Facts;
use evo_protocol::verdict::VerdictClass;
use evo_space::genome::Genome;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::strategy::{Origin, Outcome, PriorStudy, Proposal, Strategy};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeedRoom {
    /// Proposals of generation 0 that are still to come.
    pub proposals: usize,
    pub seeds: usize,
}

impl SeedRoom {
    /// At most half of the first generation, less what a run before has used.
    pub fn of(population: usize, evaluated: usize, seeded: usize) -> SeedRoom {
        let proposals = population.saturating_sub(evaluated);
        SeedRoom { proposals, seeds: (population / 2).saturating_sub(seeded).min(proposals) }
    }
}

pub struct Seeded<'a> {
    inner: Box<dyn Strategy + 'a>,
    /// Ranked points that were not proposed, the best first.
    left: VecDeque<Genome>,
    /// Ranked points that were proposed, in the order of the ranking, and whether each was told.
    given: IndexMap<Genome, bool>,
    /// Place and time of those that were measured, in the order of their outcomes.
    measured: Vec<(usize, f64)>,
    room: SeedRoom,
    is_seeds_turn: bool,
    /// Whether enough were measured, and the ranking holds.
    holds: Option<bool>,
}

impl<'a> Seeded<'a> {
    /// The best first. The strategy itself proposes the default configuration, so that is not among them.
    pub fn new(inner: Box<dyn Strategy + 'a>, ranked: Vec<Genome>, room: SeedRoom) -> Seeded<'a> {
        let (given, measured) = (IndexMap::new(), Vec::new());
        Seeded { inner, left: ranked.into(), given, measured, room, is_seeds_turn: false, holds: None }
    }

    fn in_flight(&self) -> usize {
        self.given.values().filter(|is_told| !**is_told).count()
    }

    /// The next ranked point, where one may be proposed now. The ninth waits until eight are measured.
    fn seed(&mut self) -> Option<Proposal> {
        let has_room = self.room.proposals > 0 && self.room.seeds > 0;
        let is_tested = || self.measured.len() + self.in_flight() < MicroAgreement::JUDGED;
        if !(has_room && self.holds.unwrap_or_else(is_tested)) {
            return None;
        }
        let genome = self.left.pop_front()?;
        self.room.seeds -= 1;
        self.given.insert(genome.clone(), false);
        self.is_seeds_turn = false;
        Some(Proposal::new(genome, Origin::MICRO))
    }

    /// The strategy's next point that was not proposed from the ranking. It does not know of those before it is told.
    fn own(&mut self) -> Option<Proposal> {
        let mut proposals = std::iter::from_fn(|| self.inner.ask(1).pop());
        let proposal = proposals.find(|proposal| !self.given.contains_key(&proposal.genome))?;
        self.left.retain(|genome| *genome != proposal.genome);
        self.is_seeds_turn = true;
        Some(proposal)
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
    fn ask(&mut self, n: usize) -> Vec<Proposal> {
        (0..n).map_while(|_| self.next()).collect()
    }

    fn tell(&mut self, outcome: &Outcome) {
        self.inner.tell(outcome);
        self.left.retain(|genome| *genome != outcome.genome);
        let Some((place, _, is_told)) = self.given.get_full_mut(&outcome.genome) else { return };
        if std::mem::replace(is_told, true) {
            return;
        }
        if let Some(time) = counted_time(outcome.class, outcome.objective_ns) {
            self.measured.push((place, time));
        }
        if self.holds.is_none() && self.measured.len() >= MicroAgreement::JUDGED {
            let holds = !MicroAgreement::of(&self.measured).dropped;
            self.holds = Some(holds);
            if !holds {
                self.left.clear();
            }
        }
    }

    fn learns(&self) -> bool {
        self.inner.learns() || !self.left.is_empty()
    }

    fn reconsider(&mut self, genome: &Genome, facts: &Facts) -> bool {
        self.given.contains_key(genome) || self.inner.reconsider(genome, facts)
    }

    fn inherit(&mut self, studies: &[PriorStudy]) -> bool {
        self.inner.inherit(studies)
    }

    fn useful_in_flight(&self, lanes: usize) -> usize {
        // Ranked points are chosen whatever comes of the others.
        self.inner.useful_in_flight(lanes).saturating_add(self.in_flight())
    }

    fn is_done(&self) -> bool {
        self.inner.is_done()
    }
}

/// Of eight pairs in no relation, Spearman's coefficient is 0.3 or more about one time in four.
const CORRELATION_MIN: f64 = 0.3;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MicroAgreement {
    pub measured: usize,
    /// Over the first eight; `None` where there are fewer, or where all of them failed or took the same time.
    pub spearman: Option<f64>,
    pub dropped: bool,
}

impl MicroAgreement {
    /// So many measured configurations decide whether a ranking is believed.
    pub const JUDGED: usize = 8;

    /// In the order in which outcomes came: place in the ranking, and time in nanoseconds, infinite for a failure.
    pub(crate) fn of(outcomes: &[(usize, f64)]) -> MicroAgreement {
        let measured = outcomes.len();
        if measured < MicroAgreement::JUDGED {
            return MicroAgreement { measured, spearman: None, dropped: false };
        }
        let pairs: Vec<(f64, f64)> =
            outcomes[..MicroAgreement::JUDGED].iter().map(|(place, time)| (*place as f64, *time)).collect();
        let spearman = spearman(&pairs);
        // Where nothing can be said for the ranking, nothing speaks for trying more of it.
        let dropped = spearman.is_none_or(|own| own < CORRELATION_MIN);
        MicroAgreement { measured, spearman, dropped }
    }
}

/// The time that an outcome counts with; `None` where it says nothing about the variant.
pub(crate) fn counted_time(class: VerdictClass, objective_ns: Option<f64>) -> Option<f64> {
    match class {
        VerdictClass::Harness | VerdictClass::PassedOver => None,
        // A variant that was given up has an estimate, which places it behind the ones that were not.
        VerdictClass::Ok | VerdictClass::Slow | VerdictClass::Noisy => {
            Some(objective_ns.filter(|time| time.is_finite() && *time > 0.0).unwrap_or(f64::INFINITY))
        }
        // The ranking promised a fast variant, and there is none.
        _ => Some(f64::INFINITY),
    }
}

/// Spearman's rank correlation, -1 to 1, with the mean rank for equal values; `None` for fewer than two pairs, or
/// where one side has a single value. (Spearman 1904; with ties it is Pearson's coefficient of the ranks.)
pub(crate) fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let ranks = |of: fn(&(f64, f64)) -> f64| mean_ranks(&pairs.iter().map(of).collect::<Vec<_>>());
    let (x, y) = (ranks(|pair| pair.0), ranks(|pair| pair.1));
    let mean = (pairs.len() as f64 + 1.0) / 2.0;
    let product =
        |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum() };
    let spread = (product(&x, &x) * product(&y, &y)).sqrt();
    (pairs.len() >= 2 && spread > 0.0).then(|| product(&x, &y) / spread)
}

fn mean_ranks(values: &[f64]) -> Vec<f64> {
    let rank = |own: &f64| {
        let below = values.iter().filter(|other| other.total_cmp(own).is_lt()).count();
        let equal = values.iter().filter(|other| other.total_cmp(own).is_eq()).count();
        below as f64 + (equal as f64 + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use evo_protocol::verdict::VerdictClass;
    use evo_space::space::SearchSpace;

    use super::*;
    use crate::conformance::{self, make};

    #[track_caller]
    fn check(times: &[f64], expected: Option<f64>) {
        let pairs: Vec<(f64, f64)> = times.iter().enumerate().map(|(at, time)| (at as f64, *time)).collect();
        match (spearman(&pairs), expected) {
            (Some(own), Some(expected)) => assert!((own - expected).abs() < 1e-12, "{times:?}: {own}"),
            (own, expected) => assert_eq!(own, expected, "{times:?}"),
        }
    }

    #[test]
    fn ranks_decide_and_not_sizes() {
        check(&[1.0, 2.0, 1e9, f64::INFINITY], Some(1.0));
        check(&[4.0, 3.0, 2.0, 1.0], Some(-1.0));
        // 1 - 6 Σd² / n(n² - 1) with d = (1, -1, 0).
        check(&[2.0, 1.0, 3.0], Some(0.5));
        // Ties share a rank: ranks 1.5, 1.5, 3 against 1, 2, 3.
        check(&[1.0, 1.0, 2.0], Some(3.0_f64.sqrt() / 2.0));
        check(&[1.0, 1.0, 1.0], None);
        check(&[f64::INFINITY; 8], None);
        check(&[1.0], None);
        check(&[], None);
    }

    #[test]
    fn eight_outcomes_decide() {
        let agreement = |times: &[f64]| {
            let outcomes: Vec<(usize, f64)> = times.iter().copied().enumerate().collect();
            MicroAgreement::of(&outcomes)
        };
        let good = [1.0, 3.0, 2.0, 4.0, 5.0, 7.0, 6.0, 8.0];
        let few = MicroAgreement { measured: 7, spearman: None, dropped: false };
        assert_eq!(agreement(&good[..7]), few);
        assert!(!agreement(&good).dropped && agreement(&good).spearman.unwrap() > 0.9);
        let mut bad = good;
        bad.reverse();
        assert!(agreement(&bad).dropped);
        assert!(agreement(&[f64::INFINITY; 8]).dropped, "nothing speaks for it");
        // What comes later changes nothing.
        assert_eq!(agreement(&[&good[..], &[0.1; 8]].concat()).spearman, agreement(&good).spearman);
    }

    #[test]
    fn failures_count_and_trouble_does_not() {
        assert_eq!(counted_time(VerdictClass::Ok, Some(5.0)), Some(5.0));
        assert_eq!(counted_time(VerdictClass::Slow, Some(7.0)), Some(7.0));
        assert_eq!(counted_time(VerdictClass::Slow, None), Some(f64::INFINITY));
        assert_eq!(counted_time(VerdictClass::Wrong, None), Some(f64::INFINITY));
        assert_eq!(counted_time(VerdictClass::PassedOver, Some(5.0)), None);
        assert_eq!(counted_time(VerdictClass::Harness, None), None);
    }

    const POPULATION: usize = 32;

    /// 400 points; the time grows with the distance from `A = 20`, `B = 3`.
    fn space() -> SearchSpace {
        let values = |count: u32| (1..=count).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
        SearchSpace::parse(&format!("[parameters]\nA = [{}]\nB = [{}]\n", values(40), values(10))).unwrap()
    }

    fn time(genome: &Genome) -> f64 {
        let at = |slot: usize| f64::from(genome.positions()[slot]);
        100.0 + (at(0) - 19.0).abs() + 3.0 * (at(1) - 2.0).abs()
    }

    fn ranked(space: &SearchSpace) -> Vec<Genome> {
        let default = space.default_genome();
        let mut points: Vec<Genome> = space.iter().filter(|genome| *genome != default).collect();
        points.sort_by(|a, b| time(a).total_cmp(&time(b)));
        points
    }

    /// Proposals in order, each told before the next is asked for.
    fn run(strategy: &mut dyn Strategy, steps: usize, fate: impl Fn(&Proposal) -> Outcome) -> Vec<Proposal> {
        conformance::run(strategy, 1, steps, |_, proposal| fate(proposal))
    }

    fn timed(Proposal { genome, .. }: &Proposal) -> Outcome {
        Outcome::new(genome.clone(), VerdictClass::Ok, Some(time(genome)))
    }

    fn seeds(proposals: &[Proposal]) -> usize {
        proposals.iter().filter(|one| one.origin == Origin::MICRO).count()
    }

    fn spread_ranking(space: &SearchSpace) -> Vec<Genome> {
        ranked(space).into_iter().step_by(20).collect()
    }

    fn with_ranking<'a>(name: &str, space: &'a SearchSpace, ranking: Vec<Genome>) -> Seeded<'a> {
        Seeded::new(make(name, space, 7), ranking, SeedRoom::of(POPULATION, 0, 0))
    }

    #[test]
    fn a_ranking_that_holds_fills_half_of_generation_zero_and_no_more() {
        let space = space();
        for name in ["evolve", "random", "exhaustive"] {
            let mut strategy = with_ranking(name, &space, spread_ranking(&space));
            let all = run(&mut strategy, 2 * POPULATION, timed);
            assert_eq!(all[0].origin, Origin::DEFAULT, "{name}");
            assert_eq!(all[1].genome, spread_ranking(&space)[0], "{name}");
            assert_eq!(seeds(&all[..POPULATION]), POPULATION / 2, "{name}");
            assert_eq!(seeds(&all), POPULATION / 2, "{name}: later generations take none");
            for end in 1..POPULATION {
                assert!(seeds(&all[..end]) * 2 <= end, "{name}: more than half after {end}");
            }
            let genomes: std::collections::HashSet<&Genome> = all.iter().map(|one| &one.genome).collect();
            assert_eq!(genomes.len(), all.len(), "{name}: a point came twice");
        }
    }

    /// One that misleads, and one whose points all fail, are dropped after eight; trouble is not held against it.
    #[test]
    fn a_ranking_that_does_not_hold_is_dropped_after_eight() {
        let space = space();
        let check = |ranking: Vec<Genome>, failing: Option<VerdictClass>, seeded, holds| {
            let mut strategy = with_ranking("evolve", &space, ranking);
            let fate = |proposal: &Proposal| match failing.filter(|_| proposal.origin == Origin::MICRO) {
                Some(class) => Outcome::new(proposal.genome.clone(), class, None),
                None => timed(proposal),
            };
            assert_eq!(seeds(&run(&mut strategy, 2 * POPULATION, fate)), seeded);
            assert_eq!(strategy.holds, holds);
        };
        check(spread_ranking(&space).into_iter().rev().collect(), None, MicroAgreement::JUDGED, Some(false));
        check(spread_ranking(&space), Some(VerdictClass::Wrong), MicroAgreement::JUDGED, Some(false));
        check(spread_ranking(&space), Some(VerdictClass::Harness), POPULATION / 2, None);
    }

    #[test]
    fn the_ninth_waits_for_the_first_eight() {
        let space = space();
        let mut strategy = with_ranking("random", &space, spread_ranking(&space));
        let first = strategy.ask(POPULATION);
        assert_eq!((first.len(), seeds(&first)), (POPULATION, MicroAgreement::JUDGED));
        assert_eq!(strategy.in_flight(), MicroAgreement::JUDGED);
    }

    #[test]
    fn without_room_or_points_the_search_is_the_same() {
        let space = space();
        for name in ["evolve", "random"] {
            let expected = run(&mut *make(name, &space, 7), 60, timed);
            let full = SeedRoom::of(POPULATION, POPULATION, 0);
            let mut seeded = Seeded::new(make(name, &space, 7), ranked(&space), full);
            assert_eq!(run(&mut seeded, 60, timed), expected, "{name}");
            assert_eq!(run(&mut with_ranking(name, &space, Vec::new()), 60, timed), expected, "{name}");
        }
    }

    #[test]
    fn a_resumed_study_has_the_room_that_is_left() {
        let room = |evaluated, seeded| SeedRoom::of(16, evaluated, seeded);
        assert_eq!(room(0, 0), SeedRoom { proposals: 16, seeds: 8 });
        assert_eq!(room(6, 3), SeedRoom { proposals: 10, seeds: 5 });
        assert_eq!(room(14, 0), SeedRoom { proposals: 2, seeds: 2 });
        assert_eq!(room(16, 2), SeedRoom { proposals: 0, seeds: 0 });
        assert_eq!(SeedRoom::of(1, 0, 0).seeds, 0, "half of one is none");
    }
}
