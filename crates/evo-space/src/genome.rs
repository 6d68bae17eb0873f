//! A genome is what strategies handle: one position per parameter. A configuration is what people, templates and files
//! see: names and values. The content hash names sources, binaries and configurations alike.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::expr::Scope;
use crate::value::Value;

/// Positions into each parameter's values, in declared order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Genome(pub Box<[u16]>);

impl Genome {
    pub fn positions(&self) -> &[u16] {
        &self.0
    }
}

impl From<Vec<u16>> for Genome {
    fn from(positions: Vec<u16>) -> Genome {
        Genome(positions.into_boxed_slice())
    }
}

/// One value for each parameter, in declared order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(
    from = "serde_json::Map<String, serde_json::Value>",
    into = "serde_json::Map<String, serde_json::Value>"
)]
pub struct Configuration {
    pairs: Vec<(Arc<str>, Value)>,
}

impl JsonSchema for Configuration {
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

impl Configuration {
    pub fn new(pairs: Vec<(Arc<str>, Value)>) -> Configuration {
        Configuration { pairs }
    }

    pub fn with<S: AsRef<str>>(&self, changes: &[(S, Value)]) -> Configuration {
        let value = |name: &str, value: &Value| {
            let change = changes.iter().find(|(other, _)| other.as_ref() == name);
            change.map_or(value, |(_, value)| value).clone()
        };
        Configuration::new(self.iter().map(|(name, own)| (name.into(), value(name, own))).collect())
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.pairs.iter().find(|(own, _)| &**own == name).map(|(_, value)| value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.pairs.iter().map(|(name, value)| (&**name, value))
    }

    /// The name of this configuration in journals: a hash of names, kinds and values.
    pub fn hash(&self) -> ContentHash {
        // Names and values hold no control characters, so the separators keep them apart. The kind is hashed too, because
        // the text `4` and the number 4 are written alike.
        let pair = |(name, value): (&str, &Value)| format!("{name}\u{1f}{}\u{1f}{value}\u{1e}", value.kind());
        ContentHash::of(self.iter().map(pair).collect::<String>().as_bytes())
    }

    /// The values alone, separated by spaces: what `evo test-one` takes.
    pub fn positional(&self) -> String {
        self.pairs.iter().map(|(_, value)| value.to_string()).collect::<Vec<_>>().join(" ")
    }
}

impl Scope for Configuration {
    fn get(&self, name: &str) -> Option<Value> {
        Configuration::get(self, name).cloned()
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> = self.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&pairs.join(" "))
    }
}

impl From<serde_json::Map<String, serde_json::Value>> for Configuration {
    fn from(map: serde_json::Map<String, serde_json::Value>) -> Configuration {
        let pair = |(name, value): (String, serde_json::Value)| {
            let value = serde_json::from_value(value).unwrap_or_else(|_| Value::text("?"));
            (Arc::from(name), value)
        };
        Configuration { pairs: map.into_iter().map(pair).collect() }
    }
}

impl From<Configuration> for serde_json::Map<String, serde_json::Value> {
    fn from(configuration: Configuration) -> Self {
        let pair = |(name, value): (Arc<str>, Value)| {
            (name.to_string(), serde_json::to_value(value).unwrap_or_default())
        };
        configuration.pairs.into_iter().map(pair).collect()
    }
}

/// The first 128 bits of a BLAKE3 hash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("pattern" = "^[0-9a-f]{32}$"))]
pub struct ContentHash(Arc<str>);

impl ContentHash {
    pub fn of(bytes: &[u8]) -> ContentHash {
        ContentHash(Arc::from(&blake3::hash(bytes).to_hex().as_str()[..32]))
    }

    /// The hash of several parts; a part's end is part of what is hashed.
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> ContentHash {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        ContentHash(Arc::from(&hasher.finalize().to_hex().as_str()[..32]))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn short(&self) -> &str {
        &self.0[..10]
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_tells_kinds_apart_and_round_trips() {
        let make = |value: Value| Configuration::new(vec![(Arc::from("A"), value)]);
        assert_ne!(make(Value::Int(4)).hash(), make(Value::Float(4.0)).hash());
        assert_ne!(make(Value::Int(1)).hash(), make(Value::Bool(true)).hash());
        let configuration = make(Value::Float(4.0));
        let text = serde_json::to_string(&configuration).unwrap();
        let back: Configuration = serde_json::from_str(&text).unwrap();
        assert_eq!(back.hash(), configuration.hash());
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(ContentHash::of_parts([&b"ab"[..], b"c"]), ContentHash::of_parts([&b"a"[..], b"bc"]));
    }
}
