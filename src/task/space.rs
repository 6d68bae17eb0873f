//! The space file of a task.

use std::fmt::Write;

use evo_kernel::sketch::SketchGuess;
use serde_json::Value;

use super::model::{BenchmarkTask, TaskNumber, TaskTensor, TensorShape};
use super::script;
use super::skeleton;

pub(super) fn text(task: &BenchmarkTask) -> String {
    let mut text = format!(
        "# `{}`, taken over from a task of {} by `evo import {}`. What is marked `guess` is to be looked at before a\n\
         # number counts. docs/space_files.md explains every key.\n",
        task.name,
        task.form.name(),
        task.form.word()
    );
    if let Some(about) = &task.about {
        let plain: String = about.chars().map(|c| if c.is_control() { '_' } else { c }).collect();
        let _ = writeln!(text, "# {plain}");
    }
    let _ = write!(
        text,
        "\n[kernel]\nname = {}\nsource = \"kernel.cu\"\n\n[parameters]\n\
         BLOCK = {{ values = [64, 128, 256, 512], default = 256 }}  # guess: threads of a block; add what you tune\n\n",
        quoted(&task.name)
    );
    let mut scalars = 0;
    for own in &task.inputs {
        argument(task, own, "input", &mut scalars, &mut text);
    }
    for own in &task.outputs {
        argument(task, own, "output", &mut scalars, &mut text);
    }
    for own in task.variable() {
        let _ =
            write!(text, "[[arguments]]\nname = {0}\ndtype = \"i32\"\nvalue = {0}\n\n", quoted(&own.label));
    }
    let _ = write!(
        text,
        "[[launches]]\nentry = {}\ngrid = [{}]  # guess: a thread for each element of the first output\nblock = [\"BLOCK\"]\n\n",
        quoted(&skeleton::entry(task)),
        quoted(&format!("ceil_div({}, BLOCK)", count(&task.outputs[0].shape)))
    );
    problems(task, &mut text);
    check(task, &mut text);
    text
}

/// What to look at before a number counts.
pub(super) fn guesses(task: &BenchmarkTask) -> Vec<SketchGuess> {
    let mut all = Vec::new();
    let mut guess = |what: String, why: &str| all.push(SketchGuess { what, why: why.to_string() });
    guess(
        "kernel.cu has the signature and an empty body".to_string(),
        "it is judged as `wrong_answer` until you write it",
    );
    guess("the grid, the block and BLOCK".to_string(), "they depend on the kernel that you write");
    for own in &task.inputs {
        if let Some((fill, why)) = &own.fill {
            guess(format!("`{}` is filled with {fill}", own.label), why);
        }
    }
    if task.inputs.iter().any(|own| own.is_weight) {
        guess(
            "the module's weights are inputs, which evo fills".to_string(),
            "kernel and reference then see the same ones; their first values in the task are not used",
        );
    }
    if let Some(why) = no_tiny(task) {
        guess("small and odd shapes are not tried".to_string(), why);
    }
    let rule = &task.tolerance;
    guess(
        format!("the task's own rule, atol {:?} and rtol {:?}, is reported only", rule.atol, rule.rtol),
        "evo's gates decide, and its verdict stands beside that of the task",
    );
    all
}

/// Why small shapes are not derived.
fn no_tiny(task: &BenchmarkTask) -> Option<&'static str> {
    if !task.constraints.is_empty() {
        return Some("the task relates its axes to each other; list shapes that keep to it in `tiny`");
    }
    task.variable().next().is_none().then_some("all extents of the task are fixed")
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The number of elements as an expression.
fn count(shape: &TensorShape) -> String {
    let TensorShape::Extents(all) = shape else { return "1".to_string() };
    let is_plain = |own: &str| own.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let factor = |own: &String| if is_plain(own) { own.clone() } else { format!("({own})") };
    if all.is_empty() { "1".to_string() } else { all.iter().map(factor).collect::<Vec<_>>().join(" * ") }
}

