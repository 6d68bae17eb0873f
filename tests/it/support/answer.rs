//! What every answer with `--json` keeps to: one object, its schema, the exit code, a reason for each null.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Output};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::json_schema;

/// A schema, as `evo explain --schema` prints it.
pub fn schema(name: &str) -> Value {
    evo::cli::answers::named(name).unwrap_or_else(|| panic!("no schema `{name}`")).to_value()
}

/// The object is as the schema of its command says, and has nothing else.
#[track_caller]
pub fn hold_to_schema(command: &str, words: &str, object: &Value) {
    let schema = schema(command);
    assert_eq!(json_schema::fault(&schema, object), None, "`{words}`: {object}");
    assert_eq!(json_schema::unlisted(&schema, &schema, object, ""), None, "`{words}`: {object}");
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

/// Sends Ctrl-C to a command once it holds this lock, which it does while it is at work, and returns the line that it
/// leaves.
#[track_caller]
pub fn interrupted_at_work(mut child: Child, lock: &Path) -> String {
    let file = fs::File::open(lock).unwrap();
    while file.try_lock().is_ok() {
        file.unlock().unwrap();
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut text = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5), "{text}");
    text
}
