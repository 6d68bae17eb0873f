//! Configuration to source: exactly the text and the options that a compiler gets.
//!
//! The text opens with a header that names the configuration and carries its hash as the symbol
//! `evo_variant_hash`, so that a loaded module can be asked whose it is. The header is kept out of
//! `KernelSource::code_hash`: configurations that differ only there are the same code.

use std::collections::BTreeMap;

use evo_compile::search_path::SearchPath;
use evo_protocol::binary::{HEADER_END, KernelSource, Specialization};
use evo_protocol::plan::SIZE_VARIABLE;
use evo_protocol::verdict::{Cause, Verdict, VerdictKind};
use evo_space::expr::Expr;
use evo_space::genome::{Configuration, ContentHash};
use evo_space::value::Value;

use super::apart::RenderFailure;
use super::resolve::{Names, Resolver};
use super::spec::{KernelSpec, KernelText, LaunchSpec, OptionSpec, PrepareSpec, ReferenceSpec, SourceKind};
use super::{spec, specialize, template};

/// The symbol that holds the configuration's hash as a zero-terminated text of 32 digits.
pub const HASH_SYMBOL: &str = "evo_variant_hash";

/// What macros of constants begin with where a candidate's own text gets them: `D` alone is a name that headers use.
const CONSTANT_PREFIX: &str = "EVO_";

/// The source of one configuration. A template that fails is a `render_error` with the template's file and line; a
/// compiler option without a value is `static_reject:expression`.
///
/// A specialized template gives one text for all problems, which people read and evo keeps: a section for each set of
/// constants, chosen by macros (`EVO_CAUSAL`). As a candidate's own source it compiles to what `render_for` gives.
pub fn render(kernel: &KernelSpec, configuration: &Configuration) -> Result<KernelSource, Box<Verdict>> {
    let sets = specialize::of_kernel(kernel);
    let own = render_for(kernel, configuration, sets.first().unwrap_or(&Specialization::default()))?;
    if kernel.specialize.is_empty() {
        return Ok(own);
    }
    let defines_constant = |option: &String| {
        let name = option.strip_prefix("-D").and_then(|own| own.split('=').next()).unwrap_or_default();
        let name = name.strip_prefix(CONSTANT_PREFIX).unwrap_or(name);
        kernel.specialize.iter().any(|own| own == name)
    };
    let options = own.options.into_iter().filter(|option| !defines_constant(option)).collect();
    let mut entries = own.entries;
    let body = match kernel.source.kind {
        SourceKind::Plain | SourceKind::Given => kernel.source.text.clone(),
        SourceKind::Template => {
            let mut body = String::new();
            for (position, constants) in sets.iter().enumerate() {
                let known = with_constants(configuration, constants);
                entries.extend(self::entries(kernel, &known));
                let word = if position == 0 { "if" } else { "elif" };
                let equal =
                    constants.iter().map(|(name, value)| format!("{CONSTANT_PREFIX}{name} == {value}"));
                body.push_str(&format!("#{word} {}\n", equal.collect::<Vec<_>>().join(" && ")));
                body.push_str(template_body(kernel, &known)?.trim_end_matches('\n'));
                body.push('\n');
            }
            body.push_str("#else\n#error \"no problem of the space has these constants\"\n#endif\n");
            body
        }
    };
    entries.sort();
    entries.dedup();
    let variant_hash = configuration.hash();
    let text = with_header(&header_lines(kernel, configuration), &variant_hash, &kernel.source, &body);
    Ok(KernelSource { text, options, entries, variant_hash, constants: Specialization::default(), ..own })
}

/// The text that the compiler gets for problems with these constants, which reach it as parameters do. A candidate's
/// own text gets them as macros: `EVO_CAUSAL`.
pub fn render_for(
    kernel: &KernelSpec,
    configuration: &Configuration,
    constants: &Specialization,
) -> Result<KernelSource, Box<Verdict>> {
    let hash = constants.variant_hash(&configuration.hash());
    let own = options_at(kernel, configuration)?;
    let known = with_constants(configuration, constants);
    let (body, options) = match kernel.source.kind {
        SourceKind::Template => (template_body(kernel, &known)?, own),
        SourceKind::Plain => {
            let macros = known.iter().map(|(name, value)| format!("-D{name}={}", spec::in_c(value)));
            (kernel.source.text.clone(), macros.chain(own).collect())
        }
        SourceKind::Given => {
            let given = constants.iter().map(|(name, value)| format!("-D{CONSTANT_PREFIX}{name}={value}"));
            (kernel.source.text.clone(), given.chain(own).collect())
        }
    };
    let mut lines = header_lines(kernel, configuration);
    if !constants.is_empty() {
        lines.push(format!("constants: {constants}"));
    }
    Ok(KernelSource {
        text: with_header(&lines, &hash, &kernel.source, &body),
        options,
        entries: entries(kernel, &known),
        file_name: source_name(&kernel.source),
        variant_hash: hash,
        instrumented: false,
        constants: constants.clone(),
    })
}

