//! Writing the folders of tasks: all of them, or nothing where one is in the way.

use std::io;
use std::path::{Path, PathBuf};

use evo_kernel::access::SpaceAccess;
use evo_kernel::sketch::SketchGuess;
use evo_space::text::quote;

use super::answer::Answer;
use super::call::Call;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::init::{Drawn, DrawnGuess};
use super::output;
use super::words;
use crate::journal::own_folder::OwnFolder;
use crate::report::envelope::ResultAlone;
use crate::task::{self, BenchmarkTask};

/// Guesses of a task that are printed; the object has all of them.
const SHOWN: usize = 12;

/// A task's folder that was written.
struct Written {
    space: String,
    entry: String,
    guesses: Vec<SketchGuess>,
    /// Its configurations, or why it does not open.
    count: Result<String, String>,
}

/// Writes the folders and says what to do next: exit code 0 where all of them open, 1 where one has to be completed first.
///
/// # Errors
/// A folder is there already, or cannot be written. None is left then.
pub fn all(tasks: &[BenchmarkTask], from: &Path, to: Option<&Path>, call: &Call) -> Result<Answer, CliError> {
    let folders = folders(tasks, from, to)?;
    let mut files = Vec::new();
    for (at, (task, folder)) in tasks.iter().zip(&folders).enumerate() {
        match write(task, folder) {
            Ok(names) => files.extend(names),
            Err(error) => {
                // They were made just now, so nothing in them is anybody else's.
                folders[..=at].iter().for_each(|own| drop(std::fs::remove_dir_all(own)));
                return Err(error);
            }
        }
    }
    let written: Vec<Written> = tasks.iter().zip(&folders).map(|(task, folder)| look(task, folder)).collect();
    answer(&written, &files, call)
}

/// Where each task goes.
fn folders(tasks: &[BenchmarkTask], from: &Path, to: Option<&Path>) -> Result<Vec<PathBuf>, CliError> {
    let folders: Vec<PathBuf> = match (tasks, to) {
        ([_], Some(to)) => vec![to.components().collect()],
        _ => tasks.iter().map(|own| to.unwrap_or(Path::new("")).join(&own.name)).collect(),
    };
    for (at, folder) in folders.iter().enumerate() {
        if folder.as_os_str().is_empty() {
            return Err(CliError::usage("`--to` names no folder"));
        }
        if folders[..at].contains(folder) {
            let text = format!("`{}` has two tasks `{}`", from.display(), tasks[at].name);
            return Err(CliError::bad_file(text, from).with_hint("import one of them by its own file"));
        }
        if std::fs::symlink_metadata(folder).is_ok() {
            let text = format!("`{}` is there", folder.display());
            return Err(CliError::bad_file(text, folder)
                .with_hint("a task is written to a folder of its own: name another one with `--to`"));
        }
    }
    Ok(folders)
}

fn write(task: &BenchmarkTask, to: &Path) -> Result<Vec<PathBuf>, CliError> {
    let trouble = |what: &Path, error: io::Error| {
        let text = format!("cannot write `{}`: {error}", what.display());
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => CliError::harness(text),
            _ => CliError::bad_file(text, what),
        }
        .with_hint("choose another place with `--to`")
    };
    let folder = OwnFolder::create(to).map_err(|error| trouble(to, error))?;
    let mut places = Vec::new();
    for file in task::files(task) {
        let place = to.join(&file.name);
        folder.replace(&file.name, file.text.as_bytes(), true).map_err(|error| trouble(&place, error))?;
        places.push(place);
    }
    Ok(places)
}

/// Opens what was written.
fn look(task: &BenchmarkTask, folder: &Path) -> Written {
    let space = folder.join("space.toml").display().to_string();
    let access = SpaceAccess { render_apart: true, ..SpaceAccess::default() };
    let (entry, guesses) = task::guesses(task);
    let count = words::space(&space, access);
    let count = count.map(|file| file.space.count().to_string()).map_err(|error| error.to_string());
    Written { space, entry, guesses, count }
}

fn answer(all: &[Written], files: &[PathBuf], call: &Call) -> Result<Answer, CliError> {
    let names: Vec<String> = files.iter().map(|own| own.display().to_string()).collect();
    let opens = all.iter().all(|own| own.count.is_ok());
    let word = |own: &Written| quote(&own.space).into_owned();
    let next: Vec<String> = all.iter().map(|own| format!("evo test-one {}", word(own))).collect();
    let what = |own: &Written, guess: &SketchGuess| match all.len() {
        1 => guess.what.clone(),
        _ => format!("{}: {}", own.space, guess.what),
    };
    let mut guesses = Vec::new();
    for own in all {
        let of = |guess: &SketchGuess| DrawnGuess { what: what(own, guess), why: guess.why.to_string() };
        guesses.extend(own.guesses.iter().map(of));
    }
    let entries: Vec<&str> = all.iter().map(|own| own.entry.as_str()).collect();
    let result = Drawn { files: names, entry: entries.join(", "), opens, guesses, next: next.clone() };
    if !call.is_json() {
        let text: String = all.iter().map(described).collect();
        let next: String = next.iter().map(|own| format!("  {own}\n")).collect();
        output::stdout(&format!("{text}next: write the kernel, then\n{next}"))?;
    }
    for own in all {
        if let Err(error) = &own.count {
            output::say(&format!("`{}` is written and needs your hand before it opens:\n{error}", own.space));
        }
    }
    let exit = if opens { ExitCode::Done } else { ExitCode::Failed };
    Ok(Answer::of(exit, &ResultAlone { result }))
}

fn described(own: &Written) -> String {
    let mut text = format!("{}: a space file for `{}`", own.space, own.entry);
    if let Ok(count) = &own.count {
        text += &format!(", {count} configurations");
    }
    text += "\nguessed or left out, so look at it before a number counts:\n";
    for guess in own.guesses.iter().take(SHOWN) {
        text += &format!("  {}: {}\n", guess.what, guess.why);
    }
    if own.guesses.len() > SHOWN {
        text += &format!("  … and {} more, which the file marks\n", own.guesses.len() - SHOWN);
    }
    text
}
