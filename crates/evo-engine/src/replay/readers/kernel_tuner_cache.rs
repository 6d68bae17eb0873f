//! Cache files that Kernel Tuner writes while it tunes: parameters, and an entry for each configuration under a key of
//! its values. Times are in milliseconds. There are no constraints: the recorded configurations are the space.
//!
//! Source: the JSON schemas 1.0.0 and 1.1.0 in Kernel Tuner's repository, `kernel_tuner/schema/cache`.

use evo_protocol::verdict::VerdictKind;
use evo_space::value::Value;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::replay::finish::{Draft, DraftRow, Valid};
use crate::replay::{Cost, Format, RecordingFault, readers, unreadable};

/// The time of a failed configuration in files that are older than the error words, milliseconds.
const FAILED_MS: f64 = 1e20;

const UNIT_NS: f64 = 1e6;

#[derive(Deserialize)]
struct CacheFile {
    schema_version: Option<String>,
    device_name: String,
    kernel_name: String,
    #[serde(default)]
    problem_size: Json,
    tune_params_keys: Vec<String>,
    tune_params: Map<String, Json>,
    /// A name, or a list of names.
    #[serde(default)]
    objective: Json,
    cache: Map<String, Json>,
}

/// For a file whose run ended before they were written; `None` if something else is wrong.
pub fn closed(text: &str) -> Option<String> {
    let body = text.trim_end();
    let mentions = text.contains("\"tune_params_keys\"") && text.contains("\"cache\"");
    if !mentions {
        return None;
    }
    // Kernel Tuner appends entries with a trailing comma and closes the file at the end.
    let closed = format!("{}}}\n}}", body.strip_suffix(',').unwrap_or(body));
    serde_json::from_str::<serde::de::IgnoredAny>(&closed).is_ok().then_some(closed)
}

pub fn say_unfinished(mut draft: Draft) -> Draft {
    draft.notices.push("the cache file was never closed: its run ended early".to_string());
    draft
}

pub fn read(text: &str) -> Result<Draft, RecordingFault> {
    let file: CacheFile =
        serde_json::from_str(text).map_err(|error| unreadable(Format::KernelTunerCache, &error))?;
    if let Some(version) = file.schema_version.as_ref().filter(|version| !version.starts_with("1.")) {
        let hint = "this evo reads cache files of the versions 1.x and of before there were versions";
        return Err(RecordingFault::new(format!("its schema version is `{version}`")).with_hint(hint));
    }
    let parameters = file.parameters()?;
    let objective = match &file.objective {
        Json::Null => "time".to_string(),
        other => readers::problem_words(other),
    };
    let mut notices = Vec::new();
    if objective != "time" {
        notices.push(format!("the cache was tuned for `{objective}`; the replay ranks `time`"));
    }
    let row = |(key, entry): (&String, &Json)| {
        row(&parameters, key, entry).map_err(|fault| fault.in_row(format!("`{key}`")))
    };
    let rows = file.cache.iter().map(row).collect::<Result<Vec<DraftRow>, RecordingFault>>()?;
    Ok(Draft {
        kernel: file.kernel_name,
        gpu: file.device_name,
        problem: readers::problem_words(&file.problem_size),
        format: Format::KernelTunerCache,
        parameters,
        valid: Valid::Listed,
        exhaustive: false,
        repeats: false,
        rows,
        notices,
    })
}

impl CacheFile {
    fn parameters(&self) -> Result<Vec<(String, Vec<Value>)>, RecordingFault> {
        let parameter = |name: &String| {
            let Some(Json::Array(values)) = self.tune_params.get(name) else {
                return Err(RecordingFault::new(format!("`tune_params` has no list of values for `{name}`")));
            };
            let values = values.iter().map(|json| readers::value(name, json));
            Ok((name.clone(), values.collect::<Result<Vec<Value>, RecordingFault>>()?))
        };
        self.tune_params_keys.iter().map(parameter).collect()
    }
}

fn row(parameters: &[(String, Vec<Value>)], key: &str, entry: &Json) -> Result<DraftRow, RecordingFault> {
    let position = |(name, values): &(String, Vec<Value>)| {
        let Some(json) = entry.get(name) else {
            return Err(RecordingFault::new(format!("the entry has no `{name}`")));
        };
        let value = readers::value(name, json)?;
        let position = values.iter().position(|own| *own == value);
        position.map(|position| position as u16).ok_or_else(|| {
            RecordingFault::new(format!("the value `{value}` of `{name}` is not in its `tune_params`"))
        })
    };
    let positions = parameters.iter().map(position).collect::<Result<Vec<u16>, RecordingFault>>()?;
    let (kind, time_ms) = outcome(parameters, entry)?;
    let milliseconds = |name: &str| entry.get(name).and_then(Json::as_f64);
    // Some versions do not list the runs and give only the time of the whole benchmark phase.
    let runs_ms = readers::sum(entry.get("times"))
        .or_else(|| milliseconds("benchmark_time").filter(|_| time_ms.is_some()));
    let cost = Cost {
        compile_ms: milliseconds("compile_time").unwrap_or(0.0),
        validate_ms: milliseconds("verification_time").unwrap_or(0.0),
        runs_ms: runs_ms.unwrap_or(0.0),
        framework_ms: milliseconds("framework_time").unwrap_or(0.0),
    };
    let objective_ns = time_ms.map(|time| time * UNIT_NS);
    Ok(DraftRow { name: Some(format!("`{key}`")), positions, kind, objective_ns, cost })
}

/// The time is in milliseconds. A failure's word is in `__error__`, or in the place of the measured value.
fn outcome(
    parameters: &[(String, Vec<Value>)],
    entry: &Json,
) -> Result<(VerdictKind, Option<f64>), RecordingFault> {
    let fields = entry.as_object().into_iter().flatten();
    let measured = fields.filter(|(key, _)| !parameters.iter().any(|(name, _)| name == *key));
    if let Some(kind) = measured.filter_map(|(_, value)| failure(value.as_str()?)).next() {
        return Ok((kind, None));
    }
    let Some(time) = entry.get("time") else {
        return Err(RecordingFault::new("the entry has no `time`").with_hint("a replay ranks times"));
    };
    match time.as_f64() {
        // NaN in Python, which the reader has replaced by null.
        None if time.is_null() => Ok((VerdictKind::LaunchFail, None)),
        None => {
            let hint = "known are `InvalidConfig`, `CompilationFailedConfig` and `RuntimeFailedConfig`";
            Err(RecordingFault::new(format!("the time `{time}` is neither a number nor a known failure"))
                .with_hint(hint))
        }
        // Older versions wrote a huge time for a failure, and did not say which kind of failure it was.
        Some(time) if time >= FAILED_MS => Ok((VerdictKind::LaunchFail, None)),
        Some(time) if time > 0.0 => Ok((VerdictKind::Pass, Some(time))),
        Some(time) => Err(RecordingFault::new(format!("{time} is not a time"))),
    }
}

fn failure(word: &str) -> Option<VerdictKind> {
    match word {
        "CompilationFailedConfig" => Some(VerdictKind::CompileError),
        "RuntimeFailedConfig" | "ErrorConfig" => Some(VerdictKind::LaunchFail),
        "InvalidConfig" => Some(VerdictKind::StaticReject),
        _ => None,
    }
}
