//! One exported variant: its source, its headers, its cubin, its files and its manifest.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use evo_device::binary_notes;
use evo_device::host::translate::SHIPPED_HEADERS;
use evo_export::error::ExportError;
use evo_export::files::{ExportFile, ExportUnit, files};
use evo_export::format::ExportFormat;
use evo_export::model::{ExportModel, ModelRequest, Symbols, model};
use evo_export::source::{PlainSource, plain};
use evo_protocol::binary::{Binary, KernelSource};
use evo_protocol::device::DeviceKind;
use evo_protocol::export::{EXPORT_SCHEMA, ExportJudgement, ExportManifest, ExportNumbers, ExportedFile};
use evo_protocol::specialization::Specialization;
use evo_space::genome::{Configuration, ContentHash};
use serde_json::{Value, json};

use super::error::CliError;
use crate::compile::search_path::SearchPath;
use crate::compile::{CompileSetupError, FarmOptions, compile_one};
use crate::kernel::render::render_for;
use crate::kernel::spec::{KernelSpec, ProblemSpec, SpaceFile};

/// A longer file is not a header.
const HEADER_MAX: u64 = 1 << 20;

/// A variant that is to be exported.
#[derive(Clone, Debug)]
pub struct VariantWish<'a> {
    pub file: &'a SpaceFile,
    pub kernel: &'a KernelSpec,
    pub configuration: Configuration,
    pub constants: Specialization,
    /// Problems of the target that it serves.
    pub problems: Vec<&'a ProblemSpec>,
    pub source_hash: Option<ContentHash>,
    pub judged: ExportJudgement,
    pub judged_on: Option<String>,
    pub numbers: Option<ExportNumbers>,
    /// Folder in the export; empty for the export itself.
    pub folder: String,
}

#[derive(Debug)]
pub struct ExportedVariant {
    pub folder: String,
    pub model: ExportModel,
    pub files: Vec<ExportFile>,
    /// Why formats are missing.
    pub missing: Vec<(ExportFormat, String)>,
}

/// A compiled kernel.
struct Cubin {
    arch: String,
    image: Vec<u8>,
    binary: Binary,
}

/// Symbols of a compiled kernel, or those that plain names have.
#[derive(Debug)]
struct CubinSymbols<'a>(Option<&'a [u8]>);

impl Symbols for CubinSymbols<'_> {
    fn symbol_of(&self, entry: &str) -> Option<String> {
        binary_notes::symbol_of(self.0?, entry).map(String::from)
    }
}

/// Makes the files of a variant; nothing is written.
pub fn make(
    wish: &VariantWish<'_>,
    formats: &[ExportFormat],
    arch: Option<&str>,
) -> Result<ExportedVariant, CliError> {
    let VariantWish { kernel, configuration, constants, .. } = wish;
    let rendered = render_for(kernel, configuration, constants).map_err(|verdict| {
        CliError::usage(format!("`{configuration}` does not render: {}", verdict.message))
    })?;
    let label = match constants.is_empty() {
        true => format!("{} {configuration}", kernel.name),
        false => format!("{} {configuration}, for {constants}", kernel.name),
    };
    let title =
        [label.clone(), format!("Exported by evo {}: no macro is left to set.", env!("CARGO_PKG_VERSION"))];
    let source = plain(&rendered, &title);
    let headers = headers(&source, &rendered, wish.file)?;
    let mut missing = Vec::new();
    let wants = formats.iter().any(|own| own.needs_cubin());
    let compiled =
        if wants { compiled(&source, &rendered, arch)? } else { Err("no format needs it".to_string()) };
    let symbols = CubinSymbols(compiled.as_ref().ok().map(|own| &own.image[..]));
    let model =
        model(&ModelRequest { kernel, configuration, constants, symbols: &symbols }).map_err(refusal)?;
    let mut made: Vec<ExportFormat> = Vec::new();
    for format in formats.iter().copied().filter(|own| *own != ExportFormat::Dispatch) {
        match (&compiled, format.needs_cubin()) {
            (Err(why), true) => missing.push((format, why.clone())),
            _ => made.push(format),
        }
    }
    let example: Vec<(String, i64)> = wish
        .problems
        .iter()
        .find(|own| own.timed)
        .or(wish.problems.first())
        .map(|own| {
            own.sizes.iter().map(|(name, value)| (name.clone(), value.as_int().unwrap_or(0))).collect()
        })
        .unwrap_or_default();
    let image = compiled.as_ref().ok().map(|own| (own.arch.as_str(), binary_notes::image(&own.image)));
    let unit = ExportUnit {
        model: &model,
        label: &label,
        hash: &rendered.variant_hash,
        source: &source,
        headers: &headers,
        cubin: image,
        example: &example,
        evo: env!("CARGO_PKG_VERSION"),
    };
    let mut files = files(&unit, &made).map_err(refusal)?;
    let binary = compiled.as_ref().ok();
    let manifest = manifest(wish, &model, &source, binary, &missing, &files);
    let text = serde_json::to_string_pretty(&manifest).unwrap_or_default();
    files.push(ExportFile {
        path: "manifest.json".into(),
        contents: format!("{text}\n").into_bytes(),
        about: "",
    });
    Ok(ExportedVariant { folder: wish.folder.clone(), model, files, missing })
}

fn refusal(error: ExportError) -> CliError {
    match error {
        ExportError::NotExportable(text) => CliError::usage(format!("it cannot be exported: {text}"))
            .with_hint("`docs/export.md` lists what exports carry"),
        other => CliError::harness(other.to_string()),
    }
}

