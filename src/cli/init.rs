//! `evo init KERNEL.cu`: a first space file for a plain kernel, with what was guessed marked. The kernel stays as it is.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use evo_kernel::access::{SpaceAccess, read_beside};
use evo_kernel::sketch::{KernelSketch, SketchRequest, sketch};
use evo_space::text::quote;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::limits::{IMPORTING, LimitArgs};
use super::{Answer, Call, CliError, ExitCode, Result, output, words};
use crate::journal::own_folder::OwnFolder;
use crate::report::envelope::ResultAlone;
use crate::report::templates::page;

/// Runs the command: 0 when the file is written and opens, 1 when it is written and needs a hand first.
pub fn run(arguments: &InitArgs, call: &Call) -> Result<Answer> {
    let source = read(&arguments.source)?;
    let to = target(arguments.target.to.as_ref(), &arguments.source)?;
    let path = path_from(&to, &arguments.source)?;
    let name = name_of(&arguments.source);
    let request =
        SketchRequest { source: &source, path: &path, name: &name, entry: arguments.entry.as_deref() };
    let drawn = sketch(request).map_err(|error| {
        let text = format!("`{}`: {error}", arguments.source.display());
        CliError::bad_file(text, &arguments.source).with_hint(error.hint())
    })?;
    write_beside(&to, drawn, arguments.target.force, call)
}

/// The source as the space file names it: from its own folder, and not out of it.
fn path_from(to: &Path, source: &Path) -> Result<String> {
    let folder = folder_of(to);
    let trouble = |path: &Path, error: io::Error| {
        CliError::bad_file(format!("cannot open `{}`: {error}", path.display()), path)
            .with_hint("`--to` names a file in a folder that is there")
    };
    let top = std::fs::canonicalize(folder).map_err(|error| trouble(folder, error))?;
    let place = std::fs::canonicalize(folder_of(source)).map_err(|error| trouble(source, error))?;
    let below = place.strip_prefix(&top).map_err(|_| {
        let text = format!("`{}` is outside the folder of `{}`", source.display(), to.display());
        CliError::usage(text)
            .with_hint("a space file names sources in its own folder and below: move `--to` there")
    })?;
    Ok(below.join(source.file_name().unwrap_or_default()).to_string_lossy().into_owned())
}

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
    #[command(flatten)]
    pub limits: LimitArgs<IMPORTING>,
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

const SHOWN: usize = 16;

pub fn read(path: &Path) -> Result<String> {
    let name = path.to_string_lossy();
    read_beside(Path::new(""), &name, true).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => "check the path; it is taken from the folder that evo runs in",
            io::ErrorKind::InvalidData => "it is a text in UTF-8",
            _ => "name a regular file",
        };
        CliError::bad_file(format!("cannot read `{name}`: {error}"), path).with_hint(hint)
    })
}

/// The space file's path: what `--to` says, or the input's name with another ending.
pub fn target(to: Option<&PathBuf>, input: &Path) -> Result<PathBuf> {
    let to = to.cloned().unwrap_or_else(|| input.with_extension("toml"));
    if to == input || to.extension().is_none_or(|ending| ending != "toml") {
        let text = format!("`{}` does not end in `.toml`", to.display());
        return Err(CliError::usage(text).with_hint("`--to` names the space file to write"));
    }
    Ok(to)
}

pub fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    stem.chars().map(plain).collect()
}

pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

pub struct WrittenSpace {
    /// As the command line names it.
    pub space: String,
    pub files: Vec<PathBuf>,
    pub drawn: KernelSketch,
}

/// Writes a space file into a folder that is there, and answers.
pub fn write_beside(to: &Path, drawn: KernelSketch, force: bool, call: &Call) -> Result<Answer> {
    let folder = OwnFolder::open(folder_of(to)).map_err(|error| {
        CliError::bad_file(format!("cannot open `{}`: {error}", folder_of(to).display()), to)
            .with_hint("`--to` names a file in a folder that is there")
    })?;
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let files = write(&folder, &name, &drawn, force)?;
    let written = WrittenSpace { space: to.display().to_string(), files, drawn };
    answer(call, &[written], "next:", &["test-one", "space", "sweep"])
}

