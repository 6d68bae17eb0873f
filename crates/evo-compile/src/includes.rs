//! Which files a source may include, found by its text, and what is in them. What a compiler can open in the end is
//! decided by the system (`confined`).
//!
//! The scan is conservative: it reads directives in branches that the preprocessor skips, tries every
//! folder and keeps every file that exists, also those that another one shadows. It also keeps the paths
//! at which there is no file: a file that appears there may shadow another from then on.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{self, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use evo_device::host::tokens::{CudaTokenKind, tokenize};
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_space::genome::ContentHash;

use super::lines::{NamedFile, SourceLines, included, named_files};
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

type ReadFile = (ContentHash, Includes);

#[derive(Debug, Default)]
pub struct FileReader {
    memory: Mutex<HashMap<PathBuf, (Stamp, Arc<ReadFile>)>>,
}

/// Device, inode, bytes, and when it was modified and changed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stamp(u64, u64, u64, [i64; 2], [i64; 2]);

impl Stamp {
    fn of(own: &Metadata) -> Stamp {
        let modified = [own.mtime(), own.mtime_nsec()];
        Stamp(own.dev(), own.ino(), own.size(), modified, [own.ctime(), own.ctime_nsec()])
    }

    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        now.as_secs() as i64 - self.3[0].max(self.4[0]) > SETTLED.as_secs() as i64
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Includes {
    /// Names as written, and whether in quotes.
    names: BTreeSet<(String, bool)>,
    computed: bool,
    /// Whether the text was too long to read.
    unread: bool,
}

impl FileReader {
    fn read(&self, path: &Path) -> Option<Arc<ReadFile>> {
        let metadata = fs::metadata(path).ok().filter(Metadata::is_file)?;
        let stamp = Stamp::of(&metadata);
        let memory = || evo_system::lock(&self.memory);
        if let Some((known, file)) = memory().get(path)
            && *known == stamp
        {
            return Some(Arc::clone(file));
        }
        let file = Arc::new(if stamp.2 > READ_MAX {
            // Known by its time stamps, and not by what it includes.
            let includes = Includes { unread: true, ..Includes::default() };
            (ContentHash::of(format!("{stamp:?}").as_bytes()), includes)
        } else {
            let mut bytes = Vec::new();
            // The size is that of a moment ago.
            fs::File::open(path).ok()?.take(READ_MAX).read_to_end(&mut bytes).ok()?;
            (ContentHash::of(&bytes), Includes::of(&String::from_utf8_lossy(&bytes)))
        });
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
        // Not the folder that it runs in either.
        let mut swept: HashSet<PathBuf> = OF_SYSTEM.into_iter().chain([""]).map(PathBuf::from).collect();
        let mut swept_files = Vec::new();
        while let Some((folder, includes)) = queue.pop() {
            found.complete &= !includes.unread;
            for (name, quoted) in &includes.names {
                let beside = quoted.then_some(&folder).into_iter();
                for folder in beside.chain(&search.folders) {
                    self.visit(folder.join(name), &mut found.files, &mut queue);
                }
            }
            if includes.computed {
                let folders = search.folders.iter().cloned().chain([folder]);
                let known = swept_files.len();
                folders.filter(|own| swept.insert(own.clone())).for_each(|own| sweep(&own, &mut swept_files));
                // A link to a folder is not followed.
                let has_links = swept_files[known..].iter().any(|file| file.is_dir());
                found.complete &= swept_files.len() <= SWEPT_MAX && !has_links;
                for file in &swept_files[known..] {
                    self.visit(file.clone(), &mut found.files, &mut queue);
                }
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
            queue.push((folder, file.1.clone()));
        }
        files.insert(path, file.map(|file| file.0.clone()));
    }
}

/// Where a C++ compiler looks without being asked; its version stands for what it brings itself.
const OF_SYSTEM: [&str; 2] = ["/usr/local/include", "/usr/include"];

/// These folders, and those of `/usr/include` that hold what is for one kind of machine: `x86_64-linux-gnu`.
pub fn of_system() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/usr/include").into_iter().flatten().flatten();
    let of_machine = entries.filter(|entry| entry.file_name().to_string_lossy().contains("-linux-"));
    OF_SYSTEM.map(PathBuf::from).into_iter().chain(of_machine.map(|entry| entry.path()))
}

impl Includes {
    fn of(text: &str) -> Includes {
        let mut includes = Includes::default();
        let text = &joined(text);
        let lines = SourceLines::likely(text);
        for file in lines.directives.iter().flat_map(|directive| named_files(text, directive)) {
            match file {
                NamedFile::Quoted(name) => includes.names.insert((name.to_string(), true)),
                NamedFile::Bracketed(name) => includes.names.insert((name.to_string(), false)),
                NamedFile::Computed => std::mem::replace(&mut includes.computed, true),
            };
        }
        includes
    }
}

/// With lines that a backslash joins as one, and the digraph of `#` as it.
fn joined(text: &str) -> String {
    text.replace("\\\r\n", "").replace("\\\n", "").replace("%:", "#")
}

/// Refuses files by absolute path or by a path that climbs, and lines that claim to be of another file than `own`
/// (`static_reject` with the cause `include`), so that a person reads why. What a source hides from this reading is out
/// of the compiler's reach.
pub fn check(text: &str, own: &str) -> Result<(), Box<Verdict>> {
    let text = &joined(text);
    let lines = SourceLines::likely(text);
    for directive in &lines.directives {
        let verb = if included(text, directive).is_some() { "includes" } else { "asks for" };
        let mut names = named_files(text, directive).into_iter().filter_map(|file| file.name());
        if let Some(name) = names.find(|name| is_foreign(name)) {
            return Err(refusal(&format!("{verb} `{name}`")));
        }
        let claims = directive.word == "line" || directive.word.starts_with(|c: char| c.is_ascii_digit());
        if let Some(claim) = claims.then(|| foreign_claim(&text[directive.range.clone()], own)).flatten() {
            return Err(refusal(&claim));
        }
    }
    Ok(())
}

/// What `#line 3 "k.cu"` says beside the number.
fn foreign_claim(line: &str, own: &str) -> Option<String> {
    // Rendering writes what a text in quotes cannot hold as `_`.
    let own: String =
        own.chars().map(|c| if c.is_control() || "\\\"".contains(c) { '_' } else { c }).collect();
    tokenize(line).iter().skip(2).find_map(|token| match (token.kind, token.text(line)) {
        (CudaTokenKind::Text, name) if name.trim_matches('"') == own => None,
        (CudaTokenKind::Text, name) => {
            Some(format!("claims that its lines are of `{}`", name.trim_matches('"')))
        }
        (CudaTokenKind::Word, name) => Some(format!("computes the lines that it claims, with `{name}`")),
        _ => None,
    })
}

/// What compilers and assemblers say before and after the name of a file that they cannot open.
const UNOPENED: [(&str, &str); 7] = [
    ("fatal error: ", ": Permission denied"),
    ("fatal error: ", ": No such file or directory"),
    ("fatal error: '", "' file not found"),
    ("cannot open file '", "'"),
    ("Error: file not found: ", ""),
    ("Error: can't open ", " for reading"),
    ("open source file \"", "\""),
];

/// The same for a source that made a compiler look for such a file.
pub fn unopened(log: &str, folders: &[PathBuf]) -> Option<Box<Verdict>> {
    let name = |line: &'_ str, (before, after): (&str, &str)| {
        let rest = line.split_once(before)?.1;
        let name = if after.is_empty() { rest } else { rest.split_once(after)?.0 };
        // A header of the user's that cannot be read is named with its folder.
        let is_listed = folders.iter().any(|folder| Path::new(name).starts_with(folder));
        (is_foreign(name) && (!is_listed || name.contains(".."))).then(|| name.to_string())
    };
    let name = log.lines().find_map(|line| UNOPENED.into_iter().find_map(|words| name(line, words)))?;
    Some(refusal(&format!("makes the compiler open `{name}`")))
}

