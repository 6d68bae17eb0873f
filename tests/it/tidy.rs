//! Our own rules as tests: openings, lines, plain English, nothing of one machine. The shape of
//! the workspace is tested in `structure.rs`, links and command lines of pages in `book`.
//!
//! A rule that nobody checks fades. The lists below name what does not keep to a rule yet; an entry that
//! is no longer needed fails its test too, so the lists can only shrink by themselves. That every `unsafe`
//! block has a `SAFETY:` comment and that nothing is left to do is clippy's part (`Cargo.toml`, `[lints]`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Outside `crates/evo-device/`, only what starts processes or calls a compiler's library is `unsafe`.
const UNSAFE_FILES: &[&str] = &[
    "crates/evo-compile/src/locate.rs",
    "crates/evo-compile/src/nvrtc.rs",
    "crates/evo-system/src/process/child.rs",
    "crates/evo-system/src/process/serve.rs",
    "crates/evo-system/src/process/spawn.rs",
];

/// Folders at the root of the system that mean the same on every machine, or on none.
/// Two are stores of packages.
const FOLDERS_OF_ANY_MACHINE: &[&str] =
    &["bin", "dev", "etc", "gnu", "nix", "nonexistent", "opt", "proc", "sys", "usr"];

/// Hosts that may be named; the number is any machine's own name for itself.
const HOSTS: &[&str] =
    &["127.0.0.1", "arxiv.org", "docs.nvidia.com", "github.com", "json-schema.org", "pypi.org", "www.w3.org"];

/// Words that nobody would say here: "is not a" replaces "is no", "expensive" replaces "dear", a health
/// check does not "sing".
const STRANGE_WORDS: &[&str] = &["dear", "dearer", "sing", "sings"];
const STRANGE_PHRASES: &[&str] = &["proves both words", "innocent of"];
/// "is no longer" and the like are natural; so is "there is no".
const AFTER_NO: &[&str] = &["better", "different", "faster", "longer", "more", "slower", "worse"];
/// Natural uses that the rule cannot tell from the others: the page, the word before, the phrase, the
/// word after.
const NATURAL_USES: &[&str] = &[];
struct File {
    /// From the root of the repository, with `/`.
    path: String,
    text: String,
}

