//! Files that describe a candidate beside a space file: a configuration, and the geometry of a source's launches. Both
//! are JSON; their errors point at line and column as those of a space file do.
//!
//! A file of problems beyond those of a space: `[[problems]]` as a space file has them, over the same sizes. Another
//! form of grid would become the same list here.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use evo_space::diagnostic::Diagnostics;
use evo_space::document::{self, Data, Node};
use evo_space::expr::Expr;
use evo_space::genome::Configuration;
use evo_space::space::Parameter;
use evo_space::value::Value;

use super::fields::{KnownNames, Reader, suggestion};
use super::{LoadError, problems};
use crate::apart::Renderer;
use crate::spec::{KernelSpec, ProblemSpec, SpaceFile};

/// The key under which files of evo's keep a configuration: rows of the leaderboard, records, `config.json`.
const CONFIGURATION: &str = "configuration";

/// The geometry of one entry's launches, as far as a file gives it.
#[derive(Clone, Debug)]
pub struct LaunchGeometry {
    pub entry: String,
    /// Blocks in x, y, z.
    pub grid: Option<Vec<Expr>>,
    /// Threads in x, y, z.
    pub block: Option<Vec<Expr>>,
    /// Dynamic shared memory, bytes.
    pub shared_bytes: Option<Expr>,
}

/// Reads `{"ENTRY": {"grid": […], "block": […], "shared_bytes": …}}`: expressions over sizes and parameters, for entries
/// that the kernel has. `shown` names the file in messages.
pub fn launch_geometry(
    shown: &str,
    text: &str,
    file: &SpaceFile,
    kernel: &KernelSpec,
) -> Result<Vec<LaunchGeometry>, LoadError> {
    let names = names_of(file);
    let mut entries: Vec<&str> = Vec::new();
    for launch in &kernel.launches {
        if !entries.contains(&launch.entry.as_str()) {
            entries.push(&launch.entry);
        }
    }
    read(shown, text, json_object, |reader, root| {
        let fields = reader.fields(root, "the file", &entries)?;
        if root.entries().is_some_and(<[_]>::is_empty) {
            let hint = format!("add \"{}\": {{ \"grid\": […], \"block\": […] }}", entries.join("\" or \""));
            reader.hinted(&root.span, "the file gives no geometry", Some(hint));
        }
        let mut found = Vec::new();
        for entry in &entries {
            let Some(node) = fields.get(entry) else { continue };
            found.extend(geometry(reader, node, entry, &names));
        }
        Some(found)
    })
}

fn names_of(file: &SpaceFile) -> KnownNames {
    // It was read before, so it has no errors.
    let root = document::parse(&file.text, &mut Diagnostics::default());
    root.map(|root| KnownNames::of_file(&root)).unwrap_or_default()
}

fn geometry(reader: &mut Reader, node: &Node, entry: &str, names: &KnownNames) -> Option<LaunchGeometry> {
    let fields = reader.fields(node, &format!("launch `{entry}`"), &["grid", "block", "shared_bytes"])?;
    let extents = |reader: &mut Reader, key: &str| {
        reader.optional(&fields, key, |reader, node, what| reader.extents(node, what, names))
    };
    if node.entries().is_some_and(<[_]>::is_empty) {
        let hint = "give \"grid\", \"block\" or \"shared_bytes\"; what is left out stays as the space has it";
        reader.hinted(&node.span, format!("launch `{entry}` gives no geometry"), Some(hint.into()));
    }
    let (grid, block) = (extents(reader, "grid"), extents(reader, "block"));
    let shared_bytes =
        reader.optional(&fields, "shared_bytes", |reader, node, what| reader.expression(node, what, names));
    Some(LaunchGeometry { entry: entry.to_string(), grid: grid?, block: block?, shared_bytes: shared_bytes? })
}

/// Reads a configuration: an object of parameters and values, by itself or as the `configuration` of an object such as a
/// row of the leaderboard. What it leaves out takes its default. It may violate constraints.
pub fn configuration(shown: &str, text: &str, parameters: &[Parameter]) -> Result<Configuration, LoadError> {
    let names: Vec<&str> = parameters.iter().map(|own| &*own.name).collect();
    read(shown, text, json_object, |reader, root| {
        let inner = root.get(CONFIGURATION).filter(|_| !names.contains(&CONFIGURATION));
        let (node, what) = match inner {
            Some(node) => (node, "the configuration"),
            None => (root, "the file"),
        };
        let Data::Table(entries) = &node.data else {
            let message = format!("{what} is {}, expected an object of parameters", node.kind());
            reader.error(&node.span, message);
            return None;
        };
        let outer = root.entries().unwrap_or_default().iter().filter(|_| inner.is_some());
        for entry in outer.filter(|entry| names.contains(&entry.key.as_str())) {
            let message = format!("`{}` stands beside `{CONFIGURATION}`, not in it", entry.key);
            let hint = format!("move it into `{CONFIGURATION}`, or leave `{CONFIGURATION}` out");
            reader.hinted(&entry.key_span, message, Some(hint));
        }
        let mut chosen: Vec<Option<Value>> = vec![None; parameters.len()];
        for entry in entries {
            let Some(at) = names.iter().position(|name| *name == entry.key) else {
                let hint = suggestion(&entry.key, names.iter().copied(), || {
                    format!("parameters are {}", names.join(", "))
                });
                let message = format!("there is no parameter `{}`", entry.key);
                reader.hinted(&entry.key_span, message, Some(hint));
                continue;
            };
            chosen[at] = reader.parameter_value(&entry.value, &parameters[at]);
        }
        let pair = |(parameter, value): (&Parameter, Option<Value>)| {
            (Arc::clone(&parameter.name), value.unwrap_or_else(|| parameter.default_value().clone()))
        };
        Some(Configuration::new(parameters.iter().zip(chosen).map(pair).collect()))
    })
}

