//! `evo selftest`.

use super::args::SelftestArgs;
use super::exit_code::ExitCode;

/// Runs the command.
pub fn run(arguments: &SelftestArgs) -> anyhow::Result<ExitCode> {
    let _ = arguments;
    anyhow::bail!("not written yet")
}
