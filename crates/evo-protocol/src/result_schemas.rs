//! What stands in `result`, command by command: names, types, closed words. It becomes part of the schema of a command's
//! object, and tests hold the commands to it.
//!
//! A field is a path and its types: `problems[].p50_ns` is a number in each item of an array, `problems{}.p50_ns` in
//! each value of an object whose names are the user's. `?` behind a name means that the field may be left out, `~` that
//! an object may be null. Types are those of JSON Schema, with `|` between them; `=a/b` is one of these words.

use serde_json::{Map, Value, json};

pub(crate) type Field = (&'static str, &'static str);

const TRIED: &[Field] =
    &[("verdict", "string"), ("class", "string"), ("message", "string"), ("not_run[]", "string")];

/// Beside those of `test-one`; no rows of a candidate that the harnesses were not asked about.
const CROSSCHECKED: &[Field] = &[
    ("headline?", "string"),
    ("rows[]?.harness", "string"),
    ("rows[]?.version", "string|null"),
    ("rows[]?.problem", "string"),
    ("rows[]?.mode", "=hot/cold/eager|null"),
    ("rows[]?.time_ns", "number|null"),
    ("rows[]?.spread_ratio", "number|null"),
    ("rows[]?.evo_ns", "number|null"),
    ("rows[]?.ratio", "number|null"),
    ("rows[]?.agrees", "boolean|null"),
    ("rows[]?.correct", "boolean|null"),
    ("rows[]?.evo_correct", "boolean|null"),
    ("rows[]?.faster_than_baseline", "boolean|null"),
    ("rows[]?.faster_than_peer", "boolean|null"),
    ("rows[]?.sign_kept", "boolean|null"),
    ("rows[]?.reason", "string|null"),
];

/// One step of the history.
const STEP: &[Field] = &[
    ("number", "integer"),
    ("at", "string"),
    ("kind", "=champion/evaluation/gate"),
    ("kernel", "string"),
    ("device_kind", "string"),
    ("study?", "string"),
    ("git_commit", "string|null"),
    ("git_dirty", "boolean|null"),
    ("hypothesis", "string|null"),
    ("candidate.configuration", "object"),
    ("candidate.configuration_hash", "string"),
    ("candidate.source_hash?", "string"),
    ("candidate.has_own_source", "boolean"),
    ("problems{}.p50_ns", "number|null"),
    ("change_ratio", "number|null"),
    ("against", "string"),
    ("decision", "=champion/behind/keep/reject/revert/target_hit/pass/fail/noisy/not_run"),
    ("why", "string"),
    ("is_best", "boolean"),
];

const LISTED: &[Field] = &[
    ("standing[].kernel", "string"),
    ("standing[].device_kind", "string"),
    ("standing[].device", "string"),
    ("standing[].steps", "integer"),
    ("standing[].peers~.folder", "string"),
    ("standing[].peers~.at", "string"),
    ("standing[].peers~.problems{}.implementation", "string"),
    ("standing[].peers~.problems{}.peer", "string"),
    ("standing[].peers~.problems{}.p50_ns", "number|null"),
    ("standing[].peers~.problems{}.p90_ns", "number|null"),
    ("standing[].peers~.problems{}.peer_p50_ns", "number|null"),
    ("standing[].peers~.problems{}.peer_p90_ns", "number|null"),
    ("standing[].peers~.problems{}.ratio_to_best_peer", "number"),
    ("standing[].peers~.problems{}.ratio_low", "number|null"),
    ("standing[].peers~.problems{}.ratio_high", "number|null"),
    ("standing[].peers~.problems{}.decision", "=faster/slower/same/ambiguous|null"),
    ("notes[]", "string"),
];

const SUMMED: &[Field] = &[
    ("kernel", "string"),
    ("device_kind", "string"),
    ("device", "string"),
    ("steps", "integer"),
    ("open_findings[]", "string"),
    ("tried_and_failed[]", "string"),
    ("others[].kernel", "string"),
    ("others[].device_kind", "string"),
    ("notes[]", "string"),
];

const REPORTED: &[Field] = &[
    ("study", "string"),
    ("kernel", "string"),
    ("device", "string"),
    ("files[]", "string"),
    ("evaluations", "integer"),
    ("passed", "integer"),
    ("confirmed", "boolean"),
    ("winner~.number", "integer"),
    ("winner~.configuration", "object"),
    ("winner~.time_ns", "number|null"),
    ("winner~.speedup", "number|null"),
    ("winner~.speedup_low", "number|null"),
    ("winner~.speedup_high", "number|null"),
    ("notes[]", "string"),
];

const BENCHED: &[Field] = &[
    ("folder", "string"),
    ("rows.pass", "integer"),
    ("rows.fail", "integer"),
    ("rows.skipped", "integer"),
    ("rows.not_run", "integer"),
    ("summary[].implementation", "string|null"),
    ("summary[].problems", "integer"),
    ("summary[].of", "integer"),
    ("summary[].ratio", "number"),
    ("summary[].worst_ratio", "number"),
    ("summary[].worst_problem", "string"),
    ("why[]", "string"),
];

const MICRO_RANKED: &[Field] = &[
    ("file", "string|null"),
    ("tried", "integer"),
    ("passed", "integer"),
    ("ranked[].rank", "integer"),
    ("ranked[].configuration", "object"),
    ("ranked[].configuration_hash", "string"),
    ("ranked[].time_ns", "number"),
    ("ranked[].ns_per_work", "number"),
    ("ranked[].ctas", "integer"),
    ("ranked[].occupancy_percent", "number|null"),
];

/// The schema of a command's `result`, and the fields that it has unless `error` says why not; none where the command
/// has nothing there.
pub fn of(command: &str) -> Option<(Value, Value)> {
    let plain = |fields: &[Field]| owned("", fields);
    let fields = match command {
        "crosscheck" => [plain(TRIED), plain(CROSSCHECKED)].concat(),
        "history" => [owned("entries[].", STEP), plain(LISTED), owned("standing[].best~.", STEP)].concat(),
        "summary" => [plain(SUMMED), owned("best~.", STEP), owned("last_decisions[].", STEP)].concat(),
        "report" => plain(REPORTED),
        "bench" => plain(BENCHED),
        "micro" => plain(MICRO_RANKED),
        _ => return None,
    };
    let (properties, required) = object(&fields);
    Some((properties, required))
}

pub(crate) fn owned(lead: &str, fields: &[Field]) -> Vec<(String, &'static str)> {
    fields.iter().map(|(path, types)| (format!("{lead}{path}"), *types)).collect()
}

/// The properties that some paths describe, and the names of those that are always there.
pub(crate) fn object(fields: &[(String, &'static str)]) -> (Value, Value) {
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
pub fn of_types(types: &str) -> Value {
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
