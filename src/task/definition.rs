//! `definition.json`: axes, inputs, outputs and the Python source that computes the answer; and workloads, one a line: sizes
//! of the variable axes, and where inputs come from. A module of PyTorch, as a child process that ran its file describes
//! it, is a definition with its one workload.

use std::collections::BTreeSet;

use evo_kernel::foreign::{ForeignError, ForeignNode, Read, parsed, shown};
use evo_kernel::label::is_label;
use evo_protocol::dtype::DType;
use evo_protocol::worker::TaskTolerance;
use evo_space::expr::Expr;
use evo_space::value::Value;

use super::model::{
    BenchmarkTask, NameBook, TaskAxis, TaskAxisKind, TaskForm, TaskTensor, TaskWorkload, label, scalar,
};

const NAMES_MAX: usize = 256;

/// Longest expression, and how far expressions may name each other.
const TEXT_MAX: usize = 1000;
const DEPTH_MAX: usize = 8;

const AXIS_HINT: &str = "an axis is { \"type\": \"const\", \"value\": 4096 }, { \"type\": \"var\" } or \
                         { \"type\": \"expr\", \"expression\": \"K // 2\" }";

/// A definition without workloads. `beside` is the text of a `reference.py` beside it, for a file that has none inside.
pub fn definition(text: &str, form: TaskForm, beside: Option<&str>) -> Read<BenchmarkTask> {
    let value = parsed(text, "", "name the task's own file")?;
    let root = ForeignNode::root(&value, "", "a definition has a name", None);
    let program = match (root.find("reference"), beside) {
        (Some(own), _) => own.text()?.to_string(),
        (None, Some(text)) => text.to_string(),
        (None, None) => {
            let hint =
                "a task without its reference cannot be judged: add the Python source with `def run(…)`";
            return Err(root.need_or("reference", hint).err().unwrap_or_else(|| root.wrong("no reference")));
        }
    };
    if !program.lines().any(|line| line.starts_with("def run(") || line.starts_with("def run (")) {
        let hint = "the reference is a Python source with a function `run` that takes the inputs in order";
        return Err(ForeignError::new("reference", "it has no function `run`", hint));
    }
    described(&root, form, program)
}

pub(super) fn described(root: &ForeignNode<'_>, form: TaskForm, program: String) -> Read<BenchmarkTask> {
    let name = root.need("name")?;
    let own = label(name.text()?, "");
    if !is_label(&own) {
        return Err(name.wrong("it cannot be a folder's name"));
    }
    let mut book = NameBook::new();
    let axes = axes(&root.need_or("axes", AXIS_HINT)?, &mut book)?;
    let tensors = |key: &str, book: &mut NameBook| -> Read<Vec<TaskTensor>> {
        let node = root.need_or(key, "a definition has `inputs` and `outputs`")?;
        let all = few(&node)?;
        all.iter().map(|(name, own)| tensor(name, own, &axes, book)).collect()
    };
    let mut inputs = tensors("inputs", &mut book)?;
    // Tensors of a module's own, which evo fills as it does inputs.
    if root.find("weights").is_some() {
        let variance = "a name with `var` is taken for a variance";
        inputs.extend(tensors("weights", &mut book)?.into_iter().map(|weight| {
            let fill =
                weight.name.contains("var").then(|| ("{ uniform = [0.5, 1.5] }".into(), variance.into()));
            TaskTensor { fill, is_weight: true, ..weight }
        }));
    }
    let outputs = tensors("outputs", &mut book)?;
    if let Some(own) = outputs.iter().find(|own| own.shape.is_none()) {
        let place = format!("outputs.{}.shape", shown(&own.name));
        let hint = "give the output a shape in the task: a kernel writes its answer to memory";
        return Err(ForeignError::new(place, "an output that is a plain number is not supported", hint));
    }
    if outputs.is_empty() {
        return Err(ForeignError::new("outputs", "it is empty", "a task has at least one output"));
    }
    let constraints = root.list("constraints")?;
    let about = root.find("description").and_then(|own| own.value.as_str());
    Ok(BenchmarkTask {
        form,
        name: own,
        about: about.map(shown),
        axes,
        constraints: constraints.iter().map(|own| Ok(shown(own.text()?))).collect::<Read<_>>()?,
        inputs,
        outputs,
        program,
        workloads: Vec::new(),
        tolerance: form.tolerance(),
    })
}

