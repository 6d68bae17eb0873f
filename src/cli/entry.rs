//! From the command line to the exit code.

use std::process;

use clap::Parser;
use clap::error::{ContextKind, ContextValue};

use super::args::{Cli, Command};
use super::error::CliError;
use super::exit_code::ExitCode;
use super::output;
use super::{
    cache, compile, completions, explain, leaderboard, man, preflight, render, selftest, space, sweep,
    test_one, worker,
};

/// For people who ask for a command that was here in earlier versions.
const LAB_HINT: &str = "bench-search is a command of the lab: cargo run --release -p evo-lab -- bench-search";

/// Parses the command line, runs the command and gives the process's exit code.
pub fn main() -> process::ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // `--help` and `--version` come as errors too, and their text goes to stdout.
            let code = if error.use_stderr() { ExitCode::Usage } else { ExitCode::Done };
            let _ = error.print();
            if is_of_the_lab(&error) {
                eprintln!("hint: {LAB_HINT}");
            }
            return process::ExitCode::from(code as u8);
        }
    };
    finish(dispatch(&cli.command))
}

fn is_of_the_lab(error: &clap::Error) -> bool {
    let named = error.get(ContextKind::InvalidSubcommand);
    matches!(named, Some(ContextValue::String(name)) if name == "bench-search")
}

/// Prints the error, if there is one, and gives the process's exit code.
pub fn finish(result: Result<ExitCode, CliError>) -> process::ExitCode {
    let code = result.unwrap_or_else(|error| {
        let text = error.to_string();
        // The errors of a space file come rendered, each with `error:` in front.
        let prefix = if text.starts_with("error") { "" } else { "error: " };
        output::say(&format!("{prefix}{text}"));
        error.exit_code()
    });
    process::ExitCode::from(code as u8)
}

fn dispatch(command: &Command) -> Result<ExitCode, CliError> {
    match command {
        Command::Sweep(arguments) => sweep::run(arguments),
        Command::TestOne(arguments) => test_one::run(arguments),
        Command::Space(arguments) => space::run(arguments),
        Command::Render(arguments) => render::run(arguments),
        Command::Compile(arguments) => compile::run(arguments),
        Command::Explain(arguments) => explain::run(arguments),
        Command::Leaderboard(arguments) => leaderboard::run(arguments),
        Command::Preflight(arguments) => preflight::run(arguments),
        Command::Selftest(arguments) => selftest::run(arguments),
        Command::Cache(arguments) => cache::run(arguments),
        Command::Worker(arguments) => worker::run(arguments),
        Command::Completions(arguments) => completions::run(arguments),
        Command::Man => man::run(),
    }
}
