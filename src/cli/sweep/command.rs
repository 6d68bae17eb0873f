//! The command from beginning to end.

use std::thread::{self, ScopedJoinHandle};

use serde_json::Value;

use super::beside::{RunningSearch, SearchEnd};
use super::execute::{SweepOutcome, execute};
use super::mutated::{self, BesideSearch};
use super::plan::SweepPlan;
use super::profiled;
use super::result::report;
use crate::cli::answer::Answer;
use crate::cli::args::SweepArgs;
use crate::cli::call::Call;
use crate::cli::error::CliError;
use crate::cli::mutator::ReadyMutator;
use crate::cli::output;
use crate::cli::report::after_sweep;
use crate::clock::CommandClock;

/// Runs the command.
pub fn run(arguments: &SweepArgs, call: &Call) -> Result<Answer, CliError> {
    // Before anything else: a wall budget covers reading the space and starting the device too.
    let clock = CommandClock::start();
    arguments.limits.begin_orderly(call)?;
    let plan = SweepPlan::of(arguments, clock)?;
    if arguments.seed.is_none() {
        call.drew_seed(plan.seed);
    }
    match mutated::ready(arguments, &plan)? {
        None => {
            let outcome = execute(&plan, call, None)?;
            let profile = written(arguments, &plan, &outcome, call);
            report(&plan, &outcome, (profile, None), call)
        }
        Some(mutator) => with_mutator(arguments, &plan, mutator, call),
    }
}

/// Searches, and plays the rounds of a mutator beside the search.
fn with_mutator(
    arguments: &SweepArgs,
    plan: &SweepPlan,
    mutator: ReadyMutator,
    call: &Call,
) -> Result<Answer, CliError> {
    let running = RunningSearch::default();
    thread::scope(|scope| {
        let rounds = scope.spawn(|| mutated::beside(arguments, plan, &running, mutator));
        let _end = running.ended_by_panic();
        let outcome = execute(plan, call, Some(&running));
        match &outcome {
            Ok(outcome) if !mutated::is_cut_short(outcome) => {
                running.end(SearchEnd { champion: mutated::champion(outcome) });
            }
            // Nobody thinks on about what was broken off.
            _ => running.break_off(),
        }
        let outcome = outcome?;
        let profile = {
            // A profiler is to have the device to itself.
            let _turn = running.turns().take();
            written(arguments, plan, &outcome, call)
        };
        let played = |rounds: ScopedJoinHandle<'_, BesideSearch>| match rounds.join() {
            Ok(BesideSearch::NotAsked(mutator)) => mutated::play(arguments, plan, &outcome, mutator),
            Ok(BesideSearch::Played(played)) => mutated::after(&outcome, played),
            Err(_) => Err("evo panicked while it judged proposals".to_string()),
        };
        if call.is_json() {
            let mutated = played(rounds);
            return report(plan, &outcome, (profile, Some(mutated::json(&mutated))), call);
        }
        // People read what the search found while the mutator thinks.
        let answer = report(plan, &outcome, (profile, None), call)?;
        mutated::show(&played(rounds))?;
        Ok(answer)
    })
}

/// What is written after a search: a profile where one was asked for, and the page.
fn written(arguments: &SweepArgs, plan: &SweepPlan, outcome: &SweepOutcome, call: &Call) -> Option<Value> {
    let profile = profiled::champion(arguments, plan, outcome, call);
    // A view of what is on the disk already, so trouble with it changes nothing about how the sweep ends.
    if let Err(error) = after_sweep(outcome.study.out(), &outcome.study.header().study) {
        output::say(&format!("warning: report.html was not written: {error}"));
    }
    profile
}
