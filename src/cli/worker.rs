//! `evo worker`: a compile worker or a device worker on stdin and stdout.

use anyhow::Context;

use super::args::WorkerArgs;
use super::exit_code::{ExitCode, UsageError};

/// Runs the command.
pub fn run(arguments: &WorkerArgs) -> anyhow::Result<ExitCode> {
    match arguments.compile.as_deref() {
        Some("cuda" | "host") => crate::compile::serve().context("the farm is gone").map(|()| ExitCode::Done),
        Some(other) => Err(UsageError(format!("`--compile {other}`: expected `cuda` or `host`")).into()),
        None => crate::worker::serve::run().context("cannot talk to the parent").map(|()| ExitCode::Done),
    }
}
