//! `evo completions`: a shell's completion script, made from the same definition as `--help`.

use clap::CommandFactory;

use super::args::{Cli, CompletionsArgs};
use super::exit_code::ExitCode;

/// Prints the script.
pub fn run(arguments: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "evo", &mut script);
    super::stdout(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::Done)
}