impl File {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The lines that are not tests, with comments cut off.
    fn code(&self) -> impl Iterator<Item = &str> {
        let is_test = ["_tests.rs", "/tests.rs", "/fake.rs", "/conformance.rs"];
        let skipped = is_test.iter().any(|end| self.path.ends_with(end)) || self.path.contains("/tests/");
        let lines = self.text.lines().take_while(move |line| !skipped && *line != "#[cfg(test)]");
        lines.map(|line| line.split("//").next().unwrap_or(""))
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every text that is ours; journals and reports of runs are not.
fn files() -> Vec<File> {
    let folders = [
        ".ci",
        ".github",
        "benches",
        "crates",
        "docs",
        "examples",
        "search_spaces",
        "src",
        "templates",
        "tests",
    ];
    let mut paths: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    let top = ["CHANGELOG.md", "CONTRIBUTING.md", "Cargo.lock", "Cargo.toml", "README.md", "justfile"];
    paths.extend(top.iter().map(|name| root().join(name)).filter(|path| path.exists()));
    let mut files = Vec::new();
    while let Some(path) = paths.pop() {
        if path == root().join("docs/book") {
            // Built from the pages by docs/book.py.
        } else if path.is_dir() {
            paths.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if let Ok(text) = fs::read_to_string(&path) {
            let path = path.strip_prefix(root()).unwrap().to_str().unwrap().to_string();
            files.push(File { path, text });
        }
    }
    assert!(files.len() > 100, "the repository has {} files", files.len());
    files
}

fn rust_files() -> impl Iterator<Item = File> {
    files().into_iter().filter(File::is_rust)
}

/// What breaks a rule must be what the list names, no more and no less.
fn assert_listed(rule: &str, found: impl IntoIterator<Item = String>, listed: &[&str]) {
    let found: BTreeSet<String> = found.into_iter().collect();
    let listed: BTreeSet<String> = listed.iter().map(|name| name.to_string()).collect();
    let new: Vec<_> = found.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(new.is_empty(), "{rule}: {new:#?}");
    assert!(gone.is_empty(), "{rule} no more, take them off the list: {gone:#?}");
}

#[test]
fn files_say_why_they_exist() {
    let silent = rust_files().filter(|file| !file.text.starts_with("//! ")).map(|file| file.path);
    assert_listed("files that do not open with `//!`", silent, &[]);
}

/// The folder whose lines are counted together: a crate, or a folder at the root.
fn counted_as(path: &str) -> &str {
    let mut parts = path.split('/');
    match (parts.next(), parts.next()) {
        (Some("crates"), Some(name)) => name,
        (Some(folder), _) => folder,
        (None, _) => path,
    }
}

/// A ratchet: `tests/data/lines.txt` has the most lines of Rust that each folder may have. The numbers sink; a commit that
/// raises one says why.
#[test]
fn no_crate_grows_unnoticed() {
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for file in rust_files() {
        *lines.entry(counted_as(&file.path).to_string()).or_default() += file.text.lines().count();
    }
    let table = include_str!("../data/lines.txt").lines().filter_map(|line| line.split_once(' '));
    let most: BTreeMap<String, usize> =
        table.map(|(name, most)| (name.to_string(), most.trim().parse().unwrap())).collect();
    assert_eq!(lines.keys().collect::<Vec<_>>(), most.keys().collect::<Vec<_>>());
    let grown: Vec<String> = lines
        .iter()
        .filter(|(name, lines)| **lines > most[*name])
        .map(|(name, lines)| format!("{name} has {lines}, at most {}", most[name]))
        .collect();
    assert!(grown.is_empty(), "more lines of Rust than `tests/data/lines.txt` allows: {grown:#?}");
}

#[test]
fn unsafe_code_stays_at_its_places() {
    let is_unsafe =
        |file: &File| file.code().any(|line| line.split_whitespace().any(|word| word == "unsafe"));
    let own = rust_files().filter(|file| file.path.contains("src/"));
    let places = own.filter(|file| !file.path.starts_with("crates/evo-device/") && is_unsafe(file));
    assert_listed("files with unsafe code", places.map(|file| file.path), UNSAFE_FILES);
}

#[test]
fn nothing_is_left_to_do_or_skipped() {
    let words = [
        concat!("todo", "!("),
        concat!("dbg", "!("),
        concat!("unimplemented", "!("),
        concat!("#[ig", "nore"),
    ];
    let left = rust_files().filter(|file| words.iter().any(|word| file.text.contains(word)));
    assert_listed("files with unfinished or skipped code", left.map(|file| file.path), &[]);
}

/// `doctest` is off where a library has no examples; it starts a compiler otherwise.
#[test]
fn every_example_of_a_library_runs() {
    let is_off = |file: &File| {
        let folder = file.path.split_once("/src/").map_or("", |(folder, _)| folder);
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap_or_default();
        manifest.contains("doctest = false")
    };
    let is_fence = |line: &str| line.trim_start().starts_with("//") && line.contains("```");
    let own = rust_files().filter(|file| file.path.contains("src/"));
    let examples = own.filter(|file| file.text.lines().any(is_fence) && is_off(file));
    assert_listed("examples that never run", examples.map(|file| file.path), &[]);
}

#[test]
fn errors_without_a_type_stay_in_the_commands() {
    let own = rust_files().filter(|file| file.path.contains("src/") && !file.path.starts_with("src/cli/"));
    let users = own.filter(|file| file.text.contains("anyhow"));
    assert_listed("files of the library that use anyhow", users.map(|file| file.path), &[]);
}

fn known_at(name: &str) -> bool {
    root().join(name).exists() || root().join("src").join(name).exists()
}

/// Folders and sources in backticks, from the root of the repository or from `src/`.
#[test]
fn what_the_maps_name_exists() {
    for page in ["docs/ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let map = fs::read_to_string(root().join(page)).unwrap();
        let names: Vec<&str> =
            map.split('`').skip(1).step_by(2).filter(|name| !name.contains('\n')).collect();
        let paths = names.iter().filter(|name| name.ends_with('/') || name.ends_with(".rs"));
        let (known, gone): (Vec<&str>, Vec<&str>) = paths.partition(|name| known_at(name));
        // Where builds go may be named elsewhere (`CARGO_TARGET_DIR`).
        let gone = gone.iter().filter(|name| **name != "target/").map(|name| format!("{page}: {name}"));
        assert_listed("paths of the maps that lead nowhere", gone, &[]);
        assert!(known.len() > 15, "{page} names {known:?}");
    }
}

/// Tables and prose of the pages that people meet first fit a screen; a link may be longer.
#[test]
fn the_first_pages_fit_a_screen() {
    const COLUMNS: usize = 100;
    let mut wide = Vec::new();
    for page in ["CHANGELOG.md", "CONTRIBUTING.md", "README.md", "docs/ARCHITECTURE.md", "docs/README.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let over = text.lines().enumerate().filter(|(_, line)| line.chars().count() > COLUMNS);
        wide.extend(over.map(|(number, _)| format!("{page}:{}", number + 1)));
    }
    assert_listed("lines over 100 columns", wide, &[]);
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.lines().count() <= 150, "README.md has {} lines", readme.lines().count());
    // What a newcomer types first needs neither a GPU nor an installation.
    let commands: Vec<&str> = readme.lines().filter_map(|line| line.strip_prefix("$ ")).take(2).collect();
    assert_eq!(commands, ["cargo run --release -- sweep --gen 3", "cargo test"]);
}

/// The strange words of a text, each with its neighbors.
fn strange_words(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let at = |index: usize| words.get(index).copied().unwrap_or("");
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let before = index.checked_sub(1).map_or("", at);
        let negates = ["are", "is"].contains(word) && at(index + 1) == "no";
        if negates && before != "there" && !AFTER_NO.contains(&at(index + 2)) {
            found.push(format!("{before} {word} no {}", at(index + 2)));
        } else if STRANGE_WORDS.contains(word) {
            found.push(format!("{before} {word} {}", at(index + 1)));
        }
    }
    let joined = words.join(" ");
    found.extend(STRANGE_PHRASES.iter().filter(|phrase| joined.contains(**phrase)).map(|it| it.to_string()));
    found
}

/// Markdown below a folder, pages beside kept measurements included.
fn pages_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            pages_below(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "md") {
            found.push(entry);
        }
    }
}

