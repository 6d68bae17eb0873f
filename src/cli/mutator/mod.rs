//! Mutators on the command line: `args` has the options, `task` is what a mutator is told, `judge` judges what it
//! proposes as `evo evaluate` does, `rounds` plays the rounds of a sweep, `check` tests a program and `replay`
//! repeats a run.

pub mod args;
mod check;
mod judge;
mod replay;
mod rounds;
mod task;

use args::{MutatorAction, MutatorArgs};
pub use judge::{JudgeSetting, arguments};
pub use rounds::{FoundBySearch, MutatedOutcome, MutatedSweep, ReadyMutator, bounds, ready, swept};

use super::answer::Answer;
use super::call::Call;
use super::error::CliError;

/// Runs `evo mutator`.
///
/// # Errors
/// The command line is wrong, the program does not start, or a file cannot be read.
pub fn run(arguments: &MutatorArgs, call: &Call) -> Result<Answer, CliError> {
    match &arguments.action {
        MutatorAction::Check(own) => check::run(own, call),
        MutatorAction::Replay(own) => replay::run(own, call),
    }
}
