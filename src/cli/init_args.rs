//! The options of `evo init` and `evo import`.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::PathBuf;

use clap::Args;

/// `evo init`
#[derive(Debug, Args)]
pub struct InitArgs {
    /// A CUDA source with the kernel; it is read and not changed
    #[arg(value_name = "KERNEL.cu")]
    pub source: PathBuf,
    /// Which `__global__` function; for a template with its arguments: `f<float, 4>` [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub entry: Option<String>,
    #[command(flatten)]
    pub target: FirstSpaceArgs,
}

/// The forms that `evo import` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ImportFormat {
    /// T1 of Kernel Tuner, KTT and BAT
    T1,
}

/// `evo import`
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The form of the file
    #[arg(value_name = "FORMAT")]
    pub format: ImportFormat,
    /// The file; it is read and not changed
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub target: FirstSpaceArgs,
}

/// Where a space file goes that evo writes.
#[derive(Debug, Args)]
pub struct FirstSpaceArgs {
    /// The space file to write, from which the kernel's source is in the same folder or below [default: beside the file that is read]
    #[arg(long, value_name = "FILE.toml")]
    pub to: Option<PathBuf>,
    /// Replace files of these names
    #[arg(long)]
    pub force: bool,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}
