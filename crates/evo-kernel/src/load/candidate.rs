//! Files that describe a candidate beside a space file: a configuration, and the geometry of a source's launches. Both
//! are JSON; their errors point at line and column as those of a space file do.
//!
//! A file of problems beyond those of a space: `[[problems]]` as a space file has them, over the same sizes. Another
//! form of grid would become the same list here.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use evo_space::diagnostic::Diagnostics;
use evo_space::document::{self, Data, Node, TableEntry, suggestion};
use evo_space::expr::Expr;
use evo_space::genome::Configuration;
use evo_space::space::Parameter;
use evo_space::text::quoted;
use evo_space::value::Value;

use super::fields::{Field, KnownNames, Scope, expression, extents, parameter_value, read_all};
use super::{LoadError, problems};
use crate::spec::{self, KernelSpec, ProblemSpec, SpaceFile};

/// The key under which files of evo's keep a configuration: rows of the leaderboard, records, `config.json`.
const CONFIGURATION: &str = "configuration";

/// The geometry of one entry's launches, as far as a file gives it.
#[derive(Clone, Debug)]
pub struct LaunchGeometry {
    pub entry: String,
    pub grid: Option<Vec<Expr>>,
    pub block: Option<Vec<Expr>>,
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
    let entries = spec::entries(&kernel.launches);
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    read(shown, text, names_of(file), json_object, |root| {
        root.keys(&entries)?;
        if root.node.entries().is_some_and(<[_]>::is_empty) {
            let hint = format!("add \"{}\": {{ \"grid\": […], \"block\": […] }}", entries.join("\" or \""));
            root.hinted("the file gives no geometry", hint);
        }
        let given = entries.iter().filter_map(|entry| Some((entry, root.node.get(entry)?)));
        Some(given.filter_map(|(entry, node)| geometry(root, node, entry)).collect())
    })
}

fn names_of(file: &SpaceFile) -> KnownNames {
    // It was read before, so it has no errors.
    let root = document::parse(&file.text, &mut Diagnostics::default());
    root.map(|root| KnownNames::of_file(&root)).unwrap_or_default()
}

fn geometry(root: &Field, node: &Node, entry: &str) -> Option<LaunchGeometry> {
    let field = root.at(node, format!("launch `{entry}`"));
    field.keys(&["grid", "block", "shared_bytes"])?;
    if node.entries().is_some_and(<[_]>::is_empty) {
        let hint = "give \"grid\", \"block\" or \"shared_bytes\"; what is left out stays as the space has it";
        field.hinted(format!("{field} gives no geometry"), hint);
    }
    read_all!(LaunchGeometry {
        entry: Some(entry.to_string()),
        grid: field.optional("grid", extents),
        block: field.optional("block", extents),
        shared_bytes: field.optional("shared_bytes", expression),
    })
}

/// Reads a configuration: an object of parameters and values, by itself or as the `configuration` of an object such as a
/// row of the leaderboard. What it leaves out takes its default. It may violate constraints.
pub fn configuration(shown: &str, text: &str, parameters: &[Parameter]) -> Result<Configuration, LoadError> {
    let names: Vec<&str> = parameters.iter().map(|own| &*own.name).collect();
    read(shown, text, KnownNames::default(), json_object, |root| {
        let inner = root.node.get(CONFIGURATION).filter(|_| !names.contains(&CONFIGURATION));
        let (node, what) = match inner {
            Some(node) => (node, "the configuration"),
            None => (root.node, "the file"),
        };
        let entries = root.at(node, what).entries("an object of parameters")?;
        let outer = root.node.entries().unwrap_or_default().iter().filter(|_| inner.is_some());
        for entry in outer.filter(|entry| names.contains(&entry.key.as_str())) {
            let message = format!("`{}` stands beside `{CONFIGURATION}`, not in it", entry.key);
            let hint = format!("move it into `{CONFIGURATION}`, or leave `{CONFIGURATION}` out");
            root.complain(&entry.key_span, message, Some(hint));
        }
        let mut chosen: Vec<Option<Value>> = vec![None; parameters.len()];
        for entry in entries {
            let Some(at) = names.iter().position(|name| *name == entry.key) else {
                let hint = suggestion(&entry.key, names.iter().copied(), || {
                    format!("parameters are {}", names.join(", "))
                });
                let message = format!("there is no parameter `{}`", entry.key);
                root.complain(&entry.key_span, message, Some(hint));
                continue;
            };
            chosen[at] = parameter_value(&root.at(&entry.value, ""), &parameters[at]);
        }
        let pair = |(parameter, value): (&Parameter, Option<Value>)| {
            (Arc::clone(&parameter.name), value.unwrap_or_else(|| parameter.default_value().clone()))
        };
        Some(Configuration::new(parameters.iter().zip(chosen).map(pair).collect()))
    })
}

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
    names: KnownNames,
    root: impl FnOnce(&str, &mut Diagnostics) -> Option<Node>,
    body: impl FnOnce(&Field) -> Option<T>,
) -> Result<T, LoadError> {
    let diagnostics = RefCell::default();
    let root = root(text, &mut diagnostics.borrow_mut());
    let scope = Scope::of_text(text, names);
    let found = root.and_then(|root| body(&Field::new(&root, "the file", &scope, &diagnostics)));
    let diagnostics = diagnostics.into_inner();
    found
        .filter(|_| diagnostics.is_empty())
        .ok_or_else(|| LoadError::invalid(PathBuf::from(shown), shown, text, &diagnostics))
}

