//! `[[problems]]`: named input sizes, which are timed and which only checked.
//!
//! `specialize` of `[kernel]`: sizes that become compile-time constants.

use std::collections::BTreeMap;

use evo_space::document::{Data, TableEntry};
use evo_space::expr::is_name;
use evo_space::text::quoted;
use evo_space::value::Value;

use super::fields::{Field, known_name, label, named_tables, names_once, read_all};
use crate::spec::{ProblemSpec, whole};
use crate::specialize::{CONSTANTS_MAX, constants_of, distinct};

const KEYS: &[&str] = &["name", "sizes", "weight", "timed", "canonical", "checked", "device", "on_request"];

pub(super) fn read(field: &Field) -> Option<Vec<ProblemSpec>> {
    let items = field.list("tables")?;
    if items.is_empty() {
        let hint = "write for example `[[problems]]` and below it `name` and `sizes`";
        return field.refuse("`problems` is empty: there is nothing to check or to time", hint);
    }
    let read = |item: &Field| problem(&item.titled("problem", "name", "a problem"));
    let mut problems = named_tables(&items, "problems", read, |problem| &problem.name)?;
    if !problems.iter().any(|problem| problem.canonical) {
        problems.iter_mut().for_each(|problem| problem.canonical = problem.timed);
    }
    if !problems.iter().any(|problem| problem.timed) {
        return field.wrong("no problem is timed: nothing could be ranked");
    }
    if !problems.iter().any(|problem| problem.timed && !problem.on_request) {
        let hint = "leave `on_request` out of one of the timed problems";
        let message = "all timed problems are for commands that name them: others could rank nothing";
        return field.refuse(message, hint);
    }
    Some(problems)
}

fn problem(field: &Field) -> Option<ProblemSpec> {
    field.keys(KEYS)?;
    let flag = |key: &str, absent: bool| field.or(key, absent, Field::boolean);
    let (is_timed, is_checked) = (flag("timed", true), flag("checked", true));
    let is_canonical = flag("canonical", false);
    if let (Some(true), Some(false), Some(own)) = (is_timed, is_checked, field.get("checked")) {
        let hint = "add timed = false, or leave `checked` out";
        own.hinted(format!("{field} is timed, so it is always checked"), hint);
    }
    if let (Some(true), Some(false), Some(own)) = (is_canonical, is_timed, field.get("canonical")) {
        let hint = "leave `timed = false` out, or `canonical`";
        own.hinted(format!("{field} is canonical, so it has to be timed"), hint);
    }
    read_all!(ProblemSpec {
        name: field.need("name", "add name = \"…\"", label),
        sizes: field.need("sizes", "add sizes = { N = 1024 }", sizes),
        weight: field.or("weight", 1.0, |own| own.positive(false)),
        timed: is_timed,
        canonical: is_canonical,
        checked: is_checked,
        device: field.optional("device", |own| {
            own.choice(&[("host", "host"), ("cuda", "cuda")]).map(str::to_string)
        }),
        on_request: flag("on_request", false),
    })
}

fn sizes(field: &Field) -> Option<BTreeMap<String, Value>> {
    let entries = field.entries("a table such as { N = 1024 }")?;
    let sizes: Vec<_> = entries.iter().map(|entry| size(field, entry)).collect();
    sizes.into_iter().collect()
}

/// A size is a whole number from 0; booleans (`CAUSAL = true`) become 1 and 0.
fn size(field: &Field, entry: &TableEntry) -> Option<(String, Value)> {
    if field.context.names.is_parameter(&entry.key) {
        let message = format!("`{}` is both a parameter and a size", entry.key);
        field.complain(&entry.key_span, message, Some("rename one of them".to_string()));
    }
    if !is_name(&entry.key) {
        field.complain(&entry.key_span, format!("`{}` cannot be a size's name", entry.key), None);
    }
    let own = field.at(&entry.value, format!("size `{}` of {field}", entry.key));
    let value = match &entry.value.data {
        Data::Int(value) => Value::Int(*value),
        Data::Bool(value) => Value::Bool(*value),
        Data::Float(value) => Value::Float(*value),
        _ => return own.wrong_kind("a whole number"),
    };
    match whole(&value) {
        Ok(size) if size >= 0 => Some((entry.key.clone(), Value::Int(size))),
        Ok(size) => own.wrong(format!("{own} is {size}, expected 0 or more")),
        Err(why) => own.wrong(format!("{own} {why}")),
    }
}

const SETS_SHOWN: usize = 4;

pub(super) fn read_specialize(field: &Field) -> Option<Vec<String>> {
    let scope = field.context.naming(field.context.names.sizes_only());
    names_once(field, "names of sizes", |item| {
        let name = item.string()?;
        if field.context.names.is_parameter(&name) {
            let hint = "a parameter is a compile-time constant already; name sizes of problems";
            return item.refuse(format!("{item} names the parameter `{name}`"), hint);
        }
        known_name(&item.with(&scope))
    })
}

/// Complains if a device has problems with more sets of values than there may be binaries.
pub(super) fn check_specialize(field: &Field, names: &[String], problems: &[ProblemSpec]) {
    for kind in ["cuda", "host"] {
        let there =
            problems.iter().filter(|problem| problem.device.as_deref().is_none_or(|device| device == kind));
        let sets = distinct(there.map(|problem| constants_of(names, problem)));
        if sets.len() <= CONSTANTS_MAX {
            continue;
        }
        let message = format!(
            "`specialize` asks for {} binaries of every variant on `{kind}`, at most {CONSTANTS_MAX} are possible",
            sets.len()
        );
        let hint = format!(
            "the problems have {} and {} other sets of values; name fewer sizes, such as flags and head dimensions",
            quoted(&sets[..SETS_SHOWN]),
            sets.len() - SETS_SHOWN
        );
        return field.hinted(message, hint);
    }
}
