//! The laboratory: how good evo's search strategies are, measured without a GPU.
//!
//! A strategy is judged on recordings, which hold a measurement of every configuration of a space, so that the best
//! possible result is known. `simulate` replays a search on one with a virtual clock, `traces` writes and reads
//! what searches asked for, and `score` compares runs with random search. `bench_search` is the command that does all of
//! this and prints tables.
//!
//! The product does not depend on this crate, and this crate is not published.

mod args;
mod bench_search;
mod error;
mod score;
mod simulate;
mod traces;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{LabCli, LabCommand};
use crate::error::USAGE;

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
    let LabCommand::BenchSearch(arguments) = &cli.command;
    match bench_search::run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.code)
        }
    }
}