/// Shapes of a grid. More would take a day.
const SHAPES_MAX: usize = 10_000;
/// Some hundred bytes a shape.
const GRID_MAX: u64 = 8 << 20;

pub fn read_grid_text(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(GRID_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > GRID_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 8 MiB"));
    }
    Ok(text)
}

/// The problems of a grid, for a space whose kernel takes its sizes. `shown` names the file in messages, which may have
/// these keys.
pub fn grid_problems(
    shown: &str,
    text: &str,
    space: &SpaceFile,
    keys: &[&str],
) -> Result<Vec<ProblemSpec>, LoadError> {
    read(shown, text, names_of(space), document::parse, |root| read_grid(root, space, keys))
}

fn read_grid(root: &Field, space: &SpaceFile, keys: &[&str]) -> Option<Vec<ProblemSpec>> {
    let grid = root.at(root.node, "the grid");
    grid.keys(keys)?;
    let field = grid.required("problems", "add [[problems]] with name and sizes")?;
    if field.node.items().is_none() {
        return problems::read(&field);
    }
    let items: Vec<Node> =
        field.node.items().unwrap_or_default().iter().flat_map(expanded).take(SHAPES_MAX + 1).collect();
    let node = Node { span: field.node.span.clone(), data: Data::List(items.clone()) };
    let field = field.at(&node, "`problems`");
    if items.len() > SHAPES_MAX {
        return field
            .wrong(format!("the grid has more than {SHAPES_MAX} shapes, and at most so many are judged"));
    }
    let found = problems::read(&field)?;
    let of_space = space.kernel.as_ref().map(|kernel| &kernel.problems[..]).unwrap_or_default();
    let known: BTreeSet<&String> = of_space.iter().flat_map(|problem| problem.sizes.keys()).collect();
    for (problem, item) in found.iter().zip(&items) {
        let sizes: BTreeSet<&String> = problem.sizes.keys().collect();
        if sizes != known {
            let message = format!("problem `{}` has the sizes {}", problem.name, quoted(&sizes));
            let hint = format!("the space takes {}", quoted(&known));
            field.complain(&item.get("sizes").unwrap_or(item).span, message, Some(hint));
        }
        if of_space.iter().any(|other| other.name == problem.name) {
            let message = format!("the space has a problem `{}` already", problem.name);
            let place = &item.get("name").unwrap_or(item).span;
            field.complain(place, message, Some("rename it here".into()));
        }
    }
    Some(found)
}

/// A table for each combination of the values that its sizes list: with `sizes = { B = [1, 4] }` the problem `a` is `a_B1`
/// and `a_B4`.
fn expanded(item: &Node) -> Vec<Node> {
    let mut found = vec![item.clone()];
    for TableEntry { key, value, .. } in item.get("sizes").and_then(Node::entries).unwrap_or_default() {
        let Some(values) = value.items().filter(|values| !values.is_empty()) else { continue };
        let all = found.iter().flat_map(|item| values.iter().map(|value| at_size(item.clone(), key, value)));
        found = all.take(SHAPES_MAX + 1).collect();
    }
    found
}

fn at_size(mut item: Node, key: &str, value: &Node) -> Node {
    let Data::Table(entries) = &mut item.data else { return item };
    for entry in entries {
        match (entry.key.as_str(), &mut entry.value.data) {
            ("name", Data::Text(name)) => match value.data {
                Data::Int(value) => name.push_str(&format!("_{key}{value}")),
                Data::Bool(value) => name.push_str(&format!("_{key}{}", u8::from(value))),
                _ => {}
            },
            ("sizes", Data::Table(sizes)) => {
                sizes.iter_mut().filter(|size| size.key == key).for_each(|size| size.value = value.clone());
            }
            _ => {}
        }
    }
    item
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
    fn check_grid(text: &str, expected: Result<&[&str], &str>) {
        let space = catalog::open("gemm").unwrap();
        match (grid_problems("g.toml", text, &space, &["problems"]), expected) {
            (Ok(found), Ok(names)) => {
                assert_eq!(found.iter().map(|own| own.name.as_str()).collect::<Vec<_>>(), names);
            }
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
        check_grid(&format!("{}{}", one("a"), one("b")), Ok(&["a", "b"]));
        let lists = one("a").replace("K = 64", "K = [64, 96]").replace("M = 64", "M = [32, 64]");
        check_grid(&lists, Ok(&["a_K64_M32", "a_K64_M64", "a_K96_M32", "a_K96_M64"]));
        let long = (1..200).map(|at| at.to_string()).collect::<Vec<_>>().join(", ");
        check_grid(&lists.replace("64, 96", &long).replace("32, 64", &long), Err("at most"));
        check_grid("", Err("has no `problems`"));
        check_grid("problems = []", Err("is empty"));
        check_grid(&one(&own.name), Err("already"));
        check_grid("[[problems]]\nname = \"a\"\nsizes = { Q = 1 }", Err("the space takes"));
        check_grid(&format!("{}[check]\n", one("a")), Err("unknown key `check`"));
        let many: String = (0..=SHAPES_MAX).map(|at| one(&format!("p{at}"))).collect();
        check_grid(&many, Err("more than 10000 shapes"));
    }
}
