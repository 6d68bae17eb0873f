//! The plain parity that people know, beside evo's own rule: it decides nothing. The judge compares the last outputs of
//! each problem with their answers and leaves the numbers in the evidence of `full_shapes`.

use evo_protocol::evaluation::Evaluation;
use evo_protocol::known::{Known, told};
use evo_protocol::verdict::{Gate, GateReport};
use serde_json::{Value, json};

/// An object a problem, in an array.
pub fn of(evaluation: &Evaluation) -> Known<Value> {
    let report = evaluation.gate(Gate::FullShapes);
    let seen = report.and_then(|report| report.evidence.get(GateReport::PARITY)).and_then(Value::as_object);
    let problems = seen.filter(|seen| !seen.is_empty()).map(|seen| {
        let problem = |(problem, numbers): (&String, &Value)| {
            let mut object = json!({ "problem": problem });
            for name in GateReport::PARITY_NUMBERS {
                // A worker of somebody else's may send anything.
                let value = numbers.get(name).filter(|value| value.is_number() || value.is_boolean());
                let reason =
                    numbers.get(format!("{name}{}", GateReport::PARITY_REASON)).and_then(Value::as_str);
                object[name] = json!(Known::of(value, reason.unwrap_or("the worker does not say")));
            }
            let task = numbers.get(GateReport::PARITY_TASK);
            if let Some((ratio, within)) = task
                .and_then(|task| task["matched_ratio"].as_f64().zip(task["within"].as_bool()))
                .filter(|(ratio, _)| (0.0..=1.0).contains(ratio))
            {
                object[GateReport::PARITY_TASK] = json!({ "matched_ratio": ratio, "within": within });
            }
            object
        };
        Value::Array(seen.iter().map(problem).collect())
    });
    Known::of(problems, "no problem was compared with its answer")
}

/// A line a problem.
pub fn text(evaluation: &Evaluation) -> String {
    let (Value::Array(problems), _) = told(&of(evaluation)) else { return String::new() };
    let line = |one: &Value| {
        let number =
            |name: &str| one[name].as_f64().map_or("unknown".to_string(), |value| format!("{value:.3e}"));
        let close = |name: &str| match one[name].as_bool() {
            Some(true) => "yes",
            Some(false) => "no",
            None => "unknown",
        };
        let task = match one[GateReport::PARITY_TASK]["within"].as_bool() {
            Some(within) => {
                let ratio = one[GateReport::PARITY_TASK]["matched_ratio"].as_f64().unwrap_or_default();
                let word = if within { "passes" } else { "fails" };
                format!(", by the task's own rule it {word} ({:.2} % of the elements match)", 100.0 * ratio)
            }
            None => String::new(),
        };
        format!(
            "  {:<20} parity: max abs error {}, max rel error {}, allclose 1e-3 {}, 1e-2 {}{task}\n",
            one["problem"].as_str().unwrap_or_default(),
            number("max_abs_error"),
            number("max_rel_error"),
            close("allclose_1e-3"),
            close("allclose_1e-2"),
        )
    };
    problems.iter().map(line).collect()
}
