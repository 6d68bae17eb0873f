//! Binaries and refusals by content, shared by all studies and safe between processes.
//!
//! `objects/` holds files named by the hash of their bytes; `keys/` says which object, or which refusal, answers a
//! request for certain files. No file is synced, because whatever a power cut tears is noticed by its hash and compiled
//! again.
//!
//! An entry that is used gets the present as its time of change, at most once an hour, so that the order of times is
//! the order of use. What was used least recently goes when the cache is too large.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{env, fs};

use evo_protocol::binary::{CompileOutcome, KernelSource};
use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::VerdictKind;
use evo_space::genome::ContentHash;
use rustix::process::geteuid;

use super::error::CompileSetupError;
use super::includes::FileStates;
use evo_system::scratch::{ScratchFolder, ScratchPlace};

/// Raised when the layout or the meaning of an entry changes; older entries are then not looked at.
const VERSION: &str = "v5";

/// Entries of the last hour are never removed: another evo may be about to load them.
const IN_USE: Duration = Duration::from_secs(3600);

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

/// `$EVO_CACHE_DIR`, else `$XDG_CACHE_HOME/evo`, else `~/.cache/evo`, else a folder of this user's below the
/// temporary one. A relative home is ignored: it would be another one in each working folder.
pub fn default_dir() -> PathBuf {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
    variable("EVO_CACHE_DIR")
        .or_else(|| absolute("XDG_CACHE_HOME").map(|folder| folder.join("evo")))
        .or_else(|| absolute("HOME").map(|home| home.join(".cache/evo")))
        .unwrap_or_else(|| env::temp_dir().join(format!("evo-cache-{}", geteuid().as_raw())))
}

/// A cache's binaries are loaded and run, so nobody else may write to its folder. One that was there before keeps its
/// mode: it may be anything that `EVO_CACHE_DIR` names.
fn own(folder: &Path) -> io::Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    // A file in the folder's place: what is wrong is not that something exists.
    made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => io::Error::from_raw_os_error(libc::ENOTDIR),
        _ => error,
    })?;
    let refuse = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    let user = geteuid().as_raw();
    // The link, too: somebody else's could lead elsewhere tomorrow.
    for found in [fs::symlink_metadata(folder)?, fs::metadata(folder)?] {
        if found.uid() != user {
            return refuse(format!("it belongs to user {} and not to user {user}", found.uid()));
        }
    }
    let mode = fs::metadata(folder)?.mode() & 0o777;
    if mode & 0o022 != 0 {
        return refuse(format!(
            "others may write to it (mode {mode:03o}); `chmod 700` it if it is yours alone"
        ));
    }
    Ok(())
}

