//! `evo render`.

use super::args::RenderArgs;
use super::exit_code::ExitCode;

/// Runs the command.
pub fn run(arguments: &RenderArgs) -> anyhow::Result<ExitCode> {
    let _ = arguments;
    anyhow::bail!("not written yet")
}
