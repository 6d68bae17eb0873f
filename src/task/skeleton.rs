//! A kernel with the task's signature and an empty body: it compiles and is judged, and its verdict is a wrong answer until
//! somebody writes it.

use std::fmt::Write;

use evo_protocol::dtype::DType;

use super::model::{BenchmarkTask, TaskAxisKind, TaskTensor, TensorShape};
use super::names::identifier;

pub(super) fn source(task: &BenchmarkTask) -> String {
    let mut text = format!(
        "// `{}`, a task of {}: the signature is the task's, the body is yours.\n",
        task.name,
        task.form.name()
    );
    if let Some(about) = &task.about {
        let _ = writeln!(text, "// {}", comment(about));
    }
    text.push_str(
        "//\n// This kernel writes nothing yet, so evo's verdict is `wrong_answer`. The grid in the space file has a thread for\n\
         // each element of the first output, which is a guess: change both together. BLOCK is a parameter of the space.\n//\n",
    );
    for own in task.inputs.iter().chain(&task.outputs) {
        let _ = writeln!(text, "//   {}", described(own));
    }
    text.push('\n');
    let uses = |dtype: DType| task.inputs.iter().chain(&task.outputs).any(|own| own.dtype == dtype);
    if uses(DType::F16) {
        text.push_str("#include <cuda_fp16.h>\n");
    }
    if uses(DType::Bf16) {
        text.push_str("#include <cuda_bf16.h>\n");
    }
    text.push_str("#ifndef BLOCK\n#define BLOCK 256\n#endif\n\n");
    for axis in &task.axes {
        if let TaskAxisKind::Const(value) = axis.kind {
            let _ = writeln!(text, "constexpr long long {} = {value};", axis.label);
        }
    }
    let _ = write!(text, "\nextern \"C\" __global__ void {}(\n    {}\n", entry(task), signature(task));
    text.push_str(") {\n    const long long i = static_cast<long long>(blockIdx.x) * BLOCK + threadIdx.x;\n");
    let first = &task.outputs[0];
    match plain_count(&first.shape) {
        Some(count) => {
            let _ = write!(text, "    if (i >= {count}) return;\n    // {}[i] = …\n}}\n", first.label);
        }
        None => {
            let _ =
                write!(text, "    // {}[i] = …, if there is an element i\n    (void)i;\n}}\n", first.label);
        }
    }
    text
}
pub(super) fn entry(task: &BenchmarkTask) -> String {
    // A prefix keeps names of C's library, such as `exp`, apart.
    format!("{}_kernel", identifier(&task.name))
}

/// Inputs, outputs and sizes in the order in which the space file passes them.
fn signature(task: &BenchmarkTask) -> String {
    let input = |own: &TaskTensor| match own.shape {
        TensorShape::Scalar => format!("{} {}", word(own.dtype), own.label),
        TensorShape::Extents(_) => format!("const {}* __restrict__ {}", word(own.dtype), own.label),
    };
    let output = |own: &TaskTensor| format!("{}* __restrict__ {}", word(own.dtype), own.label);
    let all = task.inputs.iter().map(input).chain(task.outputs.iter().map(output));
    let sizes = task.variable().map(|own| format!("int {}", own.label));
    all.chain(sizes).collect::<Vec<_>>().join(",\n    ")
}

/// The number of elements, where its extents are names and numbers.
fn plain_count(shape: &TensorShape) -> Option<String> {
    let TensorShape::Extents(all) = shape else { return None };
    let is_plain = |own: &String| own.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let factors = all.iter().map(|own| own.as_str());
    all.iter().all(is_plain).then(|| {
        let all: Vec<&str> = ["1LL"].into_iter().chain(factors).collect();
        all.join(" * ")
    })
}

fn described(own: &TaskTensor) -> String {
    let what = match &own.shape {
        TensorShape::Scalar => "a number".to_string(),
        TensorShape::Extents(all) => format!("[{}]", all.join(", ")),
    };
    let alias = if own.name == own.label { String::new() } else { format!(", the task's `{}`", own.name) };
    comment(&format!("{}: {} {what}{alias}", own.label, own.torch))
}

/// A text that ends neither the line nor the comment.
fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || c == '\\' { '_' } else { c }).collect()
}

fn word(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 => "__half",
        DType::Bf16 => "__nv_bfloat16",
        DType::F32 => "float",
        DType::F64 => "double",
        DType::I8 => "signed char",
        DType::I16 => "short",
        DType::I32 => "int",
        DType::I64 => "long long",
        DType::U8 => "unsigned char",
        DType::U16 => "unsigned short",
        DType::U32 => "unsigned int",
        DType::U64 => "unsigned long long",
    }
}
