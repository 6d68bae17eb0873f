//! The options of `evo sanitize`.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::one_args::TestOneArgs;
use crate::inspect::sanitize::SanitizerCheck;

/// `evo sanitize`
#[derive(Debug, Args)]
pub struct SanitizeArgs {
    /// Which check to make, or all, one after the other
    #[arg(long, value_enum, default_value_t = SanitizerChoice::All)]
    pub tool: SanitizerChoice,
    /// The program compute-sanitizer, or its folder [default: looked for]
    #[arg(long = "compute-sanitizer", value_name = "PATH")]
    pub program: Option<PathBuf>,
    #[command(flatten)]
    pub one: TestOneArgs,
}

/// A value of `--tool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SanitizerChoice {
    /// Accesses outside of allocations, and misaligned ones
    Memcheck,
    /// Races in shared memory
    Racecheck,
    /// Reads of memory that nothing was written to
    Initcheck,
    /// Barriers that not every thread reaches
    Synccheck,
    /// Each of them
    All,
}

impl SanitizerChoice {
    /// The checks that it means, in the order in which they are made.
    pub fn checks(self) -> Vec<SanitizerCheck> {
        match self {
            SanitizerChoice::Memcheck => vec![SanitizerCheck::Memcheck],
            SanitizerChoice::Racecheck => vec![SanitizerCheck::Racecheck],
            SanitizerChoice::Initcheck => vec![SanitizerCheck::Initcheck],
            SanitizerChoice::Synccheck => vec![SanitizerCheck::Synccheck],
            SanitizerChoice::All => SanitizerCheck::ALL.to_vec(),
        }
    }

    /// As the command line has it.
    pub fn word(self) -> &'static str {
        match self {
            SanitizerChoice::All => "all",
            SanitizerChoice::Memcheck => SanitizerCheck::Memcheck.as_str(),
            SanitizerChoice::Racecheck => SanitizerCheck::Racecheck.as_str(),
            SanitizerChoice::Initcheck => SanitizerCheck::Initcheck.as_str(),
            SanitizerChoice::Synccheck => SanitizerCheck::Synccheck.as_str(),
        }
    }
}
