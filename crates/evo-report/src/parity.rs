//! The plain parity that people know, beside evo's own rule: it decides nothing. The judge compares the last outputs of
//! each problem with their answers and leaves the numbers in the evidence of `full_shapes`.

use std::collections::BTreeMap;

use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::{Gate, GateReport};
use serde_json::{Value, json};

/// The numbers of each problem, and why some are null.
#[derive(Debug)]
pub struct Parity {
    /// An array with an object a problem; null where no problem was compared.
    pub fields: Value,
    /// By dotted path.
    pub reasons: BTreeMap<String, String>,
}

pub fn of(evaluation: &Evaluation) -> Parity {
    let report = evaluation.gate(Gate::FullShapes);
    let seen = report.and_then(|report| report.evidence.get(GateReport::PARITY)).and_then(Value::as_object);
    let mut reasons = BTreeMap::new();
    let Some(seen) = seen.filter(|seen| !seen.is_empty()) else {
        reasons.insert("parity".to_string(), "no problem was compared with its answer".to_string());
        return Parity { fields: Value::Null, reasons };
    };
    let problems = seen.iter().enumerate().map(|(number, (problem, numbers))| {
        let mut object = json!({ "problem": problem });
        for name in GateReport::PARITY_NUMBERS {
            // A worker of somebody else's may send anything.
            let value = numbers.get(name).filter(|value| value.is_number() || value.is_boolean());
            if value.is_none() {
                let reason =
                    numbers.get(format!("{name}{}", GateReport::PARITY_REASON)).and_then(Value::as_str);
                let reason = reason.unwrap_or("the worker does not say").to_string();
                reasons.insert(format!("parity.{number}.{name}"), reason);
            }
            object[name] = value.cloned().unwrap_or_default();
        }
        let task = numbers.get(GateReport::PARITY_TASK);
        if let Some((ratio, within)) = task
            .and_then(|own| own["matched_ratio"].as_f64().zip(own["within"].as_bool()))
            .filter(|(ratio, _)| (0.0..=1.0).contains(ratio))
        {
            object[GateReport::PARITY_TASK] = json!({ "matched_ratio": ratio, "within": within });
        }
        object
    });
    let fields = Value::Array(problems.collect());
    Parity { fields, reasons }
}

/// A line a problem.
pub fn text(evaluation: &Evaluation) -> String {
    let Value::Array(problems) = of(evaluation).fields else { return String::new() };
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
