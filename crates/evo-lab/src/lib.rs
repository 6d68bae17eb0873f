//! The laboratory: how good evo's search strategies are, measured without a GPU.
//!
//! A strategy is judged on recordings, which hold a measurement of every configuration of a space, so that the best
//! possible result is known. `simulate` replays a search on one with a virtual clock, `traces` writes and reads
//! what searches asked for, and `score` compares runs with random search. `bench_search` is the command that does all of
//! this and prints tables.
//!
//! The product does not depend on this crate, and this crate is not published.

pub mod args;
pub mod bench_search;
pub mod error;
pub mod score;
pub mod simulate;
pub mod traces;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{LabCli, LabCommand};

/// The exit code of a wrong command line, as for `evo`.
const USAGE: u8 = 2;

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