/// Writes the files, all of them or none. One that is there is replaced only with `force`.
pub fn write(folder: &OwnFolder, name: &str, drawn: &KernelSketch, force: bool) -> Result<Vec<PathBuf>> {
    let beside = drawn.beside.iter().map(|(name, text)| (name.as_str(), text));
    let files: Vec<(&str, &String)> = beside.chain([(name, &drawn.space)]).collect();
    for (name, _) in &files {
        CliError::refuse_irregular(folder, name, "move it away, or choose another name with `--to`")?;
        if folder.exists(name) && !force {
            let place = folder.place(name);
            let text = format!("`{}` is there", place.display());
            return Err(CliError::bad_file(text, &place)
                .with_hint("choose another name with `--to`, or add `--force` to replace it"));
        }
    }
    for (name, text) in &files {
        folder
            .replace(name, text.as_bytes(), true)
            .map_err(|error| unwritable(&folder.place(name), &error))?;
    }
    Ok(files.iter().map(|(name, _)| folder.place(name)).collect())
}

pub fn unwritable(place: &Path, error: &io::Error) -> CliError {
    let text = format!("cannot write `{}`: {error}", place.display());
    CliError::unwritable(text, place, error.kind()).with_hint("choose another place with `--to`")
}

/// Opens what was written and says which commands are next: exit code 0 where all of it opens, 1 where something has to be
/// completed first.
pub fn answer(call: &Call, written: &[WrittenSpace], lead: &str, commands: &[&str]) -> Result<Answer> {
    let access = SpaceAccess { render_apart: true, ..SpaceAccess::default() };
    let mut result = Drawn { opens: true, ..Drawn::default() };
    let mut spaces = Vec::new();
    for WrittenSpace { space, files, drawn } in written {
        let opened = words::space(space, access);
        if let Err(error) = &opened {
            result.opens = false;
            output::say(&format!("`{space}` is written and needs your hand before it opens:\n{error}"));
        }
        let count = opened.ok().map(|file| file.space.count().to_string());
        let guesses = drawn.guesses.iter().take(SHOWN).map(|guess| [&guess.what, &guess.why]);
        spaces.push(json!({
            "space": space, "entry": drawn.entry, "count": count, "guesses": guesses.collect::<Vec<_>>(),
            "more": drawn.guesses.len().saturating_sub(SHOWN),
        }));
        // A name without a slash could be one of evo's own spaces.
        let shown = if space.contains('/') { space.clone() } else { format!("./{space}") };
        result.next.extend(commands.iter().map(|command| format!("evo {command} {}", quote(&shown))));
        result.files.extend(files.iter().map(|file| file.display().to_string()));
        let place = if written.len() > 1 { format!("{space}: ") } else { String::new() };
        let guesses = drawn.guesses.iter();
        result.guesses.extend(
            guesses
                .map(|guess| DrawnGuess { what: format!("{place}{}", guess.what), why: guess.why.clone() }),
        );
    }
    let entries: Vec<&str> = written.iter().map(|written| written.drawn.entry.as_str()).collect();
    result.entry = entries.join(", ");
    call.show(&page("init.txt.j2", &json!({ "spaces": spaces, "lead": lead, "next": result.next })))?;
    let exit = if result.opens { ExitCode::Done } else { ExitCode::Failed };
    Ok(Answer::of(exit, &ResultAlone { result }))
}

/// The `result` of `evo init` and `evo import`.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Drawn {
    pub files: Vec<String>,
    pub entry: String,
    /// Whether every space opens as it was written.
    pub opens: bool,
    pub guesses: Vec<DrawnGuess>,
    /// Command lines.
    pub next: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct DrawnGuess {
    pub what: String,
    pub why: String,
}
