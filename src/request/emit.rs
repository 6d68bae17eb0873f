//! Answers in the forms of other programs. Each is made from an answer of evo's own, so none can know more than that; the
//! whole verdict stands in its log. A failure has no number in any of them. What a form has is in its template (`forms/`).

use std::error::Error;

use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde_json::{Map, Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum EmitForm {
    /// Traces as FlashInfer-Bench keeps them, one a problem
    Trace,
    /// What KernelBench's evaluation gives back
    Kernelbench,
    /// Metrics and artifacts of OpenEvolve
    Openevolve,
    /// The two files that ShinkaEvolve reads, as one object
    Shinka,
}

/// The answer in a form. It keeps `id`, and `line` in a stream.
///
/// # Errors
/// A template that does not render an object, which is a mistake of evo's own.
pub fn emitted(form: EmitForm, answer: &Value, kernel: &str, at: &str) -> Result<Value, Box<dyn Error>> {
    let template = match form {
        EmitForm::Trace => include_str!("forms/trace.json.j2"),
        EmitForm::Kernelbench => include_str!("forms/kernelbench.json.j2"),
        EmitForm::Openevolve => include_str!("forms/openevolve.json.j2"),
        EmitForm::Shinka => include_str!("forms/shinka.json.j2"),
    };
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    let status = trace_status(answer);
    let scores = answer["scores"].as_object().into_iter().flatten();
    let scores: Map<String, Value> = scores
        .filter(|(_, value)| value.is_number() && is_scored(answer))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let values = json!({
        "answer": answer, "kernel": kernel, "at": at, "evo": env!("CARGO_PKG_VERSION"), "log": log(answer),
        "is_scored": is_scored(answer), "scores": scores, "status": status, "passed": status == "PASSED",
    });
    let text = environment.render_named_str("form.json.j2", template, Serde(values))?;
    let mut object: Value = serde_json::from_str(&text)?;
    object["id"] = answer["id"].clone();
    if !answer["line"].is_null() {
        object["line"] = answer["line"].clone();
    }
    Ok(object)
}

/// Verdict and message in one text, for programs that keep a log.
fn log(answer: &Value) -> String {
    let word = |name: &str| answer[name].as_str().unwrap_or_default();
    let cause = match word("cause") {
        "" => String::new(),
        cause => format!(":{cause}"),
    };
    let error = answer["error"]["message"].as_str().unwrap_or(word("message"));
    let label = if word("verdict").is_empty() { word("status") } else { word("verdict") };
    format!("{label}{cause} at level {}: {error}", answer["level_reached"].as_str().unwrap_or("none"))
}

/// Whether every gate that was asked for passed, and a time was taken.
fn is_scored(answer: &Value) -> bool {
    answer["verdict"] == "pass" && !answer["scores"].is_null()
}

/// FlashInfer-Bench's word for a verdict. What cheats has no word of its own there and counts as wrong; trouble of evo's
/// or of the machine's is an error at run time, which its reader may try again.
fn trace_status(answer: &Value) -> &'static str {
    let word = |name: &str| answer[name].as_str().unwrap_or_default();
    match (word("class"), word("verdict")) {
        ("ok", _) if is_scored(answer) => "PASSED",
        ("hang" | "slow", _) | (_, "compile_timeout") => "TIMEOUT",
        ("reject" | "compile", _) => "COMPILE_ERROR",
        ("wrong" | "timing", _) => "INCORRECT_NUMERICAL",
        _ => "RUNTIME_ERROR",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(verdict: &str, class: &str) -> Value {
        json!({ "id": 7, "status": "done", "verdict": verdict, "class": class, "cause": null, "message": "m",
            "level_reached": "tiny", "gates": { "compile": "pass", "full_shapes": "not_run" }, "correctness": null,
            "performance": null, "scores": null, "feedback": { "text": "t" }, "provenance": { "device": "d" },
            "hashes": { "source": "h" }, "error": null })
    }

    fn passed() -> Value {
        let mut answer = answer("pass", "ok");
        answer["gates"]["full_shapes"] = "pass".into();
        answer["correctness"] = json!({ "max_abs": 0.5, "max_rel": null, "worst_case": null });
        answer["performance"] = json!({ "objective_ns": 2000.0, "low": 1.0, "high": 2.0,
            "problems": [{ "problem": "p", "p50_ns": 2000.0 }] });
        answer["scores"] = json!({ "combined_score": 1.5, "speedup": 1.5, "sol_score": null, "fast_p": 1 });
        answer
    }

    fn all(answer: &Value) -> [Value; 4] {
        [EmitForm::Trace, EmitForm::Kernelbench, EmitForm::Openevolve, EmitForm::Shinka]
            .map(|form| emitted(form, answer, "k", "now").unwrap())
    }

    #[test]
    fn verdicts_have_their_words_and_failures_no_numbers() {
        for (verdict, class, status) in [
            ("wrong_answer", "wrong", "INCORRECT_NUMERICAL"),
            ("oob_write", "wrong", "INCORRECT_NUMERICAL"),
            ("timing_escape", "timing", "INCORRECT_NUMERICAL"),
            ("compile_error", "compile", "COMPILE_ERROR"),
            ("compile_timeout", "compile", "TIMEOUT"),
            ("static_reject", "reject", "COMPILE_ERROR"),
            ("hang", "hang", "TIMEOUT"),
            ("too_slow", "slow", "TIMEOUT"),
            ("launch_fail", "launch", "RUNTIME_ERROR"),
            ("crash_trap", "crash", "RUNTIME_ERROR"),
            ("harness_error", "harness", "RUNTIME_ERROR"),
            // A pass that was not timed is not a pass in this form.
            ("pass", "ok", "RUNTIME_ERROR"),
        ] {
            let [trace, bench, evolve, shinka] = all(&answer(verdict, class));
            let trace = &trace["traces"][0]["evaluation"];
            assert_eq!(
                (&trace["status"], &trace["performance"]),
                (&status.into(), &Value::Null),
                "{verdict}"
            );
            assert_eq!(trace["correctness"].is_null(), status != "INCORRECT_NUMERICAL", "{verdict}");
            assert!(bench["runtime"] == -1.0 && bench["correctness"] == false, "{verdict}");
            assert_eq!(evolve["metrics"], json!({}), "{verdict}");
            assert!(shinka["correct"]["correct"] == false && shinka["metrics"]["combined_score"].is_null());
        }
    }

    #[test]
    fn a_pass_keeps_its_numbers() {
        let [trace, bench, evolve, shinka] = all(&passed());
        let own = &trace["traces"][0]["evaluation"];
        assert_eq!((&own["status"], &own["performance"]["speedup_factor"]), (&"PASSED".into(), &1.5.into()));
        assert_eq!((&own["correctness"]["max_relative_error"], &trace["id"]), (&"NaN".into(), &7.into()));
        assert!(bench["runtime"] == 2.0 && bench["ref_runtime"] == 3.0, "{bench}");
        assert_eq!(evolve["metrics"], json!({ "combined_score": 1.5, "speedup": 1.5, "fast_p": 1 }));
        assert!(
            shinka["correct"]["correct"] == true && shinka["metrics"]["combined_score"] == 1.5,
            "{shinka}"
        );
        assert!(shinka["correct"]["error"].is_null(), "{shinka}");
    }
}
