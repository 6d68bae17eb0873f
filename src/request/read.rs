//! From the text of a request to its meaning: every mistake with its place. What is right is what the schema of the
//! request's type says, so a field is declared once; the few rules between fields follow.

use std::path::Path;

use evo_protocol::request::{self, EvaluationRequest, RequestedBaseline, UNSERVED};
use evo_space::diagnostic::{Diagnostic, Diagnostics};
use evo_space::document::{self, Data, Node, suggestion};
use serde_json::Value;

use super::lines::{RequestError, id_of};
use crate::kernel::access::open_beside;
use crate::kernel::catalog;

/// Bytes that are kept of what stands in answers and records.
const BYTES_MAX: [(&str, usize); 3] = [("id", 256), ("hypothesis", 4096), ("tag", 4096)];

/// A space file of this size is refused before it is read.
const SPACE_MAX: u64 = 4 << 20;

pub fn request(text: &str) -> Result<EvaluationRequest, Box<RequestError>> {
    let mut found = Diagnostics::default();
    let body = text.trim_start_matches('\u{feff}').trim_start();
    let root = match body.starts_with('{') {
        true => document::parse(text, &mut found),
        false => {
            let at = text.len() - body.len();
            found.error_with_hint(at..at, "the request is not a JSON object", "it begins with `{`");
            None
        }
    };
    if let Some(root) = &root {
        let schema = request::request().to_value();
        SchemaReader { root: "the request", noun: "field", found: &mut found }.check(root, &schema, "");
        rules(root, &mut found);
    }
    if found.is_empty() {
        match serde_json::from_str(body) {
            Ok(request) => return Ok(request),
            Err(error) => found.error(0..0, error.to_string()),
        }
    }
    let mut list: Vec<&Diagnostic> = found.list().iter().collect();
    list.sort_by_key(|mistake| mistake.span.as_ref().map_or(usize::MAX, |span| span.start));
    let mut message = shortened(&list[0].message, 400);
    if list.len() > 1 {
        message = format!("{message} (and {} more mistakes)", list.len() - 1);
    }
    Err(Box::new(RequestError {
        id: id_of(text.as_bytes()),
        message,
        hint: list[0].hint.as_deref().map(|hint| shortened(hint, 400)),
        place: found.first_place(text),
        is_too_long: false,
    }))
}

/// Whether a program may name this space: an embedded one, or a space file below the folder that evo runs in. A space file
/// can name commands, so a stranger must not choose any file of this machine. An error is what is wrong with the field
/// that names it, and the way out.
pub fn space_beneath(name: &str) -> Result<(), (&'static str, &'static str)> {
    if catalog::names().contains(&name) {
        return Ok(());
    }
    match open_beside(Path::new("."), name, SPACE_MAX, false) {
        Ok(_) if catalog::looks_like_space(name) => Ok(()),
        Ok(_) => Err(("names a file that is not a space file", "a space file ends in `.toml` or `.json`")),
        Err(_) => Err((
            "names neither an embedded space nor a file below this folder",
            "paths are relative to the folder in which evo was started, and stay inside it",
        )),
    }
}

/// The first mistake in the arguments of a call, held to what they may be.
pub fn argument_mistake(arguments: &Value, schema: &Value) -> Option<String> {
    let mut found = Diagnostics::default();
    let root = document::parse(&arguments.to_string(), &mut found);
    if let Some(root) = root {
        SchemaReader { root: "", noun: "argument", found: &mut found }.check(&root, schema, "");
    }
    let mistake = found.list().first()?;
    Some(match &mistake.hint {
        Some(hint) => format!("{}: {hint}", mistake.message),
        None => mistake.message.clone(),
    })
}

fn shortened(text: &str, letters: usize) -> String {
    text.chars().take(letters).collect()
}

/// A field's value; null counts as absent.
fn get<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    node.get(key).filter(|value| !matches!(value.data, Data::Null))
}

fn word<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    match &get(node, key)?.data {
        Data::Text(text) => Some(text),
        _ => None,
    }
}

fn list<'n>(node: &'n Node, key: &str) -> &'n [Node] {
    match get(node, key).map(|node| &node.data) {
        Some(Data::List(items)) => items,
        _ => &[],
    }
}

