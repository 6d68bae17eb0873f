//! How large the cache is, and which of it goes when it is too large: what was used least recently.
//!
//! An entry that is used gets the present as its time of change, at most once an hour, so that the order of times is
//! the order of use. Entries of the last hour are never removed: another evo may be about to load them.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{env, fs};

use super::cache::{Cache, IN_USE};
use super::error::CompileSetupError;

pub const DEFAULT_BYTES: u64 = 10 << 30;

/// Headers that are laid out for a compiler are used by every compilation of a run, which may take a day.
const HEADERS_IN_USE: Duration = Duration::from_secs(24 * 3600);

/// A run looks at the cache's size only if nobody has for this long.
const LOOKED_AT: Duration = Duration::from_secs(600);

/// Pruning stops at this share of the limit, in percent, so that the next run need not prune again.
const PRUNED_PERCENT: u64 = 90;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUsage {
    pub entries: u64,
    pub bytes: u64,
}

pub fn limit() -> Result<u64, CompileSetupError> {
    parse_limit(env::var("EVO_CACHE_BYTES").ok().as_deref())
}

fn parse_limit(value: Option<&str>) -> Result<u64, CompileSetupError> {
    match value {
        None | Some("") => Ok(DEFAULT_BYTES),
        Some(text) => text.parse().map_err(|_| CompileSetupError::CacheLimit { value: text.to_string() }),
    }
}

struct Entry {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
    in_use: Duration,
}

impl Cache {
    pub fn usage(&self) -> CacheUsage {
        sum(&self.entries())
    }

    /// What was used least recently goes first; returns what was removed.
    pub fn prune(&self, limit: u64) -> CacheUsage {
        let mut entries = self.entries();
        let mut bytes = sum(&entries).bytes;
        let mut removed = CacheUsage::default();
        if bytes <= limit {
            return removed;
        }
        entries.sort_by_key(|entry| entry.used);
        let wanted = limit / 100 * PRUNED_PERCENT;
        let now = SystemTime::now();
        for entry in entries {
            if bytes <= wanted {
                break;
            }
            let age = now.duration_since(entry.used).unwrap_or_default();
            if age > entry.in_use && remove(&entry.path) {
                bytes -= entry.bytes;
                removed.entries += 1;
                removed.bytes += entry.bytes;
            }
        }
        removed
    }

    /// At the start of a run, unless somebody has done so lately.
    pub fn prune_sometimes(&self, limit: u64) {
        let stamp = self.folder("pruned");
        let last = fs::metadata(&stamp).and_then(|found| found.modified());
        let is_recent = |time: SystemTime| time.elapsed().is_ok_and(|age| age < LOOKED_AT);
        if last.is_ok_and(is_recent) {
            return;
        }
        // A run goes on even if the cache cannot be made smaller.
        let _ = fs::write(stamp, b"");
        self.prune(limit);
    }

    fn entries(&self) -> Vec<Entry> {
        let mut found = Vec::new();
        for part in ["objects", "keys"] {
            found.extend(files(&self.folder(part), 2).into_iter().filter_map(|path| entry(path, IN_USE)));
        }
        for folder in children(&self.folder("include")) {
            found.extend(entry(folder, HEADERS_IN_USE));
        }
        let above = self.folder("");
        for path in above.parent().map(children).unwrap_or_default() {
            // Answers of references, and the folders of older versions of evo.
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_version = name.strip_prefix('v').is_some_and(|rest| rest.parse::<u32>().is_ok());
            let is_old = is_version && path.as_path() != above.components().as_path();
            if is_old || name.ends_with(".expected") {
                found.extend(entry(path, IN_USE));
            }
        }
        found
    }
}

fn sum(entries: &[Entry]) -> CacheUsage {
    CacheUsage { entries: entries.len() as u64, bytes: entries.iter().map(|entry| entry.bytes).sum() }
}

/// What lies so deep in a folder and above; links are listed and not followed.
fn files(folder: &Path, depth: u32) -> Vec<PathBuf> {
    let below = |path: PathBuf| match path.symlink_metadata() {
        Ok(found) if found.is_dir() && depth > 0 => files(&path, depth - 1),
        _ => vec![path],
    };
    children(folder).into_iter().flat_map(below).collect()
}

fn children(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn entry(path: PathBuf, in_use: Duration) -> Option<Entry> {
    let found = path.symlink_metadata().ok()?;
    let used = found.modified().ok()?;
    let size = |path: PathBuf| path.symlink_metadata().map_or(0, |found| found.len());
    let all = if found.is_dir() { files(&path, u32::MAX) } else { vec![path.clone()] };
    Some(Entry { path, bytes: all.into_iter().map(size).sum(), used, in_use })
}

fn remove(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).is_ok(),
        _ => fs::remove_file(path).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::touch;

    fn aged(path: &Path, hours: u64) {
        let time = SystemTime::now() - Duration::from_secs(hours * 3600);
        fs::File::open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn what_was_used_least_recently_goes_first() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::open(root.path()).unwrap();
        let store = |byte: u8, hours: u64| {
            let (_, path) = cache.store(&[byte; 1000], "so").unwrap();
            aged(&path, hours);
            path
        };
        let [oldest, older, old, young] = [store(1, 50), store(2, 40), store(3, 30), store(4, 0)];
        fs::write(root.path().join("mine"), [0; 5000]).unwrap();
        assert_eq!(cache.usage(), CacheUsage { entries: 4, bytes: 4000 });
        assert_eq!(cache.prune(4000), CacheUsage::default());
        touch(&oldest);
        assert_eq!(cache.prune(3500), CacheUsage { entries: 1, bytes: 1000 });
        assert_eq!([&oldest, &older, &old, &young].map(|path| path.exists()), [true, false, true, true]);
        // What is in use stays even if the cache remains too large, and so do files that are not evo's.
        cache.prune(0);
        assert_eq!([&oldest, &old, &young].map(|path| path.exists()), [true, false, true]);
        assert!(root.path().join("mine").exists());
    }

    #[test]
    fn older_versions_are_part_of_the_cache() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::open(root.path()).unwrap();
        let old = root.path().join("v1");
        fs::create_dir_all(old.join("objects")).unwrap();
        fs::write(old.join("objects/x.so"), [0; 300]).unwrap();
        aged(&old, 100);
        assert_eq!(cache.usage(), CacheUsage { entries: 1, bytes: 300 });
        cache.prune(100);
        assert!(!old.exists() && cache.folder("objects").exists());
    }

    #[test]
    fn limits_are_bytes() {
        assert_eq!(parse_limit(None).unwrap(), DEFAULT_BYTES);
        assert_eq!(parse_limit(Some("")).unwrap(), DEFAULT_BYTES);
        assert_eq!(parse_limit(Some("123")).unwrap(), 123);
        for bad in ["10G", "-1", "many"] {
            let error = parse_limit(Some(bad)).unwrap_err();
            assert!(error.to_string().contains(bad) && error.hint().is_some(), "{error}");
        }
    }
}