#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    pub fn open(folder: &Path) -> Result<Cache, CompileSetupError> {
        let cache = Cache { root: folder.join(VERSION) };
        let prepare = || -> io::Result<()> {
            own(folder)?;
            own(&cache.root)?;
            // This one is evo's by its name: what others could read in it is closed to them.
            if fs::metadata(&cache.root)?.mode() & 0o077 != 0 {
                fs::set_permissions(&cache.root, fs::Permissions::from_mode(0o700))?;
            }
            for part in ["objects", "keys", "tmp"] {
                fs::create_dir_all(cache.root.join(part))?;
            }
            cache.place().probe()
        };
        prepare().map_err(|error| CompileSetupError::cache(folder, error))?;
        cache.place().sweep();
        Ok(cache)
    }

    pub fn scratch(&self) -> Result<ScratchFolder, CompileSetupError> {
        self.place().folder().map_err(|error| CompileSetupError::cache(&self.root, error))
    }

    fn place(&self) -> ScratchPlace {
        ScratchPlace::new(self.root.join("tmp"))
    }

    /// Free space where the cache is; `None` where the file system does not tell.
    pub fn free_bytes(&self) -> Option<u64> {
        let found = rustix::fs::statvfs(&self.root).ok().filter(|found| found.f_blocks > 0)?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    pub fn shown(&self) -> std::path::Display<'_> {
        self.root.parent().unwrap_or(&self.root).display()
    }

    pub fn folder(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn get(&self, key: &ContentHash) -> Option<CompileOutcome> {
        let text = fs::read_to_string(self.key_path(key)).ok()?;
        let (checksum, body) = text.split_once('\n')?;
        // A torn or edited entry counts as absent: compiling again is always right, a wrong binary never is.
        if ContentHash::of(body.as_bytes()).as_str() != checksum {
            return None;
        }
        let mut outcome: CompileOutcome = serde_json::from_str(body).ok()?;
        if let Ok(binary) = &mut outcome {
            let extension = binary.path.extension()?.to_str()?.to_string();
            // The folder may have moved since.
            binary.path = self.object_path(&binary.hash, &extension);
            if ContentHash::of(&fs::read(&binary.path).ok()?) != binary.hash {
                return None;
            }
            touch(&binary.path);
            binary.cached = true;
        }
        touch(&self.key_path(key));
        Some(outcome)
    }

    /// Keeps what would be the same if asked again: binaries and plain refusals, not deadlines, memory or crashes.
    pub fn put(&self, key: &ContentHash, outcome: &CompileOutcome) -> io::Result<()> {
        let lasting = match outcome {
            Ok(_) => true,
            Err(verdict) => verdict.kind == VerdictKind::CompileError && !verdict.is_in_doubt(),
        };
        if !lasting {
            return Ok(());
        }
        let body = serde_json::to_string(outcome).map_err(io::Error::other)?;
        // A key does not hold who may read a file, or what a link leads to.
        if outcome.is_err() && body.contains(": Permission denied") {
            return Ok(());
        }
        self.write(&self.key_path(key), format!("{}\n{body}", ContentHash::of(body.as_bytes())).as_bytes())
    }

    pub fn store(&self, bytes: &[u8], extension: &str) -> io::Result<(ContentHash, PathBuf)> {
        let hash = ContentHash::of(bytes);
        let path = self.object_path(&hash, extension);
        self.write(&path, bytes)?;
        Ok((hash, path))
    }

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

    fn object_path(&self, hash: &ContentHash, extension: &str) -> PathBuf {
        self.root.join("objects").join(&hash.as_str()[..2]).join(format!("{hash}.{extension}"))
    }

    fn key_path(&self, key: &ContentHash) -> PathBuf {
        self.root.join("keys").join(&key.as_str()[..2]).join(format!("{key}.json"))
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        // Two processes may write the same entry at once. Each renames a whole file, so the last one wins and
        // readers never see a mixture.
        self.place().write(path, bytes)
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

pub(super) fn touch(path: &Path) {
    let Ok(file) = fs::File::open(path) else { return };
    let used = file.metadata().and_then(|found| found.modified()).ok();
    if used.and_then(|used| used.elapsed().ok()).is_some_and(|age| age > IN_USE / 2) {
        // A cache that belongs to somebody else can be read and not touched, which loses nothing.
        let _ = file.set_modified(SystemTime::now());
    }
}

/// Everything that decides the answer. `files` are those that the source may include: an answer belongs to what is in
/// them, and to there being none where one may appear.
pub fn key(
    source: &KernelSource,
    kind: DeviceKind,
    arch: &str,
    fingerprint: &ContentHash,
    files: &FileStates,
) -> ContentHash {
    let mut parts: Vec<&[u8]> = vec![
        VERSION.as_bytes(),
        kind.as_str().as_bytes(),
        arch.as_bytes(),
        fingerprint.as_str().as_bytes(),
        source.text.as_bytes(),
        // Compilers put it into messages.
        source.file_name.as_bytes(),
        // Compiled into the binary, so equal code of two configurations still has two entries.
        source.variant_hash.as_str().as_bytes(),
    ];
    parts.extend(source.options.iter().map(String::as_bytes));
    // So that an option and an entry of the same name are not confused.
    parts.push(b"entries");
    parts.extend(source.entries.iter().map(String::as_bytes));
    if source.instrumented {
        parts.push(b"instrumented");
    }
    let states = files.iter().flat_map(|(path, hash)| {
        [path.as_os_str().as_bytes(), hash.as_ref().map_or(&b"absent"[..], |hash| hash.as_str().as_bytes())]
    });
    ContentHash::of_parts(parts.into_iter().chain(states))
}

#[cfg(test)]
mod tests {
    use evo_protocol::binary::Binary;
    use evo_protocol::verdict::Verdict;

    use super::*;

    fn opened() -> (tempfile::TempDir, Cache) {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::open(root.path()).unwrap();
        (root, cache)
    }

    fn binary(cache: &Cache, bytes: &[u8]) -> Binary {
        let (hash, path) = cache.store(bytes, "cubin").unwrap();
        Binary { code_hash: hash.clone(), hash, path, compile_ms: 40.0, ..Binary::default() }
    }

    #[test]
    fn what_is_put_is_got_even_after_the_folder_moved() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::open(&root.path().join("a")).unwrap();
        let key = ContentHash::of(b"key");
        assert!(cache.get(&key).is_none());
        cache.put(&key, &Ok(binary(&cache, b"code"))).unwrap();
        fs::rename(root.path().join("a"), root.path().join("b")).unwrap();
        let moved = Cache::open(&root.path().join("b")).unwrap();
        let found = moved.get(&key).unwrap().unwrap();
        assert!(found.cached && found.path.starts_with(root.path().join("b")));
        assert_eq!(fs::read(found.path).unwrap(), b"code");
    }

    #[test]
    fn damage_of_either_file_is_noticed() {
        let (_root, cache) = opened();
        let key = ContentHash::of(b"key");
        let kept = binary(&cache, b"code");
        cache.put(&key, &Ok(kept.clone())).unwrap();
        fs::write(&kept.path, b"c0de").unwrap();
        assert!(cache.get(&key).is_none());
        cache.store(b"code", "cubin").unwrap();
        assert!(cache.get(&key).is_some());
        let entry = cache.key_path(&key);
        let text = fs::read_to_string(&entry).unwrap().replace("40.0", "41.0");
        fs::write(&entry, text).unwrap();
        assert!(cache.get(&key).is_none());
    }

    #[test]
    fn only_lasting_refusals_are_kept() {
        let (_root, cache) = opened();
        for kind in "compile_error compile_timeout compile_oom compiler_crash harness_error".split(' ') {
            let (key, kind) = (ContentHash::of(kind.as_bytes()), VerdictKind::named(kind).unwrap());
            cache.put(&key, &Err(Box::new(Verdict::new(kind, "no")))).unwrap();
            assert_eq!(cache.get(&key).is_some(), kind == VerdictKind::CompileError, "{kind}");
        }
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("cache");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        Cache::open(&folder).unwrap();
        assert_eq!((mode(&folder), mode(&folder.join(VERSION))), (0o700, 0o700));
        for path in [folder.clone(), folder.join(VERSION)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Cache::open(&folder).unwrap();
        assert_eq!(mode(&folder), 0o755, "it may be the home folder, which is not evo's to close");
        assert_eq!(mode(&folder.join(VERSION)), 0o700, "what others could only read is closed to them");
        for open in [0o777, 0o770, 0o702] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(open)).unwrap();
            let error = Cache::open(&folder).unwrap_err();
            assert!(error.hint().unwrap().contains("EVO_CACHE_DIR"), "{error}");
            let source = std::error::Error::source(&error).unwrap().to_string();
            assert!(source.contains(&format!("mode {open:03o}")), "{source}");
        }
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused() {
        // Only root can give a folder away; others can look at one of root's.
        let root = tempfile::tempdir().unwrap();
        let given = std::os::unix::fs::chown(root.path(), Some(12_345), None).is_ok();
        let folder = if given { root.path() } else { Path::new("/") };
        let error = Cache::open(folder).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("it belongs to user"), "{source}");
    }

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
