//! The command from beginning to end.

use super::execute::execute;
use super::plan::SweepPlan;
use super::profiled;
use super::result::report;
use crate::cli::answer::Answer;
use crate::cli::args::SweepArgs;
use crate::cli::call::Call;
use crate::cli::error::CliError;
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
    let outcome = execute(&plan, call)?;
    let profile = profiled::champion(arguments, &plan, &outcome, call);
    report(&plan, &outcome, profile, call)
}
