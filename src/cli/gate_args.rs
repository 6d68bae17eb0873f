//! The options of `evo gate`.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use evo_space::genome::Configuration;
use evo_space::text::quote;

use super::candidate::{CandidateArgs, named};
use super::evaluate_args::share;
use super::one_args::{RunArgs, TestOneArgs};
use crate::kernel::spec::KernelSpec;

/// The usual file.
const BASELINE: &str = "evo-baseline.json";

/// `evo gate`
#[derive(Debug, Args)]
pub struct GateArgs {
    /// Space file, or the name of an embedded space [default: that of the baseline]
    #[arg(value_name = "SPACE")]
    pub space: Option<String>,
    /// What to compare with
    #[arg(long, value_name = "FILE", default_value = BASELINE)]
    pub baseline: PathBuf,
    /// Values, or @NAME, in one word: "BLOCK=64 VEC=4" [default: the baseline's configuration with today's source]
    #[arg(long = "candidate", value_name = "CANDIDATE", id = "named_candidate", value_parser = named)]
    pub candidate: Option<String>,
    #[command(flatten)]
    pub files: CandidateArgs,
    /// A slowdown of a problem above this is a regression
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = share, allow_negative_numbers = true)]
    pub threshold: f64,
    /// Judge [goals] of the space file too
    #[arg(long)]
    pub goals: bool,
    /// Demand compute-sanitizer's answer on the candidate, as `[check] sanitize = "required"` does
    #[arg(long)]
    pub sanitize: bool,
    /// After a pass, make the candidate the baseline
    #[arg(long, conflicts_with = "init")]
    pub update: bool,
    /// Write the baseline's file, which must not be there, from the candidate [default: the default configuration]
    #[arg(long, conflicts_with = "goals")]
    pub init: bool,
    /// A table, or annotations for GitHub [default: `github` where GITHUB_ACTIONS is `true`]
    #[arg(long, value_enum)]
    pub format: Option<GateFormat>,
    /// Let a gate, or `faster_than`, `metrics` or `p90` of the goals, not run and pass all the same (repeatable)
    #[arg(long = "allow-not-run", value_name = "NAME")]
    pub allow_not_run: Vec<String>,
    #[command(flatten)]
    pub run: RunArgs,
}

/// How the answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GateFormat {
    Github,
    Text,
}

/// What `evo gate` demands of a candidate beside its gates.
#[derive(Clone, Copy, Debug)]
pub struct GateDemands {
    /// The slowdown above which a problem regresses.
    pub threshold: f64,
    /// compute-sanitizer's answer.
    pub sanitizer: bool,
}

impl GateArgs {
    /// Whether GitHub reads what is printed.
    pub fn is_for_github(&self) -> bool {
        match self.format {
            Some(format) => format == GateFormat::Github,
            None => std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true"),
        }
    }

    /// What is demanded of a candidate.
    pub fn demands(&self, kernel: &KernelSpec) -> GateDemands {
        let sanitizer = self.sanitize || kernel.check.demands_sanitizer;
        GateDemands { threshold: self.threshold, sanitizer }
    }

    /// The candidate as the commands that take one candidate have it. `usual` is its configuration where the command
    /// line names none.
    pub fn one(&self, space: &str, usual: Option<&Configuration>) -> TestOneArgs {
        let mut words = vec![space.to_string()];
        match (&self.candidate, usual) {
            (Some(named), _) => words.extend(named.split_whitespace().map(String::from)),
            (None, Some(usual)) if self.files.config.is_none() => {
                words.extend(usual.iter().map(|(name, value)| format!("{name}={value}")));
            }
            (None, _) => {}
        }
        TestOneArgs {
            words,
            space: None,
            candidate: self.files.clone(),
            problems: Vec::new(),
            allow_not_run: self.allow_not_run.clone(),
            run: self.run.clone(),
            grid: Vec::new(),
        }
    }

    /// The command line that does the same again.
    pub fn again(&self, space: &str, seed: u64) -> String {
        let quoted = |text: &str| quote(text).into_owned();
        let path = |path: &Path| quoted(&path.display().to_string());
        let mut words = vec!["evo gate".to_string(), quoted(space)];
        let mut flag =
            |name: &str, value: Option<String>| words.extend(value.map(|value| format!("{name} {value}")));
        flag("--baseline", (self.baseline != Path::new(BASELINE)).then(|| path(&self.baseline)));
        flag("--candidate", self.candidate.as_deref().map(quoted));
        flag("--config", self.files.config.as_deref().map(path));
        flag("--source", self.files.source.as_deref().map(path));
        flag("--launch", self.files.launch.as_deref().map(path));
        flag("--study", self.files.study.as_deref().map(quoted));
        flag("--out", (self.files.out != Path::new("evidence")).then(|| path(&self.files.out)));
        flag("--threshold", (self.threshold != 0.02).then(|| self.threshold.to_string()));
        flag("--device", Some(quoted(&self.run.device)));
        flag("--seed", Some(seed.to_string()));
        self.allow_not_run.iter().for_each(|name| flag("--allow-not-run", Some(quoted(name))));
        let switches = [
            ("--goals", self.goals),
            ("--sanitize", self.sanitize),
            ("--update", self.update),
            ("--init", self.init),
        ];
        words.extend(switches.into_iter().filter(|(_, on)| *on).map(|(name, _)| name.to_string()));
        words.extend(self.run.words());
        words.join(" ")
    }
}
