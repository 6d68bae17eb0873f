//! Readers of recordings: each makes a draft of a file's text. Which reader that is the content says: names can
//! mislead, and `.json` says nothing.
//!
//! - `tuning-data/1` is one JSON object with parameters, constraints and a list per column.
//! - Kernel Tuner writes cache files while it tunes: parameters, and an entry for each configuration under a key of its
//!   values, with times in milliseconds (JSON schemas 1.0.0 and 1.1.0 in its repository, `kernel_tuner/schema/cache`).
//! - T4, the auto-tuning community's exchange format, is a list of evaluations with times, measurements and a word on
//!   validity (JSON schema 1.0.0, `kernel_tuner/schema/T4`). Its times have no unit; they are read as milliseconds,
//!   because that is what Kernel Tuner writes.
//!
//! The last two have no constraints: the recorded configurations are the space.

use std::collections::HashMap;
use std::sync::Arc;

use evo_protocol::verdict::VerdictKind;
use evo_space::genome::Configuration;
use evo_space::value::Value;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};

use super::finish::{Draft, DraftRow, space_of};
use super::{Cost, Format, RecordingFault, journal};

type Read<T> = Result<T, RecordingFault>;

pub fn read_any(text: &str, stem: &str) -> Read<Draft> {
    // Journals are lines of JSON, each beginning with its checksum; as one JSON text they do not parse.
    if text.starts_with("{\"crc\"") {
        return journal::read(text);
    }
    let keys: HashMap<String, &RawValue> = match serde_json::from_str(text) {
        Ok(keys) => keys,
        Err(error) => {
            // Kernel Tuner writes with Python's `json`, which by default writes NaN and infinities as bare words.
            if let Some(plain) = without_python_numbers(text) {
                return read_any(&plain, stem);
            }
            let Some(closed) = closed_cache(text) else { return Err(not_json(text, &error)) };
            let mut draft = cache(&closed)?;
            draft.notices.push("the cache file was never closed: its run ended early".to_string());
            return Ok(draft);
        }
    };
    let has = |key: &str| keys.contains_key(key);
    if has("cache") && has("tune_params_keys") {
        cache(text)
    } else if has("results") && has("schema_version") {
        t4(text, stem)
    } else if has("format") || has("params") && has("rows") {
        tuning_data(text)
    } else {
        let fault = RecordingFault::new("its keys match no known format of recordings");
        Err(fault.with_hint(match () {
            () if has("parameters") => {
                "it looks like a search space: `evo sweep FILE --device host` measures one"
            }
            () if has("metadata") => "it looks like T4 metadata: the results are in another file",
            () => {
                "known are tuning-data/1, Kernel Tuner cache files, T4 results, and journals or folders of evo's \
                 studies"
            }
        }))
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

/// A cache file whose run ended before it was closed; `None` if something else is wrong.
fn closed_cache(text: &str) -> Option<String> {
    let body = text.trim_end();
    if !(text.contains("\"tune_params_keys\"") && text.contains("\"cache\"")) {
        return None;
    }
    // Kernel Tuner appends entries with a trailing comma and closes the file at the end.
    let closed = format!("{}}}\n}}", body.strip_suffix(',').unwrap_or(body));
    serde_json::from_str::<serde::de::IgnoredAny>(&closed).is_ok().then_some(closed)
}

fn not_json(text: &str, error: &serde_json::Error) -> RecordingFault {
    let fault = RecordingFault::new(format!("it is not a JSON object: {error}"));
    fault.with_hint(match error.is_eof() && !text.trim().is_empty() {
        true => "the file may be cut off; fetch it again",
        false => "recordings are JSON, plain or compressed by gzip",
    })
}

/// serde does not know the row.
fn parsed<T: for<'de> Deserialize<'de>>(format: Format, text: &str) -> Read<T> {
    serde_json::from_str(text).map_err(|error| {
        RecordingFault::new(error.to_string()).with_hint(format!("it does not read as {}", format.as_str()))
    })
}

fn fault<T>(cause: impl Into<String>, hint: &str) -> Read<T> {
    Err(RecordingFault::new(cause).with_hint(hint))
}

fn pair(name: &str, json: &Json) -> Read<(Arc<str>, Value)> {
    let value = serde_json::from_value(json.clone());
    let what = "is not a number, boolean or text";
    let value = value.map_err(|_| RecordingFault::new(format!("the value `{json}` of `{name}` {what}")));
    Ok((name.into(), value?))
}

fn problem_words(size: &Json) -> String {
    match size {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Array(items) => items.iter().map(problem_words).collect::<Vec<String>>().join(" "),
        other => other.to_string(),
    }
}

fn unit_ns(unit: &str) -> Option<f64> {
    match unit {
        "s" | "seconds" => Some(1e9),
        "ms" | "milliseconds" => Some(1e6),
        "us" | "µs" | "microseconds" => Some(1e3),
        "ns" | "nanoseconds" => Some(1.0),
        _ => None,
    }
}

/// The sum of a list of times, and of how many.
fn sum(list: Option<&Json>) -> Option<(f64, usize)> {
    let list = list?.as_array()?;
    Some((list.iter().filter_map(Json::as_f64).sum(), list.len())).filter(|(sum, _)| *sum > 0.0)
}

#[derive(Deserialize)]
struct Head {
    format: String,
}

#[derive(Deserialize)]
struct TuningDataFile {
    kernel: String,
    gpu: String,
    #[serde(default)]
    problem_size: Json,
    objective: Objective,
    params: Vec<TuningDataParameter>,
    #[serde(default)]
    constraints: Vec<String>,
    size: usize,
    #[serde(default)]
    exhaustive: bool,
    rows: RowColumns,
}

#[derive(Deserialize)]
struct Objective {
    name: String,
    unit: String,
    direction: String,
}

#[derive(Deserialize)]
struct TuningDataParameter {
    name: String,
    values: Vec<Value>,
}

#[derive(Deserialize)]
struct RowColumns {
    config: HashMap<String, Vec<usize>>,
    objective: Vec<Option<f64>>,
    status: Vec<u8>,
    compile_ms: Vec<Option<f64>>,
    validate_ms: Vec<Option<f64>>,
    runs_ms: Vec<Option<f64>>,
    framework_ms: Vec<Option<f64>>,
}

/// A parameter's name and values, and the position of each row's.
type Column<'a> = (Arc<str>, &'a [Value], &'a [usize]);

const TUNING_DATA: &str = "tuning-data/1";

fn tuning_data(text: &str) -> Read<Draft> {
    // The format first: a file of a newer version may differ in any other key.
    let head: Head = parsed(Format::TuningData, text)?;
    if head.format != TUNING_DATA {
        let hint = format!("this evo reads `{TUNING_DATA}`; a newer file needs a newer evo");
        return fault(format!("its format is `{}`", head.format), &hint);
    }
    let file: TuningDataFile = parsed(Format::TuningData, text)?;
    let Objective { name, unit, direction } = &file.objective;
    if direction != "min" {
        let cause = format!("its objective `{name}` has the direction `{direction}`");
        return fault(cause, "a replay ranks times, whose direction is `min`");
    }
    let Some(unit_ns) = unit_ns(unit) else {
        let cause = format!("its objective `{name}` has the unit `{unit}`");
        return fault(cause, "times are in `s`, `ms`, `us`, `ns` or the words for them");
    };
    let columns = file.columns()?;
    let row = |number: usize| file.row(&columns, number, unit_ns).map_err(|fault| fault.in_row(number));
    let rows = (0..file.size).map(row).collect::<Read<Vec<DraftRow>>>()?;
    let parameters = file.params.iter().map(|one| (one.name.as_str(), one.values.as_slice()));
    let space = Some(space_of(parameters, &file.constraints)?);
    let (problem, format, notices) = (problem_words(&file.problem_size), Format::TuningData, Vec::new());
    let TuningDataFile { kernel, gpu, exhaustive, .. } = file;
    Ok(Draft { kernel, gpu, problem, format, space, exhaustive, repeats: false, rows, notices })
}

impl TuningDataFile {
    /// The parameters with their columns; every column of the file has an entry for each row.
    fn columns(&self) -> Read<Vec<Column<'_>>> {
        let rows = &self.rows;
        let (mut columns, mut lengths) = (Vec::new(), Vec::new());
        for TuningDataParameter { name, values } in &self.params {
            let Some(column) = rows.config.get(name) else {
                let cause = format!("`rows.config` has no column for the parameter `{name}`");
                return Err(RecordingFault::new(cause));
            };
            lengths.push((format!("config.{name}"), column.len()));
            columns.push((name.as_str().into(), values.as_slice(), column.as_slice()));
        }
        let times = [
            ("objective", &rows.objective),
            ("compile_ms", &rows.compile_ms),
            ("validate_ms", &rows.validate_ms),
            ("runs_ms", &rows.runs_ms),
            ("framework_ms", &rows.framework_ms),
        ];
        lengths.extend(times.map(|(name, column)| (name.to_string(), column.len())));
        lengths.push(("status".to_string(), rows.status.len()));
        match lengths.iter().find(|(_, length)| *length != self.size) {
            None => Ok(columns),
            Some((name, length)) => {
                let size = self.size;
                Err(RecordingFault::new(format!(
                    "its `size` is {size}, but `rows.{name}` has {length} entries"
                )))
            }
        }
    }

    fn row(&self, columns: &[Column<'_>], at: usize, unit_ns: f64) -> Read<DraftRow> {
        let pair = |(name, values, column): &Column<'_>| {
            let value = values.get(column[at]).ok_or_else(|| {
                let (position, count) = (column[at], values.len());
                let cause = format!("position {position} of `{name}` is outside its {count} values");
                RecordingFault::new(cause)
            });
            Ok((Arc::clone(name), value?.clone()))
        };
        let configuration = Configuration::new(columns.iter().map(pair).collect::<Read<_>>()?);
        let rows = &self.rows;
        let kind = kind(rows.status[at], rows.objective[at])?;
        let columns = [&rows.compile_ms, &rows.validate_ms, &rows.runs_ms, &rows.framework_ms];
        let [compile_ms, validate_ms, runs_ms, framework_ms] =
            columns.map(|column| column[at].unwrap_or(0.0));
        let cost = Cost { compile_ms, validate_ms, runs_ms, framework_ms };
        let objective_ns = rows.objective[at].map(|value| value * unit_ns);
        Ok(DraftRow { name: at.to_string(), configuration, kind, objective_ns, cost })
    }
}

fn kind(status: u8, objective: Option<f64>) -> Read<VerdictKind> {
    let kind = match status {
        0 => VerdictKind::Pass,
        1 => VerdictKind::CompileError,
        2 => VerdictKind::LaunchFail,
        3 => VerdictKind::StaticReject,
        _ => {
            let hint = "0 is fine, 1 did not compile, 2 failed at run time, 3 was refused";
            return fault(format!("status {status} is not known"), hint);
        }
    };
    Err(RecordingFault::new(match (kind, objective) {
        (VerdictKind::Pass, None) => "status 0 (fine) without an objective".to_string(),
        (VerdictKind::Pass, Some(value)) if value.is_nan() || value <= 0.0 => {
            format!("the objective {value} is not a time")
        }
        (VerdictKind::Pass, Some(_)) | (_, None) => return Ok(kind),
        (_, Some(value)) => format!("status {status} (failed) with the objective {value}"),
    }))
}

#[derive(Deserialize)]
struct CacheFile {
    schema_version: Option<String>,
    device_name: String,
    kernel_name: String,
    #[serde(default)]
    problem_size: Json,
    tune_params_keys: Vec<String>,
    /// A name, or a list of names.
    #[serde(default)]
    objective: Json,
    cache: Map<String, Json>,
}

fn cache(text: &str) -> Read<Draft> {
    let file: CacheFile = parsed(Format::KernelTunerCache, text)?;
    if let Some(version) = file.schema_version.as_ref().filter(|version| !version.starts_with("1.")) {
        let hint = "this evo reads cache files of the versions 1.x and of before there were versions";
        return fault(format!("its schema version is `{version}`"), hint);
    }
    let objective = problem_words(&file.objective);
    let is_time = objective.is_empty() || objective == "time";
    let notice =
        (!is_time).then(|| format!("the cache was tuned for `{objective}`; the replay ranks `time`"));
    let row = |(key, entry): (&String, &Json)| {
        cached(&file.tune_params_keys, key, entry).map_err(|fault| fault.in_row(format!("`{key}`")))
    };
    let rows = file.cache.iter().map(row).collect::<Read<Vec<DraftRow>>>()?;
    let (problem, format) = (problem_words(&file.problem_size), Format::KernelTunerCache);
    let (kernel, gpu, notices) = (file.kernel_name, file.device_name, notice.into_iter().collect());
    Ok(Draft { kernel, gpu, problem, format, space: None, exhaustive: false, repeats: false, rows, notices })
}

fn cached(parameters: &[String], key: &str, entry: &Json) -> Read<DraftRow> {
    let pair = |name: &String| match entry.get(name) {
        Some(json) => pair(name, json),
        None => Err(RecordingFault::new(format!("the entry has no `{name}`"))),
    };
    let configuration = Configuration::new(parameters.iter().map(pair).collect::<Read<_>>()?);
    let (kind, time_ms) = cached_time(parameters, entry)?;
    let milliseconds = |name: &str| entry.get(name).and_then(Json::as_f64);
    // Some versions do not list the runs and give only the time of the whole benchmark phase.
    let runs_ms = sum(entry.get("times")).map(|(sum, _)| sum);
    let runs_ms = runs_ms.or_else(|| milliseconds("benchmark_time").filter(|_| time_ms.is_some()));
    let times = ["compile_time", "verification_time", "framework_time"].map(milliseconds);
    let [compile_ms, validate_ms, framework_ms] = times.map(Option::unwrap_or_default);
    let cost = Cost { compile_ms, validate_ms, runs_ms: runs_ms.unwrap_or_default(), framework_ms };
    let objective_ns = time_ms.map(|time| time * 1e6);
    Ok(DraftRow { name: format!("`{key}`"), configuration, kind, objective_ns, cost })
}

/// The time of a failed configuration in files that are older than the error words, milliseconds.
const FAILED_MS: f64 = 1e20;

/// The time is in milliseconds. A failure's word is in `__error__`, or in the place of the measured value.
fn cached_time(parameters: &[String], entry: &Json) -> Read<(VerdictKind, Option<f64>)> {
    let failure = |(_, word): (&String, &Json)| match word.as_str()? {
        "CompilationFailedConfig" => Some(VerdictKind::CompileError),
        "RuntimeFailedConfig" | "ErrorConfig" => Some(VerdictKind::LaunchFail),
        "InvalidConfig" => Some(VerdictKind::StaticReject),
        _ => None,
    };
    let fields = entry.as_object().into_iter().flatten();
    if let Some(kind) = fields.filter(|(key, _)| !parameters.contains(key)).find_map(failure) {
        return Ok((kind, None));
    }
    let Some(time) = entry.get("time") else {
        return fault("the entry has no `time`", "a replay ranks times");
    };
    match time.as_f64() {
        // NaN in Python, which the reader has replaced by null.
        None if time.is_null() => Ok((VerdictKind::LaunchFail, None)),
        None => {
            let hint = "known are `InvalidConfig`, `CompilationFailedConfig` and `RuntimeFailedConfig`";
            fault(format!("the time `{time}` is neither a number nor a known failure"), hint)
        }
        // Older versions wrote a huge time for a failure, and did not say which kind of failure it was.
        Some(time) if time >= FAILED_MS => Ok((VerdictKind::LaunchFail, None)),
        Some(time) if time > 0.0 => Ok((VerdictKind::Pass, Some(time))),
        Some(time) => Err(RecordingFault::new(format!("{time} is not a time"))),
    }
}

#[derive(Deserialize)]
struct T4File {
    schema_version: String,
    results: Vec<T4Result>,
}

#[derive(Deserialize)]
struct T4Result {
    configuration: Map<String, Json>,
    #[serde(default)]
    objectives: Vec<String>,
    times: Map<String, Json>,
    invalidity: String,
    #[serde(default)]
    measurements: Vec<T4Measurement>,
}

#[derive(Deserialize)]
struct T4Measurement {
    name: String,
    value: Json,
    #[serde(default)]
    unit: String,
}

fn t4(text: &str, stem: &str) -> Read<Draft> {
    let file: T4File = parsed(Format::T4, text)?;
    if !file.schema_version.starts_with("1.") {
        let cause = format!("its schema version is `{}`", file.schema_version);
        return fault(cause, "this evo reads T4 results of the versions 1.x");
    }
    let row = |(number, entry): (usize, &T4Result)| entry.row(number).map_err(|fault| fault.in_row(number));
    let rows = file.results.iter().enumerate().map(row).collect::<Read<Vec<DraftRow>>>()?;
    // T4 names neither, so the file name has to.
    let (kernel, gpu) = stem.split_once("__").unwrap_or((stem, "unknown"));
    let (kernel, gpu, problem) = (kernel.to_string(), gpu.to_string(), String::new());
    let (format, notices) = (Format::T4, Vec::new());
    Ok(Draft { kernel, gpu, problem, format, space: None, exhaustive: false, repeats: true, rows, notices })
}

impl T4Result {
    fn row(&self, number: usize) -> Read<DraftRow> {
        let pairs = self.configuration.iter().map(|(name, json)| pair(name, json));
        let configuration = Configuration::new(pairs.collect::<Read<_>>()?);
        let kind = match self.invalidity.as_str() {
            "correct" => VerdictKind::Pass,
            "compile" => VerdictKind::CompileError,
            "runtime" => VerdictKind::LaunchFail,
            "correctness" => VerdictKind::WrongAnswer,
            "timeout" => VerdictKind::TooSlow,
            "constraints" => VerdictKind::RejectedConstraint,
            other => {
                let hint =
                    "T4 knows `correct`, `compile`, `runtime`, `correctness`, `timeout` and `constraints`";
                return fault(format!("the invalidity `{other}` is not known"), hint);
            }
        };
        let objective_ns = if kind == VerdictKind::Pass { Some(self.objective_ns()?) } else { None };
        let milliseconds = |name: &str| self.times.get(name).and_then(Json::as_f64);
        let runs = sum(self.times.get("runtimes")).map(|(sum, _)| sum);
        // Kernel Tuner's own files leave out the `_time` that the schema has.
        let compile_ms = milliseconds("compilation_time").or_else(|| milliseconds("compilation"));
        let runs_ms = runs.or_else(|| milliseconds("benchmark"));
        let times = [compile_ms, milliseconds("validation"), runs_ms, milliseconds("framework")];
        let [compile_ms, validate_ms, runs_ms, framework_ms] = times.map(Option::unwrap_or_default);
        let cost = Cost { compile_ms, validate_ms, runs_ms, framework_ms };
        Ok(DraftRow { name: number.to_string(), configuration, kind, objective_ns, cost })
    }

    /// The objective if that is a time, else the measurement `time`, else the mean of the runs.
    fn objective_ns(&self) -> Read<f64> {
        // The objective may be something other than a time, such as `GFLOP/s`. A measurement counts only if
        // it has a unit of time, or no unit and the name `time`.
        let unit = |one: &T4Measurement| {
            unit_ns(if one.unit.is_empty() && one.name == "time" { "ms" } else { &one.unit })
        };
        let names = self.objectives.iter().map(String::as_str).chain(["time"]);
        let measured = names
            .filter_map(|name| self.measurements.iter().find(|one| one.name == name))
            .find_map(|one| Some(one.value.as_f64()? * unit(one)?));
        let mean = sum(self.times.get("runtimes")).map(|(sum, runs)| sum / runs as f64 * 1e6);
        match measured.or(mean) {
            Some(time) if time > 0.0 => Ok(time),
            Some(time) => Err(RecordingFault::new(format!("{time} ns is not a time"))),
            None => {
                let hint = "a replay ranks times: a measurement in `s`, `ms`, `us` or `ns`, or `runtimes`";
                fault("it is `correct` but has no time", hint)
            }
        }
    }
}
