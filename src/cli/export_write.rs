//! Writes an export into its folder: all of it or, where something is in the way, nothing.

use std::path::{Path, PathBuf};

use super::error::CliError;
use crate::journal::own_folder::OwnFolder;
use evo_export::files::ExportFile;

/// Names shown of what is in a folder.
const SHOWN: usize = 8;

/// Refuses a folder that cannot be written to, before anything is made for it.
pub fn check(to: &Path, force: bool) -> Result<(), CliError> {
    let to: &Path = &plain(to);
    if to.as_os_str().is_empty() {
        return Err(CliError::usage("`--to` names no folder"));
    }
    if std::fs::symlink_metadata(to).is_ok_and(|found| !found.is_dir()) {
        let text = format!("`{}` is not a folder", to.display());
        return Err(CliError::bad_file(text, to)
            .with_hint("`--to` names a folder that is not there yet, and no link"));
    }
    let mut names: Vec<String> = std::fs::read_dir(to)
        .map(|entries| entries.flatten().map(|own| own.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    if names.is_empty() || force {
        return Ok(());
    }
    names.sort();
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    names.truncate(SHOWN);
    let text = format!("the folder `{}` is there and has {}{more}", to.display(), names.join(", "));
    Err(CliError::bad_file(text, to)
        .with_hint("name another one, or add `--force` to replace the files of an export in it"))
}

/// Writes the files; others in the folder stay.
///
/// # Errors
/// Something that is not a file stands in the place of one, or the disk is full. A folder that was made is gone then.
pub fn write(to: &Path, files: &[ExportFile]) -> Result<(), CliError> {
    let to: &Path = &plain(to);
    let missing: Vec<&Path> = to.ancestors().take_while(|own| is_missing(own)).collect();
    let refused = |error: std::io::Error| {
        let text = format!("cannot make `{}`: {error}", to.display());
        CliError::bad_file(text, to).with_hint("name another folder")
    };
    let folder = OwnFolder::create(to).map_err(refused)?;
    let written = write_all(&folder, files);
    if written.is_err() && !missing.is_empty() {
        // Half of an export would look like one. Nothing in a folder that was made just now is anybody else's.
        let _ = std::fs::remove_dir_all(to);
        missing.iter().for_each(|own| drop(std::fs::remove_dir(own)));
    }
    written
}

fn write_all(root: &OwnFolder, files: &[ExportFile]) -> Result<(), CliError> {
    let mut open: Vec<(OwnFolder, &str, &ExportFile)> = Vec::new();
    for file in files {
        let mut parts: Vec<&str> = file.path.split('/').collect();
        let Some(name) = parts.pop() else { continue };
        let mut folder = OwnFolder::open(root.path()).map_err(|error| trouble(root, &file.path, &error))?;
        for part in parts {
            folder = folder.create_folder(part).map_err(|error| trouble(root, &file.path, &error))?;
        }
        open.push((folder, name, file));
    }
    // All of them first: a refusal writes nothing.
    if let Some((folder, name, what)) =
        open.iter().find_map(|(folder, name, _)| Some((folder, name, folder.irregular(name)?)))
    {
        let place = folder.place(name);
        return Err(
            CliError::bad_file(format!("`{}` is {what}", place.display()), &place).with_hint("move it away")
        );
    }
    for (folder, name, file) in &open {
        folder.replace(name, &file.contents, true).map_err(|error| trouble(root, &file.path, &error))?;
    }
    Ok(())
}

fn trouble(root: &OwnFolder, path: &str, error: &std::io::Error) -> CliError {
    CliError::harness(format!("cannot write `{}`: {error}", root.path().join(path).display()))
}

/// Without the slash at the end, which would follow a link.
fn plain(to: &Path) -> PathBuf {
    to.components().collect()
}

fn is_missing(path: &Path) -> bool {
    !path.as_os_str().is_empty() && std::fs::symlink_metadata(path).is_err()
}
