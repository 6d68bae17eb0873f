//! `evo cache`: where the cache is, how large it is, and what its limit is; `--prune` brings it below that.

use std::path::Path;
use std::time::Duration;

use evo_protocol::leaderboard::Environment;
use schemars::JsonSchema;
use serde::Serialize;

use super::args::CacheArgs;
use super::{Answer, CliError, ExitCode, output};
use crate::compile::cache::{self, Cache};
use crate::compile::cache_size::{self, CacheUsage};
use crate::tool::{ToolPlaces, git_state};

#[derive(Debug, Serialize, JsonSchema)]
pub struct CacheAnswer {
    folder: String,
    entries: u64,
    bytes: u64,
    bytes_max: u64,
    removed_entries: u64,
    removed_bytes: u64,
}

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
    let mut text = format!("folder   {}\nentries  {}\n", cache.shown(), usage.entries);
    text += &format!("size     {} of {} (EVO_CACHE_BYTES)\n", size(usage.bytes), size(limit));
    if arguments.prune {
        text += &format!("removed  {} entries, {}\n", removed.entries, size(removed.bytes));
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

pub fn look() -> Environment {
    // A repository on a slow disk must not hold a sweep up.
    let git = git_state(Path::new("."), &ToolPlaces::of_environment(), Duration::from_secs(2));
    let mut command: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    // The program by its file name, because its folder on this machine tells nobody anything.
    if let Some(program) = command.first_mut()
        && let Some(name) = Path::new(program.as_str()).file_name()
    {
        *program = name.to_string_lossy().into_owned();
    }
    Environment {
        platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        git_commit: git.commit,
        git_dirty: git.is_dirty,
        command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_largest_unit_that_fits() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (10 << 30, "10.0 GiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }
}
