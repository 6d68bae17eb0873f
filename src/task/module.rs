//! A module of PyTorch, as a child process that ran its file describes it.

use evo_kernel::foreign::{ForeignError, ForeignNode, Read, parsed, shown};
use evo_protocol::dtype::DType;
use evo_protocol::worker::TaskTolerance;

use super::model::{
    BenchmarkTask, NameBook, TaskAxis, TaskAxisKind, TaskForm, TaskTensor, TaskWorkload, label, scalar,
};

/// The program that runs a task's file and describes its module: `python3 -c PROBE task.py`.
pub const PROBE: &str = include_str!("probe.py");

const HINT: &str = "the file prints or ends in a way that hides the answer";

/// The task that a probe's answer describes. `program` is the file's own text.
pub fn module(answer: &str, name: &str, program: &str) -> Read<BenchmarkTask> {
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
    let mut book = NameBook::new();
    let (mut axes, mut sizes) = (Vec::new(), Vec::new());
    for axis in root.need("axes")?.items()? {
        let name = axis.need("name")?.text()?.to_string();
        sizes.push(axis.need("value")?.extent()?);
        axes.push(TaskAxis { label: book.take(&name), name, kind: TaskAxisKind::Var });
    }
    let (mut inputs, mut scalars) = (Vec::new(), Vec::new());
    for node in root.need("inputs")?.items()? {
        let input = tensor(&node, node.need("name")?.text()?, &axes, &mut book)?;
        if input.shape.is_none() {
            scalars.push(scalar(&node.need("value")?)?);
        }
        inputs.push(input);
    }
    for weight in root.need("weights")?.items()? {
        let name = weight.need("name")?.text()?;
        let fill = name.contains("var").then(|| {
            ("{ uniform = [0.5, 1.5] }".to_string(), "a name with `var` is taken for a variance".to_string())
        });
        inputs.push(TaskTensor { fill, is_weight: true, ..tensor(&weight, name, &axes, &mut book)? });
    }
    let mut outputs = Vec::new();
    for (at, output) in root.need("outputs")?.items()?.iter().enumerate() {
        let name = if at == 0 { "out".to_string() } else { format!("out{}", at + 1) };
        outputs.push(tensor(output, &name, &axes, &mut book)?);
    }
    let Some(first) = outputs.first() else {
        return Err(ForeignError::new(
            "Model.forward",
            "it returns nothing",
            "a task has at least one output",
        ));
    };
    let tolerance = match first.dtype {
        DType::F16 | DType::Bf16 => TaskTolerance { atol: 1e-2, rtol: 1e-2, matched: 1.0 },
        _ => TaskForm::KernelBench.tolerance(),
    };
    let about = root.find("about").and_then(|about| about.value.as_str()).map(shown);
    Ok(BenchmarkTask {
        form: TaskForm::KernelBench,
        name: label(name, "task"),
        about: about.filter(|about| !about.is_empty()),
        axes,
        constraints: Vec::new(),
        inputs,
        outputs,
        program: program.to_string(),
        workloads: vec![TaskWorkload { name: "task".to_string(), axes: sizes, scalars }],
        tolerance,
    })
}

fn tensor(node: &ForeignNode<'_>, name: &str, axes: &[TaskAxis], book: &mut NameBook) -> Read<TaskTensor> {
    let word = node.need("dtype")?;
    // The program that wrote the description names its tensors; its own place in it says less, but there always is one.
    let place = if name.is_empty() { word.place.clone() } else { shown(name) };
    let dtype = word.at(place, word.value);
    let extent = |extent: &ForeignNode<'_>| match extent.value.as_str() {
        None => extent.extent().map(|extent| extent.to_string()),
        Some(name) => {
            let axis = axes.iter().find(|axis| axis.name == name);
            axis.map(|axis| axis.label.clone()).ok_or_else(|| extent.wrong("no axis has that name"))
        }
    };
    let shape = node.find("shape").map(|shape| shape.items()?.iter().map(extent).collect()).transpose()?;
    TaskTensor::read(name, &dtype, shape, book, "the file does not say what the numbers mean")
}