fn few<'v>(node: &ForeignNode<'v>) -> Read<Vec<(&'v str, ForeignNode<'v>)>> {
    let all = node.entries()?;
    match all.len() > NAMES_MAX {
        true => {
            let what = format!("it has {} entries", all.len());
            Err(ForeignError::new(&node.place, what, format!("evo takes up to {NAMES_MAX}")))
        }
        false => Ok(all),
    }
}

fn axes(node: &ForeignNode<'_>, book: &mut NameBook) -> Read<Vec<TaskAxis>> {
    let all = few(node)?;
    let mut found: Vec<TaskAxis> = Vec::new();
    for (name, own) in &all {
        let kind = own.need_or("type", AXIS_HINT)?;
        let kind = match kind.text()? {
            "const" => TaskAxisKind::Const(own.need_or("value", AXIS_HINT)?.extent()?),
            "var" => TaskAxisKind::Var,
            "expr" => {
                let text = own.find("expression").map_or_else(|| own.need_or("expr", AXIS_HINT), Ok)?;
                TaskAxisKind::Expr(text.text()?.to_string())
            }
            other => return Err(kind.unsupported(&format!("the kind of axis `{}`", shown(other)), AXIS_HINT)),
        };
        found.push(TaskAxis { name: (*name).to_string(), label: book.take(name), kind });
    }
    // Expressions may name axes that come later.
    let written: Vec<TaskAxisKind> = found
        .iter()
        .zip(&all)
        .map(|(axis, (_, own))| match &axis.kind {
            TaskAxisKind::Expr(text) => Ok(TaskAxisKind::Expr(spelled(text, &found, &own.place, DEPTH_MAX)?)),
            other => Ok(other.clone()),
        })
        .collect::<Read<_>>()?;
    found.iter_mut().zip(written).for_each(|(axis, kind)| axis.kind = kind);
    Ok(found)
}

/// An expression over axes as one over sizes: constants are numbers, and expressions stand in full.
fn spelled(text: &str, axes: &[TaskAxis], place: &str, depth: usize) -> Read<String> {
    let bad = |what: String| {
        ForeignError::new(
            place,
            what,
            "an axis may be written with names of axes, whole numbers, + - * / // % ** and parentheses",
        )
    };
    if text.len() > TEXT_MAX || depth == 0 {
        return Err(bad("the expression is too long".to_string()));
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut own = String::new();
    for piece in text.split_inclusive(|c: char| !is_word(c)) {
        let word = piece.trim_end_matches(|c: char| !is_word(c));
        if word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            let axis = axes.iter().find(|axis| axis.name == word);
            let axis = axis.ok_or_else(|| bad(format!("no axis is called `{}`", shown(word))))?;
            match &axis.kind {
                TaskAxisKind::Const(value) => own.push_str(&value.to_string()),
                TaskAxisKind::Var => own.push_str(&axis.label),
                TaskAxisKind::Expr(text) => {
                    own.push_str(&format!("({})", spelled(text, axes, place, depth - 1)?));
                }
            }
        } else {
            own.push_str(word);
        }
        own.push_str(&piece[word.len()..]);
        if own.len() > TEXT_MAX {
            return Err(bad("the expression is too long".to_string()));
        }
    }
    let expr = Expr::parse(&own).map_err(|error| bad(shown(&format!("`{text}`: {}", error.message))))?;
    if !expr.distinct_names().is_empty() {
        return Ok(own);
    }
    let value = expr.evaluate(&|_: &str| None).map_err(|error| bad(shown(&error.message)))?;
    whole(&value)
        .map(|own| own.to_string())
        .ok_or_else(|| bad(format!("`{}` is not a whole number", shown(text))))
}

fn tensor(name: &str, node: &ForeignNode<'_>, axes: &[TaskAxis], book: &mut NameBook) -> Read<TaskTensor> {
    let hint =
        "a tensor is { \"shape\": [\"M\", \"K\"], \"dtype\": \"float16\" }; a number has the shape null";
    let extent = |node: &ForeignNode<'_>| match node.value.as_u64() {
        Some(_) => node.extent().map(|extent| extent.to_string()),
        None => spelled(node.text()?, axes, &node.place, DEPTH_MAX),
    };
    let dtype = node.need_or("dtype", hint)?;
    let shape = node.find("shape").map(|shape| shape.items()?.iter().map(extent).collect()).transpose()?;
    TaskTensor::read(name, &dtype, shape, book)
}

