//! A space file that evo writes for people to complete: `evo init` and `evo import` write it beside the kernel, and say what
//! was guessed or left out.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use evo_kernel::access::{SpaceAccess, open_beside};
use evo_kernel::sketch::KernelSketch;
use evo_space::text::quote;
use serde_json::json;

use super::answer::Answer;
use super::call::Call;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::{opened, output};
use crate::journal::own_folder::OwnFolder;

/// Most bytes of a file that is read.
const SOURCE_MAX: u64 = 4 << 20;

/// Guesses that are printed; the object has all of them.
const SHOWN: usize = 16;

/// The text of a file that the command line names.
pub fn read(path: &Path) -> Result<String, CliError> {
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
            _ => "name a regular file",
        };
        CliError::bad_file(format!("cannot read `{name}`: {error}"), path).with_hint(hint)
    })
}

/// The space file's path: what `--to` says, or the input's name with another ending.
///
/// # Errors
/// It does not end in `.toml`.
pub fn target(to: Option<&PathBuf>, input: &Path) -> Result<PathBuf, CliError> {
    let to = to.cloned().unwrap_or_else(|| input.with_extension("toml"));
    if to == input || to.extension().is_none_or(|own| own != "toml") {
        let text = format!("`{}` does not end in `.toml`", to.display());
        return Err(CliError::usage(text).with_hint("`--to` names the space file to write"));
    }
    Ok(to)
}

/// The kernel's name on the leaderboard, from a file's.
pub fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    stem.chars().map(plain).collect()
}

/// The folder of a file.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|own| !own.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes the files, all of them or none.
///
/// # Errors
/// One of them is there and `force` is not given, something that is not a file stands in its place, or the folder cannot be
/// written.
pub fn write(to: &Path, drawn: &KernelSketch, force: bool) -> Result<Vec<PathBuf>, CliError> {
    let folder = OwnFolder::open(folder_of(to)).map_err(|error| {
        CliError::bad_file(format!("cannot open `{}`: {error}", folder_of(to).display()), to)
            .with_hint("`--to` names a file in a folder that is there")
    })?;
    let name = to.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let reference = drawn.reference.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
    let texts: Vec<(&str, &str)> =
        reference.into_iter().chain([(name.as_str(), drawn.space.as_str())]).collect();
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

/// Opens what was written and says what to do next: exit code 0 where it opens, 1 where it has to be completed first.
pub fn answer(call: &Call, to: &Path, drawn: &KernelSketch, files: &[PathBuf]) -> Result<Answer, CliError> {
    let space = to.display().to_string();
    let access = SpaceAccess { render_apart: true, ..SpaceAccess::default() };
    let count = opened::space(&space, access).map(|file| file.space.count());
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
        text += "\nguessed or left out, so look at it before a number counts:\n";
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
