//! The options of `evo bench`.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use evo_protocol::measurement::TimingMode;
use evo_space::text::quote;

use super::candidate::named;
use super::one_args::RunArgs;

/// `evo bench`
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// A benchmark file (it has a key `space`), or a space by name or path
    #[arg(value_name = "FILE.toml|SPACE")]
    pub target: Option<String>,
    /// Canonical problems and the ranking mode only, in under a minute
    #[arg(long)]
    pub quick: bool,
    /// A peer: `torch`, `python`, or the name of one in `[[peers]]` (repeatable) [default: those of the files]
    #[arg(long = "peer", value_name = "NAME")]
    pub peers: Vec<String>,
    /// A candidate as other commands take its words, quoted, or @portfolio for the fastest of each problem (repeatable) [default: those of the file, else @champion, else @baseline]
    #[arg(long = "candidate", value_name = "WORDS", value_parser = named)]
    pub candidates: Vec<String>,
    /// A timing mode (repeatable) [default: those of the file, else hot and cold]
    #[arg(long = "mode", value_enum, value_name = "MODE")]
    pub modes: Vec<BenchMode>,
    /// Only these problems or points of the grid (repeatable)
    #[arg(long = "problem", value_name = "NAME")]
    pub problems: Vec<String>,
    /// Rounds of two blocks each [default: 6, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// The run's name, part of its folder's [default: that of the file or the space]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The folder of evidence: the run's own is OUT/bench/DEVICE/DATE-NAME
    #[arg(long = "out", value_name = "DIR", default_value = "evidence")]
    pub out: PathBuf,
    /// With `@…`: the study, by name or folder [default: the newest of the kernel]
    #[arg(long = "study", value_name = "NAME")]
    pub study: Option<String>,
    /// Let a problem, a peer or one implementation of it not run and pass all the same; the object says so (repeatable)
    #[arg(long = "allow-not-run", value_name = "NAME")]
    pub allow_not_run: Vec<String>,
    #[command(flatten)]
    pub run: RunArgs,
}

/// A timing mode on a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchMode {
    /// Calls back to back
    Hot,
    /// Each call after the caches were flushed
    Cold,
    /// Each call with its launch
    Eager,
}

impl BenchMode {
    /// The mode.
    pub fn timing(self) -> TimingMode {
        match self {
            BenchMode::Hot => TimingMode::Hot,
            BenchMode::Cold => TimingMode::Cold,
            BenchMode::Eager => TimingMode::Eager,
        }
    }
}

impl BenchArgs {
    /// A command line that does the same again.
    pub fn again(&self, target: &str, device: &str, seed: u64) -> String {
        let mut words = vec!["evo bench".to_string(), quote(target).into_owned()];
        words.extend(self.quick.then(|| "--quick".to_string()));
        let mut many = |flag: &str, values: &[String]| {
            words.extend(values.iter().map(|value| format!("{flag} {}", quote(value))));
        };
        many("--peer", &self.peers);
        many("--candidate", &self.candidates);
        let modes: Vec<String> = self.modes.iter().map(|mode| mode.timing().as_str().to_string()).collect();
        many("--mode", &modes);
        many("--problem", &self.problems);
        many("--allow-not-run", &self.allow_not_run);
        many("--name", self.name.as_slice());
        many("--study", self.study.as_slice());
        words.extend(self.rounds.map(|rounds| format!("--rounds {rounds}")));
        words.extend([format!("--device {device}"), format!("--seed {seed}")]);
        if self.out != std::path::Path::new("evidence") {
            words.push(format!("--out {}", quote(&self.out.display().to_string())));
        }
        words.extend(self.run.words());
        words.join(" ")
    }
}
