//! The text of the space file.

use std::fmt::Write;

use serde_json::Value;

use super::arguments::{T1Argument, T1Kind};
use super::error::T1Error;
use super::read::{T1Node, spelled};
use super::values::T1Parameter;
use crate::first_file::{self, REFERENCE_NOTE, list, quoted};
use crate::sketch::{KernelSketch, SketchGuess};

const AXES: [&str; 3] = ["X", "Y", "Z"];

/// How a kernel is launched.
struct T1Launch {
    grid: Vec<String>,
    block: Vec<String>,
    shared_bytes: Option<String>,
}

/// Writes the file.
pub(super) fn space(
    root: &T1Node<'_>,
    name: &str,
    parameters: &[T1Parameter],
    arguments: &[T1Argument],
) -> Result<KernelSketch, T1Error> {
    let kernel = root.need("KernelSpecification")?;
    let language = kernel.need("Language")?;
    if language.text()? != "CUDA" {
        return Err(language.unsupported(&format!("`{}`", language.text()?), "evo tunes kernels in CUDA"));
    }
    let entry = kernel.need("KernelName")?.plain()?;
    let source = kernel.need("KernelFile")?.plain()?;
    let launch = launch(&kernel)?;
    let mut guesses = Vec::new();
    let mut text = format!(
        "# `{entry}`, taken over from a T1 file by `evo import t1`. docs/space_files.md explains every key.\n\n\
         [kernel]\nname = {}\nsource = {}\n",
        quoted(name),
        quoted(source)
    );
    let options = options(&kernel)?;
    if !options.is_empty() {
        let _ = writeln!(text, "options = [{}]", list(&options));
    }
    text.push_str("\n[parameters]\n");
    for own in parameters {
        let values: Vec<String> = own.values.iter().map(Value::to_string).collect();
        let _ = writeln!(
            text,
            "{} = {{ values = [{}], default = {} }}",
            own.name,
            values.join(", "),
            own.default
        );
    }
    text.push('\n');
    conditions(root, &mut text)?;
    arguments_text(arguments, &mut text);
    launch_text(entry, &launch, &mut text);
    text.push_str("[[problems]]\nname = \"t1\"\nsizes = {}  # the file's sizes are numbers\n\n");
    let reference = reference(source, parameters, arguments);
    check_text(entry, &launch, &reference.0, parameters, &mut text);
    guess(
        &mut guesses,
        "the reference is the kernel itself at its defaults",
        "evo has no other answer to compare with",
    );
    guess(&mut guesses, "small and odd shapes are not tried", "a T1 file has one size of each array");
    if let Some(own) = kernel.find("ReferenceArguments") {
        let why =
            "the space file's own reference stands in its place; `{ npy = { … } }` reads answers from files";
        guess(&mut guesses, format!("{} is not taken over", own.place), why);
    }
    for key in ["Search", "General", "Budget"] {
        if let Some(own) = root.find(key) {
            guess(&mut guesses, format!("{} is not taken over", own.place), "`evo sweep` has options for it");
        }
    }
    Ok(KernelSketch { space: text, reference: Some(reference), entry: entry.to_string(), guesses })
}

fn guess(guesses: &mut Vec<SketchGuess>, what: impl Into<String>, why: &str) {
    guesses.push(SketchGuess { what: what.into(), why: why.to_string() });
}

/// Compiler options; tools of before wrote some with one hyphen.
fn options(kernel: &T1Node<'_>) -> Result<Vec<String>, T1Error> {
    let Some(all) = kernel.find("CompilerOptions") else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for own in all.items()? {
        match own.text()?.trim() {
            "" => {}
            "-use_fast_math" => found.push("--use_fast_math".to_string()),
            other => found.push(other.to_string()),
        }
    }
    Ok(found)
}

fn conditions(root: &T1Node<'_>, text: &mut String) -> Result<(), T1Error> {
    let Some(all) = root.need("ConfigurationSpace")?.find("Conditions") else { return Ok(()) };
    for own in all.items()? {
        let _ = writeln!(
            text,
            "[[constraints]]\nrequire = {}\n",
            quoted(&spelled(own.need("Expression")?.text()?))
        );
    }
    Ok(())
}

fn arguments_text(arguments: &[T1Argument], text: &mut String) {
    for own in arguments {
        let _ = writeln!(
            text,
            "[[arguments]]\nname = {}\ndtype = {}",
            quoted(&own.name),
            quoted(own.dtype.as_str())
        );
        match &own.kind {
            T1Kind::Scalar(value) => {
                let _ = writeln!(text, "value = {value}\n");
            }
            T1Kind::Vector { elements, role, fill, symbol } => {
                let _ = writeln!(text, "shape = [{}]\nrole = {}", quoted(elements), quoted(role));
                if let Some(fill) = fill {
                    let _ = writeln!(text, "fill = {fill}");
                }
                if *symbol {
                    let _ = writeln!(text, "symbol = {}", quoted(&own.name));
                }
                text.push('\n');
            }
        }
    }
}

