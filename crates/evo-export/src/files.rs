//! The forms in which a candidate is exported, and the files of each.

use std::collections::BTreeMap;

use evo_kernel::template;
use evo_protocol::plan::Role;
use evo_protocol::words;
use evo_space::diagnostic::suggestion;
use evo_space::genome::ContentHash;
use serde_json::{Value, json};

use crate::model::{ExportModel, PassedArgument};
use crate::source::{PlainSource, one_line};
use crate::translate::{ExportError, Exported, Language, quoted};

pub(crate) const EXACT_HPP: &str = include_str!("../templates/exact.hpp");
pub(crate) const EXACT_PY: &str = include_str!("../templates/exact.py");
const DRIVER_PY: &str = include_str!("../templates/driver.py");
/// A peer that calls the exported files; it needs `evo_peer.py` beside it.
pub const VERIFY_PEER: &str = include_str!("../templates/verify_peer.py");
/// What times and checks exported files with other people's tools; it needs the two beside it.
pub const CROSSCHECK: &str = include_str!("../templates/crosscheck.py");

words! {
    #[derive(PartialOrd, Ord)]
    ExportFormat {
        Cu = "cu",
        Cubin = "cubin",
        /// `kernel_cubin.hpp`: the cubin as an array, for programs that have no file beside them.
        CubinHpp = "cubin-hpp",
        /// `torch_ext/`: an extension of PyTorch that nvcc compiles.
        Torch = "torch",
        /// `torch_op.py`: an operator of PyTorch that launches the cubin.
        TorchOp = "torch-op",
        /// `tvm_ffi/`: the cubin behind one binding for whatever speaks DLPack.
        TvmFfi = "tvm-ffi",
        Cupy = "cupy",
        CudaCore = "cuda-core",
        /// `dispatch.{json,hpp,py}`: which of several variants to call, by sizes.
        Dispatch = "dispatch",
    }
}

impl ExportFormat {
    pub fn needs_cubin(self) -> bool {
        !matches!(self, ExportFormat::Cu | ExportFormat::Torch | ExportFormat::Dispatch)
    }

    /// Whether a peer in Python verifies it: `verify_peer.py` has a function for it.
    pub fn has_peer(self) -> bool {
        use ExportFormat::{Cu, Cubin, CubinHpp, Dispatch};
        !matches!(self, Cu | Cubin | CubinHpp | Dispatch)
    }

    /// Whether its launches are those of `launch_plan.py`.
    pub fn is_planned_in_python(self) -> bool {
        matches!(self, ExportFormat::TorchOp | ExportFormat::Cupy | ExportFormat::CudaCore)
    }

