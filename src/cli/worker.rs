//! `evo worker`.

use super::args::WorkerArgs;
use super::exit_code::ExitCode;

/// Runs the command.
pub fn run(arguments: &WorkerArgs) -> anyhow::Result<ExitCode> {
    let _ = arguments;
    anyhow::bail!("not written yet")
}
