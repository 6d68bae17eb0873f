//! Configuration to source: exactly the text and the options that a compiler gets.
//!
//! The text opens with a header that names the configuration and carries its hash as the symbol
//! `evo_variant_hash`, so that a loaded module can be asked whose it is. The header is kept out of
//! `KernelSource::code_hash`: configurations that differ only there are the same code.

use std::collections::BTreeMap;

use evo_protocol::binary::{HEADER_END, KernelSource};
use evo_protocol::verdict::{Cause, Verdict, VerdictKind};
use evo_space::genome::{Configuration, ContentHash};
use evo_space::value::Value;

use super::apart::RenderFailure;
use super::compiler_options;
use super::resolve::Names;
use super::spec::{KernelSpec, KernelText, ReferenceSpec, SourceKind};
use super::template;
use evo_compile::search_path::SearchPath;

/// The symbol that holds the configuration's hash as a zero-terminated text of 32 digits.
pub const HASH_SYMBOL: &str = "evo_variant_hash";

/// The source of one configuration. A template that fails is a `render_error` with the template's
/// file and line; a compiler option without a value is `static_reject:expression`.
pub fn render(kernel: &KernelSpec, configuration: &Configuration) -> Result<KernelSource, Box<Verdict>> {
    let hash = configuration.hash();
    let own = compiler_options::options_at(kernel, configuration)?;
    let (body, options) = match kernel.source.kind {
        SourceKind::Template => (template_body(kernel, configuration)?, own),
        SourceKind::Plain => {
            let mut options = macros(configuration);
            options.extend(own);
            (kernel.source.text.clone(), options)
        }
        SourceKind::Given => (kernel.source.text.clone(), own),
    };
    let lines = [
        format!("evo: {} {configuration}", kernel.name),
        format!("test-one: {}", configuration.positional()),
    ];
    Ok(KernelSource {
        text: with_header(&lines, &hash, &kernel.source, &body),
        options,
        entries: entries(kernel, configuration),
        file_name: source_name(&kernel.source),
        variant_hash: hash,
        instrumented: false,
    })
}

/// The source of the user's naive reference kernel, if the file names one. It gets the kernel's include
/// folders and no parameter as a macro: its answer must not depend on the configuration. One that writes its
/// types as `REAL` computes in double precision.
pub fn render_reference(kernel: &KernelSpec) -> Option<KernelSource> {
    let ReferenceSpec::Kernel { real, .. } = &kernel.check.reference else { return None };
    reference_with(kernel, real.then_some("double"))
}

/// The same in single precision, where `render_reference` computes in double precision: what both answers differ by
/// is what f32 costs.
pub fn render_single_reference(kernel: &KernelSpec) -> Option<KernelSource> {
    let ReferenceSpec::Kernel { real: true, .. } = &kernel.check.reference else { return None };
    reference_with(kernel, Some("float"))
}

fn reference_with(kernel: &KernelSpec, real: Option<&str>) -> Option<KernelSource> {
    let ReferenceSpec::Kernel { source, entry, .. } = &kernel.check.reference else { return None };
    let hash = ContentHash::of(source.text.as_bytes());
    let lines = [format!("evo: reference of {}", kernel.name)];
    let options = compiler_options::fixed(kernel);
    let search = SearchPath::default().with_options(options.iter().map(String::as_str));
    let folders = search.folders.iter().map(|folder| format!("-I{}", folder.display()));
    Some(KernelSource {
        text: with_header(&lines, &hash, source, &source.text),
        options: folders.chain(real.map(|real| format!("-DREAL={real}"))).collect(),
        entries: vec![entry.clone()],
        file_name: source_name(source),
        variant_hash: hash,
        instrumented: false,
    })
}

fn template_body(kernel: &KernelSpec, configuration: &Configuration) -> Result<String, Box<Verdict>> {
    let KernelText { path, text, renderer, .. } = &kernel.source;
    renderer.render(path, text, configuration).map_err(|failure| {
        let error = match failure {
            RenderFailure::Template(error) => error,
            RenderFailure::Machine(message) => {
                return Box::new(Verdict::new(VerdictKind::HarnessError, message).with_cause(Cause::Machine));
            }
        };
        let mut message = error.to_string();
        if let Some(hint) = &error.hint {
            message.push_str(&format!("; {hint}"));
        }
        let mut verdict = Verdict::new(VerdictKind::RenderError, message).with("template", error.file);
        if let Some(line) = error.line {
            verdict = verdict.with("line", line);
        }
        Box::new(verdict)
    })
}

/// `-DNAME=value` for every parameter; booleans as 1 and 0, texts as they are.
fn macros(configuration: &Configuration) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::Bool(value) => u8::from(*value).to_string(),
        other => other.to_string(),
    };
    configuration.iter().map(|(name, value)| format!("-D{name}={}", text(value))).collect()
}

/// Entry points of the launches that this configuration can make, each once, in order of first use.
/// A template need not render an entry whose `when` its parameters alone refuse; where `when` also
/// reads problem sizes the entry must be there.
fn entries(kernel: &KernelSpec, configuration: &Configuration) -> Vec<String> {
    let sizes = BTreeMap::new();
    let names = Names { configuration, sizes: &sizes };
    let mut entries: Vec<String> = Vec::new();
    for launch in &kernel.launches {
        let refused = launch
            .when
            .as_ref()
            .is_some_and(|when| when.evaluate(&names).is_ok_and(|value| !value.is_true()));
        if !refused && !entries.contains(&launch.entry) {
            entries.push(launch.entry.clone());
        }
    }
    entries
}

/// Header, then a `#line` that makes the compiler's messages useful: lines of a plain source are
/// the user's own; lines of a rendered template are those of `evo render`'s output, since one line
/// of a template may become many.
fn with_header(lines: &[String], hash: &ContentHash, source: &KernelText, body: &str) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(&format!("// {}\n", comment_text(line)));
    }
    text.push_str(&format!("// hash: {hash}\n"));
    text.push_str(&format!(
        // `used`, because no code refers to the symbol and the compiler would drop it.
        "extern \"C\" {{ __device__ __attribute__((used)) char {HASH_SYMBOL}[] = \"{hash}\"; }}\n"
    ));
    text.push_str(HEADER_END);
    let first = match source.kind {
        SourceKind::Plain | SourceKind::Given => 1,
        // The body begins after the header and the `#line` itself, and lines count from 1.
        SourceKind::Template => text.matches('\n').count() + 2,
    };
    text.push_str(&format!("#line {first} \"{}\"\n{body}", quotable(&source_name(source))));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Text that stays inside a `//` comment: no line ends, and no backslash that would join lines.
fn comment_text(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || c == '\\' { '?' } else { c }).collect()
}

fn quotable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() || c == '\\' || c == '"' { '_' } else { c }).collect()
}

/// `gemm.cu.j2` renders to `gemm.cu`.
fn source_name(text: &KernelText) -> String {
    let name = template::file_name(&text.path);
    match text.kind {
        SourceKind::Template => name.strip_suffix(".j2").unwrap_or(&name).to_string(),
        SourceKind::Plain | SourceKind::Given => name,
    }
}