    /// Reads a list of names; `all` stands for every form.
    pub fn parse_list(names: &[String]) -> Result<Vec<ExportFormat>, String> {
        let mut formats: Vec<ExportFormat> = Vec::new();
        for name in names.iter().map(|name| name.trim()) {
            match ExportFormat::ALL.iter().copied().find(|format| format.as_str() == name) {
                Some(format) => formats.push(format),
                None if name == "all" => formats.extend(ExportFormat::ALL),
                None => {
                    let names: Vec<&str> = ExportFormat::ALL.iter().map(|format| format.as_str()).collect();
                    let all = || format!("there are {} and all", names.join(", "));
                    let hint = suggestion(name, names.iter().copied(), all);
                    return Err(format!("there is no format `{name}`; {hint}"));
                }
            }
        }
        formats.sort();
        formats.dedup();
        Ok(formats)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ExportFile {
    /// Relative to the export's folder.
    pub path: String,
    pub contents: Vec<u8>,
    pub about: &'static str,
}

impl ExportFile {
    pub fn of(path: &str, contents: impl Into<Vec<u8>>, about: &'static str) -> ExportFile {
        ExportFile { path: path.to_string(), contents: contents.into(), about }
    }
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
    pub example: &'a BTreeMap<String, i64>,
    pub evo: &'a str,
}

enum Contents {
    /// The kernel's source, and the headers that it includes.
    Source,
    Cubin,
    Text(&'static str),
    Made(fn(&ExportUnit<'_>) -> String),
    Template(&'static str),
}

/// A file with its contents, what it is, and the formats that have it.
type FileRow = ((&'static str, Contents), &'static str, &'static [ExportFormat]);

/// The files, in the order in which they are listed.
const FILES: &[FileRow] = {
    use Contents::{Cubin as CubinFile, Made, Source, Template, Text};
    use ExportFormat::*;
    const WITH_SOURCE: &[ExportFormat] = &[Cu, Torch];
    const IN_CPP: &[ExportFormat] = &[Cu, Torch, TvmFfi];
    const WITH_CUBIN: &[ExportFormat] = &[Cubin, TorchOp, TvmFfi, Cupy, CudaCore];
    const IN_PYTHON: &[ExportFormat] = &[Torch, TorchOp, TvmFfi, Cupy, CudaCore, Dispatch];
    const WITH_DRIVER: &[ExportFormat] = &[TorchOp, Cupy, CudaCore];
    const EXTENSION: &str = "an extension of PyTorch that nvcc compiles";
    const DLPACK: &str = "the cubin behind DLPack, by tvm-ffi";
    macro_rules! template {
        ($path:literal) => {
            template!($path, $path)
        };
        ($path:literal, $name:literal) => {
            ($path, Template(include_str!(concat!("../templates/", $name, ".j2"))))
        };
    }
    &[
        (("kernel.cu", Source), "the kernel, with its parameters written in", WITH_SOURCE),
        (template!("launch.hpp"), "grid, block, shared memory and every launch of a call, for C++17", IN_CPP),
        (("exact.hpp", Text(EXACT_HPP)), "arithmetic of sizes, for launch.hpp", IN_CPP),
        (("kernel.cubin", CubinFile), "the compiled kernel", WITH_CUBIN),
        (("kernel_cubin.hpp", Made(embedded)), "the compiled kernel as an array, for C and C++", &[CubinHpp]),
        (template!("launch_plan.py"), "shapes and launches of a call, for Python", IN_PYTHON),
        (("exact.py", Text(EXACT_PY)), "arithmetic of sizes, for launch_plan.py", IN_PYTHON),
        (template!("torch_op.py"), "an operator of PyTorch", &[TorchOp]),
        ((DRIVER, Text(DRIVER_PY)), "launches the cubin, for the other Python files", WITH_DRIVER),
        (template!("torch_ext/binding.cpp", "torch_ext_binding.cpp"), EXTENSION, &[Torch]),
        (template!("torch_ext/launch.cu", "torch_ext_launch.cu"), EXTENSION, &[Torch]),
        (template!("torch_ext/load.py", "torch_ext_load.py"), EXTENSION, &[Torch]),
        (template!("tvm_ffi/binding.cc", "tvm_ffi_binding.cc"), DLPACK, &[TvmFfi]),
        (template!("tvm_ffi/load.py", "tvm_ffi_load.py"), DLPACK, &[TvmFfi]),
        (template!("cupy_example.py"), "the cubin through CuPy", &[Cupy]),
        (template!("cuda_core_example.py"), "the cubin through cuda.core", &[CudaCore]),
    ]
};

/// CuPy and cuda.core launch by themselves what has no tensor maps.
const DRIVER: &str = "driver.py";

pub fn files(unit: &ExportUnit<'_>, formats: &[ExportFormat]) -> Exported<Vec<ExportFile>> {
    let mut context = context(unit);
    let needs_driver = uses_maps(unit.model) || formats.contains(&ExportFormat::TorchOp);
    let mut files = Vec::new();
    for ((path, contents), about, wanted) in FILES {
        if !wanted.iter().any(|format| formats.contains(format)) || *path == DRIVER && !needs_driver {
            continue;
        }
        match contents {
            Contents::Source => {
                files.push(ExportFile::of(path, unit.source.text.as_str(), about));
                let header = |(name, text): &(String, String)| {
                    ExportFile::of(name, text.as_str(), "a header that the kernel includes")
                };
                files.extend(unit.headers.iter().map(header));
            }
            Contents::Cubin => {
                let cubin = unit.cubin.map(|(arch, image)| ExportFile::of(&cubin_name(arch), image, about));
                files.extend(cubin);
            }
            Contents::Made(text) => files.push(ExportFile::of(path, text(unit), about)),
            Contents::Text(text) => files.push(ExportFile::of(path, *text, about)),
            Contents::Template(text) => {
                files.push(ExportFile::of(path, render(path, text, &context)?, about));
            }
        }
    }
    context["listed"] = files.iter().map(|file| json!([file.path, file.about])).collect();
    let readme = render("README.md", include_str!("../templates/README.md.j2"), &context)?;
    files.push(ExportFile::of("README.md", readme, "what is here"));
    Ok(files)
}

/// The cubin as an array, which `cuModuleLoadData` takes.
fn embedded(unit: &ExportUnit<'_>) -> String {
    let (arch, image) = unit.cubin.unwrap_or_default();
    let rows =
        image.chunks(24).map(|row| row.iter().map(|byte| format!("{byte},")).collect::<String>() + "\n");
    let name = &unit.model.ident;
    format!(
        "// {} for {arch}: cuModuleLoadData(&module, {name}_cubin).\n#pragma once\n\n\
         static const unsigned char {name}_cubin[{}] = {{\n{}}};\n",
        one_line(unit.label),
        image.len(),
        rows.collect::<String>()
    )
}

fn cubin_name(arch: &str) -> String {
    format!("kernel.{arch}.cubin")
}

pub(crate) fn uses_maps(model: &ExportModel) -> bool {
    let mut arguments =
        model.steps.iter().flat_map(|step| &step.launches).flat_map(|launch| &launch.arguments);
    arguments.any(|argument| matches!(argument, PassedArgument::TensorMap(_)))
}

fn context(unit: &ExportUnit<'_>) -> Value {
    let model = unit.model;
    // Sizes that no input has as an extent are arguments of an operator.
    let is_open = |found: Option<(usize, usize)>| {
        found.is_none_or(|(buffer, _)| model.buffers[buffer].role == Role::Output)
    };
    let open = model.sizes.iter().filter(|size| is_open(size.found_in)).map(|size| &size.ident);
    json!({
        "m": model,
        "ns": format!("{}_export", model.ident),
        "label": unit.label,
        "evo": unit.evo,
        "options": unit.source.options,
        "uses_maps": uses_maps(model),
        "arch": unit.cubin.map(|(arch, _)| arch),
        "cubin": unit.cubin.map(|(arch, _)| cubin_name(arch)),
        "example": unit.example,
        "library": "evo_export",
        "op": format!("{}_{}", model.ident, unit.hash.short()),
        "open": open.collect::<Vec<_>>(),
    })
}

pub(crate) fn render(name: &str, text: &str, context: &Value) -> Exported<String> {
    let fault =
        |why: minijinja::Error| ExportError::Template { name: name.to_string(), why: format!("{why:#}") };
    let mut environment = template::plain_environment();
    environment.add_filter("comment", |text: String| one_line(&text));
    environment.add_filter("cpp", |text: String| quoted(Language::Cpp, &text));
    environment.add_filter("py", |text: String| quoted(Language::Python, &text));
    environment.render_named_str(name, text, template::Serde(context)).map_err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_near_ones_offered() {
        let parse = |text: &str| -> Result<Vec<&str>, String> {
            let names: Vec<String> = text.split(',').map(String::from).collect();
            ExportFormat::parse_list(&names)
                .map(|formats| formats.into_iter().map(ExportFormat::as_str).collect())
        };
        assert_eq!(parse("torch-op, cu,cu"), Ok(vec!["cu", "torch-op"]));
        assert_eq!(parse("all").map(|names| names.len()), Ok(9));
        assert_eq!(parse("torch_op").unwrap_err(), "there is no format `torch_op`; did you mean `torch-op`?");
        assert!(parse("xyzzy").unwrap_err().contains("there are cu, cubin, cubin-hpp, torch"));
    }
}
