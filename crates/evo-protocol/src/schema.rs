//! JSON Schemas of what evo writes for other programs, derived from the types; `evo explain --schema NAME` prints one.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Map, Value, json};

use crate::envelope::{CommandEnvelope, ENVELOPE_VERSION};

pub fn version(command: &str) -> u32 {
    if command == "leaderboard" { 2 } else { ENVELOPE_VERSION }
}

/// The schema of a command's object: the envelope, and beside it the command's own fields, which are there unless `error`
/// says why there is nothing. `own` is the schema of the type that holds them, or of several of which it is one.
pub fn command(name: &str, own: &Schema) -> Schema {
    let (mut schema, version) = (envelope(), version(name));
    let word = format!("evo.{name}");
    schema.insert("$id".into(), format!("{word}.v{version}").into());
    schema.insert("title".into(), format!("evo {name} --json").into());
    let definitions = own.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
    let answers: Vec<&Value> = match own.get("anyOf").and_then(Value::as_array) {
        Some(answers) => answers.iter().map(|answer| resolved(answer, &definitions)).collect(),
        None => vec![own.as_value()],
    };
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("result".into(), json!({ "type": "null" }));
        // A field that the envelope has too may be either's.
        for (field, its) in answers.iter().filter_map(|answer| answer["properties"].as_object()).flatten() {
            let either = match properties.get(field) {
                Some(known) if known != its => json!({ "anyOf": [known, its] }),
                _ => its.clone(),
            };
            properties.insert(field.clone(), either);
        }
        if answers.iter().all(|answer| answer["properties"].get("result").is_none()) {
            properties.insert("result".into(), json!({ "type": ["object", "null"] }));
        }
        properties.insert("schema".into(), json!({ "type": "string", "const": word }));
        properties.insert("version".into(), json!({ "type": "integer", "const": version }));
    }
    let all = schema.ensure_object().entry("$defs").or_insert_with(|| json!({}));
    if let Some(all) = all.as_object_mut() {
        all.extend(definitions.clone());
    }
    let told = json!({ "properties": { "error": { "type": "object" } } });
    let required = |answer: &&Value| json!({ "required": answer.get("required").unwrap_or(&json!([])) });
    let answers: Vec<Value> = [told].into_iter().chain(answers.iter().map(required)).collect();
    schema.insert("anyOf".into(), answers.into());
    schema
}

fn resolved<'a>(schema: &'a Value, definitions: &'a Map<String, Value>) -> &'a Value {
    let name = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
    name.and_then(|name| definitions.get(name)).unwrap_or(schema)
}

pub fn envelope() -> Schema {
    of::<CommandEnvelope>("evo.envelope.v1", "evo envelope")
}

/// The schema of a type as it is written (not: as it may be read).
pub fn of<T: JsonSchema>(id: &str, title: &str) -> Schema {
    let derived = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    named(&derived, id, title)
}

/// The schema of a type as it may be read, in one piece.
pub(crate) fn of_read<T: JsonSchema>(id: &str, title: &str) -> Schema {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let settings = settings.with(|settings| settings.inline_subschemas = true);
    let mut schema = named(&settings.into_generator().into_root_schema_for::<T>(), id, title);
    // That nothing is there without a value goes without saying.
    let plain = |schema: &mut Schema| drop((schema.remove("default"), schema.remove("format")));
    RecursiveTransform(plain).transform(&mut schema);
    schema
}

fn named(derived: &Schema, id: &str, title: &str) -> Schema {
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
