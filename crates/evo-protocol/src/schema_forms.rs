//! JSON Schemas of types from other crates, as files show them.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// A configuration as files show it.
pub(crate) struct ConfigurationObject;

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
pub(crate) struct HashText;

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
