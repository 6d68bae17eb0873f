//! One suite for every strategy in the registry: what the engine relies on.

use std::collections::HashSet;

use super::registry::{self, StrategyOptions};
use super::strategy::{Outcome, Proposal, Strategy};
use crate::genome::Genome;
use crate::space::diagnostic::Diagnostics;
use crate::space::document;
use crate::space::load::read_space;
use crate::space::space::SearchSpace;
use crate::verdict::VerdictClass;

/// The space that a TOML text describes.
pub(crate) fn space_of(text: &str) -> SearchSpace {
    let mut diagnostics = Diagnostics::default();
    let root = document::parse(text, &mut diagnostics).expect("well-formed");
    read_space(&root, &mut diagnostics).expect("a space")
}

/// An outcome with one optimum: the squared distance of positions from the middle.
pub(crate) fn bowl(space: &SearchSpace, genome: &Genome) -> Outcome {
    let distance = |(position, parameter): (&u16, &crate::space::parameter::Parameter)| {
        let off = f64::from(*position) - (parameter.values.len() as f64 - 1.0) * 0.7;
        off * off
    };
    let sum: f64 = genome.positions().iter().zip(space.parameters()).map(distance).sum();
    Outcome { genome: genome.clone(), class: VerdictClass::Ok, objective_ns: Some(100.0 + sum) }
}

const SMALL: &str = "[parameters]\nA = [1, 2, 4, 8, 16]\nB = [1, 2, 4, 8]\nC = [\"x\", \"y\"]\nD = [3]\n\
                     [[constraints]]\nrequire = \"A * B <= 32\"\n";

fn failure(genome: &Genome) -> Outcome {
    Outcome { genome: genome.clone(), class: VerdictClass::Crash, objective_ns: None }
}

fn make<'a>(name: &str, space: &'a SearchSpace, seed: u64) -> Box<dyn Strategy + 'a> {
    registry::create(name, space, StrategyOptions { seed, population: 8 }).expect("a known name")
}

fn each(check: impl Fn(&str, &SearchSpace)) {
    let space = space_of(SMALL);
    for name in registry::names() {
        check(name, &space);
    }
}

/// Runs with up to `flight` proposals untold, oldest told first, every third one a failure.
fn run(strategy: &mut dyn Strategy, space: &SearchSpace, flight: usize, limit: usize) -> Vec<Proposal> {
    let (mut all, mut told) = (Vec::<Proposal>::new(), 0);
    loop {
        let room = flight - (all.len() - told);
        all.extend(strategy.ask(room.min(limit - all.len())));
        if told == all.len() {
            return all;
        }
        let genome = &all[told].genome;
        let outcome = if told % 3 == 2 { failure(genome) } else { bowl(space, genome) };
        strategy.tell(&outcome);
        told += 1;
    }
}

#[test]
fn same_seed_and_same_tells_give_same_proposals() {
    each(|name, space| {
        let trace = |seed| run(&mut *make(name, space, seed), space, 5, 30);
        assert_eq!(trace(4), trace(4), "{name}");
        assert_ne!(trace(4), trace(5), "{name}");
    });
}

#[test]
fn the_default_configuration_comes_first() {
    each(|name, space| {
        let first = make(name, space, 9).ask(1);
        assert_eq!(first, [Proposal { genome: space.default_genome(), origin: "default" }], "{name}");
    });
}

#[test]
fn every_valid_point_is_proposed_once_and_then_it_is_done() {
    each(|name, space| {
        for flight in [1, 7, 100] {
            let mut strategy = make(name, space, 2);
            let all = run(&mut *strategy, space, flight, 10_000);
            let distinct: HashSet<&Genome> = all.iter().map(|proposal| &proposal.genome).collect();
            assert_eq!(distinct.len(), all.len(), "{name} repeats itself");
            assert!(all.iter().all(|proposal| space.contains(&proposal.genome)), "{name} leaves the space");
            assert_eq!(all.len() as u128, space.count(), "{name} leaves points out");
            assert!(strategy.is_done() && strategy.ask(3).is_empty(), "{name} does not end");
        }
    });
}

#[test]
fn failures_only_are_survived() {
    each(|name, space| {
        let mut strategy = make(name, space, 3);
        let mut count = 0u128;
        while let Some(proposal) = strategy.ask(1).pop() {
            strategy.tell(&failure(&proposal.genome));
            count += 1;
        }
        assert_eq!(count, space.count(), "{name}");
    });
}

#[test]
fn a_resumed_strategy_proposes_only_what_was_not_told() {
    each(|name, space| {
        let before = run(&mut *make(name, space, 6), space, 4, 17);
        let mut resumed = make(name, space, 6);
        for proposal in &before {
            resumed.tell(&bowl(space, &proposal.genome));
        }
        let after = run(&mut *resumed, space, 4, 10_000);
        let union: HashSet<&Genome> = before.iter().chain(&after).map(|proposal| &proposal.genome).collect();
        assert_eq!(union.len(), before.len() + after.len(), "{name} repeats told points");
        assert_eq!(union.len() as u128, space.count(), "{name}");
    });
}

#[test]
fn tells_of_unknown_and_invalid_points_are_taken() {
    each(|name, space| {
        let mut strategy = make(name, space, 8);
        strategy.tell(&failure(&Genome::from(vec![4, 3, 0, 0])));
        strategy.tell(&bowl(space, &Genome::from(vec![0, 0, 1, 0])));
        let all = run(&mut *strategy, space, 3, 10_000);
        assert_eq!(all.len() as u128, space.count() - 1, "{name}");
    });
}

#[test]
fn an_unknown_name_is_refused_with_the_list() {
    let space = space_of(SMALL);
    let error = registry::create("genetics", &space, StrategyOptions { seed: 1, population: 8 });
    insta::assert_snapshot!(error.err().expect("refused"), @"
    unknown strategy `genetics`
    hint: did you mean `genetic`? there are `exhaustive`, `random`, `genetic`
    ");
}