/// What holds between fields, and what a schema cannot say.
fn rules(root: &Node, found: &mut Diagnostics) {
    for (key, most) in BYTES_MAX {
        let Some(node) = get(root, key) else { continue };
        let bytes = match &node.data {
            Data::Text(text) => text.len(),
            _ => node.span.len(),
        };
        if bytes > most {
            found.error(
                node.span.clone(),
                format!("`{key}` has {bytes} bytes, and at most {most} bytes are kept"),
            );
        }
    }
    if let Some(text) = word(root, "baseline")
        && let Err(what) = RequestedBaseline::try_from(text.to_string())
        && let Some(node) = get(root, "baseline")
    {
        let message = format!("`baseline` is `{}`, which is {what}", shortened(text, 80));
        let hint = "`default`, `incumbent`, or the first digits of a hash (6 at least)";
        found.error_with_hint(node.span.clone(), message, hint);
    }
    let Some(candidate) = get(root, "candidate") else {
        // A misspelled question is the one mistake.
        if get(root, "ask").is_none() {
            let hint = "add \"candidate\": {\"kind\": \"cuda\", \"sources\": […]}";
            found.error_with_hint(root.span.clone(), "the request has no `candidate`", hint);
        }
        return;
    };
    let sources = get(candidate, "sources").unwrap_or(candidate).span.clone();
    match (word(candidate, "kind").unwrap_or_default(), list(candidate, "sources").len()) {
        ("configuration", count) if count > 0 => {
            let hint = "say `\"kind\": \"cuda\"` or `\"template\"` for a source of its own";
            found.error_with_hint(sources, "a candidate of the kind `configuration` has `sources`", hint);
        }
        ("cuda" | "template", count) if count != 1 => {
            found.error(sources, format!("`candidate.sources` has {count} sources, expected one"));
        }
        _ => {}
    }
    let launches = list(candidate, "launches");
    for (at, launch) in launches.iter().enumerate() {
        if let Some(entry) = word(launch, "entry")
            && launches[..at].iter().any(|earlier| word(earlier, "entry") == Some(entry))
        {
            found.error(launch.span.clone(), format!("two launches of `{entry}`"));
        }
    }
}

/// Holds a document to a JSON Schema in the words of our messages: as much of the schemas as derived ones use.
struct SchemaReader<'f> {
    /// What the outermost object is called; nothing where it goes without saying.
    root: &'static str,
    noun: &'static str,
    found: &'f mut Diagnostics,
}

impl SchemaReader<'_> {
    /// A null counts as absent, so it is right everywhere.
    fn check(&mut self, node: &Node, schema: &Value, path: &str) {
        let types = words_of(&schema["type"]);
        if !types.is_empty() && !types.iter().any(|name| is_of(node, name)) {
            let expected: Vec<&str> = types.iter().filter_map(|name| kind(name)).collect();
            let path = if path.is_empty() { self.root } else { path };
            self.wrong(
                node,
                format!("`{path}` is {}, expected {}", node.kind(), expected.join(" or ")),
                None,
            );
            return;
        }
        self.check_words(node, schema, path);
        self.check_range(node, schema, path);
        match &node.data {
            Data::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.check(item, &schema["items"], &format!("{path}[{at}]"));
                }
            }
            Data::Table(_) => self.check_fields(node, schema, path),
            _ => {}
        }
    }

    fn check_words(&mut self, node: &Node, schema: &Value, path: &str) {
        let words = words_of(&schema["enum"]);
        match &node.data {
            Data::Text(word) if !words.is_empty() && !words.contains(&word.as_str()) => {
                let hint =
                    suggestion(word, words.iter().copied(), || format!("one of: {}", words.join(", ")));
                let message = format!("`{path}` is `{}`, which is unknown", shortened(word, 80));
                self.wrong(node, message, Some(&hint));
            }
            Data::Int(number) => {
                let values = schema["enum"].as_array();
                if values.is_some_and(|values| !values.contains(&Value::from(*number))) {
                    let message = format!("`{path}` is {number}, and this evo knows {}", schema["enum"][0]);
                    self.wrong(node, message, None);
                }
            }
            _ => {}
        }
    }

    fn check_range(&mut self, node: &Node, schema: &Value, path: &str) {
        let value = match &node.data {
            Data::Int(value) => *value as f64,
            Data::Float(value) => *value,
            _ => return,
        };
        let (least, most) = (&schema["minimum"], &schema["maximum"]);
        let is_below = least.as_f64().is_some_and(|least| value < least);
        if is_below || most.as_f64().is_some_and(|most| value > most) {
            let expected = match most.is_null() {
                true => format!("at least {least}"),
                false => format!("{least} to {most}"),
            };
            self.wrong(node, format!("`{path}` is {value}, expected {expected}"), None);
        }
    }

    fn check_fields(&mut self, node: &Node, schema: &Value, path: &str) {
        let name = if path.is_empty() { self.root } else { path };
        let known = schema["properties"].as_object();
        for entry in node.entries().into_iter().flatten() {
            let key = entry.key.as_str();
            let below = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
            let others = &schema["additionalProperties"];
            match known.and_then(|known| known.get(key)) {
                Some(schema) => self.check(&entry.value, schema, &below),
                None if *others != false => self.check(&entry.value, others, &below),
                None => {
                    let unserved = UNSERVED.iter().find(|(name, _)| *name == key && self.noun == "field");
                    if let Some((_, hint)) = unserved {
                        if !says_nothing(&entry.value) {
                            let message = format!("`{below}` is not served by this evo");
                            self.wrong(&entry.value, message, Some(hint));
                        }
                        continue;
                    }
                    let known: Vec<&str> =
                        known.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
                    let hint =
                        suggestion(key, known.iter().copied(), || format!("known: {}", known.join(", ")));
                    let place = if name.is_empty() { String::new() } else { format!(" in `{name}`") };
                    let message = format!("unknown {} `{}`{place}", self.noun, shortened(key, 80));
                    self.found.error_with_hint(entry.key_span.clone(), message, hint);
                }
            }
        }
        for field in words_of(&schema["required"]).into_iter().filter(|field| get(node, field).is_none()) {
            let hint = schema["properties"][field]["description"].as_str();
            let message = match name {
                "" => format!("`{field}` is missing"),
                _ => format!("`{name}` has no `{field}`"),
            };
            self.wrong(node, message, hint);
        }
    }

    fn wrong(&mut self, node: &Node, message: String, hint: Option<&str>) {
        let hint = hint.map(str::to_string);
        self.found.push(Diagnostic { message, span: Some(node.span.clone()), hint });
    }
}

