//! The command from beginning to end.

use serde_json::Value;

use super::execute::{SweepOutcome, execute};
use super::plan::SweepPlan;
use super::profiled;
use super::result::report;
use crate::cli::answer::Answer;
use crate::cli::args::SweepArgs;
use crate::cli::call::Call;
use crate::cli::error::CliError;
use crate::cli::output;
use crate::cli::report::after_sweep;
use crate::clock::CommandClock;

pub fn run(arguments: &SweepArgs, call: &Call) -> Result<Answer, CliError> {
    // Before anything else: a wall budget covers reading the space and starting the device too.
    let clock = CommandClock::start();
    arguments.limits.begin_orderly(call)?;
    let plan = SweepPlan::of(arguments, clock)?;
    call.chose(None, plan.seed);
    let outcome = execute(&plan, call)?;
    let profile = written(arguments, &plan, &outcome, call);
    report(&plan, &outcome, profile, call)
}

fn written(arguments: &SweepArgs, plan: &SweepPlan, outcome: &SweepOutcome, call: &Call) -> Option<Value> {
    let profile = profiled::champion(arguments, plan, outcome, call);
    // A view of what is on the disk already, so trouble with it changes nothing about how the sweep ends.
    if let Err(error) = after_sweep(outcome.study.out(), &outcome.study.header().study) {
        output::say(&format!("warning: report.html was not written: {error}"));
    }
    profile
}
