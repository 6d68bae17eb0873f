//! `specialize` of `[kernel]`: sizes that become compile-time constants.

use evo_space::document::Node;

use super::fields::Reader;
use super::names::KnownNames;
use crate::spec::ProblemSpec;
use crate::specialize::{CONSTANTS_MAX, constants_of, distinct};

/// Sets of values that a message shows.
const SHOWN: usize = 4;

/// Reads the names: sizes that every problem has.
pub(super) fn read(reader: &mut Reader, node: &Node, what: &str, names: &KnownNames) -> Option<Vec<String>> {
    let items = reader.list(node, what, "names of sizes")?;
    let mut found: Vec<Option<String>> = Vec::new();
    for item in items {
        let name = reader.string(item, what);
        let name = name.filter(|name| is_sound(reader, item, what, name, &found, names));
        found.push(name);
    }
    found.into_iter().collect()
}

fn is_sound(
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
pub(super) fn check_count(reader: &mut Reader, node: &Node, names: &[String], problems: &[ProblemSpec]) {
    for kind in ["cuda", "host"] {
        let own = problems.iter().filter(|own| own.device.as_deref().is_none_or(|device| device == kind));
        let sets = distinct(own.map(|problem| constants_of(names, problem)));
        if sets.len() <= CONSTANTS_MAX {
            continue;
        }
        let shown: Vec<String> = sets.iter().take(SHOWN).map(|set| format!("`{set}`")).collect();
        let message = format!(
            "`specialize` asks for {} binaries of every variant on `{kind}`, at most {CONSTANTS_MAX} are possible",
            sets.len()
        );
        let hint = format!(
            "the problems have {} and {} other sets of values; name fewer sizes, such as flags and head dimensions",
            shown.join(", "),
            sets.len() - SHOWN
        );
        reader.hinted(&node.span, message, Some(hint));
        return;
    }
}
