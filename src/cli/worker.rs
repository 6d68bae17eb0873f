//! `evo worker`: a compile worker or a device worker on stdin and stdout.

use super::args::WorkerArgs;
use super::error::CliError;
use super::exit_code::ExitCode;
use crate::compile;
use crate::worker::serve;

/// Runs the command.
pub fn run(arguments: &WorkerArgs) -> Result<ExitCode, CliError> {
    match arguments.compile.as_deref() {
        Some("cuda" | "host") => {
            compile::serve().map_err(|error| CliError::harness(format!("the farm is gone: {error}")))?;
        }
        Some(other) => {
            return Err(CliError::usage(format!("`--compile {other}`: expected `cuda` or `host`")));
        }
        None => {
            serve::run().map_err(|error| CliError::harness(format!("cannot talk to the parent: {error}")))?;
        }
    }
    Ok(ExitCode::Done)
}
