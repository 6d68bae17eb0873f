//! `evo space`.

use super::args::SpaceArgs;
use super::exit_code::ExitCode;

/// Runs the command.
pub fn run(arguments: &SpaceArgs) -> anyhow::Result<ExitCode> {
    let _ = arguments;
    anyhow::bail!("not written yet")
}
