//! `evo init KERNEL.cu`: a first space file for a plain kernel, with what was guessed marked. The kernel stays as it is.

use std::io;
use std::path::Path;

use evo_kernel::sketch::{SketchRequest, sketch};

use super::answer::Answer;
use super::call::Call;
use super::error::CliError;
use super::first_space::{self, folder_of};
use super::init_args::InitArgs;

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
