//! The shape of the workspace as tests: no cycle between modules at any level.
//!
//! Cargo refuses cycles between crates; inside a crate Rust allows them, so this file looks. It reads
//! sources as tokens: paths that begin with `crate`, `super`, `self` or a child module are resolved to the
//! file that defines the name, through re-exports. What is for tests only does not take part.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// A module of a crate: a file.
struct Module {
    /// Names from the crate's root; empty for the root itself.
    path: Vec<String>,
    /// From the repository's root.
    file: String,
    names: Names,
}

/// What a file takes from elsewhere and gives on.
#[derive(Default)]
struct Names {
    /// Names it re-exports: name → path as written.
    exports: BTreeMap<String, Vec<String>>,
    /// Every path of more than one word, as written.
    uses: Vec<Vec<String>>,
    /// What it declares for tests only.
    tests: Vec<String>,
}

/// Whether that is the `[cfg(test)]` of an attribute.
fn is_test(group: &Group) -> bool {
    group.delimiter() == Delimiter::Bracket && group.stream().to_string() == "cfg (test)"
}

impl Names {
    fn of(code: &str) -> Names {
        let mut names = Names::default();
        names.read(code.parse().unwrap(), &[], false);
        names
    }

    /// Every path in the code, those of a tree one by one: `a::{b, c::d as e}` is `a::b` and `a::c::d`, each
    /// with its last name.
    fn read(&mut self, code: TokenStream, prefix: &[String], mut is_export: bool) {
        let tokens: Vec<TokenTree> = code.into_iter().collect();
        let mut rest = tokens.as_slice();
        let mut is_public = false;
        while let [token, after @ ..] = rest {
            rest = after;
            match token {
                TokenTree::Group(group) if is_test(group) => {
                    let is_end =
                        |token: &TokenTree| matches!(token.to_string().as_bytes(), [b';' | b'{', ..]);
                    let item = &after[..=after.iter().position(is_end).unwrap_or(after.len() - 1)];
                    let declared = item.iter().skip_while(|token| token.to_string() != "mod").nth(1);
                    self.tests.extend(declared.map(TokenTree::to_string));
                    rest = &after[item.len()..];
                }
                TokenTree::Group(group) => self.read(group.stream(), &[], is_export),
                TokenTree::Ident(word) => {
                    is_export |= is_public && word == "use";
                    is_public = word == "pub" || (is_public && word == "use");
                    let mut path = [prefix, &[word.to_string()]].concat();
                    while let [TokenTree::Punct(one), TokenTree::Punct(two), next, more @ ..] = rest
                        && (one.as_char(), two.as_char()) == (':', ':')
                    {
                        match next {
                            TokenTree::Ident(word) => path.push(word.to_string()),
                            TokenTree::Group(tree) => {
                                self.read(tree.stream(), &path, is_export);
                                path.clear();
                            }
                            _ => break,
                        }
                        rest = more;
                    }
                    path.pop_if(|last| last == "self" && !prefix.is_empty());
                    let mut name = path.last().cloned();
                    if let [TokenTree::Ident(word), TokenTree::Ident(alias), more @ ..] = rest
                        && word == "as"
                    {
                        name = Some(alias.to_string());
                        rest = more;
                    }
                    if path.len() > 1 {
                        self.exports.extend(name.filter(|_| is_export).map(|name| (name, path.clone())));
                        self.uses.push(path);
                    }
                }
                TokenTree::Punct(mark) if mark.as_char() == ';' => (is_public, is_export) = (false, false),
                _ => (),
            }
        }
    }
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
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The modules of a crate that are not for tests only.
fn read_crate(folder: &Path) -> Vec<Module> {
    let mut files = Vec::new();
    rust_files(folder, &mut files);
    files.sort();
    let mut modules: Vec<Module> = files.iter().map(|file| read_module(folder, file)).collect();
    let inside =
        |module: &Module, name: &String| [module.path.as_slice(), std::slice::from_ref(name)].concat();
    let tests: BTreeSet<Vec<String>> = modules
        .iter()
        .flat_map(|module| module.names.tests.iter().map(|name| inside(module, name)))
        .collect();
    modules.retain(|module| !tests.iter().any(|test| module.path.starts_with(test)));
    modules
}

fn read_module(folder: &Path, file: &Path) -> Module {
    let inside = file.strip_prefix(folder).unwrap().with_extension("");
    let mut path: Vec<String> = inside.iter().map(|part| part.to_str().unwrap().to_string()).collect();
    path.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
    let names = Names::of(&fs::read_to_string(file).unwrap());
    Module { path, file: file.strip_prefix(root()).unwrap().to_str().unwrap().to_string(), names }
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
    if let Some(export) = rest.first().and_then(|name| modules[module].names.exports.get(name))
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
        for path in &module.names.uses {
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
        let modules = read_crate(&folder);
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
    let module = |path: &str, code: &str| Module {
        path: path.split("::").filter(|name| !name.is_empty()).map(String::from).collect(),
        file: format!("{path}.rs"),
        names: Names::of(code),
    };
    let modules = [
        module("", ""),
        module("a", "pub(crate) use a::x::Moved;"),
        module("a::x", "fn f() { crate::b::B }"),
        module("b", "use super::a::Moved; // use crate::a\n#[cfg(test)]\nmod tests;"),
    ];
    let edges = edges(&modules);
    assert_eq!(edges, BTreeSet::from([(2, 3), (3, 1)]));
    assert_eq!(cycles(&levels(&modules, &edges)), [vec!["::a".to_string(), "::b".to_string()]]);
    assert_eq!(modules[3].names.tests, ["tests"]);
    let names =
        Names::of("pub use crate::a::{self, b::{C, D as E}, f};\n#[cfg(test)]\npub mod c { use d::e; }");
    let exports: Vec<String> =
        names.exports.iter().map(|(name, path)| format!("{name} {}", path.join("::"))).collect();
    assert_eq!(exports, ["C crate::a::b::C", "E crate::a::b::D", "a crate::a", "f crate::a::f"]);
    assert_eq!(names.uses.len(), 4, "{:?}", names.uses);
    assert!(Names::of("/// `crate::a`\nconst A: &str = \"crate::a\";").uses.is_empty());
}
