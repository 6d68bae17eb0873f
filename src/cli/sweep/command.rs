//! The command from beginning to end.

use super::execute::execute;
use super::plan::SweepPlan;
use super::result::report;
use crate::cli::args::SweepArgs;
use crate::cli::error::CliError;
use crate::cli::exit_code::ExitCode;

/// Runs the command.
pub fn run(arguments: &SweepArgs) -> Result<ExitCode, CliError> {
    let plan = SweepPlan::of(arguments)?;
    let outcome = execute(&plan)?;
    report(&plan, &outcome)
}
