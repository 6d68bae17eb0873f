//! Results of a study as T4, which other tuners read.
//!
//! T4 1.0.0 (`kernel_tuner/schema/T4` of Kernel Tuner) asks for `times.compilation_time`, and Kernel Tuner writes and reads
//! `times.compilation`; both are written. Its `invalidity` and `correctness` say here what evo's gates found. Times are
//! milliseconds, as there.

use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::{VerdictClass, VerdictKind};
use serde_json::{Value as Json, json};

/// The T4 word for an evaluation; none for what was passed over, or judged by nobody.
fn invalidity(own: &Evaluation) -> Option<&'static str> {
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

/// `began` is when the study did: UTC, RFC 3339, without a zone behind the seconds.
pub fn t4(evaluations: &[Evaluation], began: &str) -> Json {
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
            "timestamp": began,
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
    let rows: Vec<Json> = evaluations.iter().filter_map(one).collect();
    json!({ "schema_version": "1.0.0", "results": rows })
}
