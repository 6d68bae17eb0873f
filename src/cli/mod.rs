//! Commands: parse, call the library, print, return a number.

use std::io::Write;
use std::process;

use clap::Parser;
use clap::error::{ContextKind, ContextValue};

pub mod args;
mod compile;
mod compile_table;
mod completions;
mod environment;
pub mod exit_code;
mod leaderboard;
mod man;
mod preflight;
mod progress;
mod render;
mod selftest;
mod session;
mod space;
mod sweep;
mod test_one;
pub mod words;
mod worker;

use args::{Cli, Command};
use exit_code::{ExitCode, UsageError};

/// Said to people who ask for a command that was here in earlier versions.
const LAB_HINT: &str = "bench-search is a command of the lab: cargo run --release -p evo-lab -- bench-search";

/// Parses the command line, runs the command and gives the process's exit code.
pub fn main() -> process::ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { ExitCode::Usage } else { ExitCode::Done };
            let _ = error.print();
            if is_of_the_lab(&error) {
                eprintln!("hint: {LAB_HINT}");
            }
            return process::ExitCode::from(code as u8);
        }
    };
    let code = dispatch(&cli.command).unwrap_or_else(|error| report(&error));
    process::ExitCode::from(code as u8)
}

fn is_of_the_lab(error: &clap::Error) -> bool {
    let named = error.get(ContextKind::InvalidSubcommand);
    matches!(named, Some(ContextValue::String(name)) if name == "bench-search")
}

fn dispatch(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Sweep(arguments) => sweep::run(arguments),
        Command::TestOne(arguments) => test_one::run(arguments),
        Command::Space(arguments) => space::run(arguments),
        Command::Render(arguments) => render::run(arguments),
        Command::Compile(arguments) => compile::run(arguments),
        Command::Leaderboard(arguments) => leaderboard::run(arguments),
        Command::Preflight(arguments) => preflight::run(arguments),
        Command::Selftest(arguments) => selftest::run(arguments),
        Command::Worker(arguments) => worker::run(arguments),
        Command::Completions(arguments) => completions::run(arguments),
        Command::Man => man::run(),
    }
}

/// Writes to stdout; a reader that has left (`| head`) is no error.
pub(crate) fn stdout(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(UsageError(format!("cannot write to stdout: {error}")).into())
        }
        _ => Ok(()),
    }
}

/// Prints an error with its causes and decides the exit code.
fn report(error: &anyhow::Error) -> ExitCode {
    let text = error.to_string();
    let prefix = if text.starts_with("error") { "" } else { "error: " };
    eprintln!("{prefix}{text}");
    for cause in error.chain().skip(1) {
        eprintln!("  caused by: {cause}");
    }
    if error.downcast_ref::<UsageError>().is_some() { ExitCode::Usage } else { ExitCode::Harness }
}
