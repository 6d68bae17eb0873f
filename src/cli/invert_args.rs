//! The options of `evo invert`.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use clap::Args;

use super::one_args::TestOneArgs;

/// `evo invert`
#[derive(Debug, Args)]
pub struct InvertArgs {
    #[command(flatten)]
    pub one: TestOneArgs,
    /// Only these pathologies (`barriers,entry_delay`) [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub only: Vec<String>,
}
