//! The files of one variant.

use evo_protocol::plan::Role;
use evo_space::genome::ContentHash;
use serde_json::{Value, json};

use crate::error::ExportError;
use crate::format::ExportFormat;
use crate::model::{BufferArgument, ExportModel, PassedArgument};
use crate::source::PlainSource;
use crate::templates::{DRIVER_PY, EXACT_HPP, EXACT_PY, render};

pub const TORCH_LIBRARY: &str = "evo_export";

#[derive(Clone, Debug, PartialEq)]
pub struct ExportFile {
    /// Relative to the export's folder.
    pub path: String,
    pub contents: Vec<u8>,
    pub about: &'static str,
}

#[derive(Clone, Debug)]
pub struct ExportUnit<'a> {
    pub model: &'a ExportModel,
    pub label: &'a str,
    pub hash: &'a ContentHash,
    pub source: &'a PlainSource,
    /// Headers that the source includes, by the name in the include.
    pub headers: &'a [(String, String)],
    /// The architecture and the cubin for it, where there is one.
    pub cubin: Option<(&'a str, &'a [u8])>,
    pub example: &'a [(String, i64)],
    pub evo: &'a str,
}

pub fn files(unit: &ExportUnit<'_>, formats: &[ExportFormat]) -> Result<Vec<ExportFile>, ExportError> {
    let context = context(unit);
    let mut files = Files { context: &context, found: Vec::new() };
    let has = |format: ExportFormat| formats.contains(&format);
    if has(ExportFormat::Cu) || has(ExportFormat::Torch) {
        files.fixed("kernel.cu", unit.source.text.as_bytes(), "the kernel, with its parameters written in");
        for (name, text) in unit.headers {
            files.fixed(name, text.as_bytes(), "a header that the kernel includes");
        }
    }
    if has(ExportFormat::Cu) || has(ExportFormat::Torch) || has(ExportFormat::TvmFfi) {
        files.rendered("launch.hpp", "grid, block, shared memory and every launch of a call, for C++17")?;
        files.fixed("exact.hpp", EXACT_HPP.as_bytes(), "arithmetic of sizes, for launch.hpp");
    }
    if let Some((arch, image)) = unit.cubin.filter(|_| formats.iter().any(|own| own.needs_cubin())) {
        files.fixed(&cubin_name(arch), image, "the compiled kernel");
    }
    if formats.iter().any(|own| !matches!(own, ExportFormat::Cu | ExportFormat::Cubin)) {
        files.rendered("launch_plan.py", "shapes and launches of a call, for Python")?;
        files.fixed("exact.py", EXACT_PY.as_bytes(), "arithmetic of sizes, for launch_plan.py");
    }
    if has(ExportFormat::TorchOp) {
        files.rendered("torch_op.py", "an operator of PyTorch")?;
    }
    let needs_driver = uses_maps(unit.model) && (has(ExportFormat::Cupy) || has(ExportFormat::CudaCore));
    if has(ExportFormat::TorchOp) || needs_driver {
        files.fixed("driver.py", DRIVER_PY.as_bytes(), "launches the cubin, for the other Python files");
    }
    if has(ExportFormat::Torch) {
        for name in ["torch_ext/binding.cpp", "torch_ext/launch.cu", "torch_ext/load.py"] {
            files.rendered(name, "an extension of PyTorch that nvcc compiles")?;
        }
    }
    if has(ExportFormat::TvmFfi) {
        for name in ["tvm_ffi/binding.cc", "tvm_ffi/load.py"] {
            files.rendered(name, "the cubin behind DLPack, by tvm-ffi")?;
        }
    }
    if has(ExportFormat::Cupy) {
        files.rendered("cupy_example.py", "the cubin through CuPy")?;
    }
    if has(ExportFormat::CudaCore) {
        files.rendered("cuda_core_example.py", "the cubin through cuda.core")?;
    }
    let listed: Vec<Value> = files.found.iter().map(|own| json!([own.path, own.about])).collect();
    let mut with_list = context.clone();
    with_list["listed"] = listed.into();
    let readme = render("README.md", &with_list)?;
    let mut found = files.found;
    found.push(ExportFile { path: "README.md".into(), contents: readme.into_bytes(), about: "what is here" });
    Ok(found)
}

pub fn cubin_name(arch: &str) -> String {
    format!("kernel.{arch}.cubin")
}

struct Files<'a> {
    context: &'a Value,
    found: Vec<ExportFile>,
}

impl Files<'_> {
    fn fixed(&mut self, path: &str, contents: &[u8], about: &'static str) {
        self.found.push(ExportFile { path: path.to_string(), contents: contents.to_vec(), about });
    }

    fn rendered(&mut self, path: &str, about: &'static str) -> Result<(), ExportError> {
        let text = render(path, self.context)?;
        self.fixed(path, text.as_bytes(), about);
        Ok(())
    }
}

