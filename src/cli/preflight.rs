//! `evo preflight`.

use super::args::PreflightArgs;
use super::exit_code::ExitCode;

/// Runs the command.
pub fn run(arguments: &PreflightArgs) -> anyhow::Result<ExitCode> {
    let _ = arguments;
    anyhow::bail!("not written yet")
}
