//! The options of mutators.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use evo_protocol::mutator::MUTATOR_PROPOSALS_MAX;

use crate::cli::limits::{LimitArgs, duration};
use crate::cli::one_args::{SandboxMode, SpaceAccessArgs};
use crate::mutator::command::split;

/// The mutator of a sweep.
#[derive(Clone, Debug, Args)]
pub struct SweepMutatorArgs {
    /// Beside the search, have this program propose sources, which evo judges: program and arguments, without a shell
    #[arg(long, value_name = "COMMAND", help_heading = "Mutator", value_parser = command)]
    pub mutator: Option<MutatorWords>,
    /// Questions to the mutator
    #[arg(long = "mutator-rounds", value_name = "N", default_value_t = 4, help_heading = "Mutator",
          value_parser = clap::value_parser!(u16).range(1..=1000), requires = "mutator")]
    pub rounds: u16,
    /// Proposals of an answer
    #[arg(long = "mutator-proposals", value_name = "N", default_value_t = 4, help_heading = "Mutator",
          value_parser = proposals, requires = "mutator")]
    pub proposals: u16,
    /// Longest time for an answer
    #[arg(long = "mutator-timeout", value_name = "TIME", default_value = "120s", help_heading = "Mutator",
          value_parser = duration, allow_negative_numbers = true, requires = "mutator")]
    pub timeout: Duration,
    /// Time of all rounds, thinking and judging [default: 10m, or 30 % of a `--budget` in time]
    #[arg(long = "mutator-time", value_name = "TIME", help_heading = "Mutator", value_parser = duration,
          allow_negative_numbers = true, requires = "mutator")]
    pub time: Option<Duration>,
}

/// A command line as it was given, and its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MutatorWords {
    pub text: String,
    pub words: Vec<String>,
}

/// `evo mutator`
#[derive(Debug, Args)]
pub struct MutatorArgs {
    #[command(subcommand)]
    pub action: MutatorAction,
}

/// What is done with a mutator.
#[derive(Debug, Subcommand)]
pub enum MutatorAction {
    /// Test whether a program speaks the protocol; needs no device
    Check(MutatorCheckArgs),
    /// Judge the proposals of a run again, without the program
    Replay(MutatorReplayArgs),
}

/// `evo mutator check`
#[derive(Debug, Args)]
pub struct MutatorCheckArgs {
    /// Program and arguments, without a shell
    #[arg(value_name = "COMMAND", value_parser = command)]
    pub mutator: MutatorWords,
    /// Longest time for an answer
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, allow_negative_numbers = true)]
    pub timeout: Duration,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// `evo mutator replay`
#[derive(Debug, Args)]
pub struct MutatorReplayArgs {
    /// `mutators.jsonl` of a study: its last run is repeated
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The space [default: as the run named it]
    #[arg(long, value_name = "SPACE")]
    pub space: Option<String>,
    /// `auto`, `host`, `cuda` or `cuda:INDEX` [default: the run's]
    #[arg(long)]
    pub device: Option<String>,
    /// Time of all rounds
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration, allow_negative_numbers = true)]
    pub time: Duration,
    /// Whether native code of the host device runs behind fences; `off` keeps it in a process of its own only
    #[arg(long, value_enum, default_value_t = SandboxMode::On, value_name = "on|off", hide_possible_values = true)]
    pub sandbox: SandboxMode,
    #[command(flatten)]
    pub access: SpaceAccessArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

impl MutatorArgs {
    /// Whether `--json` asks for an object.
    pub fn is_json(&self) -> bool {
        match &self.action {
            MutatorAction::Check(own) => own.json,
            MutatorAction::Replay(own) => own.json,
        }
    }
}

impl SweepMutatorArgs {
    /// The time of the rounds within a budget of the whole command, and what is left for the search.
    pub fn share(&self, wall: Option<Duration>) -> (Duration, Option<Duration>) {
        /// Where nothing is said.
        const USUAL: Duration = Duration::from_secs(600);
        let own = match (self.time, wall) {
            (Some(own), Some(wall)) => own.min(wall),
            (Some(own), None) => own,
            (None, Some(wall)) => wall.mul_f64(0.3).min(USUAL),
            (None, None) => USUAL,
        };
        (own, wall.map(|wall| wall.saturating_sub(own)))
    }
}

fn command(text: &str) -> Result<MutatorWords, String> {
    Ok(MutatorWords { text: text.to_string(), words: split(text)? })
}

fn proposals(text: &str) -> Result<u16, String> {
    let number =
        text.parse::<u16>().ok().filter(|own| (1..=MUTATOR_PROPOSALS_MAX).contains(&usize::from(*own)));
    number.ok_or_else(|| format!("it is not between 1 and {MUTATOR_PROPOSALS_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_keeps_the_larger_part_of_a_budget() {
        let own = |time: Option<u64>| SweepMutatorArgs {
            mutator: None,
            rounds: 1,
            proposals: 1,
            timeout: Duration::from_secs(1),
            time: time.map(Duration::from_secs),
        };
        let seconds = Duration::from_secs;
        assert_eq!(own(None).share(None), (seconds(600), None));
        assert_eq!(own(None).share(Some(seconds(100))), (seconds(30), Some(seconds(70))));
        assert_eq!(own(Some(80)).share(Some(seconds(100))), (seconds(80), Some(seconds(20))));
        assert_eq!(own(Some(80)).share(Some(seconds(50))), (seconds(50), Some(seconds(0))));
        assert!(proposals("0").is_err() && proposals("33").is_err() && proposals("32").is_ok());
        assert!(command("'").is_err());
    }
}
