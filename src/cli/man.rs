//! `evo man`: the manual page, made from the same definition as `--help`.

use clap::CommandFactory;

use super::args::Cli;
use super::exit_code::ExitCode;

/// Prints the page as roff.
pub fn run() -> anyhow::Result<ExitCode> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    super::stdout(&String::from_utf8_lossy(&page))?;
    Ok(ExitCode::Done)
}
