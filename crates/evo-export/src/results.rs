//! Results of a study in the forms that other tools read: T4 and Kernel Tuner's cache, and Optuna's journal.
//!
//! T4 1.0.0 (`kernel_tuner/schema/T4` of Kernel Tuner) asks for `times.compilation_time`, and Kernel Tuner writes and reads
//! `times.compilation`; both are written. Its `invalidity` and `correctness` say here what evo's gates found. Times are
//! milliseconds, as in both forms.

use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::{VerdictClass, VerdictKind};
use evo_space::value::Value;
use serde_json::{Map, Value as Json, json};

#[derive(Clone, Debug)]
pub struct StudyResults<'a> {
    pub kernel: &'a str,
    pub device: &'a str,
    pub study: &'a str,
    /// Parameters in declared order, with all their values.
    pub parameters: &'a [(String, Vec<Value>)],
    pub problems: &'a [String],
    pub evaluations: &'a [Evaluation],
    /// When the study began: UTC, RFC 3339, without a zone behind the seconds.
    pub began: &'a str,
}

/// The T4 word for an evaluation; none for what was passed over, or judged by nobody.
pub fn invalidity(own: &Evaluation) -> Option<&'static str> {
    use VerdictKind::*;
    Some(match own.verdict.kind {
        CompileTimeout => "timeout",
        kind => match kind.class() {
            VerdictClass::Ok | VerdictClass::Noisy => "correct",
            VerdictClass::Reject => "constraints",
            VerdictClass::Compile => "compile",
            VerdictClass::Launch | VerdictClass::Crash => "runtime",
            // `too_slow` is right as far as anybody looked, and its time is a lower bound.
            VerdictClass::Hang | VerdictClass::Slow => "timeout",
            VerdictClass::Wrong | VerdictClass::Timing => "correctness",
            VerdictClass::PassedOver | VerdictClass::Harness => return None,
        },
    })
}

fn objective_ms(own: &Evaluation) -> Option<f64> {
    own.objective_ns.filter(|time| own.verdict.is_pass() && time.is_finite()).map(|time| time / 1e6)
}

/// Samples of the first timed problem in the mode that was screened, milliseconds.
fn runtimes_ms(own: &Evaluation) -> Vec<f64> {
    let measured = own.measurements.first();
    let samples = measured.map(|own| own.raw_ns.clone()).filter(|samples| !samples.is_empty());
    let samples = samples.or_else(|| measured.map(|own| vec![own.p50_ns])).unwrap_or_default();
    samples.into_iter().map(|time| time / 1e6).collect()
}

pub fn t4(results: &StudyResults<'_>) -> Json {
    let one = |own: &Evaluation| {
        let word = invalidity(own)?;
        let compile_ms = own.compile_ms;
        let mut measurements: Vec<Json> = Vec::new();
        let mut measure = |name: String, value: f64, unit: &str| {
            measurements.push(json!({ "name": name, "value": value, "unit": unit }));
        };
        if let Some(time) = objective_ms(own) {
            measure("time".to_string(), time, "ms");
        }
        for own in &own.measurements {
            let name = |what: &str| format!("{}_{}_{what}", own.problem, own.mode.as_str());
            measure(name("p50"), own.p50_ns / 1e6, "ms");
            measure(name("ci_low"), own.ci_low_ns / 1e6, "ms");
            measure(name("ci_high"), own.ci_high_ns / 1e6, "ms");
        }
        measurements.push(json!({ "name": "verdict", "value": own.verdict.kind.as_str(), "unit": "" }));
        Some(json!({
            "timestamp": results.began,
            "configuration": own.configuration,
            "times": {
                "compilation": compile_ms,
                "compilation_time": compile_ms,
                "benchmark": own.device_ms,
                "framework": 0.0,
                "search_algorithm": 0.0,
                "validation": 0.0,
                "runtimes": runtimes_ms(own),
            },
            "invalidity": word,
            // As much as is right of the outputs: all, or it is not right.
            "correctness": if word == "correct" { 1.0 } else { 0.0 },
            "measurements": measurements,
            "objectives": ["time"],
        }))
    };
    let rows: Vec<Json> = results.evaluations.iter().filter_map(one).collect();
    json!({ "schema_version": "1.0.0", "results": rows })
}

