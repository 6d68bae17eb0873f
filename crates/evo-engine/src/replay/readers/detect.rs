//! Finds out a file's format from its content: names can mislead, and `.json` says nothing.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::{kernel_tuner_cache, study_journal, t4, tuning_data};
use crate::replay::draft::Draft;
use crate::replay::error::RecordingFault;

/// Reads a file's text. `stem` names kernel and GPU where the file itself does not.
pub fn read(text: &str, stem: &str) -> Result<Draft, RecordingFault> {
    // Journals are lines of JSON, each beginning with its checksum; as one JSON text they do not parse.
    if text.starts_with("{\"crc\"") {
        return study_journal::read(text);
    }
    let keys: HashMap<String, &RawValue> = match serde_json::from_str(text) {
        Ok(keys) => keys,
        Err(error) => {
            // Kernel Tuner writes with Python's `json`, which by default writes NaN and infinities as bare words.
            if let Some(plain) = without_python_numbers(text) {
                return read(&plain, stem);
            }
            return match kernel_tuner_cache::closed(text) {
                Some(closed) => kernel_tuner_cache::read(&closed).map(kernel_tuner_cache::say_unfinished),
                None => Err(not_json(text, &error)),
            };
        }
    };
    let has = |key: &str| keys.contains_key(key);
    if has("cache") && has("tune_params_keys") {
        kernel_tuner_cache::read(text)
    } else if has("results") && has("schema_version") {
        t4::read(text, stem)
    } else if has("format") || has("params") && has("rows") {
        tuning_data::read(text)
    } else {
        Err(unknown(has))
    }
}

/// The text with `null` in place of Python's `NaN`, `Infinity` and `-Infinity`, which JSON does not have; `None` if
/// it has none of them.
fn without_python_numbers(text: &str) -> Option<String> {
    let (mut plain, mut rest, mut found) = (String::new(), text, false);
    let mut in_text = false;
    while let Some(next) = rest.chars().next() {
        let word =
            ["NaN", "Infinity", "-Infinity"].into_iter().find(|word| !in_text && rest.starts_with(word));
        let length = match (word, next) {
            (Some(word), _) => word.len(),
            // An escaped quote does not end the text.
            (None, '\\') if in_text => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            (None, _) => next.len_utf8(),
        };
        in_text ^= next == '"';
        found |= word.is_some();
        plain.push_str(if word.is_some() { "null" } else { &rest[..length] });
        rest = &rest[length..];
    }
    found.then_some(plain)
}

fn unknown(has: impl Fn(&str) -> bool) -> RecordingFault {
    let fault = RecordingFault::new("its keys match no known format of recordings");
    if has("parameters") {
        return fault.with_hint("it looks like a search space: `evo sweep FILE --device host` measures one");
    }
    if has("metadata") {
        return fault.with_hint("it looks like T4 metadata: the results are in another file");
    }
    fault.with_hint(
        "known are tuning-data/1, Kernel Tuner cache files, T4 results, and journals or folders of evo's studies",
    )
}

fn not_json(text: &str, error: &serde_json::Error) -> RecordingFault {
    let fault = RecordingFault::new(format!("it is not a JSON object: {error}"));
    if error.is_eof() && !text.trim().is_empty() {
        return fault.with_hint("the file may be cut off; fetch it again");
    }
    fault.with_hint("recordings are JSON, plain or compressed by gzip")
}
