//! What the tests of the book read of Markdown: fences, headings, links, and the pages themselves.

use std::fs;
use std::path::{Path, PathBuf};

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A page: its path from the root of the repository, and its text.
pub struct Page {
    pub path: String,
    pub text: String,
}

/// Every page of the repository; not those of a build.
pub fn pages() -> Vec<Page> {
    let mut folders = vec![root().to_path_buf()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_str().unwrap();
            // What git ignores is not ours: builds, the built book, runs of one's own.
            let is_built = name.starts_with('.') || path.join("CACHEDIR.TAG").exists() || name == "target";
            if path.is_dir() && !is_built && path != root().join("docs/book") {
                folders.push(path);
            } else if name.ends_with(".md") && path.is_file() {
                let text = fs::read_to_string(&path).unwrap();
                found.push(Page { path: from_root(&path), text });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    assert!(found.len() > 40, "the repository has {} pages", found.len());
    found
}

/// A path below the repository as the pages write it.
pub fn from_root(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_str().unwrap().to_string()
}

/// A path without `.` and `..`, whatever exists.
pub fn plain(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(found.pop()),
            std::path::Component::CurDir => {}
            other => found.push(other),
        }
    }
    found
}

/// A fenced block: the words behind its ticks, and its lines.
pub struct Fence<'a> {
    pub words: Vec<&'a str>,
    pub lines: Vec<&'a str>,
    /// Of its first line, from 1.
    pub number: usize,
}

impl Fence<'_> {
    /// What stands behind `NAME=`.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }
}

/// The fences of a text, and its other lines with their numbers.
pub fn split(text: &str) -> (Vec<Fence<'_>>, Vec<(usize, &str)>) {
    let (mut fences, mut prose) = (Vec::new(), Vec::new());
    let mut open: Option<(&str, Fence<'_>)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let mark = &line[..line.len() - line.trim_start_matches('`').len()];
        match &mut open {
            Some((end, _)) if line == *end => fences.extend(open.take().map(|(_, fence)| fence)),
            Some((_, fence)) => fence.lines.push(line),
            None if mark.len() >= 3 => {
                let words = line[mark.len()..].split_whitespace().collect();
                open = Some((mark, Fence { words, lines: Vec::new(), number }));
            }
            None => prose.push((number, line)),
        }
    }
    assert!(open.is_none(), "a fence does not end");
    (fences, prose)
}

/// The anchors of a text's headings, as GitHub and mdBook make them.
pub fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, line) in split(text).1 {
        let level = line.len() - line.trim_start_matches('#').len();
        let Some(heading) = line[level..].strip_prefix(' ').filter(|_| (1..=6).contains(&level)) else {
            continue;
        };
        let is_kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
        let anchor: String = unlinked(heading.trim())
            .to_lowercase()
            .chars()
            .filter(is_kept)
            .collect::<String>()
            .replace(' ', "-");
        let earlier = found
            .iter()
            .filter(|own| **own == anchor || own.strip_prefix(&format!("{anchor}-")).is_some_and(is_number))
            .count();
        found.push(if earlier == 0 { anchor } else { format!("{anchor}-{earlier}") });
    }
    found
}

fn is_number(text: &str) -> bool {
    text.parse::<u32>().is_ok()
}

/// A heading without the targets of its links.
fn unlinked(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    while let Some((before, link)) = rest.split_once("](") {
        text += &before.replace('[', "");
        rest = link.split_once(')').map_or("", |(_, behind)| behind);
    }
    text + rest
}

/// The pieces of the lines outside of fences: the number of the line, whether it is code, the text. Code between
/// backticks may go over the end of a line, and ends with its paragraph.
pub fn pieces(text: &str) -> Vec<(usize, bool, &str)> {
    let mut found = Vec::new();
    let mut is_code = false;
    let mut last = 0;
    for (number, line) in split(text).1 {
        // A fence, or an empty line, ends a paragraph.
        is_code &= number == last + 1 && !line.is_empty();
        for (at, piece) in line.split('`').enumerate() {
            is_code ^= at > 0;
            found.push((number, is_code, piece));
        }
        last = number;
    }
    found
}

/// The targets of links outside of fences and of code, with the numbers of their lines.
pub fn links(text: &str) -> Vec<(usize, String)> {
    let mut prose: Vec<(usize, String)> = Vec::new();
    for (number, _, piece) in pieces(text).into_iter().filter(|(_, is_code, _)| !is_code) {
        match prose.last_mut() {
            // The ticks of what was left out keep `[` and `](` apart.
            Some((same, line)) if *same == number => *line += &format!("`{piece}"),
            _ => prose.push((number, piece.to_string())),
        }
    }
    let mut found = Vec::new();
    for (number, line) in prose {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        found.extend(targets.map(|target| (number, target.to_string())));
        if let Some((_, target)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
            found.push((number, target.trim().to_string()));
        }
    }
    found
}

#[test]
fn markdown_is_read_as_it_is_meant() {
    let text = "# A `b` [c](d.md#e)\n```sh\n[no](x)\n# no\n```\n## Same\n## Same\n[one](two.md) `[a](b)` [r][r]\n[r]: three.md\n";
    assert_eq!(anchors(text), ["a-b-c", "same", "same-1"]);
    let expected = [(1, "d.md#e"), (8, "two.md"), (9, "three.md")];
    assert_eq!(links(text), expected.map(|(number, target)| (number, target.to_string())));
    assert_eq!(links("a `b\n](c) d` [e](f.md)\n`\n\n[g](h.md)\n").len(), 2);
    let (fences, _) = split("````text\n```a\n```\n````\n```diff file=a.cu\n-b\n```\n");
    assert_eq!(fences[0].lines, ["```a", "```"]);
    assert_eq!((fences[1].value("file"), fences[1].number), (Some("a.cu"), 5));
}
