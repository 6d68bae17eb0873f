//! `evo sweep`.

use super::args::SweepArgs;
use super::exit_code::ExitCode;

/// Runs the command.
pub fn run(arguments: &SweepArgs) -> anyhow::Result<ExitCode> {
    let _ = arguments;
    anyhow::bail!("not written yet")
}