/// The source as it is exported, compiled for an architecture; or why there is no cubin.
fn compiled(
    source: &PlainSource,
    rendered: &KernelSource,
    arch: Option<&str>,
) -> Result<Result<Cubin, String>, CliError> {
    let Some(arch) = arch else {
        return Ok(Err("no architecture is known on the host device: name one with `--arch`".to_string()));
    };
    let folders = rendered.options.iter().filter(|own| own.starts_with("-I"));
    let own = KernelSource {
        text: source.text.clone(),
        options: source.options.iter().chain(folders).cloned().collect(),
        file_name: "kernel.cu".to_string(),
        ..rendered.clone()
    };
    let outcome = match compile_one(&FarmOptions::new(DeviceKind::Cuda, arch), own) {
        Ok(outcome) => outcome,
        Err(error @ (CompileSetupError::NoNvrtc { .. } | CompileSetupError::Refused { .. })) => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            let first = first.strip_suffix("; looked at:").unwrap_or(first);
            return Ok(Err(format!("it is not compiled here: {first}")));
        }
        Err(error) => return Err(error.into()),
    };
    let binary = outcome.map_err(|verdict| {
        let text = format!("the exported source does not compile for {arch}: {}", verdict.message);
        if verdict.is_trouble() { CliError::harness(text) } else { CliError::usage(text) }
    })?;
    let image = fs::read(&binary.path)
        .map_err(|error| CliError::harness(format!("cannot read `{}`: {error}", binary.path.display())))?;
    Ok(Ok(Cubin { arch: arch.to_string(), image, binary }))
}

/// The files that the source includes and that are not the compiler's: evo's own, and those beside the space.
fn headers(
    source: &PlainSource,
    rendered: &KernelSource,
    file: &SpaceFile,
) -> Result<Vec<(String, String)>, CliError> {
    let search = SearchPath::default().with_options(rendered.options.iter().map(String::as_str));
    let beside = file.path.parent().map(Path::to_path_buf);
    let folders: Vec<PathBuf> = search.folders.into_iter().chain(beside).collect();
    let mut found: Vec<(String, String)> = Vec::new();
    let mut open: Vec<String> = source.includes.clone();
    while let Some(name) = open.pop() {
        if found.iter().any(|(own, _)| *own == name) {
            continue;
        }
        if name.starts_with("evo/") {
            let own = SHIPPED_HEADERS.iter();
            let own = own.map(|(own, text)| (own.to_string(), evo_export::source::neighboring(text)));
            found.extend(own);
            continue;
        }
        let is_inside =
            !name.starts_with('/') && !name.split('/').any(|part| part == ".." || part.is_empty());
        let Some(path) = folders.iter().map(|own| own.join(&name)).find(|own| is_inside && own.is_file())
        else {
            continue;
        };
        let size = fs::metadata(&path).map_or(u64::MAX, |own| own.len());
        let text = fs::read_to_string(&path).ok().filter(|_| size <= HEADER_MAX);
        let text = text.ok_or_else(|| {
            CliError::bad_file(format!("the header `{}` is too long or not a text", path.display()), &path)
        })?;
        open.extend(evo_export::source::includes(&text));
        found.push((name, text));
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn manifest(
    wish: &VariantWish<'_>,
    model: &ExportModel,
    source: &PlainSource,
    cubin: Option<&Cubin>,
    missing: &[(ExportFormat, String)],
    files: &[ExportFile],
) -> ExportManifest {
    let mut reasons: BTreeMap<String, String> =
        missing.iter().map(|(format, why)| (format.as_str().to_string(), why.clone())).collect();
    let mut because = |name: &str, is_null: bool, why: &str| {
        if is_null {
            reasons.insert(name.to_string(), why.to_string());
        }
    };
    because("numbers", wish.numbers.is_none(), "no leaderboard has this candidate");
    because("judged_on", wish.judged_on.is_none(), "it was not judged (`--unchecked`)");
    because("arch", cubin.is_none(), "there is no cubin");
    because("toolchain", cubin.is_none(), "there is no cubin");
    because("source_hash", wish.source_hash.is_none(), "it is not known");
    let file = |own: &ExportFile| {
        let entry = ExportedFile { hash: ContentHash::of(&own.contents), bytes: own.contents.len() as u64 };
        (own.path.clone(), entry)
    };
    let arguments = json!({ "sizes": model.sizes, "buffers": model.buffers, "scalars": model.scalars });
    let launches: Value = json!({ "entries": model.entries, "steps": model.steps });
    ExportManifest {
        schema: EXPORT_SCHEMA.to_string(),
        version: 1,
        evo: env!("CARGO_PKG_VERSION").to_string(),
        kernel: wish.kernel.name.clone(),
        configuration: wish.configuration.clone(),
        configuration_hash: wish.configuration.hash(),
        constants: wish.constants.clone(),
        source_hash: wish.source_hash.clone(),
        judged: wish.judged,
        judged_on: wish.judged_on.clone(),
        arch: cubin.map(|own| own.arch.clone()),
        toolchain: cubin.map(|own| own.binary.toolchain.clone()),
        compiler_options: source.options.clone(),
        arguments,
        launches,
        conditions: json!(model.conditions),
        alignment_bytes: model.alignment,
        resources: cubin.map(|own| own.binary.resources.clone()).unwrap_or_default(),
        numbers: wish.numbers.clone(),
        files: files.iter().map(file).collect(),
        reasons,
    }
}
