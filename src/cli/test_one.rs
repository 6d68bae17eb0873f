//! `evo test-one`.

use super::args::TestOneArgs;
use super::exit_code::ExitCode;

/// Runs the command.
pub fn run(arguments: &TestOneArgs) -> anyhow::Result<ExitCode> {
    let _ = arguments;
    anyhow::bail!("not written yet")
}