/// Whether a part that is not served is empty, and nothing is missed with it.
fn says_nothing(node: &Node) -> bool {
    match &node.data {
        Data::Null | Data::Bool(false) => true,
        Data::List(items) => items.is_empty(),
        Data::Table(entries) => entries.is_empty(),
        _ => false,
    }
}

fn words_of(rule: &Value) -> Vec<&str> {
    match rule {
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
        word => word.as_str().into_iter().collect(),
    }
}

fn is_of(node: &Node, name: &str) -> bool {
    match &node.data {
        Data::Null => true,
        Data::Bool(_) => name == "boolean",
        Data::Int(_) => name == "integer" || name == "number",
        Data::BigInt(_) | Data::Float(_) => name == "number",
        Data::Text(_) => name == "string",
        Data::List(_) => name == "array",
        Data::Table(_) => name == "object",
    }
}

/// A type as messages call it; nothing for null.
fn kind(name: &str) -> Option<&'static str> {
    Some(match name {
        "boolean" => "true or false",
        "integer" => "an integer of 64 bits",
        "number" => "a number",
        "string" => "a text",
        "array" => "a list",
        "object" => "an object",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use evo_protocol::request::{CandidateKind, EvaluationLevel, Visibility};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn refused(text: &str, parts: &[&str]) -> RequestError {
        let error = *request(text).unwrap_err();
        let shown = format!("{}; {}", error.message, error.hint.as_deref().unwrap_or(""));
        for part in parts {
            assert!(shown.contains(part), "no `{part}` in {shown}");
        }
        error
    }

    #[test]
    fn the_task_is_asked_for_without_a_candidate() {
        let read = request(r#"{"id":1,"ask":"task","hypothesis":"h"}"#).unwrap();
        assert_eq!((read.asks_task(), read.hypothesis.as_deref()), (true, Some("h")));
        let error = refused(r#"{"id":1,"ask":"tsak"}"#, &["`ask` is `tsak`", "did you mean `task`?"]);
        assert!(!error.message.contains("more mistakes"), "{}", error.message);
        refused(&format!(r#"{{"ask":"task","hypothesis":"{}"}}"#, "h".repeat(4097)), &["4096 bytes"]);
    }

    #[test]
    fn a_whole_request_is_read() {
        let text = r#"{"schema":"evo.evaluate.request","version":1,"id":"a7","task":{"space":"attn.toml"},
            "candidate":{"kind":"cuda","sources":[{"path":"k.cu","content":"int x;"}],"entry":"fwd",
            "configuration":{"BLOCK_M":64},
            "launches":[{"entry":"fwd","grid":["N",1],"block":[64],"shared":"4*N","cluster":null}],"flags":[]},
            "level":"tiny","tune":null,"baseline":"@3FA9C0","limits":{"compile_s":120,"total_s":0.5},
            "feedback":{"bytes":100,"profile":true,"sass":false},"visibility":"owner","tag":{"generation":3}}"#;
        let read = request(text).unwrap();
        let candidate = read.candidate.as_ref().unwrap();
        assert_eq!((candidate.kind, candidate.source()), (CandidateKind::Cuda, Some("int x;")));
        assert_eq!(candidate.configuration.as_ref().unwrap().get(), "{\"BLOCK_M\":64}");
        let launches = candidate.launch_text().unwrap();
        assert_eq!(launches, r#"{"fwd":{"grid":["N",1],"block":[64],"shared_bytes":"4*N"}}"#);
        assert_eq!((&read.id, read.level), (&json!("a7"), Some(EvaluationLevel::Tiny)));
        assert_eq!(read.baseline, Some(RequestedBaseline::Hash("3fa9c0".into())));
        assert_eq!(read.limits.unwrap().total_s, Some(0.5));
        assert_eq!((read.feedback_bytes(), read.wants_profile()), (100, true));
        assert_eq!((read.visibility, &read.tag), (Some(Visibility::Owner), &Some(json!({"generation": 3}))));
        let least = request(r#"{"candidate":{"kind":"configuration"}}"#).unwrap();
        assert_eq!((least.id, least.level, least.visibility), (Value::Null, None, None));
    }

    #[test]
    fn mistakes_have_places_and_ids() {
        let error =
            refused("{\"id\": 3,\n \"candidate\": {\"kind\": 7}}", &["`candidate.kind` is an integer"]);
        assert_eq!((error.id, error.place), (json!(3), Some((2, 24))));
        refused("[1]", &["not a JSON object", "begins with `{`"]);
        refused("{\"id\": 1, \"id\": 2}", &["duplicate key `id`"]);
        refused(&format!("{{\"tag\": {}1{}}}", "[".repeat(200), "]".repeat(200)), &["nesting is deeper"]);
        refused(r#"{"candidate":{"kind":"cuda"}}"#, &["has 0 sources"]);
        refused(
            r#"{"candidate":{"kind":"configuration"},"levle":"tiny"}"#,
            &["unknown field `levle`", "level"],
        );
        refused(r#"{"candidate":{"kind":"configuration"},"level":"slow"}"#, &["`level` is `slow`", "one of"]);
        refused(
            r#"{"candidate":{"kind":"cubin"}}"#,
            &["`candidate.kind` is `cubin`", "one of: configuration, cuda"],
        );
        refused(r#"{"candidate":{"kind":"configuration","flags":["-O3"]}}"#, &["candidate.flags"]);
        refused(r#"{"candidate":{"kind":"configuration"},"version":2}"#, &["`version` is 2"]);
        refused(r#"{"candidate":{"kind":"configuration"},"limits":{"total_s":1e300}}"#, &["0.1 to 86400"]);
        refused(r#"{"candidate":{"kind":"configuration"},"id":{"a":1}}"#, &["`id` is a table"]);
        refused(r#"{"candidate":{"kind":"configuration"},"id":99999999999999999999}"#, &["`id` is"]);
        refused(
            r#"{"candidate":{"kind":"configuration"},"task":{"dir":"x"}}"#,
            &["`task.dir` is not served", "task.space"],
        );
        refused(
            r#"{"candidate":{"kind":"configuration"},"baseline":"peer:x"}"#,
            &["not served", "`incumbent`"],
        );
        refused(r#"{"candidate":{"kind":"configuration"},"feedback":{"bytes":70000}}"#, &["0 to 65536"]);
        refused(r#"{"candidate":{"sources":7},"levle":1}"#, &["has no `kind`", "and 2 more", "template"]);
        let launches = r#"{"candidate":{"kind":"configuration","launches":[{"entry":"f","cluster":[2]},{"entry":"f"}]}}"#;
        refused(launches, &["`candidate.launches[0].cluster` is not served", "and 1 more"]);
        assert_eq!(refused(r#"{"id":"b","candidate":[]}"#, &["expected an object"]).id, json!("b"));
    }

    #[test]
    fn arguments_of_a_call_are_held_to_their_schema() {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["space"],
            "properties": {
                "space": { "type": "string", "description": "which space" },
                "level": { "type": "string", "enum": ["quick", "full"] },
                "seed": { "type": "integer", "minimum": 0 },
                "values": { "type": "object", "additionalProperties": { "type": ["string", "number"] } },
            },
        });
        let check = |arguments: Value, expected: Option<&str>| {
            assert_eq!(argument_mistake(&arguments, &schema).as_deref(), expected);
        };
        check(json!({ "space": "gemm", "seed": 7, "values": { "A": 1.5 } }), None);
        check(json!({}), Some("`space` is missing: which space"));
        check(json!({ "spaec": "b" }), Some("unknown argument `spaec`: did you mean `space`?"));
        check(json!({ "space": 3 }), Some("`space` is an integer, expected a text"));
        check(json!({ "space": "a", "seed": -1 }), Some("`seed` is -1, expected at least 0"));
        check(
            json!({ "space": "a", "level": "fulll" }),
            Some("`level` is `fulll`, which is unknown: did you mean `full`?"),
        );
        check(
            json!({ "space": "a", "values": { "A": [] } }),
            Some("`values.A` is a list, expected a text or a number"),
        );
    }
}
