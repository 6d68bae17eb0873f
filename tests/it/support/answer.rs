//! What every answer with `--json` keeps to: one object, its schema, the exit code, a reason for each null.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::json_schema;

/// A committed schema, by its file's name.
pub fn schema(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/schemas/{name}.schema.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The object is as the schema of its command says, and has nothing else in its result.
#[track_caller]
pub fn hold_to_schema(command: &str, words: &str, object: &Value) {
    let schema = schema(command);
    assert_eq!(json_schema::fault(&schema, object), None, "`{words}`: {object}");
    let result = &schema["properties"]["result"];
    assert_eq!(json_schema::unlisted(result, &object["result"], "result"), None, "`{words}`: {object}");
}

/// The one object on stdout, which the schema of its command allows.
#[track_caller]
pub fn object(command: &str, words: &str, stdout: &[u8]) -> Value {
    let text = String::from_utf8_lossy(stdout);
    let object: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("`{words}`: {error}: {text}"));
    assert_eq!(object["schema"], format!("evo.{command}"), "`{words}`: {object}");
    hold_to_schema(command, words, &object);
    object
}

/// The object of a call that ended so.
#[track_caller]
pub fn judged(command: &str, words: &str, output: &Output, code: i32, status: &str) -> Value {
    let object = object(command, words, &output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let seen = (output.status.code(), object["status"].as_str());
    assert_eq!(seen, (Some(code), Some(status)), "`{words}`: {object}\n{stderr}");
    object
}

/// Every null below `result` has a reason.
#[track_caller]
pub fn hold_nulls(object: &Value) {
    nulls("result", &object["result"], &object["reasons"]);
}

#[track_caller]
fn nulls(path: &str, value: &Value, reasons: &Value) {
    match value {
        Value::Null => assert!(reasons[path].is_string(), "`{path}` has no reason"),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| nulls(&format!("{path}.{at}"), item, reasons));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, item)| nulls(&format!("{path}.{name}"), item, reasons));
        }
        _ => {}
    }
}
