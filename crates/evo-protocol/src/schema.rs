//! JSON Schemas of what evo writes for other programs, derived from the types; `evo explain --schema NAME` prints one.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::bench::BenchReport;
use crate::crosscheck::{CrosscheckLine, CrosscheckRequest, CrosscheckRow};
use crate::envelope::{CommandEnvelope, ENVELOPE_VERSION};
use crate::evaluation::Evaluation;
use crate::export::ExportManifest;
use crate::invert::InvertRow;
use crate::leaderboard::Leaderboard;
use crate::micro::MicroRanking;
use crate::{request_schemas, stream_schemas};

type MakeSchema = fn() -> Schema;

/// What has a schema beside the objects of commands, with what gives it.
const FILES: &[(&str, MakeSchema)] = &[
    ("leaderboard-file", || of::<Leaderboard>("evo.leaderboard.v1", "evo leaderboard")),
    ("evaluation", || of::<Evaluation>("evo.evaluation.v1", "evo evaluation")),
    ("envelope", envelope),
    ("invert-file", || of::<Vec<InvertRow>>("evo.invert.v1", "what harming a kernel costs it")),
    ("crosscheck-file", || {
        of::<Vec<CrosscheckRow>>("evo.crosscheck-file.v1", "what other clocks and checks say of a candidate")
    }),
    ("crosscheck-request", || of::<CrosscheckRequest>("evo.crosscheck-request.v1", "evo to a harness")),
    ("crosscheck-line", || of::<CrosscheckLine>("evo.crosscheck-line.v1", "a harness to evo, a line")),
    ("micro-best", || of::<MicroRanking>("evo.micro-best.v1", "evo micro ranking")),
    ("export-manifest", || of::<ExportManifest>("evo.export-manifest.v1", "evo export manifest")),
    ("evaluate-request", request_schemas::request),
    ("evaluate-answer", request_schemas::answer),
    ("bench-file", || of::<BenchReport>("evo.bench.file.v1", "bench.json of `evo bench`")),
    ("sweep-event", stream_schemas::sweep_event),
    ("study", stream_schemas::study),
];

/// Files and lines of streams that have a schema.
pub fn files() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// The schema of a file or of a line.
pub fn file(name: &str) -> Option<Schema> {
    FILES.iter().find(|(file, _)| *file == name).map(|(_, schema)| schema())
}

/// The version of a command's object.
pub fn version(command: &str) -> u32 {
    if command == "leaderboard" { 2 } else { ENVELOPE_VERSION }
}

/// The schema of a command's object: the envelope, and beside it the command's own fields, which are there unless `error`
/// says why there is nothing. `own` is the schema of the type that holds them.
pub fn command(name: &str, own: &Schema) -> Schema {
    let (mut schema, version) = (envelope(), version(name));
    let word = format!("evo.{name}");
    schema.insert("$id".into(), format!("{word}.v{version}").into());
    schema.insert("title".into(), format!("evo {name} --json").into());
    let part = |name: &str| own.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut properties = part("properties");
    properties.insert("schema".into(), json!({ "type": "string", "const": word }));
    properties.insert("version".into(), json!({ "type": "integer", "const": version }));
    for (place, more) in [("properties", properties), ("$defs", part("$defs"))] {
        let all = schema.ensure_object().entry(place).or_insert_with(|| json!({}));
        if let Some(all) = all.as_object_mut() {
            all.extend(more);
        }
    }
    // Where there is nothing to tell, the result is null.
    if let Some(result) = schema.get_mut("properties").and_then(|all| all.get_mut("result")) {
        *result = json!({ "anyOf": [result.take(), { "type": "null" }] });
    }
    let told = json!({ "properties": { "error": { "type": "object" } } });
    // A command with several answers has one of them.
    let answer = match own.get("anyOf") {
        Some(answers) => json!({ "anyOf": answers }),
        None => json!({ "required": own.get("required").cloned().unwrap_or_else(|| json!([])) }),
    };
    schema.insert("anyOf".into(), json!([told, answer]));
    schema
}

/// A configuration as files show it.
pub struct ConfigurationObject;

impl JsonSchema for ConfigurationObject {
    fn schema_name() -> Cow<'static, str> {
        "Configuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Parameter names to values, in declared order.",
            "type": "object",
            "additionalProperties": { "type": ["integer", "number", "boolean", "string"] },
        })
    }
}

/// A content hash as files show it.
pub struct HashText;

impl JsonSchema for HashText {
    fn schema_name() -> Cow<'static, str> {
        "ContentHash".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The first 128 bits of a BLAKE3 hash.",
            "type": "string",
            "pattern": "^[0-9a-f]{32}$",
        })
    }
}

/// The schema of the fields that the object of every command has.
pub(crate) fn envelope() -> Schema {
    of::<CommandEnvelope>("evo.envelope.v1", "evo envelope")
}

/// The schema of a type as it is written (not: as it may be read).
pub fn of<T: JsonSchema>(id: &str, title: &str) -> Schema {
    let derived = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    let mut schema = json_schema!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": id,
        "title": title,
    });
    for (key, value) in derived.as_object().into_iter().flatten() {
        if !matches!(key.as_str(), "$schema" | "title") {
            schema.insert(key.clone(), value.clone());
        }
    }
    RecursiveTransform(unwrapped).transform(&mut schema);
    schema
}

/// Doc comments are wrapped for the source; a description is one line a paragraph.
fn unwrapped(schema: &mut Schema) {
    if let Some(text) = schema.get("description").and_then(|text| text.as_str()) {
        let paragraphs: Vec<String> = text.split("\n\n").map(|one| one.replace('\n', " ")).collect();
        schema.insert("description".to_string(), paragraphs.join("\n\n").into());
    }
}
