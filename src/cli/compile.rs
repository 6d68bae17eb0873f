//! `evo compile`.

use super::args::CompileArgs;
use super::exit_code::ExitCode;

/// Runs the command.
pub fn run(arguments: &CompileArgs) -> anyhow::Result<ExitCode> {
    let _ = arguments;
    anyhow::bail!("not written yet")
}
