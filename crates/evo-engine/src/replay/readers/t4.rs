//! Reads T4 results, the auto-tuning community's exchange format: a list of evaluations with times, measurements
//! and a word on validity. The format has no kernel, no GPU and no constraints.
//!
//! Source: the JSON schema T4 1.0.0 in Kernel Tuner's repository, `kernel_tuner/schema/T4`. Its times
//! have no unit; they are read as milliseconds, because that is what Kernel Tuner writes.

use evo_protocol::verdict::VerdictKind;
use evo_space::value::Value;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::Observed;
use crate::replay::finish::{Draft, DraftRow, Valid};
use crate::replay::{Cost, Format, RecordingFault, readers, unreadable};

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

pub fn read(text: &str, stem: &str) -> Result<Draft, RecordingFault> {
    let file: T4File = serde_json::from_str(text).map_err(|error| unreadable(Format::T4, &error))?;
    if !file.schema_version.starts_with("1.") {
        let cause = format!("its schema version is `{}`", file.schema_version);
        return Err(RecordingFault::new(cause).with_hint("this evo reads T4 results of the versions 1.x"));
    }
    let mut observed = Observed::default();
    let mut rows = Vec::with_capacity(file.results.len());
    for (number, entry) in file.results.iter().enumerate() {
        let named = |(name, json): (&String, &Json)| Ok((name.clone(), readers::value(name, json)?));
        let pairs: Result<Vec<(String, Value)>, RecordingFault> =
            entry.configuration.iter().map(named).collect();
        let row = pairs.and_then(|pairs| {
            observed.add(pairs.iter().map(|(name, value)| (name.as_str(), value.clone())))?;
            entry.row()
        });
        rows.push(row.map_err(|fault| fault.in_row(number))?);
    }
    let (parameters, positions) = observed.finish();
    rows.iter_mut().zip(positions).for_each(|(row, positions)| row.positions = positions);
    // T4 names neither, so the file name has to.
    let (kernel, gpu) = stem.split_once("__").unwrap_or((stem, "unknown"));
    Ok(Draft {
        kernel: kernel.to_string(),
        gpu: gpu.to_string(),
        problem: String::new(),
        format: Format::T4,
        parameters,
        valid: Valid::Listed,
        exhaustive: false,
        repeats: true,
        rows,
        notices: Vec::new(),
    })
}

impl T4Result {
    fn row(&self) -> Result<DraftRow, RecordingFault> {
        let kind = match self.invalidity.as_str() {
            "correct" => VerdictKind::Pass,
            "compile" => VerdictKind::CompileError,
            "runtime" => VerdictKind::LaunchFail,
            "correctness" => VerdictKind::WrongAnswer,
            "timeout" => VerdictKind::TooSlow,
            "constraints" => VerdictKind::RejectedConstraint,
            other => {
                return Err(RecordingFault::new(format!("the invalidity `{other}` is not known")).with_hint(
                    "T4 knows `correct`, `compile`, `runtime`, `correctness`, `timeout` and `constraints`",
                ));
            }
        };
        let objective_ns = if kind == VerdictKind::Pass { Some(self.objective_ns()?) } else { None };
        let milliseconds = |name: &str| self.times.get(name).and_then(Json::as_f64);
        let runs = readers::sum(self.times.get("runtimes")).or_else(|| milliseconds("benchmark"));
        let cost = Cost {
            // Kernel Tuner's own files leave out the `_time` that the schema has.
            compile_ms: milliseconds("compilation_time")
                .or_else(|| milliseconds("compilation"))
                .unwrap_or(0.0),
            validate_ms: milliseconds("validation").unwrap_or(0.0),
            runs_ms: runs.unwrap_or(0.0),
            framework_ms: milliseconds("framework").unwrap_or(0.0),
        };
        Ok(DraftRow { name: None, positions: Vec::new(), kind, objective_ns, cost })
    }

    /// The objective if that is a time, else the measurement `time`, else the mean of the runs.
    fn objective_ns(&self) -> Result<f64, RecordingFault> {
        // The objective may be something other than a time, such as `GFLOP/s`. A measurement counts only if
        // it has a unit of time, or no unit and the name `time`.
        let names = self.objectives.iter().map(String::as_str).chain(["time"]);
        let measured = names
            .filter_map(|name| self.measurements.iter().find(|one| one.name == name))
            .find_map(|one| Some(one.value.as_f64()? * one.unit_ns()?));
        let runs = self.times.get("runtimes").and_then(Json::as_array).map_or(0, Vec::len);
        let mean = readers::sum(self.times.get("runtimes")).map(|sum| sum / runs as f64 * 1e6);
        match measured.or(mean) {
            Some(time) if time > 0.0 => Ok(time),
            Some(time) => Err(RecordingFault::new(format!("{time} ns is not a time"))),
            None => Err(RecordingFault::new("it is `correct` but has no time")
                .with_hint("a replay ranks times: a measurement in `s`, `ms`, `us` or `ns`, or `runtimes`")),
        }
    }
}

impl T4Measurement {
    fn unit_ns(&self) -> Option<f64> {
        readers::unit_ns(if self.unit.is_empty() && self.name == "time" { "ms" } else { &self.unit })
    }
}
