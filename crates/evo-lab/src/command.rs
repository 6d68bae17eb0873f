//! From the command line to an exit code.

use std::process::ExitCode;

use clap::Parser;

use crate::args::{LabCli, LabCommand};
use crate::bench_search;

/// The exit code of a wrong command line, as for `evo`.
const USAGE: u8 = 2;

/// Parses the command line, runs the command and gives the process's exit code.
pub fn main() -> ExitCode {
    let cli = match LabCli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout and are not mistakes.
            let code = if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
            let _ = error.print();
            return code;
        }
    };
    let done = match &cli.command {
        LabCommand::BenchSearch(arguments) => bench_search::run(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