fn header_lines(kernel: &KernelSpec, configuration: &Configuration) -> Vec<String> {
    vec![format!("evo: {} {configuration}", kernel.name), format!("test-one: {}", configuration.positional())]
}

/// It gets the kernel's include folders and no parameter as a macro: its answer must not depend on the configuration.
/// One that writes its types as `REAL` computes in double precision.
pub fn render_reference(kernel: &KernelSpec) -> Option<KernelSource> {
    let ReferenceSpec::Kernel { real, .. } = &kernel.check.reference else { return None };
    reference_with(kernel, real.then_some("double"))
}

/// For a reference in double precision: what both answers differ by is what f32 costs.
pub fn render_single_reference(kernel: &KernelSpec) -> Option<KernelSource> {
    let ReferenceSpec::Kernel { real: true, .. } = &kernel.check.reference else { return None };
    reference_with(kernel, Some("float"))
}

fn reference_with(kernel: &KernelSpec, real: Option<&str>) -> Option<KernelSource> {
    let ReferenceSpec::Kernel { source, launches, sizes, .. } = &kernel.check.reference else { return None };
    let sizes: Vec<&String> = sizes.iter().chain(&kernel.check.reference_parameters).collect();
    let variable = |name: &&String| format!("{SIZE_VARIABLE}{name}");
    let declared =
        sizes.iter().map(|name| format!("extern \"C\" {{ __constant__ int {}; }}\n", variable(name)));
    let macros = sizes.iter().map(|name| format!("-D{name}={}", variable(name)));
    let options = real.map(|real| format!("-DREAL={real}")).into_iter().chain(macros);
    Some(beside(kernel, "reference", source, launches, &declared.collect::<String>(), options.collect()))
}

pub fn render_prepare(kernel: &KernelSpec) -> Option<KernelSource> {
    let PrepareSpec { source, launches, .. } = kernel.prepare.as_ref()?;
    Some(beside(kernel, "inputs", source, launches, "", Vec::new()))
}

/// A source of the task's own, which knows the include folders and no parameter.
fn beside(
    kernel: &KernelSpec,
    what: &str,
    source: &KernelText,
    launches: &[LaunchSpec],
    declared: &str,
    options: Vec<String>,
) -> KernelSource {
    let fixed = fixed(kernel);
    let search = SearchPath::default().with_options(fixed);
    let folders = search.folders.into_iter().map(|folder| format!("-I{}", folder.display()));
    let hash = ContentHash::of(source.text.as_bytes());
    let header = header(&[format!("evo: {what} of {}", kernel.name)], &hash);
    let text = format!("{header}{declared}{}", with_line(1, source, &source.text));
    KernelSource {
        options: folders.chain(options).collect(),
        variant_hash: hash,
        ..KernelSource::plain(&source_name(source), text, spec::entries(launches))
    }
}

fn with_constants(configuration: &Configuration, constants: &Specialization) -> Configuration {
    let own = configuration.iter().map(|(name, value)| (name.into(), value.clone()));
    let constants = constants.iter().map(|(name, value)| (name.into(), value.into()));
    Configuration::new(own.chain(constants).collect())
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
        let hint = error.hint.as_ref().map_or(String::new(), |hint| format!("; {hint}"));
        let verdict = Verdict::new(VerdictKind::RenderError, format!("{error}{hint}"));
        let verdict = verdict.with("template", error.file);
        Box::new(error.line.into_iter().fold(verdict, |verdict, line| verdict.with("line", line)))
    })
}

/// Of the launches that this configuration can make, each once, in order of first use. A template need not render an
/// entry whose `when` its parameters alone refuse; where `when` also reads problem sizes the entry must be there.
fn entries(kernel: &KernelSpec, configuration: &Configuration) -> Vec<String> {
    let sizes = BTreeMap::new();
    let names = Names::new(configuration, &sizes);
    let is_refused = |when: &Expr| when.evaluate(&names).is_ok_and(|value| !value.is_true());
    spec::entries(kernel.launches.iter().filter(|launch| !launch.when.as_ref().is_some_and(is_refused)))
}

/// With a `#line` that makes the compiler's messages useful: lines of a plain source are the user's own; those of a
/// rendered template are those of `evo render`'s output, since one line of a template may become many.
fn with_header(lines: &[String], hash: &ContentHash, source: &KernelText, body: &str) -> String {
    let mut text = header(lines, hash);
    let first = match source.kind {
        SourceKind::Plain | SourceKind::Given => 1,
        // The body begins after the header and the `#line` itself, and lines count from 1.
        SourceKind::Template => text.matches('\n').count() + 2,
    };
    text.push_str(&with_line(first, source, body));
    text
}

