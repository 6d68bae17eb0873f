//! Tests of seeded searches: with a ranking that helps, one that misleads, and none.

use evo_protocol::verdict::VerdictClass;
use evo_space::space::SearchSpace;

use super::*;
use crate::registry::{self, StrategyOptions};

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

/// All points but the default, the fastest first.
fn ranked(space: &SearchSpace) -> Vec<Genome> {
    let default = space.default_genome();
    let mut points: Vec<Genome> = space.iter().filter(|genome| *genome != default).collect();
    points.sort_by(|a, b| time(a).total_cmp(&time(b)));
    points
}

fn plain<'a>(name: &str, space: &'a SearchSpace) -> Box<dyn Strategy + 'a> {
    registry::create(name, space, StrategyOptions { seed: 7, population: POPULATION }).unwrap()
}

/// Proposals in order, each told before the next is asked for; `fate` gives class and objective.
fn run(
    strategy: &mut dyn Strategy,
    steps: usize,
    fate: impl Fn(&Proposal) -> (VerdictClass, Option<f64>),
) -> Vec<Proposal> {
    let mut all = Vec::new();
    while all.len() < steps
        && let Some(proposal) = strategy.ask(1).pop()
    {
        let (class, objective) = fate(&proposal);
        strategy.tell(&Outcome::new(proposal.genome.clone(), class, objective));
        all.push(proposal);
    }
    all
}

fn timed(proposal: &Proposal) -> (VerdictClass, Option<f64>) {
    (VerdictClass::Ok, Some(time(&proposal.genome)))
}

fn seeds(proposals: &[Proposal]) -> usize {
    proposals.iter().filter(|one| one.origin == Origin::Micro).count()
}

/// Every other of the fastest points, so that their times differ.
fn spread_ranking(space: &SearchSpace) -> Vec<Genome> {
    ranked(space).into_iter().step_by(20).collect()
}

#[test]
fn a_ranking_that_holds_fills_half_of_generation_zero_and_no_more() {
    let space = space();
    for name in ["evolve", "random", "exhaustive", "genetic"] {
        let room = SeedRoom::of(POPULATION, 0, 0);
        let mut strategy = Seeded::new(plain(name, &space), spread_ranking(&space), room);
        let all = run(&mut strategy, 2 * POPULATION, timed);
        assert_eq!(all[0].origin, Origin::Default, "{name}");
        assert_eq!(seeds(&all[..POPULATION]), POPULATION / 2, "{name}");
        assert_eq!(seeds(&all), POPULATION / 2, "{name}: later generations take none");
        for end in 1..POPULATION {
            assert!(seeds(&all[..end]) * 2 <= end, "{name}: more than half after {end}");
        }
        let mut genomes: Vec<&Genome> = all.iter().map(|one| &one.genome).collect();
        genomes.sort();
        genomes.dedup();
        assert_eq!(genomes.len(), all.len(), "{name}: a point came twice");
    }
}

#[test]
fn a_ranking_that_misleads_is_dropped_after_eight() {
    let space = space();
    let mut misleading = spread_ranking(&space);
    misleading.reverse();
    let room = SeedRoom::of(POPULATION, 0, 0);
    let mut strategy = Seeded::new(plain("evolve", &space), misleading, room);
    let all = run(&mut strategy, 2 * POPULATION, timed);
    assert_eq!(seeds(&all), JUDGED);
    assert_eq!(strategy.holds, Some(false));
}

#[test]
fn a_ranking_whose_points_all_fail_is_dropped_and_trouble_is_not_held_against_it() {
    let space = space();
    let failing = |proposal: &Proposal| match proposal.origin {
        Origin::Micro => (VerdictClass::Wrong, None),
        _ => timed(proposal),
    };
    let room = SeedRoom::of(POPULATION, 0, 0);
    let mut strategy = Seeded::new(plain("evolve", &space), spread_ranking(&space), room);
    assert_eq!(seeds(&run(&mut strategy, 2 * POPULATION, failing)), JUDGED);
    let lost = |proposal: &Proposal| match proposal.origin {
        Origin::Micro => (VerdictClass::Harness, None),
        _ => timed(proposal),
    };
    let mut strategy = Seeded::new(plain("evolve", &space), spread_ranking(&space), room);
    assert_eq!(seeds(&run(&mut strategy, 2 * POPULATION, lost)), POPULATION / 2);
    assert_eq!(strategy.holds, None, "nothing was measured");
}

#[test]
fn the_ninth_waits_for_the_first_eight() {
    let space = space();
    let room = SeedRoom::of(POPULATION, 0, 0);
    let mut strategy = Seeded::new(plain("random", &space), spread_ranking(&space), room);
    let first = strategy.ask(POPULATION);
    assert_eq!((first.len(), seeds(&first)), (POPULATION, JUDGED));
    assert_eq!(strategy.in_flight(), JUDGED);
}

#[test]
fn a_search_finds_the_best_sooner_with_a_ranking_that_helps() {
    let space = space();
    let found = |all: &[Proposal]| all.iter().position(|one| time(&one.genome) == 100.0);
    let room = SeedRoom::of(POPULATION, 0, 0);
    let mut seeded = Seeded::new(plain("random", &space), ranked(&space), room);
    assert_eq!(found(&run(&mut seeded, 100, timed)), Some(1), "the first of the ranking");
    assert!(found(&run(&mut *plain("random", &space), 100, timed)).is_none_or(|at| at > 1));
}

#[test]
fn without_room_or_points_the_search_is_the_same() {
    let space = space();
    for name in ["evolve", "genetic", "random"] {
        let expected = run(&mut *plain(name, &space), 60, timed);
        for (points, room) in [
            (Vec::new(), SeedRoom::of(POPULATION, 0, 0)),
            (ranked(&space), SeedRoom::of(POPULATION, POPULATION, 0)),
        ] {
            let mut strategy = Seeded::new(plain(name, &space), points, room);
            assert_eq!(run(&mut strategy, 60, timed), expected, "{name}");
        }
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
