//! Values in JSON files that several formats share.

use evo_space::value::Value;
use serde_json::Value as Json;

use crate::replay::error::RecordingFault;

/// The value of a configuration in JSON.
pub fn value(name: &str, json: &Json) -> Result<Value, RecordingFault> {
    let fault =
        || RecordingFault::new(format!("the value `{json}` of `{name}` is not a number, boolean or text"));
    serde_json::from_value(json.clone()).map_err(|_| fault())
}

/// A problem size in words: a list's items with spaces between.
pub fn problem_words(size: &Json) -> String {
    match size {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Array(items) => items.iter().map(problem_words).collect::<Vec<String>>().join(" "),
        other => other.to_string(),
    }
}

/// The sum of a list of times; `None` if there is none.
pub fn sum(list: Option<&Json>) -> Option<f64> {
    let times = list?.as_array()?.iter().filter_map(Json::as_f64);
    Some(times.sum::<f64>()).filter(|sum| *sum > 0.0)
}
