//! The options of commands that run candidates one by one.

use std::iter;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::candidate::{self, CandidateArgs};
use super::limits::{JUDGING, LimitArgs};
use super::{CliError, Result, words};
use crate::engine::candidate::ResolvedCandidate;
use crate::kernel::spec::{ProblemSpec, SpaceFile};

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
    pub fn place_space(&mut self) -> Result<()> {
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

    /// Another candidate of the same command line, of the space that is named: its words, and its configuration, source and
    /// launches in files. A study is named for what is looked up.
    pub fn other(
        &self,
        space: &str,
        words: impl IntoIterator<Item = String>,
        [config, source, launch]: [Option<PathBuf>; 3],
    ) -> Result<ResolvedCandidate> {
        let all: Vec<String> = iter::once(space.to_string()).chain(words).collect();
        let is_looked_up = all[1..].iter().any(|word| candidate::is_looked_up(word));
        let study = self.candidate.study.clone().filter(|_| is_looked_up);
        let named = CandidateArgs { config, source, launch, out: self.candidate.out.clone(), study };
        candidate::resolve(&all, &named, &self.run.device, self.run.limits.access())
    }

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
    #[command(flatten)]
    pub limits: LimitArgs<JUDGING>,
    /// Whether native code of the host device runs behind fences; `off` keeps it in a process of its own only
    #[arg(long, value_enum, default_value_t = SandboxMode::On, value_name = "on|off", hide_possible_values = true)]
    pub sandbox: SandboxMode,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

pub fn choice<T: Copy + Send + Sync + 'static>(
    all: impl IntoIterator<Item = (&'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let all: Vec<(&str, T)> = all.into_iter().collect();
    let words = PossibleValuesParser::new(all.iter().map(|(word, _)| *word));
    words.try_map(move |word| {
        let known = all.iter().find(|(known, _)| *known == word);
        known.map(|(_, meaning)| *meaning).ok_or("it is unknown")
    })
}

/// A number of compile processes that a machine can hold.
pub fn jobs() -> impl TypedValueParser<Value = usize> {
    clap::value_parser!(u16).range(1..=1024).map(usize::from)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SandboxMode {
    /// As many fences as this machine has.
    #[default]
    On,
    /// None; variants still run in processes of their own.
    Off,
}
