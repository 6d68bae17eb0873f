//! The options of `evo space`.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use clap::{Args, ValueEnum};

use super::one_args::SpaceAccessArgs;

/// `evo space`
#[derive(Debug, Args)]
pub struct SpaceArgs {
    /// Space file (TOML or JSON), or the name of an embedded space [default: the folder's only space file, or attention_simt]
    pub space: Option<String>,
    /// Print N random valid configurations
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub sample: Option<usize>,
    /// Seed of the sample
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
    /// With --sample: spread evenly over the canonical order
    #[arg(long)]
    pub stratified: bool,
    /// With --sample or --list: only configurations with these values
    #[arg(long, value_name = "NAME=VALUE", num_args = 1..)]
    pub fix: Vec<String>,
    /// Explain why this configuration is valid or not; missing values take their default
    #[arg(long, value_name = "NAME=VALUE", num_args = 1..)]
    pub check: Option<Vec<String>>,
    /// Print the valid neighbors of a configuration; missing values take their default
    #[arg(long, value_name = "NAME=VALUE", num_args = 0..)]
    pub neighbors: Option<Vec<String>>,
    /// With --neighbors: which points count as neighbors [default: hamming]
    #[arg(long, value_enum)]
    pub kind: Option<NeighborKind>,
    /// Print every valid configuration, in canonical order
    #[arg(long)]
    pub list: bool,
    /// With --list: the format of a row [default: csv]
    #[arg(long, value_enum)]
    pub format: Option<RowFormat>,
    /// Count what this device can launch: `host`, or an architecture such as `sm_90`
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// With --list or --neighbors: print at most N
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub limit: Option<u128>,
    /// With --list: skip the first N
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub offset: Option<u128>,
    #[command(flatten)]
    pub access: SpaceAccessArgs,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// Which valid points count as neighbors of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NeighborKind {
    /// Exactly one parameter differs
    Hamming,
    /// One parameter differs, to the nearest valid value on either side
    HammingAdjacent,
    /// Every parameter stays or moves to the nearest value on either side that occurs in valid points
    Adjacent,
    /// Every parameter stays or moves by one position
    StrictlyAdjacent,
}

/// What a listed configuration looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    /// A header with the names, then a line of values each
    Csv,
    /// A JSON object a line
    Jsonl,
    /// NAME=VALUE, as other commands take them
    Text,
}
