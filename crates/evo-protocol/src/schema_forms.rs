//! How schemas are made: from a type as it is written, and of types from other crates, as files show them.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

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

/// The schema of a type as it is written (not: as it may be read).
pub fn of<T: JsonSchema>(id: &str, title: &str) -> Schema {
    named::<T>(SchemaSettings::draft2020_12().for_serialize(), id, title)
}

/// The schema of a type as it may be read, in one piece.
pub(crate) fn of_read<T: JsonSchema>(id: &str, title: &str) -> Schema {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let mut schema = named::<T>(settings.with(|settings| settings.inline_subschemas = true), id, title);
    // That nothing is there without a value goes without saying.
    let plain = |schema: &mut Schema| drop((schema.remove("default"), schema.remove("format")));
    RecursiveTransform(plain).transform(&mut schema);
    schema
}

fn named<T: JsonSchema>(settings: SchemaSettings, id: &str, title: &str) -> Schema {
    let derived = settings.into_generator().into_root_schema_for::<T>();
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