/// Pages, space files and templates are in plain English, as far as a test can tell. Sources follow
/// when their texts have been rewritten.
/// What a person reads of a source: comments, and lines with a text in quotes.
fn comments_and_messages(source: &str) -> String {
    let is_read = |line: &&str| line.contains("//") || line.contains('"');
    source.lines().filter(is_read).collect::<Vec<_>>().join("\n")
}

#[test]
fn pages_and_comments_are_in_plain_english() {
    let check = |text: &str, expected: &[&str]| assert_eq!(strange_words(text), expected, "{text}");
    check("It is no\ntoy, and dear.", &["it is no toy", "and dear "]);
    check("There is no toy. It is no longer a toy. Nuclear is not dear-ish.", &["not dear ish"]);
    let mut pages = vec![root().join("fuzz/README.md")];
    pages_below(&root().join("evidence"), &mut pages);
    let pages = pages.into_iter().map(|path| File {
        path: path.strip_prefix(root()).unwrap().to_str().unwrap().to_string(),
        text: fs::read_to_string(path).unwrap(),
    });
    let is_ours = |file: &File| {
        let folders = ["search_spaces/", "templates/", "examples/"];
        file.path.ends_with(".md") || folders.iter().any(|folder| file.path.starts_with(folder))
    };
    let texts = files().into_iter().filter(is_ours).chain(pages);
    let mut found = Vec::new();
    for file in texts {
        found.extend(strange_words(&file.text).into_iter().map(|words| format!("{}: {words}", file.path)));
    }
    for file in rust_files().filter(|file| file.path != "tests/it/tidy.rs") {
        let words = strange_words(&comments_and_messages(&file.text)).into_iter();
        found.extend(words.map(|words| format!("{}: {words}", file.path)));
    }
    assert_listed("strange English", found, NATURAL_USES);
}

/// The first folder of each absolute path in a line.
fn root_folders(line: &str) -> impl Iterator<Item = &str> {
    let starts = line.match_indices('/').filter_map(|(at, _)| {
        let before = line[..at].chars().next_back().unwrap_or(' ');
        "\"'`(=, ".contains(before).then(|| &line[at + 1..])
    });
    starts.filter_map(|rest| {
        let (folder, below) = rest.split_once('/')?;
        let is_name = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic());
        let is_plain = folder.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
        (is_name(folder) && is_name(below) && is_plain).then_some(folder)
    })
}

#[test]
fn nothing_names_one_machine() {
    assert_eq!(root_folders("a = '/usr/lib', `/opt/x/y` b/c // d/e /f").collect::<Vec<_>>(), ["usr", "opt"]);
    let mut found = Vec::new();
    for file in files() {
        for (number, line) in file.text.lines().enumerate() {
            // `concat!(env!("CARGO_MANIFEST_DIR"), "/tests/…")` starts at the repository, not at the system.
            let folders = root_folders(line).filter(|name| !root().join(name).is_dir());
            let strange = folders.filter(|name| !FOLDERS_OF_ANY_MACHINE.contains(name));
            let hosts =
                line.split("://").skip(1).filter_map(|rest| rest.split(['/', '"', ')', ':', ' ']).next());
            let unknown = hosts.filter(|host| host.contains('.') && !HOSTS.contains(host));
            found.extend(strange.chain(unknown).map(|what| format!("{}:{}: {what}", file.path, number + 1)));
        }
    }
    assert_listed("paths or hosts of one machine", found, &[]);
}

#[test]
fn the_changelog_says_what_is_not_released() {
    let text = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let (_, unreleased) = text.split_once("\n## Unreleased\n").expect("an `Unreleased` section");
    let section = unreleased.split("\n## ").next().unwrap();
    assert!(section.contains("\n### Added\n") && section.contains("\n- "), "it is empty");
}
