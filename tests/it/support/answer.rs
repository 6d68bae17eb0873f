//! What every answer with `--json` keeps to: one object, its schema, the exit code, a reason for each null.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use evo_protocol::envelope::CommandEnvelope;
use rustix::process::Signal;
use serde_json::Value;

use super::processes::{send, wait};
use super::stage::{Ran, Stage};
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

/// Commands in whose answers every null has a reason.
const WITH_REASONS: &str = "crosscheck export gate history report restore summary";

/// The object of a command that ended so. `is_named` where the schema is the command's own.
#[track_caller]
pub fn ended(ran: &Ran, code: &str, status: &str, is_named: bool) -> Value {
    let object = last(ran);
    let expected = (Some(code.parse::<i32>().unwrap()), &status.into());
    assert_eq!((ran.code, &object["status"]), expected, "{ran}");
    assert!(status != "pass" || object["error"].is_null(), "{ran}");
    let command = ran.words.split(' ').next().unwrap();
    assert!(!is_named || object["schema"] == format!("evo.{command}"), "{ran}");
    let name = object["schema"].as_str().and_then(|own| own.strip_prefix("evo.")).unwrap();
    if WITH_REASONS.split(' ').any(|own| own == name) && object["error"].is_null() {
        hold_nulls(&object);
    }
    if name == "evaluate" && object["error"].is_null() {
        for (name, value) in object["result"].as_object().unwrap() {
            let reason = &object["reasons"][format!("result.{name}")];
            assert_eq!(value.is_null(), reason.is_string(), "{name}: {ran}");
        }
    }
    object
}

/// Whether the last object comes behind lines of its command's work.
fn is_stream(words: &str) -> bool {
    let streams = ["sweep", "compile"].iter().any(|command| words.starts_with(command));
    streams || words.contains("--list")
}

/// The one object of a finished command: behind lines of a stream where there may be some, with the exit code, as its
/// schema says, and with the names of the envelope.
#[track_caller]
pub fn last(ran: &Ran) -> Value {
    let (object, words) = (ran.object(), &ran.words);
    let mut before = ran.out.lines().rev().skip(1).peekable();
    assert!(ran.out.ends_with('\n') && (is_stream(words) || before.peek().is_none()), "{ran}");
    for line in before {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["schema"].is_null(), "an object before the last: {ran}");
    }
    assert_eq!(object["exit_code"], ran.code.unwrap_or(-1), "{ran}");
    let name = object["schema"].as_str().unwrap().strip_prefix("evo.").unwrap();
    assert!(evo::cli::answers::commands().any(|own| own == name), "{ran}");
    hold_to_schema(name, words, &object);
    if NAMED.split_whitespace().any(|own| own == name) || object["result"].is_null() {
        hold_to_names(words, &object);
    }
    object
}

/// Commands whose whole answers keep to the names of the envelope; those of all do that have no result.
const NAMED: &str = "
    build benchmark cache compile explain preflight profile render sanitize selftest space sweep test test-one
";

/// Numbers that need no unit: counts, codes, and names that the issue of the contract fixed.
const WITHOUT_UNIT: &str = "
    version exit_code line column seed number ctas waves registers sm_count speedup_vs_baseline
    speedup_vs_torch max_abs_error max_rel_error passed confirmed errors warnings launches cases
    configuration
";

const UNITS: [&str; 6] = ["_ns", "_ms", "_s", "_bytes", "_percent", "_ratio"];

/// Every field that came with the envelope: no null without a reason, and every number with its unit.
#[track_caller]
fn hold_to_names(words: &str, object: &Value) {
    let reasons: BTreeSet<&str> = object["reasons"].as_object().unwrap().keys().map(String::as_str).collect();
    let new = "
        schema version status exit_code error candidate conditions limits elapsed_ms repro result
        allowed_not_run reasons parity latency_ms speedup_vs_baseline speedup_vs_torch ctas sm_count
        few_ctas problems baseline profile_file report_file
    ";
    for name in new.split_whitespace() {
        let Some(value) = object.get(name) else { continue };
        // Values of parameters and reasons are the user's and ours, and no numbers of a measurement.
        walk(value, name, &mut |path, name, value| {
            let told = reasons.contains(path) || CommandEnvelope::NULL_FOR_NONE.contains(&path);
            assert!(!value.is_null() || told, "`{words}`: `{path}` is null without a reason: {object}");
            let named = UNITS.iter().any(|unit| name.ends_with(unit))
                || WITHOUT_UNIT.split_whitespace().any(|word| word == name);
            assert!(!value.is_number() || named, "`{words}`: `{path}` is a number without a unit");
        });
    }
}

