//! The files of a task: its space file, a kernel with the task's signature and an empty body, a reference by command that
//! runs the task's own Python, and that.

use evo_kernel::identifiers::plain;
use evo_kernel::sketch::write::quoted;
use evo_kernel::sketch::{KernelSketch, SketchGuess, guessed};
use evo_kernel::template::{Serde, plain_environment};
use evo_protocol::dtype::DType;
use evo_protocol::worker::TaskTolerance;
use serde_json::{Value, json};

use super::model::{BenchmarkTask, TaskAxisKind, TaskForm, TaskTensor, TaskWorkload};

const CALL_RUN: &str = include_str!("call_run.py");
const CALL_MODEL: &str = include_str!("call_model.py");

/// Words of a source that computes in a narrower type than double precision, whatever it is given.
const NARROW: &[&str] = &["float32", "float16", "bfloat16", ".float()", ".half()", ".bfloat16()"];

pub fn folder(task: &BenchmarkTask) -> KernelSketch {
    let context = context(task);
    let beside = [
        ("kernel.cu", filled(include_str!("kernel.cu.j2"), &context)),
        ("reference.py", filled(include_str!("reference.py.j2"), &context)),
        ("task.py", task.program.clone()),
    ];
    KernelSketch {
        space: filled(include_str!("space.toml.j2"), &context),
        beside: beside.map(|(name, text)| (name.to_string(), text)).into(),
        entry: entry(task),
        guesses: guesses(task),
    }
}

fn filled(template: &str, context: &Value) -> String {
    let environment = plain_environment();
    environment.render_str(template, Serde(context)).expect("a template of evo's own finds its names")
}

fn context(task: &BenchmarkTask) -> Value {
    let numbers = task.inputs.iter().filter(|input| input.shape.is_none()).enumerate();
    let scalars: Vec<(&str, Vec<&String>)> =
        numbers.map(|(at, input)| (input.label.as_str(), values(task, at))).collect();
    let tensor = |tensor: &TaskTensor| {
        let extent = |extent: &String| match extent.chars().all(|c| c.is_ascii_digit()) {
            true => extent.clone(),
            false => quoted(extent),
        };
        let extents = tensor.shape.iter().flatten().map(extent).collect::<Vec<_>>().join(", ");
        let scalar = scalars.iter().find(|(label, _)| *label == tensor.label);
        let what = match &tensor.shape {
            None => "a number".to_string(),
            Some(extents) => format!("[{}]", extents.join(", ")),
        };
        let alias = match tensor.name == tensor.label {
            true => String::new(),
            false => format!(", the task's `{}`", tensor.name),
        };
        // Literals of Python, whose escapes include those of JSON.
        let words = [tensor.name.as_str(), &tensor.label, tensor.torch].map(quoted);
        json!({
            "label": tensor.label,
            "about": comment(&format!("{}: {} {what}{alias}", tensor.label, tensor.torch)),
            "is_number": tensor.shape.is_none(),
            "words": words.join(", "),
            "rank": tensor.shape.as_ref().map_or("None".to_string(), |extents| extents.len().to_string()),
            "dtype": tensor.dtype.as_str(),
            "extents": if extents.is_empty() { "1" } else { &extents },
            "value": scalar.map(|(label, values)| choice(label, values)),
            "fill": tensor.fill,
        })
    };
    let all = |tensors: Vec<&TaskTensor>| tensors.into_iter().map(tensor).collect::<Vec<Value>>();
    let constants = task.axes.iter().filter_map(|axis| match axis.kind {
        TaskAxisKind::Const(value) => Some(json!([axis.label, value])),
        _ => None,
    });
    let problem = |workload: &TaskWorkload| {
        let axes = task.variable().zip(&workload.axes);
        let mut sizes: Vec<String> = axes.map(|(axis, value)| format!("{} = {value}", axis.label)).collect();
        for ((label, values), scalar) in scalars.iter().zip(&workload.scalars) {
            let case = values.iter().position(|value| *value == scalar).filter(|_| values.len() > 1);
            sizes.extend(case.map(|case| format!("{label}_case = {case}")));
        }
        json!({ "name": workload.name, "sizes": sizes })
    };
    let TaskTolerance { atol, rtol, matched } = task.tolerance;
    let rule = [atol, rtol, matched].map(|bound| format!("{bound:?}"));
    // Single precision where the task's source says itself that it computes no wider.
    let is_narrow = NARROW.iter().any(|word| task.program.contains(word));
    let first = &task.outputs[0];
    let is_plain = first.shape.as_ref().is_some_and(|extents| extents.iter().all(|extent| is_word(extent)));
    json!({
        "name": task.name,
        "form": task.form.name(),
        "word": task.form.word(),
        "about": task.about.as_deref().map(comment),
        "uses_half": task.tensors().any(|tensor| tensor.dtype == DType::F16),
        "uses_bf16": task.tensors().any(|tensor| tensor.dtype == DType::Bf16),
        "constants": constants.collect::<Vec<Value>>(),
        "entry": entry(task),
        "tensors": all(task.tensors().collect()),
        "given": all(task.inputs.iter().collect()),
        "inputs": all(task.inputs.iter().filter(|input| !input.is_weight).collect()),
        "weights": all(task.inputs.iter().filter(|input| input.is_weight).collect()),
        "outputs": all(task.outputs.iter().collect()),
        "sizes": task.variable().map(|axis| &axis.label).collect::<Vec<_>>(),
        "first": first.label,
        // The number of elements, where its extents are names and numbers.
        "count": first.shape.as_ref().filter(|_| is_plain).map(|extents| {
            ["1LL"].into_iter().chain(extents.iter().map(String::as_str)).collect::<Vec<_>>().join(" * ")
        }),
        "call": if task.form == TaskForm::KernelBench { CALL_MODEL } else { CALL_RUN },
        "elements": count(first),
        "problems": task.workloads.iter().map(problem).collect::<Vec<Value>>(),
        "demands": task.constraints.iter().map(|demand| comment(demand)).collect::<Vec<_>>(),
        "tiny": no_tiny(task),
        "rule": rule,
        "dtype": if is_narrow { "float32" } else { "float64" },
    })
}