/// A result that can be an extent: whole, and 0 or more.
fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Int(value) => u64::try_from(*value).ok(),
        Value::Float(value) => (value.fract() == 0.0 && (0.0..9e15).contains(value)).then_some(*value as u64),
        Value::Bool(_) | Value::Text(_) => None,
    }
}

const WORKLOADS_MAX: usize = 500;

const LINE_HINT: &str = "a line is { \"workload\": { \"uuid\": \"…\", \"axes\": { \"M\": 16 }, \"inputs\": { \"A\": { \"type\": \"random\" } } } }";

/// Gives the task the workloads of a file with one object a line; with names in `only`, those of these names.
pub fn workloads(mut task: BenchmarkTask, text: &str, only: &[String]) -> Read<BenchmarkTask> {
    let (mut seen, mut rules) = (BTreeSet::new(), Vec::new());
    let mut names = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let lead = format!("line {}", number + 1);
        let value = parsed(line, &lead, "name the task's own file")?;
        let root = ForeignNode::root(&value, &lead, LINE_HINT, None);
        let other = root.find("definition").and_then(|own| own.value.as_str());
        if other.is_some_and(|own| label(own, "") != task.name) {
            continue;
        }
        let node = root.find("workload").unwrap_or(root);
        let uuid = node.need("uuid")?.text()?.to_string();
        names.push(shown(&uuid));
        // Traces of several solutions repeat their workload.
        if !only.is_empty() && !only.contains(&uuid) || !seen.insert(uuid.clone()) {
            continue;
        }
        rules.extend(tolerance(&node, task.form.tolerance())?);
        let own = workload(&task, &node, &uuid)?;
        task.workloads.push(own);
        if task.workloads.len() > WORKLOADS_MAX {
            let what = format!("the task has more than {WORKLOADS_MAX} workloads");
            return Err(ForeignError::new(lead, what, "choose some with `--workload UUID`"));
        }
    }
    if task.workloads.is_empty() {
        names.truncate(8);
        let hint = match names.is_empty() {
            true => LINE_HINT.to_string(),
            false => format!("there are {}", names.join(", ")),
        };
        return Err(ForeignError::new("the workloads", format!("none is of `{}`", task.name), hint));
    }
    distinct(&mut task.workloads);
    // One rule for all problems: the strictest.
    if let Some(strictest) = rules.into_iter().reduce(|one, other| TaskTolerance {
        atol: one.atol.min(other.atol),
        rtol: one.rtol.min(other.rtol),
        matched: one.matched.max(other.matched),
    }) {
        task.tolerance = strictest;
    }
    Ok(task)
}

/// Names that were made plain may have become the same.
fn distinct(all: &mut [TaskWorkload]) {
    let mut seen = BTreeSet::new();
    for (at, own) in all.iter_mut().enumerate() {
        if !seen.insert(own.name.clone()) {
            own.name = format!("workload_{}", at + 1);
            seen.insert(own.name.clone());
        }
    }
}

fn tolerance(node: &ForeignNode<'_>, usual: TaskTolerance) -> Read<Option<TaskTolerance>> {
    let Some(own) = node.find("tolerance") else { return Ok(None) };
    let number = |keys: [&str; 2], absent: f64| {
        let node = keys.iter().find_map(|key| own.find(key));
        node.map_or(Ok(absent), |node| match node.number()? {
            value if value >= 0.0 => Ok(value),
            _ => Err(node.wrong("it is below 0")),
        })
    };
    let matched = number(["required_matched_ratio", "matched_ratio"], usual.matched)?;
    if matched > 1.0 {
        return Err(own.wrong("its matched ratio is above 1"));
    }
    let (atol, rtol) = (number(["max_atol", "atol"], usual.atol)?, number(["max_rtol", "rtol"], usual.rtol)?);
    Ok(Some(TaskTolerance { atol, rtol, matched }))
}

