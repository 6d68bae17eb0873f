//! The shape of the workspace as tests: no cycle between modules at any level.
//!
//! Cargo refuses cycles between crates; inside a crate Rust allows them, so this file looks. It reads
//! sources as text: `use` trees and inline paths that begin with `crate`, `super`, `self` or a child
//! module are resolved to the file that defines the name, through re-exports. Files of tests take part
//! in the search for cycles between files; tests at the end of a file do not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module of a crate: a file.
struct Module {
    /// Names from the crate's root; empty for the root itself.
    path: Vec<String>,
    /// From the repository's root.
    file: String,
    /// Its code, without comments, tests and texts.
    code: String,
    /// Names it re-exports: name → path as written.
    exports: BTreeMap<String, Vec<String>>,
    /// Everything it takes from elsewhere, as written.
    uses: Vec<Vec<String>>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The source folders of the workspace's crates.
fn crates() -> Vec<PathBuf> {
    let mut folders = vec![root().join("src")];
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        folders.push(entry.unwrap().path().join("src"));
    }
    folders.sort();
    folders
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The code of a file: comments and the contents of string literals cut, and everything from the first
/// `#[cfg(test)]` on a `mod … {`.
fn code_of(text: &str) -> String {
    let end = ["#[cfg(test)]\nmod tests {", "#[cfg(test)]\npub(crate) mod example {"]
        .iter()
        .filter_map(|mark| text.find(mark))
        .min()
        .unwrap_or(text.len());
    let without_comments: Vec<&str> =
        text[..end].lines().map(|line| line.split("//").next().unwrap_or("")).collect();
    without_comments.join("\n")
}

/// Modules that a file declares for tests only.
fn test_modules(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    let lines: Vec<&str> = code.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if line.trim() != "#[cfg(test)]" {
            continue;
        }
        // Further attributes may stand between.
        let declared = lines[at + 1..].iter().find(|line| !line.trim().starts_with("#[")).unwrap_or(&"");
        let name = declared.trim().strip_suffix(';').and_then(|rest| rest.split("mod ").nth(1));
        names.extend(name.map(str::to_string));
    }
    names
}

/// The paths of a `use` tree, flat: `a::{b, c::d as e}` is `a::b` and `a::c::d`, each with its last name.
fn flatten(prefix: &[String], tree: &str, found: &mut Vec<(Vec<String>, String)>) {
    let tree = tree.trim();
    if tree.is_empty() {
        return;
    }
    if let Some(open) = tree.find('{') {
        let mut inside = prefix.to_vec();
        inside.extend(
            tree[..open].split("::").map(str::trim).filter(|name| !name.is_empty()).map(String::from),
        );
        let close = tree.rfind('}').unwrap_or(tree.len());
        let (mut depth, mut from) = (0, open + 1);
        for (at, letter) in tree[..close].char_indices().skip_while(|(at, _)| *at <= open) {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    flatten(&inside, &tree[from..at], found);
                    from = at + 1;
                }
                _ => (),
            }
        }
        flatten(&inside, &tree[from..close], found);
        return;
    }
    let (path, alias) = match tree.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim())),
        None => (tree, None),
    };
    let mut segments = prefix.to_vec();
    segments.extend(path.split("::").map(|name| name.trim().to_string()).filter(|name| !name.is_empty()));
    if segments.last().is_some_and(|last| last == "self") {
        segments.pop();
    }
    let name = alias.map(String::from).or(segments.last().cloned()).unwrap_or_default();
    found.push((segments, name));
}

/// Modules that a file declares.
fn declared_modules(code: &str) -> Vec<String> {
    let declared = code.lines().filter_map(|line| line.trim().strip_suffix(';')?.split_once("mod "));
    let plain = declared.filter(|(before, _)| before.is_empty() || before.starts_with("pub"));
    plain.map(|(_, name)| name.to_string()).collect()
}

/// Paths inside the code that begin with `crate`, `super` or a child module, outside `use` items.
fn inline_paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let heads = ["crate".to_string(), "super".to_string()].into_iter().chain(declared_modules(code));
    for head in heads.map(|head| head + "::") {
        for (at, _) in code.match_indices(&head) {
            let before = code[..at].chars().next_back().unwrap_or(' ');
            if before.is_alphanumeric() || before == '_' || before == ':' {
                continue;
            }
            let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            let path: String = code[at..].chars().take_while(|c| is_part(*c)).collect();
            let segments = path.split("::").filter(|name| !name.is_empty()).map(String::from).collect();
            found.push(segments);
        }
    }
    found
}