fn refusal(what: &str) -> Box<Verdict> {
    let message = format!("the source {what}, which is not allowed");
    Box::new(Verdict::new(VerdictKind::StaticReject, message).with_cause("include"))
}

fn is_foreign(name: &str) -> bool {
    name.starts_with(['/', '~']) || name.contains('\\') || name.split('/').any(|part| part.trim() == "..")
}

/// All files below a folder, until there are too many. Links are not followed: they may lead in circles.
fn sweep(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(own) = folders.pop() {
        for entry in fs::read_dir(own).into_iter().flatten().flatten() {
            match entry.file_type() {
                _ if files.len() > SWEPT_MAX => return,
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(_) => files.push(entry.path()),
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder_of;

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
        let root = folder_of(&[
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
        let root = folder_of(&[("b/op.h", "1")]);
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
        let root = folder_of(&[("a/one.h", ""), ("a/deep/two.h", "")]);
        let expected = ["a/deep/two.h", "a/one.h"];
        assert_eq!(found(root.path(), "#define F <one.h>\n#include F\n", &["a"]), expected);
        assert_eq!(found(root.path(), "#include \"<{ name }>.h\"\n", &["a"]), expected);
    }

    #[test]
    fn files_by_absolute_and_climbing_paths_are_refused() {
        let told = include_str!("includes.cu").split("//// ").skip(1).map(|source| {
            let refused = check(source.split_once('\n').unwrap().1, "own.cu").err();
            let refused = refused.map_or("taken".into(), |own| format!("{}: {}", own.label(), own.message));
            format!("{}\n=> {refused}", source.trim_end())
        });
        insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n\n"));
    }

    #[test]
    fn a_file_that_a_compiler_could_not_open_is_named() {
        let told = include_str!("unopened.log").lines().map(|log| {
            // A file of the user's folders is nobody's secret.
            let named = unopened(&format!("In file included from k.cu:1:\n{log}\n"), &["/opt".into()]);
            format!("{log}\n=> {}", named.map_or("not refused".into(), |verdict| verdict.message))
        });
        insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn an_array_that_a_source_names_is_not_read() {
        let root = folder_of(&[]);
        let array = fs::File::create(root.path().join("weights.bin")).unwrap();
        array.set_len(1 << 40).unwrap();
        let (reader, search) = (FileReader::default(), search(root.path(), &[""]));
        let before = reader.scan("#include \"weights.bin\"", &search);
        assert!(!before.complete && before.existing().count() == 1, "{before:?}");
        array.set_len(1 << 41).unwrap();
        assert_ne!(reader.scan("#include \"weights.bin\"", &search), before, "a change is seen");
    }
}
