//! Which files a source may include, found by its text, and what is in them.
//!
//! The scan is conservative: it reads directives in branches that the preprocessor skips, tries every
//! folder and keeps every file that exists, also those that another one shadows. It also keeps the paths
//! at which there is no file: a file that appears there may shadow another from then on.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use evo_space::genome::ContentHash;

use super::preprocessor::{INCLUSIONS, Piece, QUESTIONS, readings};
use super::search_path::SearchPath;

/// Paths and the hashes of what is there; `None` where there is no file.
pub type FileStates = BTreeMap<PathBuf, Option<ContentHash>>;

/// A file that changed this recently may change again within the resolution of its time stamps, so its hash
/// is not kept.
const SETTLED: Duration = Duration::from_secs(2);

/// For a name that cannot be known (`#include NAME`): all files in the search path, up to this number.
const SWEPT_MAX: usize = 10_000;

/// A longer file is not a header: an array of numbers may lie in an include folder, and a source may name it.
const READ_MAX: u64 = 64 << 20;

/// Assembler directives that read files; what they read is not looked for.
const ASSEMBLER: &[&str] = &[".incbin", ".include \""];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct IncludeScan {
    pub files: FileStates,
    /// Whether these are certainly all files that decide; otherwise nothing may be concluded from them.
    pub complete: bool,
}

impl IncludeScan {
    pub fn existing(&self) -> impl Iterator<Item = (&Path, &ContentHash)> {
        self.files.iter().filter_map(|(path, hash)| Some((path.as_path(), hash.as_ref()?)))
    }

    pub fn digest(&self) -> Option<ContentHash> {
        let parts: Vec<String> =
            self.existing().flat_map(|(path, hash)| [path.display().to_string(), hash.to_string()]).collect();
        (!parts.is_empty()).then(|| ContentHash::of_parts(parts.iter().map(String::as_bytes)))
    }
}

#[derive(Debug, Default)]
pub struct FileReader {
    memory: Mutex<HashMap<PathBuf, (Stamp, Arc<ReadFile>)>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        now.as_secs() as i64 - self.changed.0.max(self.modified.0) > SETTLED.as_secs() as i64
    }
}

#[derive(Debug)]
struct ReadFile {
    hash: ContentHash,
    includes: Includes,
}

impl ReadFile {
    /// A file that is too long is known by its time stamps, and not by what it includes.
    fn open(path: &Path, stamp: &Stamp) -> Option<ReadFile> {
        if stamp.size > READ_MAX {
            let includes = Includes { unread: true, ..Includes::default() };
            return Some(ReadFile { hash: ContentHash::of(format!("{stamp:?}").as_bytes()), includes });
        }
        let mut bytes = Vec::new();
        // The size is that of a moment ago.
        fs::File::open(path).ok()?.take(READ_MAX).read_to_end(&mut bytes).ok()?;
        let includes = Includes::of(&String::from_utf8_lossy(&bytes));
        Some(ReadFile { hash: ContentHash::of(&bytes), includes })
    }
}

#[derive(Debug, Default, PartialEq)]
struct Includes {
    /// Names as written, and whether in quotes.
    names: Vec<(String, bool)>,
    computed: bool,
    /// Whether it decides by files that are not looked for: the assembler reads them, or the text was not read.
    unread: bool,
}

impl FileReader {
    pub fn hash(&self, path: &Path) -> Option<ContentHash> {
        self.read(path).map(|file| file.hash.clone())
    }

    fn read(&self, path: &Path) -> Option<Arc<ReadFile>> {
        let metadata = fs::metadata(path).ok().filter(Metadata::is_file)?;
        let stamp = Stamp::of(&metadata);
        let memory = || self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, file)) = memory().get(path)
            && *known == stamp
        {
            return Some(Arc::clone(file));
        }
        let file = Arc::new(ReadFile::open(path, &stamp)?);
        if stamp.is_settled() {
            memory().insert(path.to_path_buf(), (stamp, Arc::clone(&file)));
        }
        Some(file)
    }

    pub fn scan(&self, text: &str, search: &SearchPath) -> IncludeScan {
        let mut found = IncludeScan { files: FileStates::new(), complete: true };
        let mut own = Includes::of(text);
        own.names.extend(search.forced.iter().map(|name| (name.clone(), true)));
        // NVRTC before 11.8 looks for names in quotes in the folder that it runs in.
        let mut queue = vec![(PathBuf::new(), own)];
        let mut swept = false;
        while let Some((folder, includes)) = queue.pop() {
            found.complete &= !includes.unread;
            for path in candidates(&folder, &includes, search) {
                self.visit(path, &mut found.files, &mut queue);
            }
            if includes.computed && !swept {
                swept = true;
                let folders = search.folders.iter().cloned().chain([folder]);
                let files = folders.flat_map(|folder| sweep(&folder)).take(SWEPT_MAX + 1).collect::<Vec<_>>();
                found.complete &= files.len() <= SWEPT_MAX;
                files
                    .into_iter()
                    .take(SWEPT_MAX)
                    .for_each(|path| self.visit(path, &mut found.files, &mut queue));
            }
        }
        found
    }

    fn visit(&self, path: PathBuf, files: &mut FileStates, queue: &mut Vec<(PathBuf, Includes)>) {
        if files.contains_key(&path) {
            return;
        }
        let file = self.read(&path);
        if let Some(file) = &file {
            let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
            let Includes { names, computed, unread } = &file.includes;
            queue.push((folder, Includes { names: names.clone(), computed: *computed, unread: *unread }));
        }
        files.insert(path, file.map(|file| file.hash.clone()));
    }
}

