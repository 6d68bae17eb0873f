//! `evo leaderboard`.

use super::args::LeaderboardArgs;
use super::exit_code::ExitCode;

/// Runs the command.
pub fn run(arguments: &LeaderboardArgs) -> anyhow::Result<ExitCode> {
    let _ = arguments;
    anyhow::bail!("not written yet")
}
