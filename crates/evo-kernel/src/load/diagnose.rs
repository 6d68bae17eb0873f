//! `[[diagnose]]`: ways to harm this kernel, for `evo invert`.

use evo_protocol::invert::MetricDirection;
use evo_space::diagnostic::nearest;
use evo_space::document::{Data, Node};
use evo_space::space::Parameter;
use evo_space::value::Value;

use super::fields::Reader;
use super::goals::METRIC_NAMES;
use crate::harm::Pathology;
use crate::spec::{DiagnoseDose, DiagnoseSpec, MetricEvidence};

const KEYS: &[&str] = &["name", "resource", "unit", "try_next", "lightens", "moves", "doses"];
const DOSE: &str = "doses = [{ set = { VEC = 1 } }]";

/// Reads the tables; nothing where there are none.
pub(super) fn read(
    reader: &mut Reader,
    node: Option<&Node>,
    parameters: &[Parameter],
) -> Option<Vec<DiagnoseSpec>> {
    let Some(node) = node else { return Some(Vec::new()) };
    let tables = reader.list(node, "`diagnose`", "tables with name, resource and doses")?;
    let mut all: Vec<DiagnoseSpec> = Vec::new();
    let mut is_whole = true;
    for table in tables {
        let Some(own) = pathology(reader, table, parameters) else {
            is_whole = false;
            continue;
        };
        if all.iter().any(|earlier| earlier.name == own.name) || Pathology::named(&own.name).is_some() {
            let hint = "names tell rows apart; evo's own are in docs/INVERT.md".to_string();
            reader.hinted(&table.span, format!("the pathology `{}` is there already", own.name), Some(hint));
            is_whole = false;
        }
        all.push(own);
    }
    is_whole.then_some(all)
}

fn pathology(reader: &mut Reader, node: &Node, parameters: &[Parameter]) -> Option<DiagnoseSpec> {
    let fields = reader.fields(node, "a table of `diagnose`", KEYS)?;
    let name = reader.required(&fields, "name", "add name = \"narrow_loads\"");
    let name = name.and_then(|node| reader.label(node, &fields.name("name")));
    let resource = reader.required(&fields, "resource", "add resource = \"the width of loads\"");
    let resource = resource.and_then(|node| reader.string(node, &fields.name("resource")));
    let optional = |reader: &mut Reader, key: &str, otherwise: &str| match fields.get(key) {
        Some(node) => reader.string(node, &fields.name(key)),
        None => Some(otherwise.to_string()),
    };
    let unit = optional(reader, "unit", "step");
    let try_next = optional(reader, "try_next", "the opposite");
    let lightens = match fields.get("lightens") {
        Some(node) => reader.boolean(node, &fields.name("lightens")),
        None => Some(false),
    };
    let doses = reader.required(&fields, "doses", &format!("add {DOSE}"));
    let doses = doses.and_then(|node| {
        let items = reader.list(node, &fields.name("doses"), "tables with `set` or `define`")?;
        if items.is_empty() {
            let hint = Some(format!("write {DOSE}"));
            reader.hinted(&node.span, format!("{} is empty", fields.name("doses")), hint);
        }
        let found: Vec<_> = items.iter().map(|item| dose(reader, item, parameters)).collect();
        found.into_iter().collect::<Option<Vec<_>>>().filter(|found| !found.is_empty())
    });
    let moves = match fields.get("moves") {
        Some(node) => moves(reader, node),
        None => Some(Vec::new()),
    };
    let (name, resource, unit, try_next) = (name?, resource?, unit?, try_next?);
    Some(DiagnoseSpec { name, resource, unit, try_next, lightens: lightens?, moves: moves?, doses: doses? })
}

/// Metrics and where they go: `moves = { l1_hit_percent = "down" }`.
fn moves(reader: &mut Reader, node: &Node) -> Option<Vec<MetricEvidence>> {
    let Data::Table(entries) = &node.data else {
        reader.error(&node.span, format!("`moves` is {}, expected a table of metrics", node.kind()));
        return None;
    };
    let mut found = Vec::new();
    for entry in entries {
        if !METRIC_NAMES.contains(&entry.key.as_str()) {
            let hint = match nearest(&entry.key, METRIC_NAMES.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", METRIC_NAMES.join(", ")),
            };
            reader.hinted(&entry.key_span, format!("there is no metric `{}`", entry.key), Some(hint));
            return None;
        }
        let direction = match &entry.value.data {
            Data::Text(text) => MetricDirection::named(text),
            _ => None,
        };
        let Some(direction) = direction else {
            let hint = format!("write moves = {{ {} = \"down\" }}", entry.key);
            let message = format!("`{}` of `moves` is neither \"up\" nor \"down\"", entry.key);
            reader.hinted(&entry.value.span, message, Some(hint));
            return None;
        };
        found.push(MetricEvidence { metric: entry.key.clone(), direction });
    }
    Some(found)
}

fn dose(reader: &mut Reader, node: &Node, parameters: &[Parameter]) -> Option<DiagnoseDose> {
    let fields = reader.fields(node, "a dose", &["set", "define"])?;
    let set = match fields.get("set") {
        Some(node) => set(reader, node, parameters),
        None => Some(Vec::new()),
    };
    let define = match fields.get("define") {
        Some(node) => define(reader, node),
        None => Some(Vec::new()),
    };
    let found = DiagnoseDose { set: set?, define: define? };
    if found.set.is_empty() && found.define.is_empty() {
        reader.hinted(&node.span, "a dose changes nothing", Some(format!("write {DOSE}")));
        return None;
    }
    Some(found)
}

/// Parameters and one of their own values each.
fn set(reader: &mut Reader, node: &Node, parameters: &[Parameter]) -> Option<Vec<(String, Value)>> {
    let Data::Table(entries) = &node.data else {
        reader.error(&node.span, format!("`set` is {}, expected a table of parameters", node.kind()));
        return None;
    };
    let mut found = Vec::new();
    for entry in entries {
        let Some(parameter) = parameters.iter().find(|own| *own.name == *entry.key) else {
            let hint = match nearest(&entry.key, parameters.iter().map(|own| &*own.name)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`define` sets other macros".to_string(),
            };
            let message = format!("there is no parameter `{}`", entry.key);
            reader.hinted(&entry.key_span, message, Some(hint));
            return None;
        };
        found.push((entry.key.clone(), reader.parameter_value(&entry.value, parameter)?));
    }
    Some(found)
}

/// Macros and what they stand for: numbers or words.
fn define(reader: &mut Reader, node: &Node) -> Option<Vec<(String, String)>> {
    let Data::Table(entries) = &node.data else {
        reader.error(&node.span, format!("`define` is {}, expected a table of macros", node.kind()));
        return None;
    };
    let mut found = Vec::new();
    for entry in entries {
        let is_word = |text: &str| {
            let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            !text.is_empty() && text.chars().all(letter)
        };
        let value = match &entry.value.data {
            Data::Int(value) => Some(value.to_string()),
            Data::Text(text) if is_word(text) => Some(text.clone()),
            _ => None,
        };
        let Some(value) = value.filter(|_| is_word(&entry.key)) else {
            let hint = "write define = { NO_STAGING = 1 }".to_string();
            let message = format!("`{}` of `define` is not a macro with a number or a word", entry.key);
            reader.hinted(&entry.value.span, message, Some(hint));
            return None;
        };
        found.push((entry.key.clone(), value));
    }
    Some(found)
}
