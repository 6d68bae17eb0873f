//! A task, whichever benchmark states it.

use evo_kernel::foreign::{ForeignNode, Read, shown};
use evo_kernel::identifiers::Identifiers;
use evo_kernel::label::{LABEL_MAX, is_label};
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
        self.facts().0
    }

    pub fn name(self) -> &'static str {
        self.facts().1
    }

    pub(super) fn tolerance(self) -> TaskTolerance {
        let (_, _, bound, matched) = self.facts();
        TaskTolerance { atol: bound, rtol: bound, matched }
    }

    /// Word, name, and the rule by which it judges outputs where the task says nothing else: the bound of both errors, and
    /// of how many elements. FlashInfer-Bench 0.1.2 and SOL-ExecBench take 1e-2, the latter for 99 % of the elements;
    /// KernelBench takes 1e-4 for single precision.
    fn facts(self) -> (&'static str, &'static str, f64, f64) {
        match self {
            TaskForm::FlashInfer => ("flashinfer", "FlashInfer-Bench", 1e-2, 1.0),
            TaskForm::Sol => ("sol", "SOL-ExecBench", 1e-2, 0.99),
            TaskForm::KernelBench => ("kernelbench", "KernelBench", 1e-4, 1.0),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct BenchmarkTask {
    pub form: TaskForm,
    /// A name that can be a folder's, a file's and a leaderboard's.
    pub name: String,
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

#[derive(Clone, Debug, PartialEq)]
pub(super) struct TaskTensor {
    /// As the task calls it.
    pub(super) name: String,
    pub(super) dtype: DType,
    /// PyTorch's word for the type.
    pub(super) torch: &'static str,
    /// Expressions of space files, outermost first; none for a plain number.
    pub(super) shape: Option<Vec<String>>,
    /// What the kernel and the space file call it.
    pub(super) label: String,
    /// What the input is filled with, as a space file writes it, and why.
    pub(super) fill: Option<(String, String)>,
    /// A tensor of the module's own, whose value the kernel gets.
    pub(super) is_weight: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct TaskWorkload {
    /// A name that a problem can have.
    pub(super) name: String,
    /// Of the variable axes, in their order.
    pub(super) axes: Vec<u64>,
    /// Of the scalar inputs, in their order, as a space file writes numbers.
    pub(super) scalars: Vec<String>,
}

impl BenchmarkTask {
    pub(super) fn variable(&self) -> impl Iterator<Item = &TaskAxis> {
        self.axes.iter().filter(|axis| axis.kind == TaskAxisKind::Var)
    }

    pub(super) fn tensors(&self) -> impl Iterator<Item = &TaskTensor> {
        self.inputs.iter().chain(&self.outputs)
    }
}

/// Types of tensors: PyTorch's word, which all tasks use, and ours.
const DTYPES: &[(&str, DType)] = &[
    ("float64", DType::F64),
    ("float32", DType::F32),
    ("float16", DType::F16),
    ("bfloat16", DType::Bf16),
    ("int64", DType::I64),
    ("int32", DType::I32),
    ("int16", DType::I16),
    ("int8", DType::I8),
    ("uint8", DType::U8),
    ("bool", DType::U8),
];

impl TaskTensor {
    /// A tensor of a type by PyTorch's word, and what it is filled with where its type says so.
    pub(super) fn read(
        name: &str,
        dtype: &ForeignNode<'_>,
        shape: Option<Vec<String>>,
        book: &mut NameBook,
    ) -> Read<TaskTensor> {
        let word = dtype.text()?;
        let known = DTYPES.iter().find(|(known, _)| *known == word);
        let (torch, dtype) = *known.ok_or_else(|| {
            let names: Vec<&str> = DTYPES.iter().map(|(name, _)| *name).collect();
            dtype
                .unsupported(&format!("the type `{}`", shown(word)), &format!("evo has {}", names.join(", ")))
        })?;
        let fill = match torch {
            "bool" => Some(("{ uniform = [0, 2] }", "a boolean is a byte, 0 or 1")),
            _ if !dtype.is_float() => Some((
                "{ uniform = [0, 100] }",
                "what the numbers mean, such as indices, the task does not say",
            )),
            _ => None,
        };
        // Python's numbers are passed as C's usual types.
        let dtype = match (dtype, torch) {
            _ if shape.is_some() => dtype,
            (_, "bool") => DType::I32,
            (DType::F16 | DType::Bf16, _) => DType::F32,
            (DType::I8 | DType::I16 | DType::U8, _) => DType::I32,
            _ => dtype,
        };
        Ok(TaskTensor {
            name: name.to_string(),
            dtype,
            torch,
            shape,
            label: book.take(name),
            fill: fill.map(|(fill, why)| (fill.to_string(), why.to_string())),
            is_weight: false,
        })
    }
}

/// A number or a truth as expressions of space files write it.
pub(super) fn scalar(node: &ForeignNode<'_>) -> Read<String> {
    if let Some(value) = node.value.as_bool() {
        return Ok(u8::from(value).to_string());
    }
    match node.value.as_i64() {
        Some(value) => Ok(value.to_string()),
        None => Ok(format!("{:?}", node.number()?)),
    }
}

/// Names of axes and tensors as the kernel's: none that CUDA or the skeleton uses.
pub(super) struct NameBook(Identifiers);

impl NameBook {
    pub(super) fn new() -> NameBook {
        NameBook(Identifiers::new("BLOCK half i ceil_div blockIdx blockDim threadIdx gridDim warpSize"))
    }

    pub(super) fn take(&mut self, name: &str) -> String {
        self.0.take(&name.chars().take(LABEL_MAX / 2).collect::<String>())
    }
}

/// A name of a kernel or of a problem that looks like the text.
pub(super) fn label(text: &str, otherwise: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = text.chars().take(LABEL_MAX).map(plain).collect();
    let name = name.trim_start_matches(['.', '-']).to_string();
    if is_label(&name) { name } else { otherwise.to_string() }
}