fn read_crate(folder: &Path) -> Vec<Module> {
    let mut files = Vec::new();
    rust_files(folder, &mut files);
    files.iter().map(|file| read_module(folder, file)).collect()
}

/// The modules that are not for tests only.
fn without_tests(mut modules: Vec<Module>) -> Vec<Module> {
    let mut tests: BTreeSet<Vec<String>> = BTreeSet::new();
    for module in &modules {
        for name in test_modules(&module.code) {
            tests.insert(module.path.iter().cloned().chain([name]).collect());
        }
    }
    modules.retain(|module| !tests.iter().any(|test| module.path.starts_with(test)));
    modules
}

fn read_module(folder: &Path, file: &Path) -> Module {
    let inside = file.strip_prefix(folder).unwrap().with_extension("");
    let mut path: Vec<String> = inside.iter().map(|part| part.to_str().unwrap().to_string()).collect();
    if path.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        path.pop();
    }
    let code = code_of(&fs::read_to_string(file).unwrap());
    let (mut exports, mut uses) = (BTreeMap::new(), Vec::new());
    let mut rest = code.as_str();
    let mut outside_of_uses = String::new();
    while let Some(at) = find_use(rest) {
        let end = rest[at..].find(';').map_or(rest.len(), |end| at + end);
        let item = &rest[at..end];
        let (visibility, tree) = item.split_once("use ").unwrap();
        let mut flat = Vec::new();
        flatten(&[], tree, &mut flat);
        for (segments, name) in flat {
            if visibility.starts_with("pub") {
                exports.insert(name, segments.clone());
            }
            uses.push(segments);
        }
        outside_of_uses.push_str(&rest[..at]);
        rest = &rest[end..];
    }
    outside_of_uses.push_str(rest);
    uses.extend(inline_paths(&outside_of_uses));
    let file = file.strip_prefix(root()).unwrap().to_str().unwrap().to_string();
    Module { path, file, code, exports, uses }
}

/// The next `use` item that begins a line, whatever its visibility.
fn find_use(code: &str) -> Option<usize> {
    let mut at = 0;
    for line in code.split_inclusive('\n') {
        let trimmed = line.trim_start();
        let bare = match trimmed.strip_prefix("pub(") {
            Some(rest) => rest.split_once(") ").map_or("", |(_, rest)| rest),
            None => trimmed.strip_prefix("pub ").unwrap_or(trimmed),
        };
        if bare.starts_with("use ") {
            return Some(at + line.len() - trimmed.len());
        }
        at += line.len();
    }
    None
}

/// Names from the crate's root to the number of the module.
type Index<'a> = BTreeMap<&'a [String], usize>;

/// The module that defines what a path names, seen from a module; `None` for other crates.
fn resolve(modules: &[Module], index: &Index<'_>, from: usize, path: &[String], depth: u32) -> Option<usize> {
    if depth > 8 {
        return None;
    }
    let mut at: Vec<String> = modules[from].path.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            at.clear();
            rest = &path[1..];
        }
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|name| name == "super") {
                at.pop();
                rest = &rest[1..];
            }
        }
        // A child module; every other name is an extern crate or something local.
        name => {
            let child: Vec<String> = at.iter().cloned().chain([name.to_string()]).collect();
            index.get(child.as_slice())?;
        }
    }
    while let Some(name) = rest.first() {
        let child: Vec<String> = at.iter().cloned().chain([name.clone()]).collect();
        if !index.contains_key(child.as_slice()) {
            break;
        }
        at = child;
        rest = &rest[1..];
    }
    let module = *index.get(at.as_slice())?;
    if let Some(export) = rest.first().and_then(|name| modules[module].exports.get(name))
        && let Some(target) = resolve(modules, index, module, export, depth + 1)
    {
        return Some(target);
    }
    Some(module)
}

/// Which module takes something from which.
fn edges(modules: &[Module]) -> BTreeSet<(usize, usize)> {
    let index: Index<'_> =
        modules.iter().enumerate().map(|(at, module)| (module.path.as_slice(), at)).collect();
    let mut edges = BTreeSet::new();
    for (from, module) in modules.iter().enumerate() {
        for path in &module.uses {
            // A module and those within it are one idea: what they share stands in the outer one.
            let is_within =
                |outer: &[String], inner: &[String]| !outer.is_empty() && inner.starts_with(outer);
            let is_one_idea = |to: usize| {
                let (one, other) = (&modules[from].path, &modules[to].path);
                is_within(one, other) || is_within(other, one)
            };
            let target = resolve(modules, &index, from, path, 0);
            edges.extend(target.filter(|to| !is_one_idea(*to)).map(|to| (from, to)));
        }
    }
    edges
}

