//! The options of `evo profile`.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::one_args::TestOneArgs;

/// `evo profile`
#[derive(Debug, Args)]
pub struct ProfileArgs {
    #[command(flatten)]
    pub one: TestOneArgs,
    /// Which counters: those that name the bottleneck, or more that explain it
    #[arg(long, value_enum, default_value_t = CounterSet::Light, value_name = "light|wide", hide_possible_values = true)]
    pub set: CounterSet,
    /// Further counters: fields of `--set wide`, or ncu's own names such as `dram__bytes_read.sum`
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// Keep ncu's own report beside the object
    #[arg(long = "keep-report")]
    pub keep_report: bool,
    /// The program `ncu`, or the folder that holds it [default: EVO_NCU, PATH, toolkits]
    #[arg(long, value_name = "PROGRAM")]
    pub ncu: Option<PathBuf>,
}

/// How many counters are collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CounterSet {
    /// A dozen
    Light,
    /// The same, stalls and instruction counts
    Wide,
}
