//! JSON Schemas of what a sweep writes beside its last object: the events of `evo sweep --json`, a line each, and
//! `study.json`. A test holds them to what a sweep writes.

use schemars::{Schema, json_schema};
use serde_json::{Map, Value, json};

/// A path and its types: `problems[].p50_ns` is a number in each item of an array, `problems{}.p50_ns` in each value of an
/// object whose names are the user's. `?` behind a name means that the field may be left out, `~` that an object may be
/// null. Types are those of JSON Schema, with `|` between them; `=a/b` is one of these words.
type Field = (&'static str, &'static str);

/// Each event with its fields beside `event`.
const EVENTS: &[(&str, &[Field])] = &[
    (
        "started",
        &[
            ("study", "string"),
            ("device", "string"),
            ("seed", "integer"),
            // A space may have more points than a JSON number can count.
            ("valid", "string"),
            ("total", "integer|null"),
            ("resumed", "integer"),
            ("taken_over", "integer"),
            ("best_ns", "number|null"),
        ],
    ),
    ("compiling", &[("number", "integer"), ("configuration", "object")]),
    ("evaluating", &[("number", "integer")]),
    ("finished", &[("best", "boolean"), ("evaluation", "object")]),
    ("not_final", &[("evaluation", "object")]),
    ("generation", &[("generation", "integer"), ("best_ns", "number|null")]),
    (
        "lanes",
        &[
            ("compile_busy", "number"),
            ("device_busy", "number"),
            ("compile_queue", "integer"),
            ("device_queue", "integer"),
            ("compile_jobs", "integer"),
            ("confirm_seconds", "number|null"),
            ("left_seconds", "number|null"),
        ],
    ),
    ("lane_progress", &[("lanes", "array")]),
    ("recovered", &[("worker", "integer"), ("code", "string"), ("elapsed_ms", "number")]),
    ("confirming", &[("finalist", "integer"), ("of", "integer"), ("left_seconds", "number|null")]),
    ("notice", &[("message", "string")]),
    (
        "stopped",
        &[(
            "reason",
            "=space_exhausted/strategy_done/evaluations/wall/generations/interrupted/device_lost/harness",
        )],
    ),
];

const STUDY: &[Field] = &[
    ("header.format", "integer"),
    ("header.verdict_version", "integer"),
    ("header.evo", "string"),
    ("header.study", "string"),
    ("header.kernel", "string"),
    ("header.space", "string"),
    ("header.space_hash", "string"),
    ("header.inputs[]?.role", "string"),
    ("header.inputs[]?.name", "string"),
    ("header.inputs[]?.hash", "string"),
    ("header.conditions?", "object"),
    ("header.definition?", "object"),
    ("header.valid", "string"),
    ("header.problems[]", "string"),
    ("header.checked[]", "string"),
    ("header.seed", "integer"),
    ("header.strategy", "string"),
    ("header.budget?", "string"),
    ("header.generations?", "integer"),
    ("header.population", "integer"),
    ("header.ranking", "=hot/cold"),
    ("header.allow_trade?", "boolean"),
    ("header.per_problem?", "boolean"),
    ("header.demands_sanitizer?", "boolean"),
    ("header.warnings[]?", "string"),
    ("header.device", "object"),
    ("header.environment", "object"),
    ("header.started_at", "string"),
    ("header.at_ms?", "integer"),
    ("evaluations", "integer"),
    ("taken_over", "integer"),
    ("set_aside", "integer"),
    ("verdicts{}", "integer"),
    ("not_final[].number", "integer"),
    ("not_final[].configuration", "object"),
    ("not_final[].reason", "object"),
    ("best_screened~.number", "integer"),
    ("best_screened~.objective_ns", "number"),
    ("best_screened~.configuration", "object"),
    ("confirmations", "integer"),
    ("runs[]", "object"),
    ("insight", "object|null"),
];

/// The schema of one event of `evo sweep --json`. The last line of the stream is the command's object, which has a
/// `schema` of its own.
pub fn sweep_event() -> Schema {
    let events = EVENTS.iter().map(|(name, fields)| with_const("event", &json!(name), fields));
    let mut schema = json_schema!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "evo.sweep-event.v1",
        "title": "evo sweep --json, a line",
        "description": "`evaluation` is described by the schema `evaluation`.",
        "type": "object",
    });
    schema.insert("oneOf".into(), events.collect::<Vec<_>>().into());
    schema
}

