//! `evo man`: the manual page, made from the same definition as `--help`.

use clap::CommandFactory;

use super::args::Cli;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::output;

/// Prints the page as roff.
pub fn run() -> Result<ExitCode, CliError> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    output::stdout(&String::from_utf8_lossy(&page))?;
    Ok(ExitCode::Done)
}
