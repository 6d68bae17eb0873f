//! One suite for every strategy: what the engine relies on.

use std::collections::HashSet;

use evo_protocol::verdict::VerdictClass;
use evo_space::genome::Genome;
use evo_space::space::SearchSpace;
use evo_space::{Limits, RelaxLimits};

use super::registry::{self, names};
use super::strategy::{Outcome, Proposal, Strategy};
use crate::strategy::Origin;

pub(crate) fn space_of(text: &str) -> SearchSpace {
    SearchSpace::parse(text).expect("a space")
}

/// An outcome with one optimum: the squared distance of positions from the middle.
pub(crate) fn bowl(space: &SearchSpace, genome: &Genome) -> Outcome {
    let distance = |(position, parameter): (&u16, &evo_space::space::Parameter)| {
        let off = f64::from(*position) - (parameter.values.len() as f64 - 1.0) * 0.7;
        off * off
    };
    let sum: f64 = genome.positions().iter().zip(space.parameters()).map(distance).sum();
    Outcome::new(genome.clone(), VerdictClass::Ok, Some(100.0 + sum))
}

const SMALL: &str = "[parameters]\nA = [1, 2, 4, 8, 16]\nB = [1, 2, 4, 8]\nC = [\"x\", \"y\"]\nD = [3]\n\
                     [[constraints]]\nrequire = \"A * B <= 32\"\n";

pub(crate) fn failure(genome: &Genome) -> Outcome {
    Outcome::new(genome.clone(), VerdictClass::Crash, None)
}

pub(crate) fn make<'a>(name: &str, space: &'a SearchSpace, seed: u64) -> Box<dyn Strategy + 'a> {
    registry::create(name, space, seed).expect("a known name")
}

fn each(check: impl Fn(&str, &SearchSpace)) {
    let space = space_of(SMALL);
    for name in names() {
        check(name, &space);
    }
}

/// Asks and tells until nothing more comes, with so many in flight and at most `limit` in all. `outcome` is told how many
/// came before.
pub(crate) fn run(
    strategy: &mut dyn Strategy,
    flight: usize,
    limit: usize,
    outcome: impl Fn(usize, &Proposal) -> Outcome,
) -> Vec<Proposal> {
    let (mut all, mut told) = (Vec::<Proposal>::new(), 0);
    loop {
        let room = flight - (all.len() - told);
        all.extend(strategy.ask(room.min(limit - all.len())));
        if told == all.len() {
            return all;
        }
        strategy.tell(&outcome(told, &all[told]));
        told += 1;
    }
}

/// The bowl, where every third fails.
fn mixed(space: &SearchSpace) -> impl Fn(usize, &Proposal) -> Outcome {
    move |told, Proposal { genome, .. }| if told % 3 == 2 { failure(genome) } else { bowl(space, genome) }
}

#[test]
fn same_seed_and_same_tells_give_same_proposals() {
    each(|name, space| {
        let trace = |seed| run(&mut *make(name, space, seed), 5, 30, mixed(space));
        assert_eq!(trace(4), trace(4), "{name}");
        assert_ne!(trace(4), trace(5), "{name}");
    });
}

#[test]
fn the_default_configuration_comes_first() {
    each(|name, space| {
        let first = make(name, space, 9).ask(1);
        assert_eq!(first, [Proposal::new(space.default_genome(), Origin::DEFAULT)], "{name}");
    });
}

#[test]
fn every_valid_point_is_proposed_once_and_then_it_is_done() {
    let whole = space_of(
        "constraints = ['A * B + C <= 14', 'B % D != 1', '(A + 2 * B + 3 * C + 5 * D) % 7 < 3']\n\
         [parameters]\nA = [1, 2, 3, 4, 5]\nB = [1, 2, 3, 4, 5]\nC = [1, 2, 3, 4, 5]\nD = [2, 3, 4]\n",
    );
    // Nearly every linked group is too much work.
    let limits = Limits { steps: 1, relax: RelaxLimits { steps: 8, trials: 8, edges: 1000 } };
    let inexact = SearchSpace::with_limits(whole.parameters().to_vec(), whole.constraints().to_vec(), limits);
    assert!(!inexact.is_exact());
    let check = |name: &str, space: &SearchSpace| {
        for flight in [1, 7, 100] {
            let mut strategy = make(name, space, 2);
            let all = run(&mut *strategy, flight, 10_000, mixed(space));
            check_run(name, space, &all, 10_000);
            assert!(strategy.is_done() && strategy.ask(3).is_empty(), "{name} does not end");
        }
    };
    each(check);
    names().for_each(|name| check(name, &inexact));
}

#[test]
fn a_resumed_strategy_proposes_only_what_was_not_told() {
    each(|name, space| {
        let before = run(&mut *make(name, space, 6), 4, 17, mixed(space));
        let mut resumed = make(name, space, 6);
        for proposal in &before {
            resumed.tell(&bowl(space, &proposal.genome));
        }
        let after = run(&mut *resumed, 4, 10_000, mixed(space));
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
        let all = run(&mut *strategy, 3, 10_000, mixed(space));
        assert_eq!(all.len() as u128, space.count() - 1, "{name}");
    });
}

