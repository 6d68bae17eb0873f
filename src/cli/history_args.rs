//! The options of `evo history`, `evo summary` and `evo restore`.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::PathBuf;

use clap::Args;

use super::one_args::SpaceAccessArgs;

/// `evo history`, `evo summary`
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Only this kernel
    pub kernel: Option<String>,
    /// The folder of the leaderboard, the studies and the evaluations
    #[arg(long, value_name = "DIR", default_value = "evidence")]
    pub out: PathBuf,
    /// Only this kind of device: `host` or `cuda` [default: all; `summary`: the one that was used last]
    #[arg(long, value_name = "KIND", value_parser = ["host", "cuda"])]
    pub device: Option<String>,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// `evo restore`
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// [SPACE|KERNEL] and @champion, @best, @previous, or @NUMBER of an evaluation that `evo history` lists
    #[arg(value_name = "SPACE|KERNEL|@NAME", required = true, num_args = 1..=2)]
    pub words: Vec<String>,
    /// Write config.json, kernel.cu and launch.json to this folder, which is made
    #[arg(long, value_name = "FOLDER")]
    pub to: PathBuf,
    /// Replace files of these names, and restore although the kernel was edited since
    #[arg(long)]
    pub force: bool,
    /// The folder of the leaderboard, the studies and the evaluations
    #[arg(long, value_name = "DIR", default_value = "evidence")]
    pub out: PathBuf,
    /// Only this kind of device: `host` or `cuda` [default: the one that was used last]
    #[arg(long, value_name = "KIND", value_parser = ["host", "cuda"])]
    pub device: Option<String>,
    #[command(flatten)]
    pub access: SpaceAccessArgs,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}
