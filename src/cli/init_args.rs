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
    /// A definition of FlashInfer-Bench with its workloads, or a folder of them
    Flashinfer,
    /// A task folder of SOL-ExecBench, or a folder of them
    Sol,
    /// A Python file of KernelBench, or a folder of them; it is run to find out what it computes
    Kernelbench,
}

/// `evo import`
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The form of the file
    #[arg(value_name = "FORMAT")]
    pub format: ImportFormat,
    /// The file, or for tasks a folder; it is read and not changed
    #[arg(value_name = "PATH")]
    pub file: PathBuf,
    /// The task of this name in a folder of several; may be given several times [default: all of them]
    #[arg(long, value_name = "NAME")]
    pub task: Vec<String>,
    /// The workload with this `uuid`; may be given several times [default: all of them]
    #[arg(long, value_name = "UUID")]
    pub workload: Vec<String>,
    /// Seconds that a Python file may take to say what it computes
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub limit_python: u64,
    #[command(flatten)]
    pub target: FirstSpaceArgs,
}

/// Where a space file goes that evo writes.
#[derive(Debug, Args)]
pub struct FirstSpaceArgs {
    /// The space file to write, from which the kernel's source is in the same folder or below [default: beside the file that is
    /// read]; for tasks the folder to write, which must not exist [default: the task's name]
    #[arg(long, value_name = "PATH")]
    pub to: Option<PathBuf>,
    /// Replace files of these names
    #[arg(long)]
    pub force: bool,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}
