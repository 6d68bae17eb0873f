//! `[[launches]]`: which entry points run, in which geometry, with which arguments.

use evo_protocol::entry_name::{self, EntryName};
use evo_space::diagnostic::nearest;
use evo_space::document::{Data, Node};
use evo_space::expr::Expr;

use super::fields::{Fields, Reader};
use super::names::KnownNames;
use crate::spec::{ArgumentSpec, L2PersistSpec, LaunchSpec};

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
    "l2_persist",
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
    let l2_persist = match fields.get("l2_persist") {
        Some(node) => window(reader, node, &fields.name("l2_persist"), names, argument_names).map(Some),
        None => Some(None),
    };
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
        l2_persist: l2_persist?,
        arguments: arguments?,
    })
}

/// `{ argument = "k", ratio = 0.6 }`. That the argument is a buffer is checked once all arguments are read.
fn window(
    reader: &mut Reader,
    node: &Node,
    what: &str,
    names: &KnownNames,
    argument_names: &[String],
) -> Option<L2PersistSpec> {
    let fields = reader.fields(node, what, &["argument", "ratio"])?;
    let argument = reader.required(&fields, "argument", "add argument = \"…\", a buffer of [[arguments]]");
    let argument =
        argument.and_then(|node| known_argument(reader, node, &fields.name("argument"), argument_names));
    let ratio = reader.required(&fields, "ratio", "add ratio = 1.0, the share of its accesses that are kept");
    let ratio = ratio.and_then(|node| reader.expression(node, &fields.name("ratio"), names));
    Some(L2PersistSpec { argument: argument?, ratio: ratio? })
}

/// Complains of windows over what is not a buffer.
pub(super) fn check_windows(
    reader: &mut Reader,
    node: &Node,
    launches: &[LaunchSpec],
    arguments: &[ArgumentSpec],
) {
    let Data::List(items) = &node.data else { return };
    for (item, launch) in items.iter().zip(launches) {
        let Some(window) = &launch.l2_persist else { continue };
        let found = arguments.iter().find(|own| own.name() == window.argument);
        let what = match found {
            Some(ArgumentSpec::Scalar(_)) => "a scalar",
            Some(ArgumentSpec::TensorMap(_)) => "a tensor map",
            Some(ArgumentSpec::Buffer(_)) | None => continue,
        };
        let span = item.get("l2_persist").and_then(|own| own.get("argument")).map(|own| own.span.clone());
        let message = format!(
            "`l2_persist` of launch `{}` names `{}`, which is {what}, expected a buffer",
            launch.entry, window.argument
        );
        let hint = "name the buffer whose accesses the L2 cache should keep".to_string();
        reader.hinted(&span.unwrap_or_else(|| item.span.clone()), message, Some(hint));
    }
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
    if EntryName::parse(&entry).is_none() {
        let hint =
            "the name of a __global__ function: scale, ns::scale<float, 4>, scale(float*, int)".to_string();
        reader.hinted(&node.span, format!("{what} is `{entry}`, which is not a function's name"), Some(hint));
        return None;
    }
    if entry_name::base(&entry).starts_with(OWN_PREFIX) {
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

/// The name of an argument that there is.
fn known_argument(reader: &mut Reader, node: &Node, what: &str, known: &[String]) -> Option<String> {
    let name = reader.string(node, what)?;
    if known.contains(&name) {
        return Some(name);
    }
    let hint = match nearest(&name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("arguments: {}", known.join(", ")),
    };
    reader.hinted(&node.span, format!("{what}: no argument is called `{name}`"), Some(hint));
    None
}

fn passed(reader: &mut Reader, node: &Node, fields: &Fields, known: &[String]) -> Option<Vec<String>> {
    let what = fields.name("arguments");
    let items = reader.list(node, &what, "argument names")?;
    let mut arguments = Vec::new();
    for item in items {
        arguments.extend(known_argument(reader, item, &what, known));
    }
    (arguments.len() == items.len()).then_some(arguments)
}
