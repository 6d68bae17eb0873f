//! `evo completions`: a shell's completion script, made from the same definition as `--help`.

use clap::CommandFactory;

use super::command_line::Cli;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::output;
use super::shell_args::CompletionsArgs;

/// Prints the script.
pub fn run(arguments: &CompletionsArgs) -> Result<ExitCode, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "evo", &mut script);
    output::stdout(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::Done)
}