fn argument(task: &BenchmarkTask, own: &TaskTensor, role: &str, scalars: &mut usize, text: &mut String) {
    let _ = write!(
        text,
        "[[arguments]]\nname = {}\ndtype = {}\n",
        quoted(&own.label),
        quoted(own.dtype.as_str())
    );
    match &own.shape {
        TensorShape::Scalar => {
            let _ = writeln!(text, "value = {}", value(task, &own.label, *scalars));
            *scalars += 1;
        }
        TensorShape::Extents(all) => {
            let all: Vec<String> = all.iter().map(|own| extent(own)).collect();
            let shape = if all.is_empty() { "1".to_string() } else { all.join(", ") };
            let _ = writeln!(text, "shape = [{shape}]\nrole = {}", quoted(role));
            if let Some((fill, why)) = own.fill.as_ref().filter(|_| role == "input") {
                let _ = writeln!(text, "fill = {fill}  # guess: {why}");
            }
        }
    }
    text.push('\n');
}

fn extent(text: &str) -> String {
    if text.chars().all(|c| c.is_ascii_digit()) { text.to_string() } else { quoted(text) }
}

/// The different values of a scalar, in the order of the workloads.
fn values(task: &BenchmarkTask, at: usize) -> Vec<TaskNumber> {
    let mut found: Vec<TaskNumber> = Vec::new();
    for own in task.workloads.iter().filter_map(|own| own.scalars.get(at)) {
        if !found.contains(own) {
            found.push(*own);
        }
    }
    found
}

/// A scalar's value: a number, or a choice by a size that says which of the workloads' values it is. So small shapes take
/// one of those too.
fn value(task: &BenchmarkTask, label: &str, at: usize) -> String {
    let all = values(task, at);
    let [earlier @ .., last] = &all[..] else { return "0".to_string() };
    if earlier.is_empty() {
        return quoted(&last.written());
    }
    let case = case_name(label);
    let choices = earlier.iter().enumerate();
    let choices: String =
        choices.map(|(number, own)| format!("{} if {case} == {number} else ", own.written())).collect();
    quoted(&(choices + &last.written()))
}

fn case_name(label: &str) -> String {
    format!("{label}_case")
}

fn problems(task: &BenchmarkTask, text: &mut String) {
    let numbers: Vec<(usize, &TaskTensor)> =
        task.inputs.iter().filter(|own| own.shape == TensorShape::Scalar).enumerate().collect();
    for own in &task.workloads {
        let mut sizes: Vec<String> =
            task.variable().zip(&own.axes).map(|(axis, value)| format!("{} = {value}", axis.label)).collect();
        for (at, scalar) in &numbers {
            let all = values(task, *at);
            let case = own.scalars.get(*at).and_then(|own| all.iter().position(|other| other == own));
            if let Some(case) = case.filter(|_| all.len() > 1) {
                sizes.push(format!("{} = {case}", case_name(&scalar.label)));
            }
        }
        let sizes = if sizes.is_empty() { "{}".to_string() } else { format!("{{ {} }}", sizes.join(", ")) };
        let _ = write!(text, "[[problems]]\nname = {}\nsizes = {sizes}\n\n", quoted(&own.name));
    }
}

fn check(task: &BenchmarkTask, text: &mut String) {
    for own in &task.constraints {
        let plain: String = own.chars().map(|c| if c.is_control() { '_' } else { c }).collect();
        let _ = writeln!(text, "# the task demands: {plain}");
    }
    text.push_str("[check]\n");
    if let Some(why) = no_tiny(task) {
        let _ = writeln!(text, "tiny = \"none\"  # guess: {why}");
    }
    let rule = &task.tolerance;
    let _ = write!(
        text,
        "# The task's own rule. Its verdict is reported beside evo's, whose gates decide.\n\
         task = {{ atol = {:?}, rtol = {:?}, matched = {:?} }}\n\n\
         [check.reference]\ncommand = [\"python3\", \"reference.py\"]\nfiles = [\"task.py\"]\nserve = true\n\
         dtype = {}\ntimeout_s = 240\n",
        rule.atol,
        rule.rtol,
        rule.matched,
        quoted(script::answers_in(task))
    );
}
