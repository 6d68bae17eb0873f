//! Where `evo crosscheck` keeps what it found: `crosscheck.json`, `crosscheck.md` and `kernelbench_report.json` in the folder of
//! the candidate's study. They are written after each harness, so that an interrupted run leaves what is finished.

use std::io;
use std::path::Path;

use evo_protocol::crosscheck::CrosscheckRow;
use serde_json::{Value, json};

use super::error::CliError;
use crate::journal::own_folder::OwnFolder;
use crate::report::crosscheck::{self, CrosscheckSetting};

/// The rows, for programs.
const ROWS: &str = "crosscheck.json";
/// The same for people.
const PAGE: &str = "crosscheck.md";
/// What KernelBench's evaluator said, as the script in Python writes it too.
pub const KERNELBENCH: &str = "kernelbench_report.json";

/// A longer report is not KernelBench's.
const REPORT_MAX: u64 = 4 << 20;

/// Opens the folder. Nothing of anybody else stands in the way then.
pub fn checked(folder: Result<OwnFolder, (std::path::PathBuf, io::Error)>) -> Result<OwnFolder, CliError> {
    let folder = folder.map_err(|(path, error)| unwritable(&path, &error))?;
    for name in [ROWS, PAGE, KERNELBENCH] {
        if let Some(what) = folder.irregular(name) {
            let place = folder.place(name);
            let text = format!("`{}` is {what}", place.display());
            return Err(CliError::bad_file(text, &place).with_hint("move it away"));
        }
    }
    Ok(folder)
}

/// Writes the rows so far; the place of the first file.
pub fn keep(
    folder: &OwnFolder,
    rows: &[CrosscheckRow],
    setting: &CrosscheckSetting<'_>,
) -> Result<String, CliError> {
    let text = serde_json::to_string_pretty(rows)
        .map_err(|error| CliError::harness(format!("the rows cannot be written: {error}")))?;
    write(folder, ROWS, &format!("{text}\n"))?;
    write(folder, PAGE, &crosscheck::markdown(rows, setting))?;
    Ok(folder.place(ROWS).display().to_string())
}

/// Keeps KernelBench's report, which lies in the folder where it ran, or says why there is none: an older one would look like
/// this run's.
pub fn keep_report(
    folder: &OwnFolder,
    ran_in: Option<&Path>,
    rows: &[CrosscheckRow],
) -> Result<(), CliError> {
    let found: Option<Value> = ran_in
        .and_then(|own| OwnFolder::open(own).ok())
        .and_then(|own| own.read_at_most(KERNELBENCH, REPORT_MAX).ok().flatten())
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let why = rows.iter().find_map(|row| row.reason.clone());
    let absent =
        || json!({ "schema": "evo.kernelbench-report", "version": 1, "problems": [], "reason": why });
    let text = format!("{:#}\n", found.unwrap_or_else(absent));
    write(folder, KERNELBENCH, &text)
}

fn write(folder: &OwnFolder, name: &str, text: &str) -> Result<(), CliError> {
    let written = folder.replace(name, text.as_bytes(), true);
    written.map_err(|error| unwritable(&folder.place(name), &error))
}

fn unwritable(path: &Path, error: &io::Error) -> CliError {
    CliError::harness(format!("cannot write `{}`: {error}", path.display()))
}
