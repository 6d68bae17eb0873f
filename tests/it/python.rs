//! Python packages that tests need or talk to, fetched once from PyPI into folders beside the build's other outputs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip::skipped;

/// The folder for `PYTHONPATH` that holds these packages, named by exact versions so that tests mean the same next year.
///
/// # Errors
/// There is no Python, no pip or no network: a text that says so.
pub fn installed(name: &str, options: &[&str], packages: &[&str]) -> Result<PathBuf, String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().ok_or("no target folder")?;
    let folder = target.join(name);
    // Two test processes may come here at once; the second waits and finds everything done.
    let lock = File::create(target.join(format!("{name}.lock"))).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    if folder.is_dir() {
        return Ok(folder);
    }
    let part = target.join(format!("{name}.part"));
    let _ = fs::remove_dir_all(&part);
    let output = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        // Without a network, know it soon.
        .args(["--retries", "2", "--timeout", "20"])
        .args(options)
        .arg("--target")
        .arg(&part)
        .args(packages)
        .output()
        .map_err(|error| format!("python3 does not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("pip failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    fs::rename(&part, &folder).map_err(|error| error.to_string())?;
    Ok(folder)
}

/// A program that tests talk to, with what it needs. The test at work is skipped, and says so, where it cannot be had.
pub fn peer(package: &str) -> Option<PathBuf> {
    let name = format!("python-{}", package.split("==").next().unwrap_or(package));
    match installed(&name, &[], &[package]) {
        Ok(folder) => Some(folder),
        Err(reason) => {
            skipped(&format!("`{package}` cannot be installed from PyPI: {reason}"));
            None
        }
    }
}
