//! The options of `evo report` and `evo watch`.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::PathBuf;

use clap::Args;

/// `evo report`
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A study's name in --out, or the path of its folder [default: the study that was written last]
    pub study: Option<String>,
    /// The folder of the studies, the evaluations and the benchmarks
    #[arg(long, value_name = "DIR", default_value = "evidence")]
    pub out: PathBuf,
    /// Write to this folder, which is made [default: the study's own]
    #[arg(long, value_name = "FOLDER")]
    pub to: Option<PathBuf>,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// `evo watch`
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// A study's name in --out, or the path of its folder [default: the study that was written last]
    pub study: Option<String>,
    /// The folder of the studies
    #[arg(long, value_name = "DIR", default_value = "evidence")]
    pub out: PathBuf,
    /// Port on 127.0.0.1 [default: one that is free]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
}
