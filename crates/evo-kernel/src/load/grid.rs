//! A file of problems beyond those of a space: `[[problems]]` as a space file has them, over the same sizes. Another
//! form of grid would become the same list here.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use evo_space::diagnostic::Diagnostics;
use evo_space::document::{self, Data, Node};

use super::fields::Reader;
use super::names::KnownNames;
use super::{LoadError, problems};
use crate::apart::Renderer;
use crate::spec::{ProblemSpec, SpaceFile};

/// Shapes of a grid. More would take a day.
const SHAPES_MAX: usize = 10_000;
/// Some hundred bytes a shape.
const GRID_MAX: u64 = 8 << 20;

/// The text of a grid's file.
///
/// # Errors
/// It is too large, or not a text.
pub fn read_text(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(GRID_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > GRID_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 8 MiB"));
    }
    Ok(text)
}

/// The problems of a grid, for a space whose kernel takes its sizes. `shown` names the file in messages.
///
/// # Errors
/// All of the file's errors, rendered with their places.
pub fn problems(shown: &str, text: &str, space: &SpaceFile) -> Result<Vec<ProblemSpec>, LoadError> {
    let mut diagnostics = Diagnostics::default();
    // The space file was read before, so it has no errors.
    let names = document::parse(&space.text, &mut Diagnostics::default())
        .map(|root| KnownNames::of_file(&root))
        .unwrap_or_default();
    let root = document::parse(text, &mut diagnostics);
    let found = root.and_then(|root| {
        let renderer = Renderer::Here;
        let mut reader =
            Reader { text, folder: None, allow_outside: false, renderer, diagnostics: &mut diagnostics };
        read(&mut reader, &root, &names, space)
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

fn read(reader: &mut Reader, root: &Node, names: &KnownNames, space: &SpaceFile) -> Option<Vec<ProblemSpec>> {
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

    #[track_caller]
    fn check(text: &str, expected: Result<usize, &str>) {
        let space = catalog::open("gemm").unwrap();
        match (problems("g.toml", text, &space), expected) {
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
        check(&format!("{}{}", one("a"), one("b")), Ok(2));
        check("", Err("has no `problems`"));
        check("problems = []", Err("is empty"));
        check(&one(&own.name), Err("already"));
        check("[[problems]]\nname = \"a\"\nsizes = { Q = 1 }", Err("the space takes"));
        check(&format!("{}[check]\n", one("a")), Err("unknown key `check`"));
        let many: String = (0..=SHAPES_MAX).map(|at| one(&format!("p{at}"))).collect();
        check(&many, Err("at most 10000"));
    }
}