fn uses_maps(model: &ExportModel) -> bool {
    let mut arguments = model.steps.iter().flat_map(|step| &step.launches).flat_map(|own| &own.arguments);
    arguments.any(|own| matches!(own, PassedArgument::TensorMap(_)))
}

fn context(unit: &ExportUnit<'_>) -> Value {
    let model = unit.model;
    let mut m = json!(model);
    for (at, buffer) in model.buffers.iter().enumerate() {
        m["buffers"][at]["torch_type"] = torch_type(buffer.dtype).into();
        m["buffers"][at]["dl_code"] = dl_code(buffer.dtype).into();
    }
    let uses = |dtype: &str| model.buffers.iter().any(|own| own.dtype == dtype);
    let idents = |wanted: &dyn Fn(&BufferArgument) -> bool| {
        model.buffers.iter().filter(|own| wanted(own)).cloned().collect::<Vec<BufferArgument>>()
    };
    let given = idents(&|own| own.role != Role::Scratch);
    let outputs = idents(&|own| own.role == Role::Output);
    let read = idents(&|own| !matches!(own.role, Role::Scratch | Role::Output));
    let joined = |list: &[BufferArgument], end: &str| {
        list.iter().map(|own| format!("{}{end}", own.ident)).collect::<Vec<_>>().join(", ")
    };
    // Sizes that no input has as an extent are arguments of an operator.
    let is_open =
        |found: Option<(usize, usize)>| found.is_none_or(|(at, _)| model.buffers[at].role == Role::Output);
    let open: Vec<&String> =
        model.sizes.iter().filter(|own| is_open(own.found_in)).map(|own| &own.ident).collect();
    let each = |form: &dyn Fn(&str) -> String| open.iter().map(|own| form(own)).collect::<String>();
    let example: Vec<String> = model
        .sizes
        .iter()
        .map(|size| {
            let value =
                unit.example.iter().find(|(name, _)| *name == size.name).map_or(1, |(_, value)| *value);
            format!("\"{}\": {value}", size.ident)
        })
        .collect();
    let ns = format!("{}_export", model.ident);
    json!({
        "m": m,
        "ns": ns,
        "label": unit.label,
        "evo": unit.evo,
        "options": unit.source.options,
        "uses_half": uses("f16"),
        "uses_bf16": uses("bf16"),
        "uses_maps": uses_maps(model),
        "arch": unit.cubin.map(|(arch, _)| arch),
        "own_arch": unit.cubin.and_then(|(arch, _)| own_arch(arch)),
        "cubin": unit.cubin.map(|(arch, _)| cubin_name(arch)),
        "size_idents": model.sizes.iter().map(|own| own.ident.as_str()).collect::<Vec<_>>().join(", "),
        "example_sizes": format!("{{{}}}", example.join(", ")),
        "library": TORCH_LIBRARY,
        "op": format!("{}_{}", model.ident, unit.hash.short()),
        "given": given,
        "outputs": outputs,
        "read": read,
        "tensor_parameters": joined(&given, ": torch.Tensor"),
        "read_parameters": joined(&read, ": torch.Tensor"),
        "read_arguments": joined(&read, ""),
        "size_parameters": each(&|own| format!(", {own}: int")),
        "size_arguments": each(&|own| format!(", {own}")),
        "size_keywords": each(&|own| format!(", {own}={own}")),
        "device_of": read.first().map_or("torch.device(\"cuda\")".to_string(), |own| format!("{}.device", own.ident)),
        "output_names": joined(&outputs, ""),
        "output_type": match outputs.len() {
            1 => "torch.Tensor".to_string(),
            count => format!("tuple[{}]", vec!["torch.Tensor"; count].join(", ")),
        },
    })
}

/// The number of an architecture whose binaries run on no other one: `90a` of `sm_90a`. Compilers leave out its own
/// instructions where they are not asked for it by name.
fn own_arch(arch: &str) -> Option<&str> {
    arch.strip_prefix("sm_").filter(|number| number.ends_with(['a', 'f']))
}

fn torch_type(dtype: &str) -> &'static str {
    match dtype {
        "f16" => "at::kHalf",
        "bf16" => "at::kBFloat16",
        "f32" => "at::kFloat",
        "f64" => "at::kDouble",
        "i8" => "at::kChar",
        "i16" => "at::kShort",
        "i32" => "at::kInt",
        "i64" => "at::kLong",
        "u8" => "at::kByte",
        "u16" => "at::kUInt16",
        "u32" => "at::kUInt32",
        _ => "at::kUInt64",
    }
}

fn dl_code(dtype: &str) -> &'static str {
    match dtype {
        "bf16" => "kDLBfloat",
        _ if dtype.starts_with('f') => "kDLFloat",
        _ if dtype.starts_with('u') => "kDLUInt",
        _ => "kDLInt",
    }
}