/// The root of a text that has to be a JSON object.
fn json_object(text: &str, diagnostics: &mut Diagnostics) -> Option<Node> {
    if text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
        return document::parse(text, diagnostics);
    }
    let at = text.len() - text.trim_start().len();
    diagnostics.error_with_hint(at..at, "the file is not a JSON object", "it begins with `{`");
    None
}

fn read<T>(
    shown: &str,
    text: &str,
    root: impl FnOnce(&str, &mut Diagnostics) -> Option<Node>,
    body: impl FnOnce(&mut Reader, &Node) -> Option<T>,
) -> Result<T, LoadError> {
    let mut diagnostics = Diagnostics::default();
    let found = root(text, &mut diagnostics).and_then(|root| {
        let renderer = Renderer::Here;
        let mut reader =
            Reader { text, folder: None, allow_outside: false, renderer, diagnostics: &mut diagnostics };
        body(&mut reader, &root)
    });
    match found {
        Some(found) if diagnostics.is_empty() => Ok(found),
        _ => {
            let (path, count) = (PathBuf::from(shown), diagnostics.list().len());
            let (rendered, first) = (diagnostics.render(shown, text), diagnostics.first_place(text));
            Err(LoadError::Invalid { path, count, rendered, first })
        }
    }
}

/// Shapes of a grid. More would take a day.
const SHAPES_MAX: usize = 10_000;
/// Some hundred bytes a shape.
const GRID_MAX: u64 = 8 << 20;

/// The text of a grid's file.
pub fn read_grid_text(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(GRID_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > GRID_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 8 MiB"));
    }
    Ok(text)
}

/// The problems of a grid, for a space whose kernel takes its sizes. `shown` names the file in messages.
pub fn grid_problems(shown: &str, text: &str, space: &SpaceFile) -> Result<Vec<ProblemSpec>, LoadError> {
    let names = names_of(space);
    read(shown, text, document::parse, |reader, root| read_grid(reader, root, &names, space))
}