fn candidates(own: &Path, includes: &Includes, search: &SearchPath) -> Vec<PathBuf> {
    let folders =
        |quoted: bool| quoted.then_some(own).into_iter().chain(search.folders.iter().map(PathBuf::as_path));
    includes
        .names
        .iter()
        .flat_map(|(name, quoted)| folders(*quoted).map(move |folder| folder.join(name)))
        .collect()
}

impl Includes {
    fn of(text: &str) -> Includes {
        let unread = ASSEMBLER.iter().any(|directive| text.contains(directive));
        let mut includes = Includes { unread, ..Includes::default() };
        for pieces in readings(text) {
            for (at, piece) in pieces.iter().enumerate() {
                match (piece, &pieces[at + 1..]) {
                    (Piece::Directive, [Piece::Name(word), rest @ ..])
                        if INCLUSIONS.contains(&word.as_str()) =>
                    {
                        includes.add(rest.first());
                    }
                    (Piece::Name(word), [Piece::Sign('('), file, ..])
                        if QUESTIONS.contains(&word.as_str()) =>
                    {
                        includes.add(Some(file));
                    }
                    _ => {}
                }
            }
        }
        includes
    }

    /// A template's expression in the name is something that only the preprocessor can tell.
    fn add(&mut self, operand: Option<&Piece>) {
        match operand {
            Some(Piece::File { name, quoted }) if !name.contains('{') => {
                let found = (name.clone(), *quoted);
                if !self.names.contains(&found) {
                    self.names.push(found);
                }
            }
            _ => self.computed = true,
        }
    }
}

fn sweep(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let mut folders = if folder.as_os_str().is_empty() { Vec::new() } else { vec![folder.to_path_buf()] };
    let mut files: Vec<PathBuf> = Vec::new();
    std::iter::from_fn(move || {
        loop {
            if let Some(file) = files.pop() {
                return Some(file);
            }
            let entries = fs::read_dir(folders.pop()?).into_iter().flatten().flatten();
            for entry in entries {
                // Links are not followed: they may lead in circles.
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(_) => files.push(entry.path()),
                    Err(_) => {}
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn search(root: &Path, folders: &[&str]) -> SearchPath {
        SearchPath { folders: folders.iter().map(|name| root.join(name)).collect(), forced: Vec::new() }
    }

    fn found(root: &Path, text: &str, folders: &[&str]) -> Vec<String> {
        let scan = FileReader::default().scan(text, &search(root, folders));
        assert!(scan.complete);
        let names = scan.existing().map(|(path, _)| path.strip_prefix(root).unwrap().display().to_string());
        names.collect()
    }

    #[test]
    fn includes_are_followed_through_all_folders() {
        let root = written(&[
            ("a/op.h", "#include \"deep/more.h\"\n"),
            ("a/deep/more.h", "#  include <other.h>\n"),
            ("b/other.h", ""),
            ("b/op.h", "// shadowed"),
            ("b/unrelated.h", ""),
        ]);
        let text = "/* c */ #include <op.h>\n#if 0\n#include \"absent.h\"\n#endif\n";
        assert_eq!(found(root.path(), text, &["a", "b"]), ["a/deep/more.h", "a/op.h", "b/op.h", "b/other.h"]);
        assert_eq!(found(root.path(), text, &["b"]), ["b/op.h"]);
        assert!(found(root.path(), "// #include <op.h>\nint include;", &["a"]).is_empty());
        let question = "#if __has_include(\"unrelated.h\")\n#endif";
        assert_eq!(found(root.path(), question, &["b"]), ["b/unrelated.h"]);
    }

    #[test]
    fn a_new_file_that_shadows_another_changes_the_scan() {
        let root = written(&[("b/op.h", "1")]);
        fs::create_dir(root.path().join("a")).unwrap();
        let (reader, search) = (FileReader::default(), search(root.path(), &["a", "b"]));
        let before = reader.scan("#include \"op.h\"", &search);
        assert_eq!(before.files[&root.path().join("a/op.h")], None);
        fs::write(root.path().join("a/op.h"), "2").unwrap();
        let after = reader.scan("#include \"op.h\"", &search);
        assert_ne!(before, after);
        assert_ne!(before.digest(), after.digest());
        fs::write(root.path().join("a/op.h"), "3").unwrap();
        assert_ne!(reader.scan("#include \"op.h\"", &search), after, "an edit of the same length is seen");
    }

    #[test]
    fn computed_names_count_all_files_of_the_search_path() {
        let root = written(&[("a/one.h", ""), ("a/deep/two.h", "")]);
        let expected = ["a/deep/two.h", "a/one.h"];
        assert_eq!(found(root.path(), "#define F <one.h>\n#include F\n", &["a"]), expected);
        assert_eq!(found(root.path(), "#include \"<{ name }>.h\"\n", &["a"]), expected);
        let scan = FileReader::default().scan("asm(\".incbin \\\"x\\\"\");", &SearchPath::default());
        assert!(!scan.complete, "what the assembler reads is unknown");
    }

    #[test]
    fn an_array_that_a_source_names_is_not_read() {
        let root = written(&[]);
        let array = fs::File::create(root.path().join("weights.bin")).unwrap();
        array.set_len(1 << 40).unwrap();
        let (reader, search) = (FileReader::default(), search(root.path(), &[""]));
        let before = reader.scan("#include \"weights.bin\"", &search);
        assert!(!before.complete && before.existing().count() == 1, "{before:?}");
        array.set_len(1 << 41).unwrap();
        assert_ne!(reader.scan("#include \"weights.bin\"", &search), before, "a change is seen");
    }
}
