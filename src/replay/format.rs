//! Which format a file has, by its content: names lie, and `.json` says nothing.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::draft::Draft;
use super::error::Fault;
use super::{kernel_tuner_cache, study_journal, t4, tuning_data};

/// A kind of recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    TuningData,
    KernelTunerCache,
    T4,
    Journal,
}

impl Format {
    /// The name in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::TuningData => "tuning-data/1",
            Format::KernelTunerCache => "Kernel Tuner cache",
            Format::T4 => "T4 results",
            Format::Journal => "evo journal",
        }
    }
}

/// Reads a file's text; `stem` names what the file itself does not.
pub(super) fn read(text: &str, stem: &str) -> Result<Draft, Fault> {
    if text.starts_with("{\"crc\"") {
        return study_journal::read(text);
    }
    let keys: HashMap<String, &RawValue> = match serde_json::from_str(text) {
        Ok(keys) => keys,
        Err(error) => {
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

/// The text with `null` for Python's `NaN`, `Infinity` and `-Infinity`, which JSON does not have; `None`
/// if there are none.
fn without_python_numbers(text: &str) -> Option<String> {
    let (mut plain, mut rest, mut found) = (String::new(), text, false);
    let mut in_text = false;
    while let Some(next) = rest.chars().next() {
        let word =
            ["NaN", "Infinity", "-Infinity"].into_iter().find(|word| !in_text && rest.starts_with(word));
        let length = match (word, next) {
            (Some(word), _) => word.len(),
            // An escaped quote ends nothing.
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

fn unknown(has: impl Fn(&str) -> bool) -> Fault {
    let fault = Fault::new("its keys are those of no known recording");
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

fn not_json(text: &str, error: &serde_json::Error) -> Fault {
    let fault = Fault::new(format!("it is no JSON object: {error}"));
    if error.is_eof() && !text.trim().is_empty() {
        return fault.with_hint("the file may be cut off; fetch it again");
    }
    fault.with_hint("recordings are JSON, plain or compressed by gzip")
}

/// What serde says, without the row that it cannot know.
pub(super) fn unreadable(format: Format, error: &serde_json::Error) -> Fault {
    Fault::new(error.to_string()).with_hint(format!("it does not read as {}", format.as_str()))
}
