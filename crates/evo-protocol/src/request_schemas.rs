//! JSON Schemas of the requests that `evo evaluate` takes, and of its answers to them. The reader of requests says more
//! than a schema can: which parts of the form this evo serves, and where a mistake is.

use schemars::{Schema, json_schema};
use serde_json::{Value, json};

/// The levels of an evaluation, in order.
const LEVELS: [&str; 5] = ["compile", "tiny", "quick", "full", "confirm"];

/// The schema of a request.
pub fn request() -> Schema {
    let text = json!({ "type": "string" });
    let seconds = json!({ "type": ["number", "null"], "minimum": 0.1, "maximum": 86400 });
    let object = |properties: Value| json!({ "type": ["object", "null"], "properties": properties, "additionalProperties": false });
    let extents = json!({ "type": ["array", "string", "integer", "null"] });
    let launch = object(json!({ "entry": text, "grid": extents, "block": extents,
        "shared": { "type": ["string", "integer", "null"] }, "cluster": { "type": "null" } }));
    let source = object(json!({ "path": text, "content": text }));
    let candidate = json!({
        "type": "object",
        "required": ["kind"],
        "additionalProperties": false,
        "properties": {
            "kind": { "type": "string", "enum": ["configuration", "cuda", "template", "cubin", "frontend"] },
            "sources": { "type": ["array", "null"], "items": source },
            "entry": { "type": ["string", "null"] },
            "configuration": { "type": ["object", "null"] },
            "launches": { "type": ["array", "null"], "items": launch },
            "flags": { "type": ["array", "null"] },
            "parameters": { "type": ["object", "null"] },
            "constraints": { "type": ["array", "null"] },
        },
    });
    json_schema!({
        "$id": "evo.evaluate.request.v1",
        "title": "A request to `evo evaluate --request`, `--serve` and `--stdin`",
        "type": "object",
        "required": ["candidate"],
        "additionalProperties": false,
        "properties": {
            "schema": { "type": ["string", "null"], "enum": ["evo.evaluate.request", null] },
            "version": { "type": ["integer", "null"], "enum": [1, null] },
            "id": { "type": ["string", "integer", "null"] },
            "task": object(json!({ "space": { "type": ["string", "null"] }, "definition": { "type": "null" },
                "workloads": { "type": "null" }, "dir": { "type": "null" } })),
            "candidate": candidate,
            "level": { "type": ["string", "null"], "enum": [LEVELS[0], LEVELS[1], LEVELS[2], LEVELS[3], LEVELS[4], null] },
            "tune": { "type": "null" },
            "baseline": { "type": ["string", "null"] },
            "limits": object(json!({ "compile_s": seconds, "run_s": seconds, "total_s": seconds,
                "memory_mb": { "type": "null" } })),
            "feedback": object(json!({ "bytes": { "type": ["integer", "null"], "minimum": 0, "maximum": 65536 },
                "profile": { "type": ["boolean", "null"] }, "sass": { "type": ["boolean", "null"] } })),
            "visibility": { "type": ["string", "null"], "enum": ["agent", "owner", null] },
            "hypothesis": { "type": ["string", "null"] },
            "ask": { "type": ["string", "null"], "enum": ["task", null] },
            "tag": true,
        },
    })
}

/// The schema of an answer.
pub fn answer() -> Schema {
    let nullable = |name: &str| json!({ "type": [name, "null"] });
    let all = [
        "schema",
        "version",
        "id",
        "status",
        "error",
        "verdict",
        "class",
        "cause",
        "message",
        "level_reached",
        "evidence",
        "gates",
        "not_run",
        "correctness",
        "performance",
        "scores",
        "accepted",
        "acceptance",
        "features",
        "feedback",
        "best",
        "provenance",
        "cost",
        "hashes",
        "repro",
        "reasons",
    ];
    json_schema!({
        "$id": "evo.evaluate.answer.v1",
        "title": "An answer of `evo evaluate --request`, `--serve` and `--stdin`",
        "type": "object",
        "required": all,
        "additionalProperties": false,
        "properties": {
            "schema": { "type": "string", "const": "evo.evaluate.answer" },
            "version": { "type": "integer", "const": 1 },
            "id": { "type": ["string", "integer", "null"] },
            "line": { "type": "integer", "minimum": 1 },
            "tag": true, "cached": { "type": "boolean", "const": true },
            "status": { "type": "string", "enum": ["done", "rejected", "harness_error"] },
            "error": nullable("object"),
            "verdict": nullable("string"),
            "class": nullable("string"),
            "cause": nullable("string"),
            "message": { "type": "string" },
            "level": { "type": "string", "enum": LEVELS },
            "level_reached": nullable("string"),
            "evidence": { "type": "object" },
            "gates": { "type": "object",
                "additionalProperties": { "type": "string", "enum": ["pass", "fail", "not_run"] } },
            "not_run": { "type": "array", "items": { "type": "string" } },
            "correctness": nullable("object"),
            "performance": nullable("object"),
            "scores": nullable("object"),
            "accepted": { "type": "boolean" },
            "acceptance": nullable("object"),
            "features": nullable("object"),
            "feedback": nullable("object"),
            "best": { "type": "null" },
            "provenance": nullable("object"),
            "cost": nullable("object"),
            "hashes": nullable("object"),
            "repro": nullable("string"),
            "reasons": { "type": "object", "additionalProperties": { "type": "string" } },
        },
    })
}
