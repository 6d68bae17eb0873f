//! A reader per format: each makes a draft of a file's text. Which reader that is the content says: names can mislead,
//! and `.json` says nothing. Some formats list only configurations, so parameters are collected from the rows.

use std::collections::HashMap;

use evo_space::value::Value;
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::RecordingFault;
use super::finish::{Draft, Parameters};

mod kernel_tuner_cache;
mod study_journal;
mod t4;
mod tuning_data;

pub fn read_any(text: &str, stem: &str) -> Result<Draft, RecordingFault> {
    // Journals are lines of JSON, each beginning with its checksum; as one JSON text they do not parse.
    if text.starts_with("{\"crc\"") {
        return study_journal::read(text);
    }
    let keys: HashMap<String, &RawValue> = match serde_json::from_str(text) {
        Ok(keys) => keys,
        Err(error) => {
            // Kernel Tuner writes with Python's `json`, which by default writes NaN and infinities as bare words.
            if let Some(plain) = without_python_numbers(text) {
                return read_any(&plain, stem);
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

/// `null` stands for Python's `NaN`, `Infinity` and `-Infinity`, which JSON does not have; `None` if there are none.
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

pub fn value(name: &str, json: &Json) -> Result<Value, RecordingFault> {
    let fault =
        || RecordingFault::new(format!("the value `{json}` of `{name}` is not a number, boolean or text"));
    serde_json::from_value(json.clone()).map_err(|_| fault())
}

pub fn problem_words(size: &Json) -> String {
    match size {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Array(items) => items.iter().map(problem_words).collect::<Vec<String>>().join(" "),
        other => other.to_string(),
    }
}

pub fn unit_ns(unit: &str) -> Option<f64> {
    match unit {
        "s" | "seconds" => Some(1e9),
        "ms" | "milliseconds" => Some(1e6),
        "us" | "µs" | "microseconds" => Some(1e3),
        "ns" | "nanoseconds" => Some(1.0),
        _ => None,
    }
}

pub fn sum(list: Option<&Json>) -> Option<f64> {
    let times = list?.as_array()?.iter().filter_map(Json::as_f64);
    Some(times.sum::<f64>()).filter(|sum| *sum > 0.0)
}

#[derive(Debug, Default)]
pub struct Observed {
    parameters: Parameters,
    /// For each row, each parameter's index into `parameters[_].1`.
    rows: Vec<Vec<u16>>,
}

impl Observed {
    pub fn add<'a>(
        &mut self,
        configuration: impl Iterator<Item = (&'a str, Value)>,
    ) -> Result<(), RecordingFault> {
        let mut pairs: Vec<(&str, Value)> = configuration.collect();
        if self.rows.is_empty() {
            self.parameters = pairs.iter().map(|(name, _)| (name.to_string(), Vec::new())).collect();
        }
        let mut row = Vec::with_capacity(self.parameters.len());
        for (name, values) in &mut self.parameters {
            let Some(at) = pairs.iter().position(|(own, _)| own == name) else {
                return Err(RecordingFault::new(format!(
                    "its configuration has no `{name}`, which the first row has"
                )));
            };
            // Removed, so that what is left at the end is a parameter that the first row did not have.
            let (_, value) = pairs.swap_remove(at);
            let position = values.iter().position(|own| *own == value).unwrap_or_else(|| {
                values.push(value);
                values.len() - 1
            });
            row.push(
                u16::try_from(position)
                    .map_err(|_| RecordingFault::new(format!("`{name}` has too many values")))?,
            );
        }
        if let Some((name, _)) = pairs.first() {
            return Err(RecordingFault::new(format!(
                "its configuration has `{name}`, which the first row does not have"
            )));
        }
        self.rows.push(row);
        Ok(())
    }

    /// Parameters with their values in ascending order (values that cannot be compared stay in order of appearance),
    /// and the rows as positions in these lists.
    pub fn finish(mut self) -> (Parameters, Vec<Vec<u16>>) {
        for (slot, (_, values)) in self.parameters.iter_mut().enumerate() {
            if values.iter().any(|value| value.compare(&values[0]).is_none()) {
                continue;
            }
            let mut order: Vec<usize> = (0..values.len()).collect();
            order.sort_by(|a, b| values[*a].compare(&values[*b]).unwrap_or(std::cmp::Ordering::Equal));
            let mut place = vec![0u16; values.len()];
            order.iter().enumerate().for_each(|(to, from)| place[*from] = to as u16);
            *values = order.iter().map(|from| values[*from].clone()).collect();
            self.rows.iter_mut().for_each(|row| row[slot] = place[usize::from(row[slot])]);
        }
        (self.parameters, self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_sorted_and_rows_follow() {
        let mut observed = Observed::default();
        for (a, b) in [(32, "y"), (8, "x"), (16, "y")] {
            observed.add([("B", Value::text(b)), ("A", Value::Int(a))].into_iter()).unwrap();
        }
        let (parameters, rows) = observed.finish();
        let shown: Vec<String> =
            parameters.iter().map(|(name, values)| format!("{name} {values:?}")).collect();
        assert_eq!(shown, ["B [Text(\"x\"), Text(\"y\")]", "A [Int(8), Int(16), Int(32)]"]);
        assert_eq!(rows, [[1, 2], [0, 0], [1, 1]]);
    }

    #[test]
    fn rows_with_other_parameters_are_refused() {
        let mut observed = Observed::default();
        observed.add([("A", Value::Int(1))].into_iter()).unwrap();
        let less = observed.add(std::iter::empty()).unwrap_err();
        assert_eq!(less.cause, "its configuration has no `A`, which the first row has");
        let more = observed.add([("A", Value::Int(1)), ("B", Value::Int(1))].into_iter()).unwrap_err();
        assert_eq!(more.cause, "its configuration has `B`, which the first row does not have");
    }
}