fn walk(value: &Value, path: &str, see: &mut impl FnMut(&str, &str, &Value)) {
    match value {
        Value::Object(fields) if !path.ends_with("configuration") => {
            fields.iter().for_each(|(name, own)| walk(own, &format!("{path}.{name}"), see));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(number, own)| walk(own, &format!("{path}.{number}"), see));
        }
        value => see(path, path.rsplit('.').next().unwrap_or_default(), value),
    }
}

/// Every null below `result` has a reason.
#[track_caller]
fn hold_nulls(object: &Value) {
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

/// What stands at a path of an answer: names and places with points between them. Where there are rows, a name is the row's
/// that has it among its values, `last` is the last one, and `*` makes a list of what all of them have there.
pub fn value_at(value: &Value, path: &str) -> Option<Value> {
    if path.is_empty() {
        return Some(value.clone());
    }
    if let Some(whole) = value.get(path) {
        return Some(whole.clone());
    }
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    let Value::Array(rows) = value else { return value_at(value.get(name)?, rest) };
    let has_name = |row: &&Value| row.as_object().is_some_and(|own| own.values().any(|own| own == name));
    let row = match name {
        "*" => return Some(rows.iter().map(|row| value_at(row, rest).unwrap_or_default()).collect()),
        "last" => rows.last(),
        _ => name.parse().map_or_else(|_| rows.iter().find(has_name), |at: usize| rows.get(at)),
    };
    value_at(row?, rest)
}

/// What is expected of a value: itself, or a text that begins with what of it is meant. `= PATH` is another value of the
/// whole; `> N` and `< N` are numbers beyond; `# N` and `#> N` ask for the length, `lines N` for at most so many lines; `~`,
/// `!~`, `^`, `!^` and `$` for a text in it, none, its start, another start, its end; `N x TEXT` for a text so many times; `each`
/// for what all rows are; `is` for a kind: `null`, `absent`, `there`, `text`, `number`, `object`.
pub fn is_as(whole: &Value, found: Option<&Value>, expected: &Value) -> bool {
    let Some((kind, rest)) = expected.as_str().and_then(|own| own.split_once(' ')) else {
        return found == Some(expected);
    };
    let value = found.unwrap_or(&Value::Null);
    let text = value.as_str().map_or_else(|| value.to_string(), String::from);
    let textual = ["~", "!~", "^", "!^", "$", "#", "#>", "lines"];
    if value.is_null() && (textual.contains(&kind) || kind.parse::<usize>().is_ok()) {
        return false;
    }
    let number = || rest.parse::<f64>().unwrap_or_else(|_| panic!("{expected} has no number"));
    let length = || match value {
        Value::Array(rows) => rows.len(),
        Value::Object(fields) => fields.len(),
        _ => text.len(),
    };
    if let (Ok(times), Some(part)) = (kind.parse::<usize>(), rest.strip_prefix("x ")) {
        return text.matches(part).count() == times;
    }
    match (kind, rest) {
        ("is", "absent") => found.is_none(),
        ("is", "null") => found == Some(&Value::Null),
        ("is", "there") => !value.is_null(),
        ("is", "text") => value.is_string(),
        ("is", "number") => value.is_number(),
        ("is", "object") => value.is_object(),
        ("=", path) => !value.is_null() && value_at(whole, path).as_ref() == found,
        ("each", own) => value.as_array().is_some_and(|rows| {
            !rows.is_empty() && rows.iter().all(|row| row == own || own == "null" && row.is_null())
        }),
        ("~", part) => text.contains(part),
        ("!~", part) => !text.contains(part),
        ("^", start) => text.starts_with(start),
        ("!^", start) => !text.starts_with(start),
        ("$", end) => text.ends_with(end),
        (">", _) => value.as_f64().is_some_and(|own| own > number()),
        ("<", _) => value.as_f64().is_some_and(|own| own < number()),
        ("lines", _) => text.lines().count() as f64 <= number(),
        ("#", _) => length() as f64 == number(),
        ("#>", _) => length() as f64 > number(),
        _ => *expected == *value,
    }
}

/// An answer is as a table of paths says (`value_at`, `is_as`).
#[track_caller]
pub fn holds(answer: &Value, expected: &Value) {
    for (path, expected) in expected.as_object().expect("paths") {
        let found = value_at(answer, path);
        assert!(is_as(answer, found.as_ref(), expected), "`{path}` is {found:?}, not {expected}: {answer:#}");
    }
}

/// Sends Ctrl-C to a command once it holds this lock, which it does while it is at work: the object that it leaves.
#[track_caller]
pub fn interrupted_at_work(stage: &Stage, words: &str, lock: &str) -> Value {
    let mut command = stage.evo(words);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let file = fs::File::open(stage.at(lock)).unwrap();
    wait(words, || {
        assert_eq!(child.try_wait().unwrap(), None);
        file.try_lock().is_err() || file.unlock().is_err()
    });
    send(&child, Signal::INT);
    ended(&Ran::of(words, &child.wait_with_output().unwrap()), "5", "interrupted", true)
}
