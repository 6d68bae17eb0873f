//! The reference by command: a script that runs the task's own Python on evo's inputs.

use std::fmt::Write;

use serde_json::Value;

use super::model::{BenchmarkTask, TaskForm, TaskTensor, TensorShape};

/// What is the same for every task, and how its Python is called.
const COMMON: &str = include_str!("reference.py");
const CALL_RUN: &str = include_str!("call_run.py");
const CALL_MODEL: &str = include_str!("call_model.py");

/// Words of a source that computes in a narrower type than double precision, whatever it is given.
const NARROW: &[&str] = &["float32", "float16", "bfloat16", ".float()", ".half()", ".bfloat16()"];

/// The type of its answers: single precision where the task's source says itself that it computes no wider.
pub(super) fn answers_in(task: &BenchmarkTask) -> &'static str {
    match NARROW.iter().any(|word| task.program.contains(word)) {
        true => "float32",
        false => "float64",
    }
}
pub(super) fn reference(task: &BenchmarkTask) -> String {
    let mut text = format!(
        "\"\"\"The reference of `{}`, a task of {}: it runs `task.py`, the task's own source, on evo's inputs.\n\n\
         Written by `evo import {}`. docs/guide/import.md says what can be changed here.\n\"\"\"\n\n",
        task.name,
        task.form.name(),
        task.form.word()
    );
    let all = |tensors: &mut dyn Iterator<Item = &TaskTensor>| -> String {
        let mut rows = String::new();
        for own in tensors {
            let rank = match &own.shape {
                TensorShape::Scalar => "None".to_string(),
                TensorShape::Extents(all) => all.len().to_string(),
            };
            let _ = writeln!(
                rows,
                "    ({}, {}, {}, {rank}),",
                quoted(&own.name),
                quoted(&own.label),
                quoted(own.torch)
            );
        }
        rows
    };
    let call = match task.form {
        TaskForm::KernelBench => CALL_MODEL,
        TaskForm::FlashInfer | TaskForm::Sol => CALL_RUN,
    };
    let inputs = all(&mut task.inputs.iter().filter(|own| !own.is_weight));
    let weights = all(&mut task.inputs.iter().filter(|own| own.is_weight));
    let outputs = all(&mut task.outputs.iter());
    let rows = format!("INPUTS = [\n{inputs}]\nWEIGHTS = [\n{weights}]\nOUTPUTS = [\n{outputs}]\n");
    text.push_str(&COMMON.replace("# <rows>\n", &rows).replace("# <call>\n", call));
    text
}

/// A text as a literal of Python, whose escapes include those of JSON.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
