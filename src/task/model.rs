//! A task, whichever benchmark states it.

use evo_protocol::dtype::DType;
use evo_protocol::worker::TaskTolerance;
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskForm {
    FlashInfer,
    Sol,
    KernelBench,
}

impl TaskForm {
    /// The word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            TaskForm::FlashInfer => "flashinfer",
            TaskForm::Sol => "sol",
            TaskForm::KernelBench => "kernelbench",
        }
    }
    pub fn name(self) -> &'static str {
        match self {
            TaskForm::FlashInfer => "FlashInfer-Bench",
            TaskForm::Sol => "SOL-ExecBench",
            TaskForm::KernelBench => "KernelBench",
        }
    }

    /// The rule by which it judges outputs where the task says nothing else. FlashInfer-Bench 0.1.2 and SOL-ExecBench take
    /// 1e-2 for both, the latter for 99 % of the elements; KernelBench takes 1e-4 for single precision.
    pub(super) fn tolerance(self) -> TaskTolerance {
        match self {
            TaskForm::FlashInfer => TaskTolerance { atol: 1e-2, rtol: 1e-2, matched: 1.0 },
            TaskForm::Sol => TaskTolerance { atol: 1e-2, rtol: 1e-2, matched: 0.99 },
            TaskForm::KernelBench => TaskTolerance { atol: 1e-4, rtol: 1e-4, matched: 1.0 },
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct BenchmarkTask {
    pub form: TaskForm,
    /// A name that can be a folder's, a file's and a leaderboard's.
    pub name: String,
    /// What it computes, in one line.
    pub about: Option<String>,
    pub(super) axes: Vec<TaskAxis>,
    /// Relations of axes, as the task writes them.
    pub(super) constraints: Vec<String>,
    pub(super) inputs: Vec<TaskTensor>,
    pub(super) outputs: Vec<TaskTensor>,
    /// The Python source that computes the answer.
    pub(super) program: String,
    pub(super) workloads: Vec<TaskWorkload>,
    pub(super) tolerance: TaskTolerance,
}
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TaskAxis {
    /// As the task calls it.
    pub(super) name: String,
    /// What the kernel and the space file call it.
    pub(super) label: String,
    pub(super) kind: TaskAxisKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TaskAxisKind {
    /// The same in all workloads.
    Const(u64),
    /// Each workload has its own.
    Var,
    /// Of constants and variable axes; the text is an expression of space files over the latter.
    Expr(String),
}

/// What is passed or answered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TaskTensor {
    /// As the task calls it.
    pub(super) name: String,
    pub(super) dtype: DType,
    /// PyTorch's word for the type.
    pub(super) torch: &'static str,
    pub(super) shape: TensorShape,
    /// What the kernel and the space file call it.
    pub(super) label: String,
    /// What the input is filled with, as a space file writes it, and why.
    pub(super) fill: Option<(String, String)>,
    /// A tensor of the module's own, whose value the kernel gets.
    pub(super) is_weight: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TensorShape {
    Scalar,
    /// Expressions of space files, outermost first.
    Extents(Vec<String>),
}
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TaskWorkload {
    /// A name that a problem can have.
    pub(super) name: String,
    /// Of the variable axes, in their order.
    pub(super) axes: Vec<u64>,
    /// Of the scalar inputs, in their order, as a space file writes numbers.
    pub(super) scalars: Vec<TaskNumber>,
}
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TaskNumber {
    Whole(i64),
    Real(f64),
}

impl TaskNumber {
    /// As expressions of space files write it.
    pub(super) fn written(self) -> String {
        match self {
            TaskNumber::Whole(value) => value.to_string(),
            TaskNumber::Real(value) => format!("{value:?}"),
        }
    }
}

impl BenchmarkTask {
    pub(super) fn variable(&self) -> impl Iterator<Item = &TaskAxis> {
        self.axes.iter().filter(|own| own.kind == TaskAxisKind::Var)
    }
}
