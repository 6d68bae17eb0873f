//! Included files that hold host code, put in the place of the directives that include them.
//!
//! What one file names of another decides what the device half needs. All other files stay included, by the compiler.
//! Only files below the include folders are read, which the author of the space file names.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::lines::{DirectiveLine, NamedFile, SourceLines, included, words_of};

/// Files that are put in place at most, each time they are included, and how deep; beyond, nothing is.
const FILES_MAX: usize = 64;
const DEPTH_MAX: usize = 16;
/// A longer file holds data.
const BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Default, PartialEq)]
pub struct MergedSource {
    /// Lines on which another file begins or goes on are empty here, so that rules for sources can be applied to it.
    pub text: String,
    changes: Vec<FileChange>,
}

#[derive(Clone, Debug, PartialEq)]
struct FileChange {
    at: usize,
    file: String,
    line: usize,
}

/// `None` where no included file holds host code, as `has_host_code` tells.
pub fn merge(
    text: &str,
    own: &str,
    folders: &[PathBuf],
    has_host_code: &dyn Fn(&str) -> bool,
) -> Option<MergedSource> {
    let mut merger = Merger::new(folders, has_host_code);
    merger.put(text, &own.replace(['\\', '"', '\n'], "_"), None, 0)?;
    Some(merger.merged).filter(|merged| !merged.changes.is_empty())
}

impl MergedSource {
    pub fn marked(&self, text: &str) -> String {
        let mut changes = self.changes.iter().peekable();
        let mut out = String::with_capacity(text.len() + 64 * self.changes.len());
        for (number, line) in text.split_inclusive('\n').enumerate() {
            match changes.next_if(|own| own.at == number) {
                Some(own) => out.push_str(&format!("#line {} \"{}\"\n", own.line, own.file)),
                None => out.push_str(line),
            }
        }
        out
    }

    /// Where a line of the whole, from 1, stands in its file.
    pub fn place(&self, line: usize) -> String {
        match self.changes.iter().rev().find(|own| own.at + 1 < line) {
            Some(own) => format!("{}:{}", own.file, own.line + line - own.at - 2),
            None => format!("line {line}"),
        }
    }
}

struct Merger<'a> {
    folders: Vec<PathBuf>,
    has_host_code: &'a dyn Fn(&str) -> bool,
    files: usize,
    merged: MergedSource,
    headers: HashMap<PathBuf, Option<Rc<Header>>>,
    /// Of files that were asked: headers of a library are reached in thousands of ways.
    leads: HashMap<PathBuf, bool>,
}

struct Header {
    text: String,
    has_host_code: bool,
    includes: Vec<PathBuf>,
}

