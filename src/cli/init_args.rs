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
    /// The space file to write, in the folder of the source or above [default: KERNEL.toml beside it]
    #[arg(long, value_name = "FILE.toml")]
    pub to: Option<PathBuf>,
    /// Replace files of these names
    #[arg(long)]
    pub force: bool,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
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
    /// The space file to write, in the same folder [default: FILE with the ending .toml]
    #[arg(long, value_name = "FILE.toml")]
    pub to: Option<PathBuf>,
    /// Replace files of these names
    #[arg(long)]
    pub force: bool,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}
