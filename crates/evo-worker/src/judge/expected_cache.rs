//! Expected outputs that were computed before: in memory, and in files that outlive a killed worker.
//!
//! The file names the inputs that its answers belong to, and the caller compares that with its own: another program
//! may draw other inputs under the same name.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evo_protocol::dtype::DType;
use evo_space::genome::ContentHash;

use super::element;
use super::expected::ExpectedSet;

pub struct ExpectedCache {
    folder: PathBuf,
    /// Least recently used first.
    memory: Vec<(ContentHash, Arc<ExpectedSet>)>,
    memory_bytes: usize,
    memory_limit: usize,
    file_min: usize,
}

/// Host memory for answers; what falls out is read back from its file, or computed again.
const MEMORY_LIMIT: usize = 1 << 30;
/// Smaller sets of answers are computed faster than a file is written.
const FILE_MIN: usize = 1 << 18;
/// What a file must save beside the time to write it and to read it back, at so many bytes a second.
const FILE_SAVES: f64 = 4.0;
const FILE_RATE: f64 = 1e9;
/// First bytes of a file.
const MAGIC: &[u8] = b"evo-expected-5\n";

impl ExpectedCache {
    pub fn new(folder: PathBuf) -> ExpectedCache {
        ExpectedCache {
            folder,
            memory: Vec::new(),
            memory_bytes: 0,
            memory_limit: MEMORY_LIMIT,
            file_min: FILE_MIN,
        }
    }

    /// A damaged file is as good as none.
    pub fn get(&mut self, key: &ContentHash) -> Option<Arc<ExpectedSet>> {
        if let Some(position) = self.memory.iter().position(|(own, _)| own == key) {
            let entry = self.memory.remove(position);
            let set = entry.1.clone();
            self.memory.push(entry);
            return Some(set);
        }
        let set = Arc::new(decode(&fs::read(self.path(key)).ok()?)?);
        self.remember(key, set.clone());
        Some(set)
    }

    /// Answers that took this long to compute. Those of a reference by command, which takes a process, are kept in a file
    /// however few they are.
    pub fn put(&mut self, key: &ContentHash, set: ExpectedSet, took: Option<Duration>) -> Arc<ExpectedSet> {
        let saves = |took: Duration| {
            let least = FILE_SAVES * size(&set) as f64 / FILE_RATE;
            size(&set) >= self.file_min && took.as_secs_f64() > least
        };
        if took.is_none_or(saves) {
            self.write(key, &set);
        }
        let set = Arc::new(set);
        self.remember(key, set.clone());
        set
    }

    fn write(&self, key: &ContentHash, set: &ExpectedSet) {
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(&self.folder)?;
            // Written under another name and renamed, so that a killed worker leaves no half file behind.
            let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
            file.write_all(&encode(set))?;
            file.persist(self.path(key))?;
            Ok(())
        };
        // The cache is a convenience: a full disk must not fail a variant.
        let _ = write();
    }

    pub fn forget(&mut self, key: &ContentHash) {
        if let Some(position) = self.memory.iter().rposition(|(own, _)| own == key) {
            self.memory_bytes -= size(&self.memory.remove(position).1);
        }
    }

    fn path(&self, key: &ContentHash) -> PathBuf {
        self.folder.join(format!("{key}.expected"))
    }

    fn remember(&mut self, key: &ContentHash, set: Arc<ExpectedSet>) {
        self.forget(key);
        self.memory_bytes += size(&set);
        self.memory.push((key.clone(), set));
        while self.memory_bytes > self.memory_limit && self.memory.len() > 1 {
            let (_, old) = self.memory.remove(0);
            self.memory_bytes -= size(&old);
        }
    }
}

fn size(set: &ExpectedSet) -> usize {
    set.outputs.iter().map(|output| output.values.len() * 8).sum()
}

/// First the set without its values, as JSON, and how many each output has; then the values as little-endian fp64, and
/// the BLAKE3 hash of all before it.
fn encode(set: &ExpectedSet) -> Vec<u8> {
    let counts: Vec<usize> = set.outputs.iter().map(|output| output.values.len()).collect();
    let head = serde_json::to_vec(&(set, counts)).unwrap_or_default();
    let mut bytes = [MAGIC, &(head.len() as u64).to_le_bytes(), &head].concat();
    for output in &set.outputs {
        bytes.extend(element::f64_bytes(&output.values));
    }
    let hash = blake3::hash(&bytes);
    bytes.extend(hash.as_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<ExpectedSet> {
    let (body, hash) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
    // A damaged answer would refuse correct variants, so it counts as missing.
    if blake3::hash(body).as_bytes() != hash {
        return None;
    }
    let rest = body.strip_prefix(MAGIC)?;
    let (length, rest) = rest.split_at_checked(8)?;
    let (head, mut rest) = rest.split_at_checked(u64::from_le_bytes(length.try_into().ok()?) as usize)?;
    let (mut set, counts): (ExpectedSet, Vec<usize>) = serde_json::from_slice(head).ok()?;
    for (output, count) in set.outputs.iter_mut().zip(counts) {
        let (values, behind) = rest.split_at_checked(count.checked_mul(8)?)?;
        rest = behind;
        output.values = element::widen(values, DType::F64);
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::bounds::AnswerScale;
    use crate::judge::expected::ExpectedOutput;

    fn set(value: f64) -> ExpectedSet {
        let outputs = vec![ExpectedOutput {
            buffer: 0,
            values: vec![value; 50],
            scale: AnswerScale::default(),
            uncertain: vec![(7, 0.5)],
        }];
        ExpectedSet { magnitude: 1.0, inputs: ContentHash::of(b"inputs"), outputs }
    }

    #[test]
    fn a_file_brings_answers_back_and_a_damaged_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let (set, key) = (set(0.25), ContentHash::of(b"a case"));
        let mut cache = ExpectedCache::new(folder.path().into());
        cache.file_min = 0;
        cache.put(&key, set.clone(), Some(Duration::ZERO));
        assert!(
            !folder.path().join(format!("{key}.expected")).exists(),
            "computed faster than it is read back"
        );
        cache.put(&key, set.clone(), Some(Duration::from_secs(1)));
        let fresh = || ExpectedCache::new(folder.path().into()).get(&key);
        assert_eq!(*fresh().unwrap(), set);
        let path = folder.path().join(format!("{key}.expected"));
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(fresh(), None);
        fs::write(&path, &bytes[..10]).unwrap();
        assert_eq!(fresh(), None);
    }

    #[test]
    fn memory_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let mut cache = ExpectedCache::new(folder.path().into());
        cache.memory_limit = 1000;
        let name = |text: &str| ContentHash::of(text.as_bytes());
        for text in ["a", "b", "c"] {
            cache.put(&name(text), set(1.0), Some(Duration::ZERO));
        }
        assert_eq!(cache.get(&name("a")), None);
        assert!(cache.get(&name("c")).is_some());
    }

    #[test]
    fn new_answers_take_the_place_of_old_ones() {
        let folder = tempfile::tempdir().unwrap();
        let mut cache = ExpectedCache::new(folder.path().into());
        let key = ContentHash::of(b"a case");
        cache.put(&key, set(1.0), Some(Duration::ZERO));
        cache.put(&key, set(2.0), Some(Duration::ZERO));
        assert_eq!(cache.get(&key).unwrap().outputs[0].values[0], 2.0);
        assert_eq!(cache.memory_bytes, 400);
        cache.forget(&key);
        assert!(cache.memory_bytes == 0 && cache.get(&key).is_none());
    }
}