impl<'a> Merger<'a> {
    fn new(folders: &[PathBuf], has_host_code: &'a dyn Fn(&str) -> bool) -> Merger<'a> {
        let folders = folders.iter().filter_map(|folder| folder.canonicalize().ok()).collect();
        let (merged, headers, leads) = Default::default();
        Merger { folders, has_host_code, files: 0, merged, headers, leads }
    }

    /// `None` if there is too much of the text.
    fn put(&mut self, text: &str, name: &str, folder: Option<&Path>, depth: usize) -> Option<()> {
        // What cannot be read is left to the compiler.
        let lines = SourceLines::read(text);
        let mut done = 0;
        for directive in lines.iter().flat_map(|lines| &lines.directives).filter(is_include) {
            let Some(file) = included(text, directive) else { continue };
            let Some((path, only_here)) = self.find(&file, folder) else { continue };
            let Some(header) = self.header(&path) else { continue };
            if !only_here && !self.leads_to_host_code(&path) {
                continue;
            }
            self.files += 1;
            if self.files > FILES_MAX || depth >= DEPTH_MAX {
                return None;
            }
            self.merged.text.push_str(&text[done..directive.range.start]);
            self.put_file(&path, &header.text, file.name().unwrap_or_default(), depth + 1)?;
            // Behind the directive's own line.
            let end = directive.range.end;
            done = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
            self.change(name, text[..end].matches('\n').count() + 2);
        }
        self.merged.text.push_str(&text[done..]);
        Some(())
    }

    fn put_file(&mut self, path: &Path, text: &str, name: &str, depth: usize) -> Option<()> {
        let mut unmarked = text.to_string();
        let lines = SourceLines::read(text);
        for directive in lines.iter().flat_map(|lines| &lines.directives).filter(|own| own.word == "pragma") {
            if words_of(text, directive) == ["pragma", "once"] {
                unmarked.replace_range(directive.range.clone(), &" ".repeat(directive.range.len()));
            }
        }
        // In one source with others the pragma has no meaning; a macro of the file's own name does what it does.
        let is_read_once = unmarked != text;
        if is_read_once {
            let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
            let letters: String = path.display().to_string().chars().map(letter).collect();
            self.begin_line();
            let guard = format!("#ifndef EVO_ONCE_{letters}\n#define EVO_ONCE_{letters}\n");
            self.merged.text.push_str(&guard);
        }
        self.change(name, 1);
        self.put(&unmarked, name, path.parent(), depth)?;
        if is_read_once {
            self.begin_line();
            self.merged.text.push_str("#endif\n");
        }
        Some(())
    }

    /// Whether it is, or includes in the end, a file with host code.
    fn leads_to_host_code(&mut self, path: &Path) -> bool {
        if let Some(leads) = self.leads.get(path) {
            return *leads;
        }
        let mut open = vec![path.to_path_buf()];
        let mut reached: HashSet<PathBuf> = open.iter().cloned().collect();
        let mut leads = false;
        while let Some(path) = open.pop().filter(|_| !leads) {
            let Some(header) = self.header(&path) else { continue };
            leads = header.has_host_code || self.leads.get(&path) == Some(&true);
            let known = self.leads.get(&path) == Some(&false);
            let more = header.includes.iter().filter(|own| !known && reached.insert(own.to_path_buf()));
            open.extend(more.cloned());
        }
        self.leads.insert(path.to_path_buf(), leads);
        leads
    }

    fn change(&mut self, file: &str, line: usize) {
        self.begin_line();
        let at = self.merged.text.matches('\n').count();
        self.merged.changes.push(FileChange { at, file: file.to_string(), line });
        self.merged.text.push('\n');
    }

    fn begin_line(&mut self) {
        let text = &mut self.merged.text;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
    }

    /// Where a file is, and whether the compiler would not find it from the place of another file.
    fn find(&self, file: &NamedFile<'_>, folder: Option<&Path>) -> Option<(PathBuf, bool)> {
        let name = file.name().filter(|name| !name.contains(['"', '\\']) && !name.is_empty())?;
        let quoted = matches!(file, NamedFile::Quoted(_));
        let beside = folder.filter(|_| quoted).map(|folder| folder.join(name));
        let in_folders = self.folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
        let beside = beside.filter(|path| path.is_file());
        // A name that climbs is allowed in a header, and in no source.
        let only_here = beside.is_some() && (in_folders.is_none() || name.contains(".."));
        let path = beside.or(in_folders)?.canonicalize().ok()?;
        self.folders.iter().any(|folder| path.starts_with(folder)).then_some((path, only_here))
    }

    fn header(&mut self, path: &Path) -> Option<Rc<Header>> {
        if let Some(known) = self.headers.get(path) {
            return known.clone();
        }
        let is_short = path.metadata().is_ok_and(|found| found.len() <= BYTES_MAX);
        let text = is_short.then(|| std::fs::read_to_string(path).ok()).flatten();
        let header = text.map(|text| {
            let has_host_code = (self.has_host_code)(&text);
            let lines = SourceLines::read(&text);
            let directives = lines.iter().flat_map(|lines| &lines.directives).filter(is_include);
            let files = directives.filter_map(|own| included(&text, own));
            let includes = files.filter_map(|file| Some(self.find(&file, path.parent())?.0)).collect();
            Rc::new(Header { has_host_code, includes, text })
        });
        self.headers.insert(path.to_path_buf(), header.clone());
        header
    }
}

/// The other words that name a file mean something else than its text in this place.
fn is_include(directive: &&DirectiveLine) -> bool {
    directive.word == "include"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder_of;

    fn merged(text: &str, files: &[(&str, &str)]) -> Option<MergedSource> {
        let folder = folder_of(files);
        merge(text, "k.cu", &[folder.path().to_path_buf()], &|text| text.contains("HOST"))
    }

    #[test]
    fn only_files_that_lead_to_host_code_are_put_in_place() {
        let files =
            [("plain.h", "int plain;\n"), ("outer.h", "#include \"host.h\"\n"), ("host.h", "HOST\nint b;")];
        assert_eq!(merged("#include \"plain.h\"\n", &files), None);
        assert_eq!(merged("#include <absent.h>\n", &files), None);
        let own = merged("first\n#include \"outer.h\" // why\nlast\n#include \"plain.h\"\n", &files).unwrap();
        let lines: Vec<&str> = own.text.lines().collect();
        assert_eq!(lines, ["first", "", "", "HOST", "int b;", "", "", "last", "#include \"plain.h\""]);
        let marked = own.marked(&own.text);
        let expected = "first\n#line 1 \"outer.h\"\n#line 1 \"host.h\"\nHOST\nint b;\n#line 2 \"outer.h\"\n\
                        #line 3 \"k.cu\"\nlast\n#include \"plain.h\"\n";
        assert_eq!(marked, expected);
        let places = [1, 4, 5, 8].map(|line| own.place(line));
        assert_eq!(places, ["line 1", "host.h:1", "host.h:2", "k.cu:3"]);
    }

    /// Without what is known, the last of these files would be looked at 2^15 times.
    #[test]
    fn a_file_that_is_reached_in_many_ways_is_looked_at_few_times() {
        let name = |at: usize| format!("{at}.h");
        let twice = |at: usize| format!("#include \"{0}.h\"\n#include \"{0}.h\"\n", at + 1);
        let mut files: Vec<(String, String)> = (0..15).map(|at| (name(at), twice(at))).collect();
        let calls = std::cell::Cell::new(0);
        for (last, expected) in [("plain\n", false), ("HOST\n", true)] {
            files.truncate(15);
            files.push((name(15), last.to_string()));
            let all: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
            let folder = folder_of(&all);
            calls.set(0);
            let has_host_code = |text: &str| {
                calls.set(calls.get() + 1);
                text.contains("HOST")
            };
            let mut merger = Merger::new(&[folder.path().to_path_buf()], &has_host_code);
            let (first, _) = merger.find(&NamedFile::Quoted("0.h"), None).unwrap();
            assert_eq!(merger.leads_to_host_code(&first), expected, "{last}");
            assert!(calls.get() <= 16, "{}", calls.get());
        }
    }

    #[test]
    fn a_file_that_is_read_once_is_guarded() {
        let own = merged("#include \"a.h\"\n#include \"a.h\"\n", &[("a.h", "#pragma once\nHOST\n")]).unwrap();
        assert_eq!(own.text.matches("#ifndef EVO_ONCE_").count(), 2);
        assert_eq!(own.text.matches("#endif").count(), 2);
        assert!(!own.text.contains("#pragma"), "{}", own.text);
    }

    #[test]
    fn a_file_beside_one_that_moves_moves_too() {
        let files = [
            ("sub/host.h", "#include \"near.h\"\n#include \"../far.h\"\nHOST\n"),
            ("sub/near.h", "near\n"),
            ("far.h", "far\n"),
        ];
        let own = merged("#include \"sub/host.h\"\n", &files).unwrap();
        assert!(
            own.text.contains("near\n") && own.text.contains("far\n") && !own.text.contains("#include"),
            "{}",
            own.text
        );
    }

    #[test]
    fn what_never_ends_or_lies_elsewhere_is_left_to_the_compiler() {
        assert_eq!(merged("#include \"a.h\"\n", &[("a.h", "HOST\n#include \"a.h\"\n")]), None);
        let (inside, outside) = (folder_of(&[]), folder_of(&[("a.h", "HOST\n")]));
        std::os::unix::fs::symlink(outside.path().join("a.h"), inside.path().join("a.h")).unwrap();
        let folders = [inside.path().to_path_buf()];
        assert_eq!(merge("#include \"a.h\"\n", "k.cu", &folders, &|_| true), None);
    }
}