/// The schema of `study.json`.
pub fn study() -> Schema {
    let (mut properties, required) = object(&owned("", STUDY));
    properties["schema"] = json!({ "type": "string", "const": "evo.study" });
    properties["version"] = json!({ "type": "integer", "const": 1 });
    let mut schema = json_schema!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "evo.study.v1",
        "title": "evo study",
        "description": "What a study is, under which conditions it ran, and how far it came.",
        "type": "object",
    });
    schema.insert("properties".into(), properties);
    schema.insert("required".into(), required);
    schema
}

/// An object with one field of a known value.
fn with_const(name: &str, value: &Value, fields: &[Field]) -> Value {
    let (mut properties, mut required) = object(&owned("", fields));
    properties[name] = json!({ "type": "string", "const": value });
    if let Some(required) = required.as_array_mut() {
        required.insert(0, json!(name));
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

fn owned(lead: &str, fields: &[Field]) -> Vec<(String, &'static str)> {
    fields.iter().map(|(path, types)| (format!("{lead}{path}"), *types)).collect()
}

/// The properties that some paths describe, and the names of those that are always there.
fn object(fields: &[(String, &'static str)]) -> (Value, Value) {
    let mut groups: Vec<(&str, Vec<(String, &'static str)>)> = Vec::new();
    for (path, types) in fields {
        let (head, rest) = path.split_once('.').unwrap_or((path, ""));
        let group = match groups.iter_mut().find(|(known, _)| *known == head) {
            Some((_, group)) => group,
            None => {
                groups.push((head, Vec::new()));
                &mut groups.last_mut().expect("it was just added").1
            }
        };
        group.push((rest.to_string(), types));
    }
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (head, group) in groups {
        let name = head.trim_end_matches(['[', ']', '{', '}', '?', '~']);
        let marks = &head[name.len()..];
        let inner = match &group[..] {
            [(rest, types)] if rest.is_empty() => of_types(types),
            _ => {
                let (properties, required) = object(&group);
                let types = if marks.contains('~') { json!(["object", "null"]) } else { json!("object") };
                json!({ "type": types, "properties": properties, "required": required })
            }
        };
        let value = match () {
            () if marks.contains("[]") => json!({ "type": "array", "items": inner }),
            () if marks.contains("{}") => json!({ "type": "object", "additionalProperties": inner }),
            () => inner,
        };
        properties.insert(name.to_string(), value);
        if !marks.contains('?') {
            required.push(name.to_string());
        }
    }
    (Value::Object(properties), json!(required))
}

/// The schema of a value of these types: `number|null`, or `=keep/reject|null` for closed words.
fn of_types(types: &str) -> Value {
    let names: Vec<&str> = types.split('|').collect();
    if let Some(words) = names.iter().find_map(|name| name.strip_prefix('=')) {
        let words = words.split('/').map(Value::from);
        let null = names.contains(&"null").then_some(Value::Null);
        return json!({ "enum": words.chain(null).collect::<Vec<_>>() });
    }
    match names[..] {
        [only] => json!({ "type": only }),
        _ => json!({ "type": names }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_a_schema() {
        let fields = [
            ("a", "number|null"),
            ("b[].c?", "=x/y|null"),
            ("b[].d", "string"),
            ("e{}.f", "integer"),
            ("g~.h", "string"),
            ("i[]?", "string"),
        ];
        let (properties, required) = object(&owned("", &fields));
        let item = json!({ "type": "object", "required": ["d"],
            "properties": { "c": { "enum": ["x", "y", null] }, "d": { "type": "string" } } });
        assert_eq!(properties["a"], json!({ "type": ["number", "null"] }));
        assert_eq!(properties["b"], json!({ "type": "array", "items": item }));
        assert_eq!(properties["e"]["additionalProperties"]["required"], json!(["f"]));
        assert_eq!(properties["g"]["type"], json!(["object", "null"]));
        assert_eq!(properties["i"], json!({ "type": "array", "items": { "type": "string" } }));
        assert_eq!(required, json!(["a", "b", "e", "g"]));
    }
}