/// The names of strongly connected parts with more than one node (Tarjan's lowlink, by plain reachability
/// here: there are a few hundred nodes).
fn cycles(edges: &BTreeSet<(String, String)>) -> Vec<Vec<String>> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in edges {
        next.entry(from).or_default().push(to);
    }
    let reach = |start: &str| {
        let (mut seen, mut stack) = (BTreeSet::new(), vec![start.to_string()]);
        while let Some(node) = stack.pop() {
            for to in next.get(node.as_str()).into_iter().flatten() {
                if seen.insert(to.to_string()) {
                    stack.push(to.to_string());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<String>> = next.keys().map(|node| (*node, reach(node))).collect();
    let mut groups: BTreeSet<Vec<String>> = BTreeSet::new();
    for (node, ahead) in &reached {
        let back = |other: &&String| reached.get(other.as_str()).is_some_and(|set| set.contains(*node));
        let group: BTreeSet<String> = ahead.iter().filter(back).cloned().collect();
        if group.len() > 1 {
            groups.insert(group.into_iter().collect());
        }
    }
    groups.into_iter().collect()
}

/// The edges between the children of each folder: a file with its folder of the same name is one child.
fn levels(modules: &[Module], edges: &BTreeSet<(usize, usize)>) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for (from, to) in edges {
        let (from, to) = (&modules[*from].path, &modules[*to].path);
        let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
        let child = |path: &[String]| match path.get(shared) {
            Some(name) => format!("{}::{name}", path[..shared].join("::")),
            None => format!("{}::(itself)", path.join("::")),
        };
        found.insert((child(from), child(to)));
    }
    found
}

#[test]
fn no_modules_need_each_other() {
    let mut found = Vec::new();
    for folder in crates() {
        // Tests of a module may use what stands above it.
        let modules = without_tests(read_crate(&folder));
        let edges = edges(&modules);
        let file = |at: usize| modules[at].file.clone();
        let between_files = edges.iter().map(|(from, to)| (file(*from), file(*to))).collect();
        found.extend(cycles(&between_files).into_iter().map(|files| format!("files: {}", files.join(", "))));
        let name = folder.strip_prefix(root()).unwrap().display();
        let between_levels = levels(&modules, &edges);
        let circles = cycles(&between_levels).into_iter();
        found.extend(circles.map(|parts| format!("modules of {name}: {}", parts.join(", "))));
        if std::env::var_os("EVO_EDGES").is_some() {
            for (from, to) in &edges {
                println!("{} -> {}", modules[*from].file, modules[*to].file);
            }
        }
    }
    assert!(found.is_empty(), "modules that need each other:\n{}", found.join("\n"));
}

#[test]
fn the_reader_sees_cycles_where_there_are() {
    let module = |path: &str, uses: &[&str]| Module {
        path: path.split("::").filter(|name| !name.is_empty()).map(String::from).collect(),
        file: format!("{path}.rs"),
        code: String::new(),
        exports: BTreeMap::from([("Moved".into(), vec!["a".into(), "x".into(), "Moved".into()])]),
        uses: uses.iter().map(|path| path.split("::").map(String::from).collect()).collect(),
    };
    let modules =
        [module("", &[]), module("a", &[]), module("a::x", &["crate::b::B"]), module("b", &["super::Moved"])];
    let edges = edges(&modules);
    assert_eq!(edges, BTreeSet::from([(2, 3), (3, 2)]));
    let level = levels(&modules, &edges);
    assert_eq!(cycles(&level), [vec!["::a".to_string(), "::b".to_string()]]);
    assert_eq!(inline_paths("mod b;\nfn f() { b::g(); ab::h(); }"), [vec!["b".to_string(), "g".to_string()]]);
    assert_eq!(test_modules("#[cfg(test)]\nmod tests;\npub mod a;\n"), ["tests"]);
    let mut flat = Vec::new();
    flatten(&[], "crate::a::{self, b::{C, D as E}, f}", &mut flat);
    let names: Vec<String> = flat.iter().map(|(path, name)| format!("{} {name}", path.join("::"))).collect();
    assert_eq!(names, ["crate::a a", "crate::a::b::C C", "crate::a::b::D E", "crate::a::f f"]);
    assert_eq!(code_of("use a; // use b\n#[cfg(test)]\nmod tests {\n use c;\n}\n"), "use a; ");
}
