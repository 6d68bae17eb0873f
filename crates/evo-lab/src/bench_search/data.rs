//! The recordings that `--data` names.

use std::fs;
use std::path::{Path, PathBuf};

use evo_engine::replay::Recording;

use crate::error::LabError;
use crate::score::Yardstick;

/// A recorded space with its yardstick.
pub struct ScoredSpace {
    pub recording: Recording,
    pub yardstick: Yardstick,
}

/// Opens all of them, in order of name within a folder. A recording that cannot be scored is an error if it was
/// named, and a note if it was found in a folder.
pub fn open(paths: &[PathBuf]) -> Result<Vec<ScoredSpace>, LabError> {
    let mut spaces: Vec<ScoredSpace> = Vec::new();
    for path in paths {
        for file in files(path)? {
            let space = match space(&file) {
                Err(UnusableRecording::NotScorable(error)) if path.is_dir() => {
                    eprintln!("note: left out: {error}");
                    continue;
                }
                Err(UnusableRecording::NotScorable(error) | UnusableRecording::Unreadable(error)) => {
                    return Err(error);
                }
                Ok(space) => space,
            };
            let name = &space.recording.name;
            if spaces.iter().any(|known| known.recording.name == *name) {
                let text = format!("`{}` holds `{name}` a second time", file.display());
                return Err(LabError::usage(text));
            }
            spaces.push(space);
        }
    }
    if spaces.is_empty() {
        return Err(LabError::usage("no recording can be scored")
            .with_hint("`--data` takes recordings of whole spaces"));
    }
    Ok(spaces)
}

/// Why a recording is left out.
enum UnusableRecording {
    /// It cannot be read.
    Unreadable(LabError),
    /// It can be read and says nothing about the quality of a search.
    NotScorable(LabError),
}

fn space(file: &Path) -> Result<ScoredSpace, UnusableRecording> {
    let mut recording = Recording::open(file)
        .map_err(|error| UnusableRecording::Unreadable(LabError::bad_input(&error, error.hint())))?;
    let yardstick = Yardstick::of(&recording).map_err(|error| {
        UnusableRecording::NotScorable(LabError::usage(format!("cannot score `{}`: {error}", file.display())))
    })?;
    // A recording has no default configuration: the first value of each parameter is only the first in the file.
    // Strategies that start from the default must not start there.
    recording.space = recording.space.without_default();
    Ok(ScoredSpace { recording, yardstick })
}

/// A file itself, or the recordings in a folder.
fn files(path: &Path) -> Result<Vec<PathBuf>, LabError> {
    let trouble = |error: std::io::Error| {
        LabError::usage(format!("cannot read `{}`: {error}", path.display()))
            .with_hint("`--data` takes recordings and folders of them")
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
    // Folders list their files in any order; the table's order must not depend on it.
    files.sort();
    if files.is_empty() {
        let hint = "recordings are files whose names end in `.json.gz` or `.json`";
        let text = format!("no recordings in the folder `{}`", path.display());
        return Err(LabError::usage(text).with_hint(hint));
    }
    Ok(files)
}
