//! Files that describe a candidate beside a space file: a configuration, and the geometry of a source's launches. Both
//! are JSON; their errors point at line and column as those of a space file do.
//!
//! A file of problems beyond those of a space: `[[problems]]` as a space file has them, over the same sizes. Another
//! form of grid would become the same list here.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
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
use super::{LoadError, problems, read_capped};
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
    read_capped(file, GRID_MAX)
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
    use evo_space::SearchSpace;

    use super::*;
    use crate::catalog;

    /// Each text with what is read from it, or all of what is wrong with it.
    fn shown<T: std::fmt::Debug>(texts: &[String], read: impl Fn(&str) -> Result<T, LoadError>) -> String {
        let one = |text: &String| match read(text) {
            Ok(found) => format!("{text}\n{found:?}\n\n"),
            Err(error) => format!("{text}\n{error}\n\n"),
        };
        texts.iter().map(one).collect()
    }

    #[test]
    fn configurations_are_read_alone_and_from_rows() {
        let space = SearchSpace::parse("[parameters]\nBLOCK_M = [64, 128]\nFAST = [true, false]\n").unwrap();
        let texts = [
            r#"{"BLOCK_M": 128}"#,
            r#"{"rank": 1, "configuration": {"BLOCK_M": 128.0}, "number": 7}"#,
            "{}",
            "{\n  \"BLOCK_M\": 33333 }",
            r#"{"BLOCK_M": "64"}"#,
            r#"{"BLOCK_M": null}"#,
            r#"{"BLOCK_M": [1]}"#,
            r#"{"BLOCK_MX": 64}"#,
            r#"{"configuration": 3}"#,
            r#"{"configuration": {}, "rank": 1, "BLOCK_M": 64}"#,
            "[1]",
            "",
            r#"{"A": }"#,
        ];
        let read = |text: &str| configuration("c.json", text, space.parameters()).map(|own| own.to_string());
        insta::assert_snapshot!(shown(&texts.map(String::from), read));
        // Of a space with many parameters and values a message lists no more than a screen holds.
        let gemm = catalog::open("gemm").unwrap();
        let parameters = gemm.space.parameters();
        let text = format!("{{\"{}\": 33333, \"XYZ\": 1}}", parameters[0].name);
        let error = configuration("c.json", &text, parameters).unwrap_err().to_string();
        assert!(error.lines().count() < 25 && error.len() < 4000, "{error}");
    }

    #[test]
    fn geometry_reads_sizes_and_parameters() {
        let file = catalog::open("gemm").unwrap();
        let kernel = file.kernel.as_ref().unwrap();
        let entry = &kernel.launches[0].entry;
        let inside = [
            r#""grid": ["ceil_div(M, 64)", 2], "shared_bytes": 0"#,
            r#""grd": 1"#,
            r#""grid": "ceil_div(M, 64""#,
            r#""block": "QQ""#,
            "",
        ];
        let texts = inside.map(|inside| format!("{{\"{entry}\": {{{inside}}}}}"));
        let texts = [&texts[..], &["{\"gem\": {}}".to_string(), "{}".to_string()]].concat();
        insta::assert_snapshot!(shown(&texts, |text| launch_geometry("l.json", text, &file, kernel)));
    }

    #[test]
    fn a_grid_has_the_sizes_of_its_space() {
        let space = catalog::open("gemm").unwrap();
        let own = &space.kernel.as_ref().unwrap().problems[0];
        let sizes: Vec<String> = own.sizes.keys().map(|name| format!("{name} = 64")).collect();
        let one =
            |name: &str| format!("[[problems]]\nname = \"{name}\"\nsizes = {{ {} }}\n", sizes.join(", "));
        let lists = one("a").replace("K = 64", "K = [64, 96]").replace("M = 64", "M = [32, 64]");
        let read = |text: &str| {
            let found = grid_problems("g.toml", text, &space, &["problems"])?;
            Ok(found.into_iter().map(|own| own.name).collect::<Vec<_>>())
        };
        let texts = [
            one("a") + &one("b"),
            lists.clone(),
            String::new(),
            "problems = []".to_string(),
            one(&own.name),
            "[[problems]]\nname = \"a\"\nsizes = { Q = 1 }".to_string(),
            one("a") + "[check]\n",
        ];
        insta::assert_snapshot!(shown(&texts, read));
        let long = (1..200).map(|at| at.to_string()).collect::<Vec<_>>().join(", ");
        let many: String = (0..=SHAPES_MAX).map(|at| one(&format!("p{at}"))).collect();
        for text in [lists.replace("64, 96", &long).replace("32, 64", &long), many] {
            assert!(read(&text).unwrap_err().to_string().contains("more than 10000 shapes"));
        }
    }
}
