//! The options of commands that run candidates, and those of every command that opens a space.

// Comments on flags are help texts, in which `[SPACE]` is an optional argument and not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::{Args, ValueEnum};

use super::candidate::CandidateArgs;
use super::error::CliError;
use super::limits::LimitArgs;
use super::words;
use crate::kernel::access::SpaceAccess;
use crate::kernel::spec::{ProblemSpec, SpaceFile};
use crate::timing::policy;

/// `evo test-one`
#[derive(Clone, Debug, Args)]
pub struct TestOneArgs {
    /// [SPACE] then values in declared order, NAME=VALUE, or @champion, @previous, @baseline, @NUMBER, @HASH
    #[arg(value_name = "SPACE|VALUE|NAME=VALUE|@NAME", allow_negative_numbers = true)]
    pub words: Vec<String>,
    /// The space, in place of a first word that names it
    #[arg(long, value_name = "SPACE")]
    pub space: Option<String>,
    #[command(flatten)]
    pub candidate: CandidateArgs,
    /// Only these problems (repeatable)
    #[arg(long = "problem", value_name = "NAME")]
    pub problems: Vec<String>,
    /// Let one gate, or a baseline, clock, peer or problem that is asked for, not run and pass all the same; the object says so (repeatable)
    #[arg(long = "allow-not-run", value_name = "NAME")]
    pub allow_not_run: Vec<String>,
    #[command(flatten)]
    pub run: RunArgs,
    /// Problems beyond those of the space.
    #[arg(skip)]
    pub grid: Vec<ProblemSpec>,
}

impl TestOneArgs {
    /// Puts what `--space` names before the words, where the space stands otherwise.
    ///
    /// # Errors
    /// The words name a space too, or the option names none.
    pub fn place_space(&mut self) -> Result<(), CliError> {
        let Some(space) = self.space.take() else { return Ok(()) };
        if let Some(other) = words::named_space(&self.words).named {
            let text = format!("two spaces at once: `{other}` and `--space {space}`");
            return Err(CliError::usage(text).with_hint("name one of them"));
        }
        if !words::is_space(&space) {
            return Err(CliError::usage(format!("`{space}` is a value, not a space")));
        }
        self.words.insert(0, space);
        Ok(())
    }

    /// Adds the problems of `--grid` to those of a space.
    pub fn add_grid(&self, file: &mut SpaceFile) {
        if let Some(kernel) = &mut file.kernel {
            kernel.problems.extend(self.grid.iter().cloned());
        }
    }
}

/// Where and how candidates run, the same for every command that runs them one by one.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// `auto`, `host`, `cuda` or `cuda:INDEX`
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Seed of the inputs [default: random]
    #[arg(long, allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Command of a device worker instead of `evo worker`, split at spaces
    #[arg(long = "worker-command", value_name = "COMMAND")]
    pub worker_command: Option<String>,
    /// Longest time to sample one problem in one timing mode, `100ms` to `5s` [default: as long as a better interval is in sight]
    #[arg(long = "limit-sampling", value_name = "TIME", value_parser = sampling, allow_negative_numbers = true)]
    pub limit_sampling: Option<Duration>,
    #[command(flatten)]
    pub access: SpaceAccessArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Whether native code of the host device runs behind fences; `off` keeps it in a process of its own only
    #[arg(long, value_enum, default_value_t = SandboxMode::On, value_name = "on|off", hide_possible_values = true)]
    pub sandbox: SandboxMode,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// A number of compile processes that a machine can hold.
pub fn jobs() -> impl TypedValueParser<Value = usize> {
    clap::value_parser!(u16).range(1..=1024).map(usize::from)
}

/// How a space may be opened.
#[derive(Debug, Clone, Args)]
pub struct SpaceAccessArgs {
    /// Longest processor time for opening the space
    #[arg(long = "limit-space", value_name = "SECONDS", default_value = "10", value_parser = seconds, allow_negative_numbers = true)]
    limit_space: Duration,
    /// Let the space file name files outside its own folder
    #[arg(long = "allow-outside")]
    allow_outside: bool,
}

impl SpaceAccessArgs {
    pub fn access(&self) -> SpaceAccess {
        SpaceAccess { limit: self.limit_space, allow_outside: self.allow_outside, render_apart: true }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SandboxMode {
    /// As many fences as this machine has.
    #[default]
    On,
    /// None; variants still run in processes of their own.
    Off,
}

/// The time of a sampling, as a flag takes it: milliseconds or seconds.
pub fn sampling(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (text.strip_suffix('s').unwrap_or_default(), 1_000),
    };
    let time =
        number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).map(Duration::from_millis);
    let time = time.ok_or_else(|| "it is not a time such as `100ms` or `2s`".to_string())?;
    match policy::SAMPLING.contains(&time) {
        true => Ok(time),
        false => Err("it is not between `100ms` and `5s`".to_string()),
    }
}

/// Seconds, as a flag takes them: 0.1 s to a day.
fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| "it is not a number of seconds".to_string())?;
    match (0.1..=86_400.0).contains(&value) {
        true => Ok(Duration::from_secs_f64(value)),
        false => Err("it is not between 0.1 and 86400".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct OnlyRun {
        #[command(flatten)]
        run: RunArgs,
    }

    #[test]
    fn a_sampling_limit_is_between_two_ends() {
        let read = |line: &str| OnlyRun::try_parse_from(line.split_whitespace()).map(|read| read.run);
        assert_eq!(read("evo --limit-sampling 2s").unwrap().limit_sampling, Some(Duration::from_secs(2)));
        for bad in ["99ms", "5001ms", "0s", "-1s", "1", "s", "ms", "1.5s", "99999999999999999999s"] {
            assert!(read(&format!("evo --limit-sampling {bad}")).is_err(), "{bad}");
        }
    }
}
