//! `evo worker`: a compile worker, a device worker or the child of a self-test on stdin and stdout.

use super::args::WorkerArgs;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::selftest;
use crate::compile;
use crate::worker::serve;

/// Runs the command.
pub fn run(arguments: &WorkerArgs) -> Result<ExitCode, CliError> {
    let gone = |error| CliError::harness(format!("cannot talk to the parent: {error}"));
    if arguments.plain {
        selftest::serve_plain().map_err(gone)?;
        return Ok(ExitCode::Done);
    }
    match arguments.compile.as_deref() {
        Some("cuda" | "host") => {
            compile::serve().map_err(|error| CliError::harness(format!("the farm is gone: {error}")))?;
        }
        Some(other) => {
            return Err(CliError::usage(format!("`--compile {other}`: expected `cuda` or `host`")));
        }
        None => {
            serve::run().map_err(gone)?;
        }
    }
    Ok(ExitCode::Done)
}
