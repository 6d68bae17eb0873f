//! The options of `evo export`.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::PathBuf;

use clap::Args;

use super::one_args::TestOneArgs;

/// `evo export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    pub one: TestOneArgs,
    /// The folder to write, which is made
    #[arg(long, value_name = "FOLDER")]
    pub to: PathBuf,
    /// Of a candidate: cu, cubin, torch, torch-op, tvm-ffi, cupy, cuda-core, dispatch, all; of a study: t4, kernel-tuner, optuna, csv
    #[arg(long = "format", value_name = "A,B", value_delimiter = ',', default_value = "all")]
    pub formats: Vec<String>,
    /// Architecture of the cubin [default: that of the device; none on the host device]
    #[arg(long, value_name = "ARCH")]
    pub arch: Option<String>,
    /// Run each form that can run here on evo's inputs, check its answers, and time it beside evo itself
    #[arg(long)]
    pub verify: bool,
    /// Replace the files of an earlier export in the folder
    #[arg(long)]
    pub force: bool,
    /// Skip the gates; the manifest says that the candidate was not judged
    #[arg(long, conflicts_with = "verify")]
    pub unchecked: bool,
    /// With `dispatch`: most variants
    #[arg(long = "variants-max", value_name = "K", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=32))]
    pub variants_max: u8,
}
