//! The files that a C++ compiler really opened, whatever made it do so: the list that it writes when it succeeds
//! (`-MD`), and what it says while it goes (`-H`), which is there also when it fails.
//!
//! A file outside the include folders and the compiler's own is refused, and the compiler's messages with it, because
//! they may quote it.

use std::path::{Component, Path, PathBuf};

#[derive(Clone, Debug, Default)]
pub struct Roots(Vec<PathBuf>);

impl Roots {
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Roots {
        let mut roots: Vec<PathBuf> = Vec::new();
        for path in paths {
            // Compilers print a folder as it was given or with its links resolved.
            roots.extend(path.canonicalize().ok());
            roots.push(plain(&path));
        }
        // The root of the file system as an include folder would allow everything.
        roots.retain(|root| root.components().count() > 1);
        Roots(roots)
    }

    pub fn with(&self, paths: impl IntoIterator<Item = PathBuf>) -> Roots {
        if self.0.is_empty() {
            return Roots::default();
        }
        Roots(self.0.iter().cloned().chain(Roots::new(paths).0).collect())
    }

    /// Without any root nothing is known, and nothing refused.
    pub fn foreign<'f>(&self, files: impl IntoIterator<Item = &'f PathBuf>) -> Option<&'f PathBuf> {
        if self.0.is_empty() {
            return None;
        }
        files.into_iter().find(|file| {
            let file = plain(file);
            !self.0.iter().any(|root| file.starts_with(root))
        })
    }
}

fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()).components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

pub fn searched(log: &str) -> Vec<PathBuf> {
    let lines = log.lines().skip_while(|line| !line.contains("search starts here:"));
    let list = lines.take_while(|line| !line.starts_with("End of search list"));
    list.filter(|line| line.starts_with(' ')).map(|line| PathBuf::from(line.trim())).collect()
}

pub fn split(log: &str) -> (String, Vec<PathBuf>) {
    let (mut messages, mut opened) = (String::new(), Vec::new());
    let (mut in_list, mut after_precompiled) = (false, false);
    for line in log.lines() {
        // With a precompiled header the source itself is named on a line of its own.
        let is_source = std::mem::take(&mut after_precompiled) && Path::new(line.trim_start()).exists();
        after_precompiled = line.starts_with("! ");
        if line.starts_with("Multiple include guards may be useful for:") {
            in_list = true;
        } else if let Some(path) = opened_in(line) {
            opened.push(path);
        } else if !(is_source || in_list && Path::new(line).exists()) {
            in_list = false;
            messages.push_str(line);
            messages.push('\n');
        }
    }
    (messages, opened)
}

/// `. path`, `.. path` and so on: one dot for each file in the middle of which it is opened.
fn opened_in(line: &str) -> Option<PathBuf> {
    let (sign, path) = line.split_once(' ')?;
    let dots = !sign.is_empty() && sign.bytes().all(|byte| byte == b'.');
    (dots || sign == "!" || sign == "x").then(|| PathBuf::from(path))
}

/// The files that a dependency file (`-MD`) lists.
pub fn listed(text: &str) -> Vec<PathBuf> {
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    // The target is evo's own output, whose path has no colon followed by a blank.
    let Some((_, prerequisites)) = text.split_once(": ") else { return Vec::new() };
    // What follows the first rule would be phony targets (`-MP`), which evo does not ask for.
    words(prerequisites.lines().next().unwrap_or_default())
}

/// Words with make's escapes undone: `\ ` is a blank, `\#` a number sign, `$$` a dollar sign.
fn words(line: &str) -> Vec<PathBuf> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek().copied()) {
            ('\\', Some(next @ (' ' | '#' | '\\'))) => {
                word.push(next);
                letters.next();
            }
            ('$', Some('$')) => {
                word.push('$');
                letters.next();
            }
            (blank, _) if blank.is_whitespace() => {
                words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
            }
            _ => word.push(letter),
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words.into_iter().map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_outside_the_roots_are_foreign() {
        let roots = Roots::new(["/usr/include", "inc", "/"].map(PathBuf::from));
        let check = |file: &str, expected: bool| {
            assert_eq!(roots.foreign([&PathBuf::from(file)]).is_some(), expected, "{file}");
        };
        check("/usr/include/stdio.h", false);
        check("/usr/lib/gcc/../../include/c++/12/cmath", false);
        check("inc/a.h", false);
        check("./inc/a.h", false);
        check("inc/../secret.h", true);
        check("/usr/include/../../etc/passwd", true);
        check("/usr/includes/x", true);
        check("/etc/passwd", true);
    }

    #[test]
    fn what_the_compiler_says_of_files_is_split_from_its_messages() {
        let log = "! include/evo_cuda.h.gch/plain\n /etc/hostname\n. inc/a.h\n.. /usr/include/x.h\na.cu:1: error: no\n  1 | x . y\n\
                   Multiple include guards may be useful for:\n/etc/hostname\nld: error\n";
        let (messages, opened) = split(log);
        assert_eq!(
            opened,
            ["include/evo_cuda.h.gch/plain", "inc/a.h", "/usr/include/x.h"].map(PathBuf::from)
        );
        // A path that does not exist here would be kept as a message.
        let rest = messages.replace("/etc/hostname\n", "");
        assert_eq!(rest, "a.cu:1: error: no\n  1 | x . y\nld: error\n");
    }

    #[test]
    fn the_search_list_is_read() {
        let log = "ignoring x\n#include \"...\" search starts here:\n inc\n#include <...> search starts here:\n \
                   /usr/include/c++/12\n /usr/include\nEnd of search list.\n other\n";
        assert_eq!(searched(log), ["inc", "/usr/include/c++/12", "/usr/include"].map(PathBuf::from));
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(listed(text), expected.iter().map(PathBuf::from).collect::<Vec<_>>(), "{text}");
    }

    #[test]
    fn rules_are_read_with_their_escapes() {
        check(
            "unit.so: unit.cpp inc/a.h \\\n /usr/include/stdio.h\n",
            &["unit.cpp", "inc/a.h", "/usr/include/stdio.h"],
        );
        check("unit.so: my\\ folder/a.h cash$$.h c\\#.h", &["my folder/a.h", "cash$.h", "c#.h"]);
        check("", &[]);
        check("nonsense", &[]);
    }
}