pub fn kernel_tuner(results: &StudyResults<'_>) -> Json {
    let keys: Vec<&String> = results.parameters.iter().map(|(name, _)| name).collect();
    let parameters: Map<String, Json> =
        results.parameters.iter().map(|(name, values)| (name.clone(), json!(values))).collect();
    let mut cache = Map::new();
    for own in results.evaluations {
        let Some(word) = invalidity(own) else { continue };
        let time = match (objective_ms(own), word) {
            (Some(time), _) => json!(time),
            (None, "compile") => "CompilationFailedConfig".into(),
            (None, "constraints") => "InvalidConfig".into(),
            (None, _) => "RuntimeFailedConfig".into(),
        };
        let values: Vec<String> = own.configuration.iter().map(|(_, value)| shown(value)).collect();
        let mut row: Map<String, Json> =
            own.configuration.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
        let facts = json!({
            "time": time,
            "times": runtimes_ms(own),
            "compile_time": own.compile_ms,
            "verification_time": 0.0,
            "benchmark_time": own.device_ms,
            "strategy_time": 0.0,
            "framework_time": 0.0,
            "timestamp": results.began,
            "evo_verdict": own.verdict.label(),
        });
        row.extend(facts.as_object().cloned().unwrap_or_default());
        cache.insert(values.join(","), Json::Object(row));
    }
    json!({
        "device_name": results.device,
        "kernel_name": results.kernel,
        "problem_size": results.problems.join(", "),
        "tune_params_keys": keys,
        "tune_params": parameters,
        "objective": "time",
        "cache": cache,
    })
}

/// A value as Python prints it: it is part of a cache's keys.
fn shown(value: &Value) -> String {
    match value {
        Value::Bool(true) => "True".to_string(),
        Value::Bool(false) => "False".to_string(),
        other => other.to_string(),
    }
}

/// Numbers of Optuna's journal (`optuna/storages/journal/_storage.py`) and of its states.
const CREATE_STUDY: u32 = 0;
const CREATE_TRIAL: u32 = 4;
const MINIMIZE: u32 = 1;
const COMPLETE: u32 = 1;
const FAIL: u32 = 3;

/// The results as a journal file of Optuna: a line each. Variants without a time are failed trials.
pub fn optuna(results: &StudyResults<'_>) -> String {
    let worker = "evo";
    let study = json!({
        "op_code": CREATE_STUDY, "worker_id": worker, "study_name": results.study, "directions": [MINIMIZE],
    });
    let mut text = format!("{study}\n");
    let mut distributions = Map::new();
    for (name, values) in results.parameters {
        let own = json!({ "name": "CategoricalDistribution", "attributes": { "choices": values } });
        distributions.insert(name.clone(), own.to_string().into());
    }
    for own in results.evaluations {
        let Some(word) = invalidity(own) else { continue };
        let place = |name: &str, value: &Value| {
            let (_, values) = results.parameters.iter().find(|(own, _)| own == name)?;
            values.iter().position(|other| other == value)
        };
        let params: Map<String, Json> = own
            .configuration
            .iter()
            .filter_map(|(name, value)| Some((name.to_string(), json!(place(name, value)?))))
            .collect();
        let time = objective_ms(own);
        let trial = json!({
            "op_code": CREATE_TRIAL,
            "worker_id": worker,
            "study_id": 0,
            "datetime_start": results.began,
            "datetime_complete": results.began,
            "distributions": distributions,
            "params": params,
            "user_attrs": { "verdict": own.verdict.label(), "invalidity": word, "number": own.number, "origin": own.origin },
            "system_attrs": {},
            "intermediate_values": {},
            "state": if time.is_some() { COMPLETE } else { FAIL },
            "value": time,
        });
        text.push_str(&format!("{trial}\n"));
    }
    text
}
