//! `evo init KERNEL.cu`: a first space file for a plain kernel, with what was guessed marked. The kernel stays as it is.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use evo_kernel::sketch::{SketchRequest, sketch};

use super::answer::Answer;
use super::call::Call;
use super::error::CliError;
use super::first_space::{self, folder_of};

/// Runs the command: 0 when the file is written and opens, 1 when it is written and needs a hand first.
pub fn run(arguments: &InitArgs, call: &Call) -> Result<Answer, CliError> {
    let source = first_space::read(&arguments.source)?;
    let to = first_space::target(arguments.target.to.as_ref(), &arguments.source)?;
    let path = path_from(&to, &arguments.source)?;
    let name = first_space::name_of(&arguments.source);
    let request =
        SketchRequest { source: &source, path: &path, name: &name, entry: arguments.entry.as_deref() };
    let drawn = sketch(request).map_err(|error| {
        let text = format!("`{}`: {error}", arguments.source.display());
        CliError::bad_file(text, &arguments.source).with_hint(error.hint())
    })?;
    let files = first_space::write(&to, &drawn, arguments.target.force)?;
    first_space::answer(call, &to, &drawn, &files)
}

/// The source as the space file names it: from its own folder, and not out of it.
fn path_from(to: &Path, source: &Path) -> Result<String, CliError> {
    let folder = folder_of(to);
    let trouble = |path: &Path, error: io::Error| {
        CliError::bad_file(format!("cannot open `{}`: {error}", path.display()), path)
            .with_hint("`--to` names a file in a folder that is there")
    };
    let whole = std::fs::canonicalize(folder).map_err(|error| trouble(folder, error))?;
    let own = std::fs::canonicalize(folder_of(source)).map_err(|error| trouble(source, error))?;
    let below = own.strip_prefix(&whole).map_err(|_| {
        let text = format!("`{}` is outside the folder of `{}`", source.display(), to.display());
        CliError::usage(text)
            .with_hint("a space file names sources in its own folder and below: move `--to` there")
    })?;
    Ok(below.join(source.file_name().unwrap_or_default()).to_string_lossy().into_owned())
}

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
