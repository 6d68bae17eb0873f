//! Which study a command line means: a name in the output folder, the path of a folder, or the study that was written
//! last.

use std::path::{Path, PathBuf};

use evo_space::diagnostic::nearest;

use super::error::CliError;
use crate::journal::champions::output_folder;
use crate::journal::own_folder::OwnFolder;
use crate::journal::reader::JOURNAL;
use crate::kernel::label::is_label;

/// Studies that a hint names.
const NAMED: usize = 8;

/// A study's folder.
#[derive(Debug)]
pub struct ChosenStudy {
    pub folder: OwnFolder,
    /// The output folder around it, with the records of the same kernel.
    pub out: Option<OwnFolder>,
}

/// Finds the study.
pub fn choose(out: &Path, study: Option<&str>) -> Result<ChosenStudy, CliError> {
    let around = output_folder(out)?;
    let Some(word) = study else { return newest(out, around) };
    if let Some(around) = around.filter(|own| is_label(word) && holds_study(own, word)) {
        let folder = around.folder(word).map_err(|error| unopened(&around.place(word), &error))?;
        return Ok(ChosenStudy { folder, out: Some(around) });
    }
    let path = Path::new(word);
    if !path.join(JOURNAL).is_file() {
        return Err(missing(out, word));
    }
    let folder = OwnFolder::open(path).map_err(|error| unopened(path, &error))?;
    // The folder around a relative name of one part is the one that evo runs in.
    let around = path.canonicalize().ok().and_then(|own| own.parent().map(PathBuf::from));
    Ok(ChosenStudy { folder, out: around.and_then(|own| OwnFolder::open(&own).ok()) })
}

fn holds_study(out: &OwnFolder, name: &str) -> bool {
    out.folder(name).is_ok_and(|folder| folder.has_file(JOURNAL))
}

/// Names of the studies in an output folder, in order.
fn studies(out: Option<&OwnFolder>) -> Vec<String> {
    let mut names = out.and_then(|own| own.names().ok()).unwrap_or_default();
    names.retain(|name| out.is_some_and(|own| holds_study(own, name)));
    names.sort();
    names
}

fn newest(out: &Path, around: Option<OwnFolder>) -> Result<ChosenStudy, CliError> {
    let hint = "`evo sweep` makes one; `--out` names another folder";
    let Some(around) = around else {
        return Err(
            CliError::bad_file(format!("there is no folder `{}`", out.display()), out).with_hint(hint)
        );
    };
    let age = |name: &String| {
        around.folder(name).and_then(|folder| folder.age(JOURNAL)).map_or(i64::MIN, |own| own.0)
    };
    // Of one age, the name decides.
    let found = studies(Some(&around)).into_iter().max_by_key(|name| (age(name), name.clone()));
    let Some(name) = found else {
        return Err(
            CliError::bad_file(format!("there is no study in `{}`", out.display()), out).with_hint(hint)
        );
    };
    let folder = around.folder(&name).map_err(|error| unopened(&around.place(&name), &error))?;
    Ok(ChosenStudy { folder, out: Some(around) })
}

fn missing(out: &Path, word: &str) -> CliError {
    let names = studies(output_folder(out).ok().flatten().as_ref());
    let hint = match nearest(word, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => format!("there is no study in `{}`", out.display()),
        None => {
            let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            let more = if names.len() > NAMED { ", …" } else { "" };
            format!("studies in `{}`: {shown}{more}", out.display())
        }
    };
    CliError::bad_file(format!("there is no study `{word}`"), Path::new(word)).with_hint(hint)
}

fn unopened(path: &Path, error: &std::io::Error) -> CliError {
    CliError::bad_file(format!("cannot open `{}`: {error}", path.display()), path)
        .with_hint("links are not followed")
}
