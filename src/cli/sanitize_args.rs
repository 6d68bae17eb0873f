//! The options of `evo sanitize`.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::one_args::TestOneArgs;
use crate::inspect::sanitize::SanitizerCheck;

/// `evo sanitize`
#[derive(Debug, Args)]
pub struct SanitizeArgs {
    /// Which check to make, or all, one after the other [default: those of the space file, or all]
    #[arg(long, value_enum)]
    pub tool: Option<SanitizerChoice>,
    /// The program compute-sanitizer, or its folder [default: looked for]
    #[arg(long = "compute-sanitizer", value_name = "PATH")]
    pub program: Option<PathBuf>,
    #[command(flatten)]
    pub one: TestOneArgs,
}

/// A value of `evo sweep --sanitize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SanitizeWhen {
    /// The baseline and the finalists
    Finalists,
    /// Also the best of every so many generations
    Every(NonZeroU32),
    /// Nothing
    Off,
}

/// `finalists`, `every=5` or `off`.
pub fn sanitize_when(text: &str) -> Result<SanitizeWhen, String> {
    let every = text.strip_prefix("every=").and_then(|count| count.parse::<NonZeroU32>().ok());
    match (text, every) {
        ("finalists", _) => Ok(SanitizeWhen::Finalists),
        ("off", _) => Ok(SanitizeWhen::Off),
        (_, Some(every)) => Ok(SanitizeWhen::Every(every)),
        _ => Err("it is not `finalists`, `every=N` with N of at least 1, or `off`".to_string()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_are_counted_from_one() {
        let every = |count| SanitizeWhen::Every(NonZeroU32::new(count).unwrap());
        assert_eq!(sanitize_when("every=5"), Ok(every(5)));
        assert_eq!(sanitize_when("off"), Ok(SanitizeWhen::Off));
        for wrong in ["every=0", "every=", "every=-1", "on", ""] {
            assert!(sanitize_when(wrong).unwrap_err().contains("every=N"), "{wrong}");
        }
    }
}
