//! A module of PyTorch, as a child process that ran its file describes it: a definition with its one workload.

use evo_kernel::foreign::{ForeignError, ForeignNode, Read, parsed, shown};
use evo_protocol::dtype::DType;
use evo_protocol::worker::TaskTolerance;

use super::definition::{described, workload};
use super::model::{BenchmarkTask, TaskForm};

/// The program that runs a task's file and describes its module: `python3 -c PROBE task.py NAME`.
pub const PROBE: &str = include_str!("probe.py");

const HINT: &str = "the file prints or ends in a way that hides the answer";

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
