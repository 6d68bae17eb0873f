//! The strategy as a whole. The suite that all strategies pass is in `conformance`.

use std::collections::HashSet;

use super::*;
use crate::conformance::{bowl, space_of};

fn space() -> SearchSpace {
    space_of(
        "constraints = ['X * Y <= 1024']\n[parameters]\nX = [1, 2, 4, 8, 16, 32, 64, 128]\nY = [1, 2, 4, 8, 16, 32]\n\
         TILE = [1, 2, 3, 4, 6, 8]\nSHARED = [false, true]\nLAYOUT = ['row', 'column', 'tiled']\n",
    )
}

/// Tells `count` outcomes of the bowl, one at a time, and returns the best objective after each.
fn bests(strategy: &mut Evolve, space: &SearchSpace, count: usize) -> Vec<f64> {
    let mut best = f64::INFINITY;
    let step = |_| {
        let proposal = strategy.ask(1).pop().unwrap();
        let outcome = bowl(space, &proposal.genome);
        best = best.min(outcome.objective_ns.unwrap());
        strategy.tell(&outcome);
        best
    };
    (0..count).map(step).collect()
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
    let mut strategy = Evolve::new("evolve", &space, Ingredients::ALL, 1);
    bests(&mut strategy, &space, 30);
    let proposal = strategy.ask(1).pop().unwrap();
    let expected = proposal.expected.expect("models are at work");
    assert!(expected.low_ns <= expected.objective_ns && expected.objective_ns <= expected.high_ns);
    assert!(expected.objective_ns > 50.0 && expected.objective_ns < 300.0, "{expected:?}");
    assert_eq!(expected.risk, 0.0);
}

#[test]
fn what_is_in_flight_counts_until_it_is_told() {
    let space = space();
    let mut strategy = Evolve::new("evolve", &space, Ingredients::ALL, 2);
    bests(&mut strategy, &space, 20);
    let batch = strategy.ask(12);
    let distinct: HashSet<&Genome> = batch.iter().map(|proposal| &proposal.genome).collect();
    assert_eq!(distinct.len(), 12);
    let known = strategy.ensemble.as_ref().unwrap().observations();
    assert_eq!(known, (20, 11), "all but the last, which nobody was asked after");
    batch.iter().for_each(|proposal| strategy.tell(&bowl(&space, &proposal.genome)));
    strategy.ask(1);
    assert_eq!(strategy.ensemble.as_ref().unwrap().observations(), (32, 0));
}