/// Grid and block from either dialect.
fn launch(kernel: &T1Node<'_>) -> Result<T1Launch, T1Error> {
    let local = kernel.need("LocalSize")?;
    let axes = |node: &T1Node<'_>| -> Result<Vec<String>, T1Error> {
        AXES.iter().map(|axis| node.find(axis).map_or(Ok("1".to_string()), |own| own.expression())).collect()
    };
    let block = axes(&local)?;
    let grid = match kernel.find("ProblemSize") {
        Some(sizes) => by_problem(kernel, &sizes, &block)?,
        None => {
            let global = axes(&kernel.need("GlobalSize")?)?;
            let kind = kernel.find("GlobalSizeType");
            match kind.as_ref().map(|own| own.text()).transpose()? {
                // A count of threads; the others count blocks.
                Some("OpenCL") => global
                    .iter()
                    .zip(&block)
                    .map(|(threads, own)| format!("ceil_div({threads}, {own})"))
                    .collect(),
                _ => global,
            }
        }
    };
    let shared = kernel.find("SharedMemory").map(|own| own.expression()).transpose()?;
    Ok(T1Launch { grid, block, shared_bytes: shared.filter(|own| own != "0") })
}

/// Kernel Tuner's rule: each size over the product of its divisors, rounded up; the block's extent where none are named.
fn by_problem(kernel: &T1Node<'_>, sizes: &T1Node<'_>, block: &[String]) -> Result<Vec<String>, T1Error> {
    let sizes = match sizes.value {
        Value::Array(_) => sizes.items()?,
        _ => vec![sizes.clone()],
    };
    let mut grid = Vec::new();
    for (at, axis) in AXES.iter().enumerate() {
        let Some(size) = sizes.get(at) else {
            grid.push("1".to_string());
            continue;
        };
        let size = size.expression()?;
        let divisors = kernel.find(&format!("GridDiv{axis}"));
        let divisors = divisors.map(|own| own.items()).transpose()?;
        let factors = match divisors {
            Some(all) => all.iter().map(T1Node::expression).collect::<Result<Vec<String>, T1Error>>()?,
            None => vec![block[at].clone()],
        };
        grid.push(match factors.is_empty() {
            true => size,
            false => format!("ceil_div({size}, {})", factors.join(" * ")),
        });
    }
    Ok(grid)
}

fn launch_text(entry: &str, launch: &T1Launch, text: &mut String) {
    let _ = writeln!(text, "[[launches]]\nentry = {}", quoted(entry));
    let _ = writeln!(text, "grid = [{}]\nblock = [{}]", list(&launch.grid), list(&launch.block));
    if let Some(bytes) = &launch.shared_bytes {
        let _ = writeln!(text, "shared_bytes = {}", quoted(bytes));
    }
    text.push('\n');
}

fn check_text(entry: &str, launch: &T1Launch, source: &str, parameters: &[T1Parameter], text: &mut String) {
    let fixed =
        |all: &[String]| list(&all.iter().map(|own| at_defaults(own, parameters)).collect::<Vec<_>>());
    let shared = launch
        .shared_bytes
        .as_ref()
        .map_or(String::new(), |own| format!(", shared_bytes = {}", quoted(&at_defaults(own, parameters))));
    let _ = write!(
        text,
        "{REFERENCE_NOTE}\
         [check]\ntiny = \"none\"\nreference = {{ source = {}, launches = [{{ entry = {}, grid = [{}], block = [{}]{shared} }}] }}\n",
        quoted(source),
        quoted(entry),
        fixed(&launch.grid),
        fixed(&launch.block)
    );
}

/// An expression with the defaults in the place of the parameters' names.
fn at_defaults(expression: &str, parameters: &[T1Parameter]) -> String {
    let default = |name: &str| parameters.iter().find(|own| own.name == name).map(T1Parameter::as_macro);
    first_file::at_values(expression, &default)
}

/// A source that gives the macros their defaults and includes the kernel.
fn reference(path: &str, parameters: &[T1Parameter], arguments: &[T1Argument]) -> (String, String) {
    let macros: Vec<_> = parameters.iter().map(|own| (own.name.clone(), own.as_macro())).collect();
    let (name, mut text) = first_file::reference("evo import t1", path, &macros);
    let is_symbol = |own: &&T1Argument| matches!(own.kind, T1Kind::Vector { symbol: true, .. });
    for own in arguments.iter().filter(is_symbol) {
        // evo fills a variable whose name stands in this text.
        let _ = writeln!(text, "static_assert(sizeof({0}) > 0, \"{0}\");", own.name);
    }
    (name, text)
}
