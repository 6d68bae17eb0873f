//! Answers in the forms of other programs. Each is made from an answer of evo's own, so none can know more than that; the
//! whole verdict stands in its log. A failure has no number in any of them.

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
pub fn emitted(form: EmitForm, answer: &Value, kernel: &str, at: &str) -> Value {
    let mut object = match form {
        EmitForm::Trace => trace(answer, kernel, at),
        EmitForm::Kernelbench => kernelbench(answer),
        EmitForm::Openevolve => openevolve(answer),
        EmitForm::Shinka => shinka(answer),
    };
    object["id"] = answer["id"].clone();
    if !answer["line"].is_null() {
        object["line"] = answer["line"].clone();
    }
    object
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

fn trace(answer: &Value, kernel: &str, at: &str) -> Value {
    let speedup = answer["scores"]["speedup"].as_f64();
    // Its reader takes a missing number for 0.
    let error = |name: &str| match &answer["correctness"][name] {
        Value::Null => json!("NaN"),
        value => value.clone(),
    };
    let of = |problem: &Value| {
        let mut status = trace_status(answer);
        let latency_ms = problem["p50_ns"].as_f64().map(|time| time / 1e6);
        let times = latency_ms.zip(speedup).filter(|_| status == "PASSED");
        if status == "PASSED" && times.is_none() {
            // Without a baseline there is no performance, and then it did not pass in this form.
            status = "RUNTIME_ERROR";
        }
        let correctness = ["PASSED", "INCORRECT_NUMERICAL"].contains(&status).then(|| {
            json!({
                "max_absolute_error": error("max_abs"),
                "max_relative_error": error("max_rel"),
                "extra": { "evo": answer["correctness"]["worst_case"] },
            })
        });
        let performance = times.map(|(latency_ms, speedup)| {
            let reference_ms = latency_ms * speedup;
            json!({ "latency_ms": latency_ms, "reference_latency_ms": reference_ms, "speedup_factor": speedup })
        });
        json!({
            "definition": kernel,
            "workload": { "uuid": problem["problem"], "axes": {}, "inputs": {} },
            "solution": answer["hashes"]["source"].as_str().unwrap_or("candidate"),
            "evaluation": {
                "status": status,
                "environment": {
                    "hardware": answer["provenance"]["device"].as_str().unwrap_or("unknown"),
                    "libs": { "evo": env!("CARGO_PKG_VERSION") },
                },
                "timestamp": at,
                "log": log(answer),
                "correctness": correctness,
                "performance": performance,
            },
        })
    };
    let all = [json!({ "problem": "all" })];
    let problems = answer["performance"]["problems"].as_array().filter(|problems| !problems.is_empty());
    json!({ "traces": problems.map_or(&all[..], |problems| problems).iter().map(of).collect::<Vec<_>>() })
}

fn kernelbench(answer: &Value) -> Value {
    let compiled = answer["gates"]["compile"] == "pass";
    let runtime_us = answer["performance"]["objective_ns"].as_f64().map(|time| time / 1e3);
    let runtime_us = runtime_us.filter(|_| is_scored(answer));
    let speedup = answer["scores"]["speedup"].as_f64();
    let mut metadata = json!({ "hardware": answer["provenance"]["device"], "evo": log(answer) });
    if answer["class"] == "timing" || matches!(answer["verdict"].as_str(), Some("stateful" | "input_mutated"))
    {
        metadata["reward_hack"] = true.into();
    }
    // -1 is that program's word for a time that was not taken.
    json!({
        "compiled": compiled,
        "correctness": answer["verdict"] == "pass" && answer["gates"]["full_shapes"] == "pass",
        "metadata": metadata,
        "runtime": runtime_us.unwrap_or(-1.0),
        "runtime_stats": match runtime_us {
            Some(_) => json!({ "ci_low_ns": answer["performance"]["low"], "ci_high_ns": answer["performance"]["high"] }),
            None => json!({}),
        },
        "ref_runtime": runtime_us.zip(speedup).map_or(-1.0, |(time, speedup)| time * speedup),
        "ref_runtime_stats": {},
    })
}

/// The scores that are known. Its database takes a program without metrics for one that failed.
fn scores(answer: &Value) -> Map<String, Value> {
    let all = answer["scores"].as_object().cloned().unwrap_or_default();
    all.into_iter().filter(|(_, value)| value.is_number() && is_scored(answer)).collect()
}

fn openevolve(answer: &Value) -> Value {
    let mut artifacts = json!({ "evo_verdict": log(answer) });
    if let Some(text) = answer["feedback"]["text"].as_str() {
        artifacts["feedback"] = text.into();
    }
    json!({ "metrics": scores(answer), "artifacts": artifacts })
}

fn shinka(answer: &Value) -> Value {
    let public = scores(answer);
    let combined = public.get("combined_score").cloned().unwrap_or_default();
    let is_correct = is_scored(answer);
    json!({
        "correct": { "correct": is_correct, "error": if is_correct { Value::Null } else { log(answer).into() } },
        "metrics": {
            "combined_score": combined,
            "public": public,
            "private": {},
            "text_feedback": answer["feedback"]["text"].as_str().map_or_else(|| log(answer), String::from),
        },
    })
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
            .map(|form| emitted(form, answer, "k", "now"))
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
