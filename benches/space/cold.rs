//! One first load of a space in a fresh process, as the peers are measured: nothing is warm, neither
//! caches nor the allocator. Reading the file is outside the clock, everything after it is inside.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use evo_space::space::SearchSpace;

use serde::{Deserialize, Serialize};

/// The argument that asks for one cold load of the file that follows it.
pub const COLD: &str = "--cold";

/// What one process says, as one line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cold {
    /// From the text in memory to a space that knows its count and has answered a first lookup by index.
    pub seconds: f64,
    /// Number of valid points.
    pub valid: String,
    /// Highest resident memory of the process before the load.
    pub base_kib: u64,
    /// The same after it; the program and its libraries are included.
    pub peak_kib: u64,
}

/// A space of a file's text, or every complaint about it.
pub fn space(text: &str) -> Result<SearchSpace> {
    SearchSpace::parse(text).map_err(|diagnostics| anyhow!("{diagnostics:?}"))
}

/// Loads once and measures; meant for a process that has done nothing else.
pub fn here(path: &Path) -> Result<Cold> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let base_kib = peak_kib();
    let start = Instant::now();
    let space = black_box(space(black_box(&text))?);
    // Some tables of the index are made when they are first wanted.
    black_box(space.genome_at(0));
    let seconds = start.elapsed().as_secs_f64();
    Ok(Cold { seconds, valid: space.valid().to_string(), base_kib, peak_kib: peak_kib() })
}

/// Loads once in a fresh process of this very program.
pub fn fresh(path: &Path) -> Result<Cold> {
    let output = Command::new(std::env::current_exe()?).arg(COLD).arg(path).output()?;
    let talk = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "a cold load of `{}` fails: {talk}", path.display());
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Highest resident memory so far; 0 where the system does not say.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
