//! `evo init KERNEL.cu`: a first space file for a plain kernel, with what was guessed marked. The kernel stays as it is.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use evo_kernel::access::{SpaceAccess, open_beside};
use evo_kernel::sketch::{KernelSketch, SketchRequest, sketch};
use evo_space::shell::quote;
use serde_json::json;

use super::answer::Answer;
use super::call::Call;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::init_args::InitArgs;
use super::{opened, output};
use crate::journal::own_folder::OwnFolder;

/// Most bytes of a source.
const SOURCE_MAX: u64 = 4 << 20;

/// Guesses that are printed; the file marks all of them.
const SHOWN: usize = 16;

/// Runs the command: 0 when the file is written and opens, 1 when it is written and needs a hand first.
///
/// # Errors
/// The source cannot be read or has no kernel that can be drawn, or the file is in the way.
pub fn run(arguments: &InitArgs, call: &Call) -> Result<Answer, CliError> {
    let source = read(&arguments.source)?;
    let to = arguments.to.clone().unwrap_or_else(|| arguments.source.with_extension("toml"));
    if to == arguments.source || to.extension().is_none_or(|own| own != "toml") {
        let text = format!("`{}` does not end in `.toml`", to.display());
        return Err(CliError::usage(text).with_hint("`--to` names the space file to write"));
    }
    let path = path_from(&to, &arguments.source)?;
    let stem = arguments.source.file_stem().unwrap_or_default().to_string_lossy();
    let name: String = stem
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' })
        .collect();
    let request =
        SketchRequest { source: &source, path: &path, name: &name, entry: arguments.entry.as_deref() };
    let drawn = sketch(request).map_err(|error| {
        let text = format!("`{}`: {error}", arguments.source.display());
        CliError::bad_file(text, &arguments.source).with_hint(error.hint())
    })?;
    let files = write(&to, &drawn, arguments.force)?;
    let opened = opened::space(
        &to.display().to_string(),
        SpaceAccess { render_apart: true, ..SpaceAccess::default() },
    );
    answer(call, &to, &drawn, &files, opened.map(|file| file.space.count()))
}

fn read(path: &Path) -> Result<String, CliError> {
    let name = path.to_string_lossy();
    let read = || -> io::Result<String> {
        let mut text = String::new();
        open_beside(Path::new(""), &name, SOURCE_MAX, true)?.take(SOURCE_MAX).read_to_string(&mut text)?;
        Ok(text)
    };
    read().map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => "check the path; it is taken from the folder that evo runs in",
            io::ErrorKind::InvalidData => "it is a text in UTF-8",
            _ => "name a regular file with a kernel in it",
        };
        CliError::bad_file(format!("cannot read `{name}`: {error}"), path).with_hint(hint)
    })
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

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|own| !own.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes the files, all of them or none.
fn write(to: &Path, drawn: &KernelSketch, force: bool) -> Result<Vec<PathBuf>, CliError> {
    let folder = OwnFolder::open(folder_of(to)).map_err(|error| {
        CliError::bad_file(format!("cannot open `{}`: {error}", folder_of(to).display()), to)
            .with_hint("`--to` names a file in a folder that is there")
    })?;
    let name = to.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let reference = drawn.reference.as_ref();
    let mut texts: Vec<(&str, &str)> =
        reference.map(|(name, text)| (name.as_str(), text.as_str())).into_iter().collect();
    texts.push((&name, &drawn.space));
    for (name, _) in &texts {
        let place = folder.place(name);
        if let Some(what) = folder.irregular(name) {
            let text = format!("`{}` is {what}", place.display());
            return Err(CliError::bad_file(text, &place)
                .with_hint("move it away, or choose another name with `--to`"));
        }
        if folder.exists(name) && !force {
            let text = format!("`{}` is there", place.display());
            return Err(CliError::bad_file(text, &place)
                .with_hint("choose another name with `--to`, or add `--force` to replace it"));
        }
    }
    for (name, text) in &texts {
        folder.replace(name, text.as_bytes(), true).map_err(|error| {
            let place = folder.place(name);
            let text = format!("cannot write `{}`: {error}", place.display());
            match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => CliError::harness(text),
                _ => CliError::bad_file(text, &place),
            }
            .with_hint("choose another place with `--to`")
        })?;
    }
    Ok(texts.iter().map(|(name, _)| folder.place(name)).collect())
}

fn answer(
    call: &Call,
    to: &Path,
    drawn: &KernelSketch,
    files: &[PathBuf],
    count: Result<u128, CliError>,
) -> Result<Answer, CliError> {
    let space = to.display().to_string();
    // A name without a slash could be one of evo's own spaces.
    let shown = if space.contains('/') { space.clone() } else { format!("./{space}") };
    let word = quote(&shown).into_owned();
    let next = [format!("evo test-one {word}"), format!("evo space {word}"), format!("evo sweep {word}")];
    let names: Vec<String> = files.iter().map(|own| own.display().to_string()).collect();
    let guesses: Vec<_> =
        drawn.guesses.iter().map(|own| json!({ "what": own.what, "why": own.why })).collect();
    let result = json!({
        "files": names,
        "entry": drawn.entry,
        "opens": count.is_ok(),
        "guesses": guesses,
        "next": next,
    });
    if !call.is_json() {
        let mut text = format!("{space}: a first space file for `{}`", drawn.entry);
        if let Ok(count) = &count {
            text += &format!(", {count} configurations");
        }
        text += "\nguessed, so look at it before a number counts:\n";
        for own in drawn.guesses.iter().take(SHOWN) {
            text += &format!("  {}: {}\n", own.what, own.why);
        }
        if drawn.guesses.len() > SHOWN {
            text += &format!("  … and {} more, which the file marks\n", drawn.guesses.len() - SHOWN);
        }
        text += &format!("next:\n{}", next.iter().map(|own| format!("  {own}\n")).collect::<String>());
        output::stdout(&text)?;
    }
    let exit = if count.is_ok() { ExitCode::Done } else { ExitCode::Failed };
    if let Err(error) = count {
        output::say(&format!("the file is written and needs your hand before it opens:\n{error}"));
    }
    Ok(Answer::from(exit).in_brief(result))
}
