//! `definition.json`: axes, inputs, outputs and the Python source that computes the answer.

use evo_kernel::foreign::{ForeignError, ForeignNode, Read, parsed, shown};
use evo_kernel::label::is_label;
use evo_space::expr::Expr;
use evo_space::value::Value;

use super::model::{BenchmarkTask, NameBook, TaskAxis, TaskAxisKind, TaskForm, TaskTensor, label};

/// Most axes, inputs and outputs, each.
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
    let name = root.need("name")?;
    let own = label(name.text()?, "");
    if !is_label(&own) {
        return Err(name.wrong("it cannot be a folder's name"));
    }
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
    let mut book = NameBook::new();
    let axes = axes(&root.need_or("axes", AXIS_HINT)?, &mut book)?;
    let tensors = |key: &str, book: &mut NameBook| -> Read<Vec<TaskTensor>> {
        let node = root.need_or(key, "a definition has `inputs` and `outputs`")?;
        let all = few(&node)?;
        all.iter().map(|(name, own)| tensor(name, own, &axes, book)).collect()
    };
    let (inputs, outputs) = (tensors("inputs", &mut book)?, tensors("outputs", &mut book)?);
    if let Some(own) = outputs.iter().find(|own| own.shape.is_none()) {
        let place = format!("outputs.{}.shape", shown(&own.name));
        let hint = "give the output a shape in the task: a kernel writes its answer to memory";
        return Err(ForeignError::new(place, "an output that is a plain number is not supported", hint));
    }
    if outputs.is_empty() {
        return Err(ForeignError::new("outputs", "it is empty", "a task has at least one output"));
    }
    let about = root.find("description").and_then(|own| own.value.as_str());
    Ok(BenchmarkTask {
        form,
        name: own,
        about: about.map(shown),
        axes,
        constraints: constraints(&root)?,
        inputs,
        outputs,
        program,
        workloads: Vec::new(),
        tolerance: form.tolerance(),
    })
}

fn few<'v>(node: &ForeignNode<'v>) -> Result<Vec<(&'v str, ForeignNode<'v>)>, ForeignError> {
    let all = node.entries()?;
    match all.len() > NAMES_MAX {
        true => {
            let what = format!("it has {} entries", all.len());
            Err(ForeignError::new(&node.place, what, format!("evo takes up to {NAMES_MAX}")))
        }
        false => Ok(all),
    }
}

fn constraints(root: &ForeignNode<'_>) -> Read<Vec<String>> {
    let Some(all) = root.find("constraints") else { return Ok(Vec::new()) };
    all.items()?.iter().map(|own| Ok(shown(own.text()?))).collect()
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
    let unsaid = "what the numbers mean, such as indices, the task does not say";
    TaskTensor::read(name, &dtype, shape, book, unsaid)
}

/// A result that can be an extent: whole, and 0 or more.
pub(super) fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Int(value) => u64::try_from(*value).ok(),
        Value::Float(value) => (value.fract() == 0.0 && (0.0..9e15).contains(value)).then_some(*value as u64),
        Value::Bool(_) | Value::Text(_) => None,
    }
}
