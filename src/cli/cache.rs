//! `evo cache`: where the cache is, how large it is, and what its limit is; `--prune` brings it below that.

use serde::Serialize;

use super::answer::Answer;
use super::args::CacheArgs;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::output;
use crate::compile::cache::{self, Cache};
use crate::compile::cache_size::{self, CacheUsage};

#[derive(Serialize)]
struct CacheJson {
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
        let object = CacheJson {
            folder: cache.shown().to_string(),
            entries: usage.entries,
            bytes: usage.bytes,
            bytes_max: limit,
            removed_entries: removed.entries,
            removed_bytes: removed.bytes,
        };
        return Ok(Answer::text(ExitCode::Done, serde_json::to_string(&object)?));
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
