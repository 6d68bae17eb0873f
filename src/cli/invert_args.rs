//! The options of `evo invert`.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use clap::{Args, ValueEnum};

use super::one_args::TestOneArgs;

/// `evo invert`
#[derive(Debug, Args)]
pub struct InvertArgs {
    #[command(flatten)]
    pub one: TestOneArgs,
    /// Only these pathologies (`barriers,entry_delay`) [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Whether Nsight Compute, where it is found, looks at the largest dose of each pathology
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    pub counters: InvertCounters,
}

/// Whether a profiler looks at harmed copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InvertCounters {
    /// Where one is found
    Auto,
    /// Machine code and launches alone tell what happened
    Off,
}
