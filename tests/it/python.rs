//! Python packages that tests need or talk to, fetched once from PyPI into the user's cache, which all clones share.

use std::env;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use crate::skip::skipped;

/// `$XDG_CACHE_HOME/evo-tests` or `~/.cache/evo-tests`, or a folder of the build where neither is an absolute path.
fn shelf() -> PathBuf {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    cache.unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into()).join("evo-tests")
}

/// The folder for `PYTHONPATH` that holds these packages. It is named by their exact versions, so that tests mean the
/// same next year, and by Python's, for which pip chooses compiled packages.
///
/// # Errors
/// There is no Python, no pip or no network: a text that says so.
pub fn installed(options: &[&str], packages: &[&str]) -> Result<PathBuf, String> {
    let no_python = |error| format!("python3 does not start: {error}");
    let python = Command::new("python3").arg("--version").output().map_err(no_python)?;
    let python = String::from_utf8_lossy(&python.stdout).trim().replace(' ', "");
    let (shelf, name) = (shelf(), format!("{}-{python}", packages.join("+").replace("==", "-")));
    let folder = shelf.join(&name);
    fs::create_dir_all(&shelf).map_err(|error| error.to_string())?;
    // Two test processes may come here at once; the second waits and finds everything done.
    let lock = File::create(shelf.join(format!("{name}.lock"))).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    if folder.is_dir() {
        return Ok(folder);
    }
    let part = shelf.join(format!("{name}.part"));
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
        .map_err(no_python)?;
    if !output.status.success() {
        return Err(format!("pip failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    fs::rename(&part, &folder).map_err(|error| error.to_string())?;
    Ok(folder)
}

/// A program that tests talk to, with what it needs. The test at work is skipped, and says so, where it cannot be had.
pub fn peer(package: &str) -> Option<PathBuf> {
    match installed(&[], &[package]) {
        Ok(folder) => Some(folder),
        Err(reason) => {
            skipped(&format!("`{package}` cannot be installed from PyPI: {reason}"));
            None
        }
    }
}
