//! The plain parity that people know, beside evo's own rule: it decides nothing. The judge compares the last outputs of
//! each problem with their answers and leaves the numbers in the evidence of `full_shapes`.

use evo_protocol::evaluation::Evaluation;
use evo_protocol::known::Known;
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