#[test]
fn what_fails_in_flight_leaves_nothing_behind() {
    let space = space();
    let mut strategy = Evolve::new("evolve", &space, Ingredients::ALL, 2);
    bests(&mut strategy, &space, 20);
    for round in 1..=3 {
        for (at, proposal) in strategy.ask(8).into_iter().enumerate() {
            let mut outcome = bowl(&space, &proposal.genome);
            if at % 2 == 0 {
                (outcome.class, outcome.objective_ns) = (VerdictClass::Crash, None);
            }
            strategy.tell(&outcome);
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
    let mut strategy = Evolve::new("evolve", &space, Ingredients::ALL, 2);
    bests(&mut strategy, &space, 20);
    let mut flight = strategy.ask(40);
    for round in 0..30 {
        let proposal = flight.remove(round * 7 % flight.len());
        let mut outcome = bowl(&space, &proposal.genome);
        match round % 6 {
            4 => (outcome.class, outcome.objective_ns) = (VerdictClass::Crash, None),
            5 => (outcome.class, outcome.objective_ns) = (VerdictClass::PassedOver, None),
            _ => {}
        }
        strategy.tell(&outcome);
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
fn what_is_likely_is_mostly_proposed_and_asking_changes_nothing() {
    let space = space();
    let [mut asked, mut silent] = [(); 2].map(|()| Evolve::new("evolve", &space, Ingredients::ALL, 3));
    let (mut hits, mut guesses) = (0, HashSet::new());
    for _ in 0..80 {
        let (own, other) = (asked.ask(1).remove(0), silent.ask(1).remove(0));
        assert_eq!(own, other);
        hits += usize::from(guesses.contains(&own.genome));
        let likely = asked.likely(8);
        assert!(likely.iter().all(|genome| space.contains(genome) && *genome != own.genome));
        guesses.extend(likely.into_iter().take(3));
        let outcome = bowl(&space, &own.genome);
        asked.tell(&outcome);
        silent.tell(&outcome);
    }
    assert!(hits >= 30, "{hits} of 80");
}

#[test]
fn useful_in_flight_grows_with_what_is_known() {
    let space = space();
    let mut strategy = Evolve::new("evolve", &space, Ingredients::ALL, 3);
    assert_eq!(strategy.useful_in_flight(), OPENING);
    strategy.ask(16);
    assert_eq!(strategy.useful_in_flight(), OPENING, "nothing is known of what is in flight");
    bests(&mut strategy, &space, 80);
    assert_eq!(strategy.useful_in_flight(), OPENING + 80 / OUTCOMES_PER_SLOT);
}

#[test]
fn many_lanes_begin_with_a_few_of_them_and_all_work_soon() {
    let space = space();
    let mut strategy = Evolve::new("evolve", &space, Ingredients::ALL, 3);
    let lanes = |strategy: &Evolve| [1, 2, 8, 64].map(|lanes| strategy.useful_on_lanes(lanes));
    assert_eq!(lanes(&strategy), [4, 8, 8, 16]);
    bests(&mut strategy, &space, 48);
    assert_eq!(lanes(&strategy), [10, 20, 56, 64], "one and two as `useful_in_flight` says");
}

#[test]
fn many_outcomes_at_once_are_learned_together_and_as_well() {
    let space = space();
    let told = space.sample_distinct(300, &mut seeded(3));
    let mut strategy = Evolve::new("evolve", &space, Ingredients::ALL, 3);
    told.iter().for_each(|genome| strategy.tell(&bowl(&space, genome)));
    let best = told.iter().map(|genome| bowl(&space, genome).objective_ns.unwrap()).fold(f64::MAX, f64::min);
    let found = bests(&mut strategy, &space, 25);
    let optimum =
        space.iter().map(|genome| bowl(&space, &genome).objective_ns.unwrap()).fold(f64::MAX, f64::min);
    assert!(found[24].min(best) == optimum, "{found:?} of {optimum}");
}

#[test]
fn an_earlier_study_that_agrees_is_followed_and_one_that_lies_is_outvoted() {
    let space = space();
    let mean = |objective: Option<fn(f64) -> f64>| {
        let runs = (1..=5).map(|seed| {
            let mut strategy = Evolve::new("evolve", &space, Ingredients::ALL, seed);
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
    let mut strategy = Evolve::new("evolve", &space, Ingredients::ALL, 4);
    let mut failures = [0; 2];
    for round in 0..120 {
        let proposal = strategy.ask(1).pop().unwrap();
        let mut outcome = bowl(&space, &proposal.genome);
        if proposal.genome.positions()[3] == 1 {
            (outcome.class, outcome.objective_ns) = (VerdictClass::Crash, None);
            failures[usize::from(round >= 40)] += 1;
        }
        strategy.tell(&outcome);
    }
    // Half of the space fails. The optimum is found in the first phase, and the second must not prefer
    // what fails to what is known to be worse.
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
    let needed = (1..=8).map(|seed| {
        let mut strategy = Evolve::new("evolve", &space, Ingredients::ALL, seed);
        let mut step = 0;
        loop {
            step += 1;
            let proposal = strategy.ask(1).pop().unwrap();
            let mut outcome = bowl(&space, &proposal.genome);
            if !works(&proposal.genome) {
                (outcome.class, outcome.objective_ns) = (VerdictClass::Crash, None);
            }
            strategy.tell(&outcome);
            if outcome.objective_ns == Some(optimum) {
                break step;
            }
        }
    });
    let mut needed: Vec<usize> = needed.collect();
    needed.sort_unstable();
    // Random search needs half of the space.
    assert!(needed[4] < space.count() as usize / 8, "{needed:?} of {}", space.count());
}

#[test]
fn chance_grows_while_nothing_better_comes() {
    let space = space();
    let mut strategy = Evolve::new("evolve", &space, Ingredients::ALL, 5);
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
    let mut strategy = Evolve::new("evolve", &space, Ingredients::ALL, 6);
    let found = bests(&mut strategy, &space, 150);
    let mut rng = seeded(6);
    let random = (0..3000).map(|_| bowl(&space, &space.sample(&mut rng).unwrap()).objective_ns.unwrap());
    let random = random.fold(f64::MAX, f64::min);
    assert!(found[149] < random, "{} is not below the best of 3,000 samples, {random}", found[149]);
}
