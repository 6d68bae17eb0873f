//! Which answer of the cache belongs to the files that are there now.
//!
//! The files that a compiler reads are known only after it has run. So a request's key leads to a
//! manifest: for each set of files that was met, their paths and hashes and the key of the answer. An answer
//! counts only if every file is as it was, and if every path that was empty still is.

use std::io;

use evo_protocol::binary::CompileOutcome;
use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

use super::cache::Cache;
use super::includes::{FileReader, FileStates};

/// Newest first; whoever goes back and forth between two versions of a header finds both.
const KEPT: usize = 8;

#[derive(Default, Serialize, Deserialize)]
struct Manifest {
    entries: Vec<ManifestEntry>,
}

#[derive(Serialize, Deserialize)]
struct ManifestEntry {
    files: FileStates,
    answer: ContentHash,
}

pub fn find(cache: &Cache, key: &ContentHash, reader: &FileReader) -> Option<CompileOutcome> {
    let manifest = read(cache, key)?;
    let holds = |entry: &&ManifestEntry| entry.files.iter().all(|(path, hash)| reader.hash(path) == *hash);
    let entry = manifest.entries.iter().find(holds)?;
    cache.get(&entry.answer)
}

pub fn keep(cache: &Cache, key: &ContentHash, files: FileStates, outcome: &CompileOutcome) -> io::Result<()> {
    let answer = answer_key(key, &files);
    if !cache.put(&answer, outcome)? {
        return Ok(());
    }
    let mut manifest = read(cache, key).unwrap_or_default();
    manifest.entries.retain(|entry| entry.answer != answer);
    manifest.entries.insert(0, ManifestEntry { files, answer });
    manifest.entries.truncate(KEPT);
    let body = serde_json::to_string(&manifest).map_err(io::Error::other)?;
    cache.write_checked(&cache.manifest_path(key), &body)
}

fn read(cache: &Cache, key: &ContentHash) -> Option<Manifest> {
    serde_json::from_str(&cache.read_checked(&cache.manifest_path(key))?).ok()
}

fn answer_key(key: &ContentHash, files: &FileStates) -> ContentHash {
    let mut parts = vec![key.to_string()];
    for (path, hash) in files {
        parts.push(path.display().to_string());
        parts.push(hash.as_ref().map(ToString::to_string).unwrap_or_default());
    }
    ContentHash::of_parts(parts.iter().map(String::as_bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use evo_protocol::verdict::{Verdict, VerdictKind};

    use super::*;

    fn refusal(text: &str) -> CompileOutcome {
        Err(Box::new(Verdict::new(VerdictKind::CompileError, text)))
    }

    #[test]
    fn an_answer_belongs_to_its_files() {
        let root = tempfile::tempdir().unwrap();
        let (cache, reader) = (Cache::open(&root.path().join("cache")).unwrap(), FileReader::default());
        let (header, shadow) = (root.path().join("b.h"), root.path().join("a.h"));
        let key = ContentHash::of(b"key");
        let states = || {
            FileStates::from([header.clone(), shadow.clone()].map(|path| (path.clone(), reader.hash(&path))))
        };
        let said = || find(&cache, &key, &reader).map(|outcome| outcome.unwrap_err().message);
        assert_eq!(said(), None);
        fs::write(&header, "1").unwrap();
        keep(&cache, &key, states(), &refusal("one")).unwrap();
        assert_eq!(said().as_deref(), Some("one"));
        fs::write(&header, "2").unwrap();
        assert_eq!(said(), None);
        keep(&cache, &key, states(), &refusal("two")).unwrap();
        fs::write(&header, "1").unwrap();
        assert_eq!(said().as_deref(), Some("one"), "going back finds the older answer");
        fs::write(&shadow, "").unwrap();
        assert_eq!(said(), None, "a file that appears may shadow another");
    }

    #[test]
    fn passing_troubles_are_not_kept() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::open(root.path()).unwrap();
        let key = ContentHash::of(b"key");
        let timeout = Err(Box::new(Verdict::new(VerdictKind::CompileTimeout, "")));
        keep(&cache, &key, FileStates::new(), &timeout).unwrap();
        assert!(find(&cache, &key, &FileReader::default()).is_none());
    }
}
