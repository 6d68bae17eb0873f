//! `[[problems]]`: named input sizes, which are timed and which only checked.
//!
//! `specialize` of `[kernel]`: sizes that become compile-time constants.

use std::collections::BTreeMap;

use evo_space::document::{Data, Node, TableEntry};
use evo_space::expr::is_name;
use evo_space::value::Value;

use super::fields::{Fields, KnownNames, Reader};
use crate::resolve::whole;
use crate::spec::ProblemSpec;
use crate::specialize::{CONSTANTS_MAX, constants_of, distinct};

const KEYS: &[&str] = &["name", "sizes", "weight", "timed", "canonical", "checked", "device", "on_request"];

pub(super) fn read(reader: &mut Reader, node: &Node, names: &KnownNames) -> Option<Vec<ProblemSpec>> {
    let items = reader.list(node, "`problems`", "tables")?;
    if items.is_empty() {
        let message = "`problems` is empty: there is nothing to check or to time";
        let hint = "write for example `[[problems]]` and below it `name` and `sizes`";
        return reader.refuse(&node.span, message, hint);
    }
    let mut problems: Vec<Option<ProblemSpec>> = Vec::new();
    for item in items {
        let problem = problem(reader, item, names);
        if let (Some(problem), Some(name)) = (&problem, item.get("name"))
            && problems.iter().flatten().any(|other| other.name == problem.name)
        {
            reader.error(&name.span, format!("two problems are called `{}`", problem.name));
        }
        problems.push(problem);
    }
    let mut problems: Vec<ProblemSpec> = problems.into_iter().collect::<Option<_>>()?;
    if !problems.iter().any(|problem| problem.canonical) {
        problems.iter_mut().for_each(|problem| problem.canonical = problem.timed);
    }
    if !problems.iter().any(|problem| problem.timed) {
        reader.error(&node.span, "no problem is timed: nothing could be ranked");
        return None;
    }
    if !problems.iter().any(|problem| problem.timed && !problem.on_request) {
        let hint = "leave `on_request` out of one of the timed problems";
        let message = "all timed problems are for commands that name them: others could rank nothing";
        return reader.refuse(&node.span, message, hint);
    }
    Some(problems)
}

fn problem(reader: &mut Reader, node: &Node, names: &KnownNames) -> Option<ProblemSpec> {
    let what = match node.get("name").map(|name| &name.data) {
        Some(Data::Text(name)) => format!("problem `{name}`"),
        _ => "a problem".to_string(),
    };
    let fields = reader.fields(node, &what, KEYS)?;
    let name = reader.need(&fields, "name", "add name = \"…\"", Reader::label);
    let sizes = reader.required(&fields, "sizes", "add sizes = { N = 1024 }");
    let sizes = sizes.and_then(|node| read_sizes(reader, node, &fields, names));
    let weight =
        reader.value(&fields, "weight", 1.0, |reader, node, what| reader.positive(node, what, false));
    let timed = flag(reader, &fields, "timed", true);
    let checked = flag(reader, &fields, "checked", true);
    if timed == Some(true)
        && checked == Some(false)
        && let Some(node) = fields.get("checked")
    {
        let hint = "add timed = false, or leave `checked` out".to_string();
        reader.hinted(&node.span, format!("{what} is timed, so it is always checked"), Some(hint));
    }
    let canonical = flag(reader, &fields, "canonical", false);
    let on_request = flag(reader, &fields, "on_request", false);
    if let (Some(true), Some(false), Some(node)) = (canonical, timed, fields.get("canonical")) {
        let hint = "leave `timed = false` out, or `canonical`".to_string();
        reader.hinted(&node.span, format!("{what} is canonical, so it has to be timed"), Some(hint));
    }
    let device = match fields.get("device") {
        Some(node) => {
            let kinds = [("host", "host"), ("cuda", "cuda")];
            reader.choice(node, &fields.name("device"), &kinds).map(|kind| Some(kind.to_string()))
        }
        None => Some(None),
    };
    Some(ProblemSpec {
        name: name?,
        sizes: sizes?,
        weight: weight?,
        timed: timed?,
        canonical: canonical?,
        checked: checked?,
        device: device?,
        on_request: on_request?,
    })
}

fn flag(reader: &mut Reader, fields: &Fields, key: &str, absent: bool) -> Option<bool> {
    reader.value(fields, key, absent, Reader::boolean)
}