fn entry(task: &BenchmarkTask) -> String {
    // An ending keeps names of C's library, such as `exp`, apart.
    format!("{}_kernel", plain(&task.name))
}

/// A text that ends neither the line nor the comment.
fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || c == '\\' { '_' } else { c }).collect()
}

fn is_word(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn guesses(task: &BenchmarkTask) -> Vec<SketchGuess> {
    let mut guesses = Vec::new();
    guessed(
        &mut guesses,
        "kernel.cu has the signature and an empty body",
        "it is judged as `wrong_answer` until you write it",
    );
    guessed(&mut guesses, "the grid, the block and BLOCK", "they depend on the kernel that you write");
    for input in &task.inputs {
        if let Some((fill, why)) = &input.fill {
            guessed(&mut guesses, format!("`{}` is filled with {fill}", input.label), why);
        }
    }
    if task.inputs.iter().any(|input| input.is_weight) {
        guessed(
            &mut guesses,
            "the module's weights are inputs, which evo fills",
            "kernel and reference then see the same ones; their first values in the task are not used",
        );
    }
    if let Some(why) = no_tiny(task) {
        guessed(&mut guesses, "small and odd shapes are not tried", why);
    }
    let rule = &task.tolerance;
    guessed(
        &mut guesses,
        format!("the task's own rule, atol {:?} and rtol {:?}, is reported only", rule.atol, rule.rtol),
        "evo's gates decide, and its verdict stands beside that of the task",
    );
    guesses
}

fn no_tiny(task: &BenchmarkTask) -> Option<&'static str> {
    if !task.constraints.is_empty() {
        return Some("the task relates its axes to each other; list shapes that keep to it in `tiny`");
    }
    task.variable().next().is_none().then_some("all extents of the task are fixed")
}

fn count(tensor: &TaskTensor) -> String {
    let extents = tensor.shape.as_deref().unwrap_or_default();
    let factor = |text: &String| if is_word(text) { text.clone() } else { format!("({text})") };
    match extents {
        [] => "1".to_string(),
        extents => extents.iter().map(factor).collect::<Vec<_>>().join(" * "),
    }
}

/// The different values of a scalar, in the order of the workloads.
fn values(task: &BenchmarkTask, at: usize) -> Vec<&String> {
    let mut values: Vec<&String> = Vec::new();
    for value in task.workloads.iter().filter_map(|workload| workload.scalars.get(at)) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

/// A scalar's value: a number, or a choice by a size that says which of the workloads' values it is. So small shapes take
/// one of those too.
fn choice(label: &str, values: &[&String]) -> String {
    let [earlier @ .., last] = values else { return "0".to_string() };
    let earlier = earlier.iter().enumerate();
    let choices: String =
        earlier.map(|(case, value)| format!("{value} if {label}_case == {case} else ")).collect();
    quoted(&(choices + last))
}