pub(super) fn workload(task: &BenchmarkTask, node: &ForeignNode<'_>, uuid: &str) -> Read<TaskWorkload> {
    let given = node.need("axes")?;
    given.entries()?;
    let mut axes = Vec::new();
    for axis in task.variable() {
        axes.push(given.need_or(&axis.name, "a workload gives every variable axis its value")?.extent()?);
    }
    let inputs = node.need("inputs")?;
    if let Some((name, own)) =
        inputs.entries()?.iter().find(|(name, _)| task.inputs.iter().all(|own| own.name != *name))
    {
        let what = format!("the definition has no input `{}`", shown(name));
        return Err(ForeignError::new(&own.place, what, "a workload describes the inputs of its definition"));
    }
    let mut scalars = Vec::new();
    for input in task.inputs.iter().filter(|input| !input.is_weight) {
        let own = inputs.need(&input.name)?;
        let kind = own.need("type")?;
        match (kind.text()?, input.shape.is_some()) {
            ("random", true) => {}
            ("scalar", false) => scalars.push(scalar(&own.need("value")?)?),
            ("random", false) => {
                return Err(kind.unsupported("a random number for a scalar", "give it a value"));
            }
            ("safetensors", _) => {
                let hint = "evo fills inputs itself: make the input `random`, or add `fill = { npy = … }` to a space \
                            file of your own";
                return Err(kind.unsupported("an input from a safetensors file", hint));
            }
            ("custom", _) => {
                let hint = "evo fills inputs itself, for every shape and family that its gates ask about";
                return Err(kind.unsupported("an input that a function of the task makes", hint));
            }
            (other, _) => {
                let what = format!("the input `{}` for `{}`", shown(other), shown(&input.name));
                return Err(kind.unsupported(&what, "tensors are `random`, numbers are `scalar`"));
            }
        }
    }
    fits(task, &axes, &node.place)?;
    Ok(TaskWorkload { name: label(uuid, "workload"), axes, scalars })
}

/// Whether every extent of every tensor is a whole number at these sizes.
fn fits(task: &BenchmarkTask, axes: &[u64], place: &str) -> Read<()> {
    let size = |name: &str| {
        let at = task.variable().position(|own| own.label == name)?;
        Some(Value::Int(i64::try_from(*axes.get(at)?).ok()?))
    };
    let of_axes = task.axes.iter().filter_map(|axis| match &axis.kind {
        TaskAxisKind::Expr(text) => Some(text),
        _ => None,
    });
    for text in task.tensors().filter_map(|tensor| tensor.shape.as_ref()).flatten().chain(of_axes) {
        let value = Expr::parse(text).and_then(|expr| expr.evaluate(&size));
        if value.ok().as_ref().and_then(whole).is_none() {
            let what = format!("the extent `{}` is not a whole number from 0 there", shown(text));
            return Err(ForeignError::new(place, what, "give the axes values that fit"));
        }
    }
    Ok(())
}

/// The program that runs a task's file and describes its module: `python3 -c PROBE task.py NAME`.
pub const PROBE: &str = include_str!("probe.py");

const HINT: &str = "the file prints or ends in a way that hides the answer";

/// `program` is the file's own text.
pub fn module(answer: &str, program: &str) -> Read<BenchmarkTask> {
    let value = parsed(answer, "the answer of the Python process", "name the task's own file")?;
    let root = ForeignNode::root(&value, "", HINT, None);
    if let Some(refusal) = root.find("refused") {
        let word = |key: &str, otherwise: &str| {
            let text = refusal.find(key).and_then(|word| word.value.as_str()).map(shown);
            text.filter(|text| !text.is_empty()).unwrap_or_else(|| otherwise.to_string())
        };
        let place = word("place", "the answer of the Python process");
        return Err(ForeignError::new(
            place,
            word("what", "it refuses the file without a reason"),
            word("hint", HINT),
        ));
    }
    let mut task = described(&root, TaskForm::KernelBench, program.to_string())?;
    task.workloads = vec![workload(&task, &root.need("workload")?, "task")?];
    if matches!(task.outputs[0].dtype, DType::F16 | DType::Bf16) {
        task.tolerance = TaskTolerance { atol: 1e-2, rtol: 1e-2, matched: 1.0 };
    }
    Ok(task)
}