fn read_grid(
    reader: &mut Reader,
    root: &Node,
    names: &KnownNames,
    space: &SpaceFile,
) -> Option<Vec<ProblemSpec>> {
    let fields = reader.fields(root, "the grid", &["problems"])?;
    let node = reader.required(&fields, "problems", "add [[problems]] with name and sizes")?;
    if let Data::List(items) = &node.data
        && items.len() > SHAPES_MAX
    {
        let message = format!("the grid has {} shapes, and at most {SHAPES_MAX} are judged", items.len());
        reader.error(&node.span, message);
        return None;
    }
    let found = problems::read(reader, node, names)?;
    let own = space.kernel.as_ref().map(|kernel| &kernel.problems[..]).unwrap_or_default();
    let known: BTreeSet<&String> = own.iter().flat_map(|problem| problem.sizes.keys()).collect();
    let known_names: BTreeSet<&str> = own.iter().map(|problem| problem.name.as_str()).collect();
    let items = reader.list(node, "`problems`", "tables")?;
    let mut sound = true;
    for (problem, item) in found.iter().zip(items) {
        let sizes: BTreeSet<&String> = problem.sizes.keys().collect();
        let span = &item.get("sizes").unwrap_or(item).span;
        if sizes != known {
            let list = |names: &BTreeSet<&String>| {
                names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            };
            let message = format!("problem `{}` has the sizes {}", problem.name, list(&sizes));
            reader.hinted(span, message, Some(format!("the space takes {}", list(&known))));
            sound = false;
        }
        if known_names.contains(problem.name.as_str()) {
            let message = format!("the space has a problem `{}` already", problem.name);
            reader.hinted(&item.get("name").unwrap_or(item).span, message, Some("rename it here".into()));
            sound = false;
        }
    }
    sound.then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    fn file() -> SpaceFile {
        catalog::open("gemm").unwrap()
    }

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &[&str]>) {
        let file = file();
        match (configuration("c.json", text, file.space.parameters()), expected) {
            (Ok(own), Ok(words)) => assert!(own.to_string().contains(words), "{own}"),
            (Err(error), Err(parts)) => {
                let shown = error.to_string();
                assert!(shown.lines().count() < 25, "{shown}");
                for part in parts {
                    assert!(shown.contains(part), "no `{part}` in {shown}");
                }
            }
            (own, _) => panic!("{text}: {own:?}"),
        }
    }

    #[test]
    fn configurations_are_read_alone_and_from_rows() {
        let file = file();
        let parameter = &file.space.parameters()[0];
        let (name, value) = (&parameter.name, &parameter.values[0]);
        check(&format!("{{\"{name}\": {value}}}"), Ok(&format!("{name}={value}")));
        let row = format!("{{\"rank\": 1, \"configuration\": {{\"{name}\": {value}.0}}, \"number\": 7}}");
        check(&row, Ok(&format!("{name}={value}")));
        check("{}", Ok(""));
    }

    #[test]
    fn mistakes_have_places() {
        let file = file();
        let name = file.space.parameters()[0].name.to_string();
        check(
            &format!("{{\n  \"{name}\": 33333 }}"),
            Err(&["c.json:2:", "33333 is not a value of", "^^^^^"]),
        );
        check(&format!("{{\"{name}\": \"64\"}}"), Err(&["the text `64` is not a value"]));
        check(&format!("{{\"{name}\": null}}"), Err(&["is null", "allowed are"]));
        check(&format!("{{\"{name}\": [1]}}"), Err(&["is a list"]));
        check(&format!("{{\"{name}X\": 64}}"), Err(&["there is no parameter", "did you mean"]));
        check("{\"configuration\": 3}", Err(&["the configuration is an integer"]));
        let outer = format!("{{\"configuration\": {{}}, \"rank\": 1, \"{name}\": 64}}");
        check(&outer, Err(&["stands beside `configuration`", "move it into"]));
        check("[1]", Err(&["the file is not a JSON object"]));
        check("", Err(&["the file is not a JSON object"]));
        check("{\"A\": }", Err(&["c.json:1:7"]));
    }

    #[test]
    fn geometry_reads_sizes_and_parameters() {
        let file = file();
        let kernel = file.kernel.as_ref().unwrap();
        let entry = kernel.launches[0].entry.clone();
        let read = |text: &str| launch_geometry("l.json", text, &file, kernel);
        let text = format!("{{\"{entry}\": {{\"grid\": [\"ceil_div(M, 64)\", 2], \"shared_bytes\": 0}}}}");
        let own = read(&text).unwrap();
        assert_eq!((own[0].grid.as_ref().map(Vec::len), own[0].block.is_none()), (Some(2), true));
        let shown = |text: &str| read(text).unwrap_err().to_string();
        assert!(shown("{\"gem\": {}}").contains("unknown key `gem`"));
        let text = format!("{{\"{entry}\": {{\"grd\": 1}}}}");
        assert!(shown(&text).contains("did you mean `grid`?"), "{}", shown(&text));
        let text = format!("{{\"{entry}\": {{\"grid\": \"ceil_div(M, 64\"}}}}");
        assert!(shown(&text).contains("l.json:1:"), "{}", shown(&text));
        let text = format!("{{\"{entry}\": {{\"block\": \"QQ\"}}}}");
        assert!(shown(&text).contains("unknown name `QQ`"), "{}", shown(&text));
        assert!(shown("{}").contains("the file gives no geometry"));
        assert!(shown(&format!("{{\"{entry}\": {{}}}}")).contains("gives no geometry"));
    }

    #[track_caller]
    fn check_grid(text: &str, expected: Result<usize, &str>) {
        let space = catalog::open("gemm").unwrap();
        match (grid_problems("g.toml", text, &space), expected) {
            (Ok(found), Ok(count)) => assert_eq!(found.len(), count),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "no `{part}` in {error}"),
            (found, expected) => panic!("{found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn a_grid_has_the_sizes_of_its_space() {
        let space = catalog::open("gemm").unwrap();
        let own = &space.kernel.as_ref().unwrap().problems[0];
        let sizes: Vec<String> = own.sizes.keys().map(|name| format!("{name} = 64")).collect();
        let one =
            |name: &str| format!("[[problems]]\nname = \"{name}\"\nsizes = {{ {} }}\n", sizes.join(", "));
        check_grid(&format!("{}{}", one("a"), one("b")), Ok(2));
        check_grid("", Err("has no `problems`"));
        check_grid("problems = []", Err("is empty"));
        check_grid(&one(&own.name), Err("already"));
        check_grid("[[problems]]\nname = \"a\"\nsizes = { Q = 1 }", Err("the space takes"));
        check_grid(&format!("{}[check]\n", one("a")), Err("unknown key `check`"));
        let many: String = (0..=SHAPES_MAX).map(|at| one(&format!("p{at}"))).collect();
        check_grid(&many, Err("at most 10000"));
    }
}
