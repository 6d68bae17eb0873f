//! JSON Schema of `bench.json`, which `evo bench` keeps beside its tables. A test holds it to what the command writes.

use schemars::{Schema, json_schema};
use serde_json::{Value, json};

/// The schema of the file.
pub fn bench_file() -> Schema {
    let text = json!({ "type": "string" });
    let list = json!({ "type": "array", "items": text });
    let implementation = json!({
        "type": "object",
        "required": ["name", "kind", "version"],
        "properties": {
            "name": text,
            "kind": { "type": "string", "enum": ["own", "peer"] },
            "version": { "type": ["string", "null"] },
        },
    });
    json_schema!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "evo.bench.file.v1",
        "title": "bench.json of `evo bench`",
        "type": "object",
        "required": ["name", "kernel", "status", "implementations", "rows", "summary"],
        "properties": {
            "name": text,
            "kernel": text,
            "status": { "type": "string", "enum": ["unfinished", "pass", "fail", "not_run", "noisy", "error", "interrupted"] },
            "why": list,
            "implementations": { "type": "array", "items": implementation },
            "rows": { "type": "array", "items": row() },
            "summary": { "type": "array", "items": mean() },
        },
    })
}

fn mean() -> Value {
    let ratio = json!({ "type": "number", "minimum": 0 });
    json!({
        "type": "object",
        "required": ["implementation", "problems", "of", "ratio", "worst_ratio", "worst_problem"],
        "additionalProperties": false,
        "properties": {
            "implementation": { "type": ["string", "null"] },
            "problems": { "type": "integer", "minimum": 1 },
            "of": { "type": "integer", "minimum": 1 },
            "ratio": ratio,
            "worst_ratio": ratio,
            "worst_problem": { "type": "string" },
        },
    })
}

fn row() -> Value {
    let nullable = |name: &str| json!({ "type": [name, "null"] });
    let time = json!({ "type": "number", "minimum": 0 });
    let mode = json!({
        "type": "object",
        "required": ["p50_ns", "p90_ns", "ci_low_ns", "ci_high_ns", "samples"],
        "additionalProperties": false,
        "properties": {
            "p50_ns": time, "p90_ns": time, "ci_low_ns": time, "ci_high_ns": time,
            "samples": { "type": "integer", "minimum": 1 },
        },
    });
    let fields = [
        ("problem", json!({ "type": "string" })),
        ("sizes", json!({ "type": "object", "additionalProperties": { "type": "integer" } })),
        ("canonical", json!({ "type": "boolean" })),
        ("dtype", nullable("string")),
        ("implementation", json!({ "type": "string" })),
        ("version", nullable("string")),
        ("status", json!({ "type": "string", "enum": ["pass", "fail", "skipped", "not_run"] })),
        ("reason", nullable("string")),
        ("correct", nullable("boolean")),
        ("max_abs_error", nullable("number")),
        ("allclose_1e-3", nullable("boolean")),
        ("allclose_1e-2", nullable("boolean")),
        ("modes", json!({ "type": "object", "additionalProperties": mode })),
        ("tflops", nullable("number")),
        ("gigabytes_per_second", nullable("number")),
        ("roofline_ratio", nullable("number")),
        ("ratio_to_best_peer", nullable("number")),
        ("ratio_low", nullable("number")),
        ("ratio_high", nullable("number")),
        ("decision", nullable("string")),
        ("ctas", nullable("integer")),
        ("few_ctas", nullable("boolean")),
        ("scales_badly", nullable("boolean")),
        ("reasons", json!({ "type": "object", "additionalProperties": { "type": "string" } })),
    ];
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let properties: Value = fields.iter().map(|(name, schema)| (name.to_string(), schema.clone())).collect();
    json!({ "type": "object", "required": required, "additionalProperties": false, "properties": properties })
}
