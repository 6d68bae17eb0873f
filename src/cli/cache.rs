//! `evo cache`: where the cache is, how large it is, and what its limit is; `--prune` brings it below that.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use evo_protocol::leaderboard::Environment;
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::Answer;
use super::args::CacheArgs;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::output;
use crate::compile::cache::{self, Cache};
use crate::compile::cache_size::{self, CacheUsage};

#[derive(Debug, Serialize, JsonSchema)]
pub struct CacheAnswer {
    folder: String,
    entries: u64,
    bytes: u64,
    bytes_max: u64,
    removed_entries: u64,
    removed_bytes: u64,
}

/// Runs the command.
pub fn run(arguments: &CacheArgs) -> Result<Answer, CliError> {
    let limit = cache_size::limit()?;
    let cache = Cache::open(&cache::default_dir())?;
    let removed = if arguments.prune { cache.prune(limit) } else { CacheUsage::default() };
    let usage = cache.usage();
    if arguments.json {
        let object = CacheAnswer {
            folder: cache.shown().to_string(),
            entries: usage.entries,
            bytes: usage.bytes,
            bytes_max: limit,
            removed_entries: removed.entries,
            removed_bytes: removed.bytes,
        };
        return Ok(Answer::of(ExitCode::Done, &object));
    }
    let mut text = format!("folder   {}\n", cache.shown());
    text.push_str(&format!("entries  {}\n", usage.entries));
    text.push_str(&format!("size     {} of {} (EVO_CACHE_BYTES)\n", size(usage.bytes), size(limit)));
    if arguments.prune {
        text.push_str(&format!("removed  {} entries, {}\n", removed.entries, size(removed.bytes)));
    }
    output::stdout(&text)?;
    Ok(ExitCode::Done.into())
}

/// `1.5 GiB`.
fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let steps = units.iter().enumerate().rev();
    let fits = |step: usize| bytes >= 1u64 << (10 * step);
    let (step, unit) = steps.into_iter().find(|(step, _)| fits(*step)).unwrap_or((0, &"B"));
    match step {
        0 => format!("{bytes} {unit}"),
        step => format!("{:.1} {unit}", bytes as f64 / (1u64 << (10 * step)) as f64),
    }
}

/// A repository on a slow disk must not hold a sweep up.
const GIT_PATIENCE: Duration = Duration::from_secs(2);

/// Looks around.
pub fn look() -> Environment {
    let commit = git(&["rev-parse", "HEAD"]).map(|text| text.trim().to_string());
    let status = git(&["status", "--porcelain", "--untracked-files=no"]);
    Environment {
        platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        git_dirty: commit.as_ref().and(status).map(|text| !text.trim().is_empty()),
        git_commit: commit.filter(|text| !text.is_empty()),
        command: command(),
    }
}

/// The command line; the program by its file name, because its folder on this machine tells nobody anything.
fn command() -> Vec<String> {
    let mut words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(program) = words.first_mut()
        && let Some(name) = Path::new(program.as_str()).file_name()
    {
        *program = name.to_string_lossy().into_owned();
    }
    words
}

/// The output of a git command that only reads; `None` where there is no repository, no git, or no
/// answer in time.
fn git(arguments: &[&str]) -> Option<String> {
    let mut child = Command::new("git")
        // evo only reads the git tree, and `git status` would otherwise refresh the index.
        .args(["--no-optional-locks"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdout = child.stdout.take()?;
    // Read beside the wait below: a long status would fill the pipe and git would never end.
    let reader = std::thread::Builder::new().spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).ok().map(|_| text)
    });
    let Ok(reader) = reader else {
        let _ = child.kill();
        let _ = child.wait();
        return None;
    };
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return reader.join().ok()?,
            Ok(None) if began.elapsed() < GIT_PATIENCE => std::thread::sleep(Duration::from_millis(5)),
            Ok(Some(_)) | Err(_) => return None,
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_largest_unit_that_fits() {
        let check = |bytes: u64, expected: &str| assert_eq!(size(bytes), expected);
        check(0, "0 B");
        check(1023, "1023 B");
        check(1536, "1.5 KiB");
        check(10 << 30, "10.0 GiB");
        check(u64::MAX, "16777216.0 TiB");
    }
}
