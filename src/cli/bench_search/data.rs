//! The recordings that `--data` names.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cli::exit_code::UsageError;
use crate::replay::Recording;
use crate::replay::score::Yardstick;

/// A recorded space with its yardstick.
pub struct Space {
    pub recording: Recording,
    pub yardstick: Yardstick,
}

/// Opens all of them, in order of name within a folder. What cannot be scored is an error if it was named, and
/// a note if a folder holds it.
pub fn open(paths: &[PathBuf]) -> Result<Vec<Space>, UsageError> {
    let mut spaces: Vec<Space> = Vec::new();
    for path in paths {
        for file in files(path)? {
            let space = match space(&file) {
                Err(Refused::NotScorable(error)) if path.is_dir() => {
                    eprintln!("note: left out: {error}");
                    continue;
                }
                Err(Refused::NotScorable(error) | Refused::Unreadable(error)) => {
                    return Err(UsageError(error));
                }
                Ok(space) => space,
            };
            let name = &space.recording.name;
            if spaces.iter().any(|known| known.recording.name == *name) {
                let text = format!("`{}` holds `{name}` a second time", file.display());
                return Err(UsageError(text));
            }
            spaces.push(space);
        }
    }
    if spaces.is_empty() {
        let text = "no recording can be scored\nhint: `--data` takes recordings of whole spaces";
        return Err(UsageError(text.to_string()));
    }
    Ok(spaces)
}

enum Refused {
    Unreadable(String),
    NotScorable(String),
}

fn space(file: &Path) -> Result<Space, Refused> {
    let mut recording =
        Recording::open(file).map_err(|error| Refused::Unreadable(UsageError::of(&error).to_string()))?;
    let yardstick = Yardstick::of(&recording)
        .map_err(|error| Refused::NotScorable(format!("cannot score `{}`: {error}", file.display())))?;
    // The first values of a recording's parameters are nobody's choice.
    recording.space = recording.space.without_default();
    Ok(Space { recording, yardstick })
}

/// A file itself, or the recordings in a folder.
fn files(path: &Path) -> Result<Vec<PathBuf>, UsageError> {
    let trouble = |error: std::io::Error| {
        UsageError(format!(
            "cannot read `{}`: {error}\nhint: `--data` takes recordings and folders of them",
            path.display()
        ))
    };
    if !fs::metadata(path).map_err(trouble)?.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let entries = fs::read_dir(path).map_err(trouble)?;
    let mut files = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(trouble)?;
    files.retain(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".json.gz") || name.ends_with(".json")
    });
    files.sort();
    if files.is_empty() {
        let hint = "recordings are files whose names end in `.json.gz` or `.json`";
        return Err(UsageError(format!("no recordings in the folder `{}`\nhint: {hint}", path.display())));
    }
    Ok(files)
}
