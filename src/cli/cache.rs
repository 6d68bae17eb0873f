//! `evo cache`: where the cache is, how large it is, and what its limit is; `--prune` brings it below that.

use std::path::Path;
use std::time::Duration;

use evo_protocol::leaderboard::Environment;
use schemars::JsonSchema;
use serde::Serialize;

use super::args::CacheArgs;
use super::{Answer, Call, ExitCode, Result};
use crate::compile::cache::{self, Cache, CacheUsage};
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

pub fn run(arguments: &CacheArgs, call: &Call) -> Result<Answer> {
    let bytes_max = cache::limit()?;
    let cache = Cache::open(&cache::default_dir())?;
    let removed = if arguments.prune { cache.prune(bytes_max) } else { CacheUsage::default() };
    let CacheUsage { entries, bytes } = cache.usage();
    let (removed_entries, removed_bytes) = (removed.entries, removed.bytes);
    let folder = cache.shown().to_string();
    let mut text = format!("folder   {folder}\nentries  {entries}\n");
    text += &format!("size     {} of {} (EVO_CACHE_BYTES)\n", size(bytes), size(bytes_max));
    if arguments.prune {
        text += &format!("removed  {removed_entries} entries, {}\n", size(removed_bytes));
    }
    call.show(&text)?;
    let own = CacheAnswer { folder, entries, bytes, bytes_max, removed_entries, removed_bytes };
    Ok(Answer::of(ExitCode::Done, &own))
}

/// `1.5 GiB`.
fn size(bytes: u64) -> String {
    let units = ["TiB", "GiB", "MiB", "KiB"].iter().zip([40, 30, 20, 10]);
    match units.into_iter().find(|(_, bits)| bytes >= 1u64 << bits) {
        Some((unit, bits)) => format!("{:.1} {unit}", bytes as f64 / (1u64 << bits) as f64),
        None => format!("{bytes} B"),
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
        let shown = [0, 1023, 1536, 10 << 30, u64::MAX].map(size);
        assert_eq!(shown, ["0 B", "1023 B", "1.5 KiB", "10.0 GiB", "16777216.0 TiB"]);
    }
}
