//! `[[launches]]`: which entry points run, in which geometry, with which arguments.

use evo_space::diagnostic::nearest;
use evo_space::document::{Data, Node};
use evo_space::expr::Expr;

use super::fields::{Fields, Reader};
use super::names::KnownNames;
use crate::spec::LaunchSpec;

/// How the names of evo's own kernels begin, by which profilers and sanitizers leave them out.
const OWN_PREFIX: &str = "evo_";

const KEYS: &[&str] = &[
    "entry",
    "when",
    "grid",
    "block",
    "shared_bytes",
    "cluster",
    "cooperative",
    "programmatic",
    "arguments",
];

/// Reads the list; `argument_names` are those that a launch may pass.
pub(super) fn read(
    reader: &mut Reader,
    node: &Node,
    names: &KnownNames,
    argument_names: &[String],
) -> Option<Vec<LaunchSpec>> {
    let items = reader.list(node, "`launches`", "tables")?;
    if items.is_empty() {
        reader.error(&node.span, "`launches` is empty: the kernel would do no work");
        return None;
    }
    let launches: Vec<_> = items.iter().map(|item| launch(reader, item, names, argument_names)).collect();
    launches.into_iter().collect()
}

fn launch(
    reader: &mut Reader,
    node: &Node,
    names: &KnownNames,
    argument_names: &[String],
) -> Option<LaunchSpec> {
    let what = match node.get("entry").map(|entry| &entry.data) {
        Some(Data::Text(entry)) => format!("launch `{entry}`"),
        _ => "a launch".to_string(),
    };
    let fields = reader.fields(node, &what, KEYS)?;
    let entry = reader.required(&fields, "entry", "add entry = \"…\", the name of a __global__ function");
    let entry = entry.and_then(|node| entry_name(reader, node, &fields));
    let grid = reader.required(&fields, "grid", "add grid = [\"ceil_div(N, BLOCK)\"], in blocks");
    let grid = grid.and_then(|node| reader.extents(node, &fields.name("grid"), names));
    let block = reader.required(&fields, "block", "add block = [\"THREADS\"], in threads");
    let block = block.and_then(|node| reader.extents(node, &fields.name("block"), names));
    // Every field is read before the first `?` below, so that one pass finds all of the errors.
    let when = optional(reader, &fields, "when", names);
    let shared_bytes = optional(reader, &fields, "shared_bytes", names);
    let cooperative = optional(reader, &fields, "cooperative", names);
    let programmatic = optional(reader, &fields, "programmatic", names);
    let cluster = match fields.get("cluster") {
        Some(node) => reader.extents(node, &fields.name("cluster"), names).map(Some),
        None => Some(None),
    };
    let arguments = match fields.get("arguments") {
        Some(node) => passed(reader, node, &fields, argument_names).map(Some),
        None => Some(None),
    };
    Some(LaunchSpec {
        entry: entry?,
        when: when?,
        grid: grid?,
        block: block?,
        shared_bytes: shared_bytes?,
        cluster: cluster?,
        cooperative: cooperative?,
        programmatic: programmatic?,
        arguments: arguments?,
    })
}

/// An expression that may be absent; the outer `None` is a complaint.
fn optional(reader: &mut Reader, fields: &Fields, key: &str, names: &KnownNames) -> Option<Option<Expr>> {
    match fields.get(key) {
        Some(node) => reader.expression(node, &fields.name(key), names).map(Some),
        None => Some(None),
    }
}

pub(super) fn entry_name(reader: &mut Reader, node: &Node, fields: &Fields) -> Option<String> {
    let what = fields.name("entry");
    let entry = reader.string(node, &what)?;
    let sound = entry.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !entry.starts_with(|c: char| c.is_ascii_digit());
    if !sound {
        let hint = "give the __global__ function a plain name with extern \"C\"".to_string();
        reader.hinted(&node.span, format!("{what} is `{entry}`, which is not a C name"), Some(hint));
        return None;
    }
    if entry.starts_with(OWN_PREFIX) {
        let hint = "give it another name: tools that watch a kernel leave out those of evo's own".to_string();
        reader.hinted(
            &node.span,
            format!("{what} is `{entry}`, and `{OWN_PREFIX}` begins evo's own kernels"),
            Some(hint),
        );
        return None;
    }
    Some(entry)
}

fn passed(reader: &mut Reader, node: &Node, fields: &Fields, known: &[String]) -> Option<Vec<String>> {
    let what = fields.name("arguments");
    let items = reader.list(node, &what, "argument names")?;
    let mut arguments = Vec::new();
    for item in items {
        let name = reader.string(item, &what);
        if let Some(name) = name.as_ref().filter(|name| !known.contains(name)) {
            let hint = match nearest(name, known.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("arguments: {}", known.join(", ")),
            };
            reader.hinted(&item.span, format!("{what}: no argument is called `{name}`"), Some(hint));
            continue;
        }
        arguments.extend(name);
    }
    (arguments.len() == items.len()).then_some(arguments)
}
