//! `definition.json`: axes, inputs, outputs and the Python source that computes the answer.

use evo_kernel::label::is_label;
use evo_protocol::dtype::DType;
use evo_space::expr::Expr;

use super::error::TaskError;
use super::model::{BenchmarkTask, TaskAxis, TaskAxisKind, TaskForm, TaskTensor, TensorShape};
use super::names::{NameBook, label};
use super::read::{TaskNode, parsed, shown, whole};

/// Most axes, inputs and outputs, each.
const NAMES_MAX: usize = 256;

/// Longest expression, and how far expressions may name each other.
const TEXT_MAX: usize = 1000;
const DEPTH_MAX: usize = 8;

const AXIS_HINT: &str = "an axis is { \"type\": \"const\", \"value\": 4096 }, { \"type\": \"var\" } or \
                         { \"type\": \"expr\", \"expression\": \"K // 2\" }";

/// Types of tensors: the task's word, ours, and PyTorch's.
const DTYPES: &[(&str, DType, &str)] = &[
    ("float64", DType::F64, "float64"),
    ("float32", DType::F32, "float32"),
    ("float16", DType::F16, "float16"),
    ("bfloat16", DType::Bf16, "bfloat16"),
    ("int64", DType::I64, "int64"),
    ("int32", DType::I32, "int32"),
    ("int16", DType::I16, "int16"),
    ("int8", DType::I8, "int8"),
    ("uint8", DType::U8, "uint8"),
    ("bool", DType::U8, "bool"),
];

/// A definition without workloads. `beside` is the text of a `reference.py` beside it, for a file that has none inside.
pub fn definition(text: &str, form: TaskForm, beside: Option<&str>) -> Result<BenchmarkTask, TaskError> {
    let value = parsed(text, "")?;
    let root = TaskNode::root(&value, "");
    let name = root.need("name", "a definition has a name")?;
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
            return Err(root.need("reference", hint).err().unwrap_or_else(|| root.wrong("no reference")));
        }
    };
    if !program.lines().any(|line| line.starts_with("def run(") || line.starts_with("def run (")) {
        let hint = "the reference is a Python source with a function `run` that takes the inputs in order";
        return Err(TaskError::new("reference", "it has no function `run`", hint));
    }
    let mut book = NameBook::default();
    let axes = axes(&root.need("axes", AXIS_HINT)?, &mut book)?;
    let tensors = |key: &str, book: &mut NameBook| -> Result<Vec<TaskTensor>, TaskError> {
        let node = root.need(key, "a definition has `inputs` and `outputs`")?;
        let all = few(&node)?;
        all.iter().map(|(name, own)| tensor(name, own, &axes, book)).collect()
    };
    let (inputs, outputs) = (tensors("inputs", &mut book)?, tensors("outputs", &mut book)?);
    if let Some(own) = outputs.iter().find(|own| own.shape == TensorShape::Scalar) {
        let place = format!("outputs.{}.shape", shown(&own.name));
        let hint = "give the output a shape in the task: a kernel writes its answer to memory";
        return Err(TaskError::new(place, "an output that is a plain number is not supported", hint));
    }
    if outputs.is_empty() {
        return Err(TaskError::new("outputs", "it is empty", "a task has at least one output"));
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

fn few<'v>(node: &TaskNode<'v>) -> Result<Vec<(&'v str, TaskNode<'v>)>, TaskError> {
    let all = node.entries()?;
    match all.len() > NAMES_MAX {
        true => {
            let what = format!("it has {} entries", all.len());
            Err(TaskError::new(&node.place, what, format!("evo takes up to {NAMES_MAX}")))
        }
        false => Ok(all),
    }
}

fn constraints(root: &TaskNode<'_>) -> Result<Vec<String>, TaskError> {
    let Some(all) = root.find("constraints") else { return Ok(Vec::new()) };
    all.items()?.iter().map(|own| Ok(shown(own.text()?))).collect()
}

fn axes(node: &TaskNode<'_>, book: &mut NameBook) -> Result<Vec<TaskAxis>, TaskError> {
    let all = few(node)?;
    let mut found: Vec<TaskAxis> = Vec::new();
    for (name, own) in &all {
        let kind = own.need("type", AXIS_HINT)?;
        let kind = match kind.text()? {
            "const" => TaskAxisKind::Const(own.need("value", AXIS_HINT)?.extent()?),
            "var" => TaskAxisKind::Var,
            "expr" => {
                let text = own.find("expression").map_or_else(|| own.need("expr", AXIS_HINT), Ok)?;
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
        .collect::<Result<_, TaskError>>()?;
    found.iter_mut().zip(written).for_each(|(axis, kind)| axis.kind = kind);
    Ok(found)
}

/// An expression over axes as one over sizes: constants are numbers, and expressions stand in full.
fn spelled(text: &str, axes: &[TaskAxis], place: &str, depth: usize) -> Result<String, TaskError> {
    let bad = |what: String| {
        TaskError::new(
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

fn tensor(
    name: &str,
    node: &TaskNode<'_>,
    axes: &[TaskAxis],
    book: &mut NameBook,
) -> Result<TaskTensor, TaskError> {
    let hint =
        "a tensor is { \"shape\": [\"M\", \"K\"], \"dtype\": \"float16\" }; a number has the shape null";
    let (dtype, torch) = dtype(&node.need("dtype", hint)?)?;
    let shape = match node.find("shape") {
        None => TensorShape::Scalar,
        Some(own) => TensorShape::Extents(
            own.items()?
                .iter()
                .map(|one| match one.value.as_u64() {
                    Some(_) => one.extent().map(|own| own.to_string()),
                    None => spelled(one.text()?, axes, &one.place, DEPTH_MAX),
                })
                .collect::<Result<_, TaskError>>()?,
        ),
    };
    let is_scalar = shape == TensorShape::Scalar;
    let fill = match torch {
        "bool" => Some(("{ uniform = [0, 2] }".to_string(), "a boolean is a byte, 0 or 1".to_string())),
        _ if !dtype.is_float() => Some((
            "{ uniform = [0, 100] }".to_string(),
            "what the numbers mean, such as indices, the task does not say".to_string(),
        )),
        _ => None,
    };
    Ok(TaskTensor {
        name: name.to_string(),
        dtype: if is_scalar { scalar_type(dtype, torch) } else { dtype },
        torch,
        shape,
        label: book.take(name),
        fill,
        is_weight: false,
    })
}

/// Python's numbers are passed as C's usual types.
pub(super) fn scalar_type(dtype: DType, torch: &str) -> DType {
    match (dtype, torch) {
        (_, "bool") => DType::I32,
        (DType::F16 | DType::Bf16, _) => DType::F32,
        (DType::I8 | DType::I16 | DType::U8, _) => DType::I32,
        _ => dtype,
    }
}

/// A type's word.
pub(super) fn dtype(node: &TaskNode<'_>) -> Result<(DType, &'static str), TaskError> {
    let word = node.text()?;
    let known = DTYPES.iter().find(|(own, ..)| *own == word);
    known.map(|(_, dtype, torch)| (*dtype, *torch)).ok_or_else(|| {
        let names: Vec<&str> = DTYPES.iter().map(|(own, ..)| *own).collect();
        node.unsupported(&format!("the type `{}`", shown(word)), &format!("evo has {}", names.join(", ")))
    })
}