/// Few points, one parameter, thirty parameters, no default, and more points than 64 bits count.
fn odd_spaces() -> Vec<(&'static str, SearchSpace)> {
    let list = |values: usize| (1..=values).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
    let lines = |sizes: &[usize]| {
        let line = |(at, size): (usize, &usize)| format!("P{at} = [{}]\n", list(*size));
        sizes.iter().enumerate().map(line).collect::<String>()
    };
    let thirty = format!("constraints = ['P0 * P1 <= P29 + 4']\n[parameters]\n{}", lines(&[3; 30]));
    let vast = [lines(&[8, 16, 12, 3, 2, 1]), lines(&[60; 9]).replace('P', "Q")].concat();
    let vast = format!("constraints = ['P0 * P1 % 3 != 1', 'Q0 + Q1 <= 70']\n[parameters]\n{vast}");
    let texts = [
        (
            "ten",
            "constraints = ['A + B <= 5']\n[parameters]\nA = [1, 2, 3, 4]\nB = [1, 2, 3, 4]\n".to_string(),
        ),
        ("small", SMALL.to_string()),
        ("one point", "[parameters]\nA = [7]\n".to_string()),
        ("one parameter", format!("[parameters]\nA = [{}]\n", list(50))),
        ("no default", "constraints = ['A > B']\n[parameters]\nA = [1, 2, 3]\nB = [1, 2, 3]\n".to_string()),
        ("thirty", thirty),
        ("vast", vast),
    ];
    texts.into_iter().map(|(name, text)| (name, space_of(&text))).collect()
}

fn check_run(what: &str, space: &SearchSpace, all: &[Proposal], limit: usize) {
    let distinct: HashSet<&Genome> = all.iter().map(|proposal| &proposal.genome).collect();
    assert_eq!(distinct.len(), all.len(), "{what} repeats itself");
    assert!(all.iter().all(|proposal| space.contains(&proposal.genome)), "{what} leaves the space");
    let expected = if space.is_exact() { space.count() } else { space.iter().count() as u128 };
    assert_eq!(all.len() as u128, expected.min(limit as u128), "{what} leaves points or budget unused");
}

#[test]
fn odd_spaces_are_searched_to_the_end_of_the_budget_whatever_fails() {
    for (label, space) in odd_spaces() {
        for name in names() {
            for flight in [1, 30] {
                let all = run(&mut *make(name, &space, 5), flight, 60, mixed(&space));
                check_run(&format!("{name} on {label} with {flight} in flight"), &space, &all, 60);
            }
            let all = run(&mut *make(name, &space, 3), 1, 40, |_, proposal| failure(&proposal.genome));
            check_run(&format!("{name} on {label} where all fails"), &space, &all, 40);
        }
    }
}

#[test]
fn batches_are_whole_and_an_empty_one_is_free() {
    each(|name, space| {
        let trace = |pause: bool| {
            let mut strategy = make(name, space, 7);
            let mut all = Vec::new();
            for size in [1, 2, 11, 5] {
                if pause {
                    assert_eq!(strategy.ask(0), [], "{name}");
                }
                let batch = strategy.ask(size);
                assert_eq!(batch.len(), size, "{name}");
                batch.iter().for_each(|proposal| strategy.tell(&bowl(space, &proposal.genome)));
                all.extend(batch);
            }
            all
        };
        assert_eq!(trace(false), trace(true), "{name}");
    });
}

#[test]
fn outcomes_of_any_kind_and_order_are_taken() {
    each(|name, space| {
        let classes = [
            VerdictClass::Slow,
            VerdictClass::Noisy,
            VerdictClass::Harness,
            VerdictClass::PassedOver,
            VerdictClass::Wrong,
        ];
        let values = [Some(5.0), None, Some(f64::NAN), Some(f64::INFINITY), Some(0.0), Some(-3.0), Some(5.0)];
        let mut strategy = make(name, space, 8);
        let mut flying = strategy.ask(9);
        let mut count = flying.len() as u128;
        while let Some(proposal) = flying.pop() {
            let (class, objective_ns) = (classes[count as usize % classes.len()], values[count as usize % 7]);
            let outcome = Outcome::new(proposal.genome, class, objective_ns);
            strategy.tell(&outcome);
            // Told twice, as a journal with a repeated line would.
            strategy.tell(&outcome);
            let next = strategy.ask(1);
            count += next.len() as u128;
            flying.extend(next);
        }
        assert_eq!(count, space.count(), "{name}");
    });
}

#[test]
fn an_unknown_name_is_refused_with_the_list() {
    let space = space_of(SMALL);
    let error = registry::create("randon", &space, 1);
    let error = error.err().expect("refused");
    insta::assert_snapshot!(format!("{error}\n{}", error.hint()), @"
    unknown strategy `randon`
    did you mean `random`? there are `evolve`, `exhaustive`, `random`
    ");
}