fn read_sizes(
    reader: &mut Reader,
    node: &Node,
    fields: &Fields,
    names: &KnownNames,
) -> Option<BTreeMap<String, Value>> {
    let Data::Table(entries) = &node.data else {
        let what = fields.name("sizes");
        reader
            .error(&node.span, format!("{what} is {}, expected a table such as {{ N = 1024 }}", node.kind()));
        return None;
    };
    let sizes: Vec<Option<(String, Value)>> =
        entries.iter().map(|entry| size(reader, entry, fields, names)).collect();
    sizes.into_iter().collect()
}

/// A size is a whole number from 0; booleans (`CAUSAL = true`) become 1 and 0.
fn size(
    reader: &mut Reader,
    entry: &TableEntry,
    fields: &Fields,
    names: &KnownNames,
) -> Option<(String, Value)> {
    let what = format!("size `{}` of {}", entry.key, fields.name("sizes"));
    if names.is_parameter(&entry.key) {
        let message = format!("`{}` is both a parameter and a size", entry.key);
        reader.hinted(&entry.key_span, message, Some("rename one of them".to_string()));
    }
    if !is_name(&entry.key) {
        reader.error(&entry.key_span, format!("`{}` cannot be a size's name", entry.key));
    }
    let value = match &entry.value.data {
        Data::Int(value) => Value::Int(*value),
        Data::Bool(value) => Value::Bool(*value),
        Data::Float(value) => Value::Float(*value),
        _ => {
            let message = format!("{what} is {}, expected a whole number", entry.value.kind());
            reader.error(&entry.value.span, message);
            return None;
        }
    };
    match whole(&value) {
        Ok(size) if size >= 0 => Some((entry.key.clone(), Value::Int(size))),
        Ok(size) => {
            reader.error(&entry.value.span, format!("{what} is {size}, expected 0 or more"));
            None
        }
        Err(why) => {
            reader.error(&entry.value.span, format!("{what} {why}"));
            None
        }
    }
}

const SETS_SHOWN: usize = 4;

pub(super) fn read_specialize(
    reader: &mut Reader,
    node: &Node,
    what: &str,
    names: &KnownNames,
) -> Option<Vec<String>> {
    let items = reader.list(node, what, "names of sizes")?;
    let mut found: Vec<Option<String>> = Vec::new();
    for item in items {
        let name = reader.string(item, what);
        let name = name.filter(|name| is_specialized(reader, item, what, name, &found, names));
        found.push(name);
    }
    found.into_iter().collect()
}

fn is_specialized(
    reader: &mut Reader,
    item: &Node,
    what: &str,
    name: &String,
    before: &[Option<String>],
    names: &KnownNames,
) -> bool {
    if before.iter().flatten().any(|own| own == name) {
        reader.hinted(&item.span, format!("{what} names `{name}` twice"), None);
        return false;
    }
    if names.is_parameter(name) {
        let hint = "a parameter is a compile-time constant already; name sizes of problems".to_string();
        reader.hinted(&item.span, format!("{what} names the parameter `{name}`"), Some(hint));
        return false;
    }
    match names.sizes_only().complaint(name) {
        Some(complaint) => {
            reader.hinted(&item.span, format!("{what}: {}", complaint.message), complaint.hint);
            false
        }
        None => true,
    }
}

/// Complains if a device has problems with more sets of values than there may be binaries.
pub(super) fn check_specialize(reader: &mut Reader, node: &Node, names: &[String], problems: &[ProblemSpec]) {
    for kind in ["cuda", "host"] {
        let own = problems.iter().filter(|own| own.device.as_deref().is_none_or(|device| device == kind));
        let sets = distinct(own.map(|problem| constants_of(names, problem)));
        if sets.len() <= CONSTANTS_MAX {
            continue;
        }
        let shown: Vec<String> = sets.iter().take(SETS_SHOWN).map(|set| format!("`{set}`")).collect();
        let message = format!(
            "`specialize` asks for {} binaries of every variant on `{kind}`, at most {CONSTANTS_MAX} are possible",
            sets.len()
        );
        let hint = format!(
            "the problems have {} and {} other sets of values; name fewer sizes, such as flags and head dimensions",
            shown.join(", "),
            sets.len() - SETS_SHOWN
        );
        reader.hinted(&node.span, message, Some(hint));
        return;
    }
}