fn header(lines: &[String], hash: &ContentHash) -> String {
    let mut text = String::new();
    for line in lines {
        // Text that stays inside a `//` comment: no line ends, and no backslash that would join lines.
        let line: String = line.chars().map(|c| if c.is_control() || c == '\\' { '?' } else { c }).collect();
        text.push_str(&format!("// {line}\n"));
    }
    text.push_str(&format!("// hash: {hash}\n"));
    text.push_str(&format!(
        // `used`, because no code refers to the symbol and the compiler would drop it.
        "extern \"C\" {{ __device__ __attribute__((used)) char {HASH_SYMBOL}[] = \"{hash}\"; }}\n"
    ));
    text.push_str(HEADER_END);
    text
}

fn with_line(first: usize, source: &KernelText, body: &str) -> String {
    let end = if body.ends_with('\n') { "" } else { "\n" };
    let name = source_name(source).replace(|c: char| c.is_control() || c == '\\' || c == '"', "_");
    format!("#line {first} \"{name}\"\n{body}{end}")
}

/// `gemm.cu.j2` renders to `gemm.cu`.
fn source_name(text: &KernelText) -> String {
    let name = template::file_name(&text.path);
    match text.kind {
        SourceKind::Template => name.strip_suffix(".j2").unwrap_or(&name).to_string(),
        SourceKind::Plain | SourceKind::Given => name,
    }
}

const FAST_MATH: [&str; 2] = ["--use_fast_math", "-use_fast_math"];
const FLUSH: [&str; 2] = ["-ftz=true", "--ftz=true"];

/// In the order of the file. `static_reject:expression` for an expression without a value, or with one that cannot be
/// an option's.
pub fn options_at(kernel: &KernelSpec, configuration: &Configuration) -> Result<Vec<String>, Box<Verdict>> {
    let sizes = BTreeMap::new();
    let resolver = Resolver { names: Names::new(configuration, &sizes), problem: None };
    let option = |option: &OptionSpec| {
        let place = |key: &str| format!("`{key}` of option `{}`", option.text);
        if !resolver.truth(&option.when, &place("when"), true)? {
            return Ok(None);
        }
        let Some(expr) = &option.value else { return Ok(Some(option.text.clone())) };
        let value = resolver.value(expr, &place("value"))?;
        let text = shown(&value).ok_or_else(|| {
            resolver.refuse(expr, &place("value"), &format!("is `{value}`, which no option can have"))
        })?;
        Ok(Some(format!("{}={text}", option.text)))
    };
    kernel.options.iter().map(option).filter_map(Result::transpose).collect()
}

/// A value as an option has it: `4.0` is 4, and a text holds no blanks.
fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Bool(value) => Some(value.to_string()),
        Value::Int(value) => Some(value.to_string()),
        Value::Float(value) if value.fract() == 0.0 && value.abs() < 1e15 => {
            Some((*value as i64).to_string())
        }
        Value::Float(value) if value.is_finite() => Some(value.to_string()),
        Value::Text(text) if !text.is_empty() && !text.contains(char::is_whitespace) => {
            Some(text.to_string())
        }
        _ => None,
    }
}

pub fn fixed(kernel: &KernelSpec) -> Vec<String> {
    let fixed = kernel.options.iter().filter(|option| option.value.is_none() && option.when.is_none());
    fixed.map(|option| option.text.clone()).collect()
}

/// Whether options ask for fast mathematics, and whether they flush subnormal numbers.
pub fn relaxations(options: &[String]) -> (bool, bool) {
    let has = |words: &[&str]| options.iter().any(|option| words.contains(&option.as_str()));
    let fast_math = has(&FAST_MATH);
    (fast_math, fast_math || has(&FLUSH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_options_as_a_compiler_reads_them() {
        let good = [Value::Int(64), Value::Float(64.0), Value::Float(0.5), false.into(), "fast".into()];
        assert_eq!(good.map(|own| shown(&own).unwrap()), ["64", "64", "0.5", "false", "fast"]);
        let bad = ["a b".into(), "".into(), Value::Float(f64::NAN)];
        assert_eq!(bad.map(|own| shown(&own)), [None, None, None]);
    }

    #[test]
    fn fast_mathematics_flushes_too() {
        let of = |options: &[&str]| relaxations(&options.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(of(&["-O3"]), (false, false));
        assert_eq!(of(&["-ftz=true"]), (false, true));
        assert_eq!(of(&["-lineinfo", "--use_fast_math"]), (true, true));
    }
}
