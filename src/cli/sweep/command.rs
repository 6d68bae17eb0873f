//! The command from beginning to end.

use super::execute::execute;
use super::plan::SweepPlan;
use super::result::report;
use crate::cli::args::SweepArgs;
use crate::cli::error::CliError;
use crate::cli::exit_code::ExitCode;
use crate::clock::CommandClock;

/// Runs the command.
pub fn run(arguments: &SweepArgs) -> Result<ExitCode, CliError> {
    // Before anything else: a wall budget covers reading the space and starting the device too.
    let plan = SweepPlan::of(arguments, CommandClock::start())?;
    let outcome = execute(&plan)?;
    report(&plan, &outcome)
}
