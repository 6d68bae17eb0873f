//! The last step of loading: the default configuration must be valid, resolve and render.
//!
//! One that is not valid has been replaced by the nearest valid point before, where such a point was found.
//!
//! It is the one that every user meets first (`evo test-one`, generation 0), so a file whose default
//! cannot even be launched on paper is refused here, where the message can be read, and not as one
//! failed variant among many.

use evo_protocol::verdict::Verdict;
use evo_space::document::{Data, Node};
use evo_space::genome::Configuration;
use evo_space::space::SearchSpace;

use super::fields::Field;
use crate::signature::{self, SourceEntry, SourceParameter, Taker};
use crate::spec::{ArgumentSpec, KernelSpec, ReferenceSpec, TinySpec};
use crate::unfilled::unfilled;
use crate::words::tokens;
use crate::{render, resolve, specialize, tiny};

/// Complains if the default configuration is refused by a constraint, has a launch plan that cannot
/// be computed for some problem, or does not render.
pub(super) fn default_works(root: &Field, space: &SearchSpace, kernel: &KernelSpec) {
    let genome = space.default_genome();
    let configuration = space.configuration(&genome);
    let parameters = root.below(&["parameters"]).node;
    let violated = space.violations(&genome);
    for constraint in &violated {
        let because = constraint.because.as_ref().map_or(String::new(), |why| format!(" ({why})"));
        let message = format!("the default configuration violates `{}`{because}", constraint.expr.text());
        let span = constraint.span.as_ref().unwrap_or(&parameters.span);
        let read = |(position, (name, value)): (usize, (&str, _))| {
            constraint.parameters.contains(&position).then(|| format!("{name}={value}"))
        };
        let values: Vec<String> = configuration.iter().enumerate().filter_map(read).collect();
        let hint = format!("the defaults are {}; a parameter may say `default = …`", values.join(" "));
        root.complain(span, message, Some(hint));
    }
    if violated.is_empty() {
        resolves(root, kernel, &configuration);
        renders(root, kernel, &configuration);
    }
    reference_takes_what_it_is_given(root, kernel);
}

fn resolves(root: &Field, kernel: &KernelSpec, configuration: &Configuration) {
    let hint = || format!("this is the default configuration: {configuration}");
    for problem in &kernel.problems {
        if let Err(verdict) = resolve::resolve(kernel, configuration, problem) {
            // The same mistake would be told again for each problem.
            return root.at(section_of(root, &verdict), "").hinted(verdict.message, hint());
        }
    }
    if let TinySpec::Listed(list) = &kernel.check.tiny
        && let Err(verdict) = tiny::resolve_listed(kernel, list, configuration)
    {
        root.below(&["check"]).hinted(verdict.message, hint());
    }
}

fn renders(root: &Field, kernel: &KernelSpec, configuration: &Configuration) {
    // One message for all sets of constants, which have most mistakes in common.
    let sets = specialize::of_kernel(kernel);
    let rendered: Vec<_> =
        sets.iter().map(|constants| render::render_for(kernel, configuration, constants)).collect();
    for (entry, parameter) in
        rendered.iter().flatten().filter_map(|own| texture_of(kernel, &own.text)).take(1)
    {
        let message = format!("`{entry}` takes a texture or a surface, `{parameter}`, which evo cannot pass");
        let hint = "pass the data as a buffer: `__ldg` reads it through the same cache";
        let launches = root.below(&["launches"]).node;
        root.at(find_text(launches, &entry).unwrap_or(launches), "").hinted(message, hint);
    }
    if let Some(Ok(source)) = rendered.first() {
        takes_what_it_is_given(root, kernel, &source.text);
        variables_are_filled(root, kernel, &source.text);
    }
    if let Some(verdict) = rendered.into_iter().find_map(Result::err) {
        let span =
            root.node.get("kernel").and_then(|node| node.get("template")).map(|node| node.span.clone());
        let hint = format!("this is the default configuration: {configuration}");
        root.complain(&span.unwrap_or_default(), verdict.message, Some(hint));
    }
}

/// An entry with a parameter of a type that only a host program can make, in every definition that the source has of it.
fn texture_of(kernel: &KernelSpec, text: &str) -> Option<(String, String)> {
    let handle = |own: &&SourceParameter| {
        own.text.split(' ').any(|word| matches!(word, "cudaTextureObject_t" | "cudaSurfaceObject_t"))
    };
    kernel.launches.iter().find_map(|launch| {
        let SourceEntry::Read(definitions) = signature::find(text, &launch.entry) else { return None };
        let found: Vec<_> = definitions.iter().filter_map(|own| own.iter().find(handle)).collect();
        let first = found.first().filter(|_| found.len() == definitions.len())?;
        Some((launch.entry.clone(), first.text.clone()))
    })
}

/// A kernel is launched with what the file declares, whatever its own list says: a pointer taken for a number, or doubles
/// for floats, give answers that every variant would be blamed for.
fn takes_what_it_is_given(root: &Field, kernel: &KernelSpec, text: &str) {
    let taker = Taker { is_alone: kernel.launches.len() == 1, ..Taker::default() };
    for launch in &kernel.launches {
        let Some(given) = signature::declared(kernel, &launch.entry) else { continue };
        if let Some(table) = signature::mismatch(text, &launch.entry, &given, taker) {
            let message =
                format!("`{}` takes other arguments than the file declares:\n{table}", launch.entry);
            let hint = "an argument is declared with the `dtype`, the `role` and in the place that the source gives it";
            return root.below(&["arguments"]).hinted(message, hint);
        }
    }
}

fn variables_are_filled(root: &Field, kernel: &KernelSpec, text: &str) {
    let symbols = || kernel.arguments.iter().filter_map(|argument| argument.buffer()?.symbol.as_deref());
    let is_filled = |name: &str| symbols().any(|symbol| symbol.rsplit("::").next() == Some(name));
    if let Some(name) = unfilled(text, is_filled) {
        let tokens = tokens(text);
        let reads = |entry: &&str| signature::body_of(&tokens, entry).contains(&name);
        let entries = || kernel.launches.iter().map(|launch| launch.entry.as_str());
        let by = entries().find(reads).map_or(String::new(), |entry| format!(" by `{entry}`"));
        let message =
            format!("the variable `{name}` is read{by} and filled by nobody: it is zero in every call");
        let hint = format!(
            "an argument with `symbol = \"{name}\"` fills it before each call; or give it a value in the source"
        );
        root.below(&["kernel"]).hinted(message, hint);
    }
}

fn reference_takes_what_it_is_given(root: &Field, kernel: &KernelSpec) {
    let ReferenceSpec::Kernel { source, launches, real, .. } = &kernel.check.reference else { return };
    let taker = Taker { is_reference: true, real: *real, is_alone: launches.len() == 1 };
    for launch in launches {
        let is_given = |argument: &ArgumentSpec| resolve::is_given_to_reference(kernel, argument);
        let Some(given) = resolve::declared(kernel, launch, is_given) else { continue };
        if let Some(table) = signature::mismatch(&source.text, &launch.entry, &given, taker) {
            let message = format!(
                "the reference kernel `{}` takes other arguments than it is given:\n{table}",
                launch.entry
            );
            let hint = match table.lines().any(|row| row.starts_with('>') && row.contains(": REAL")) {
                true => {
                    "its source says `REAL`, so every floating-point argument is passed as one: write `REAL` for it"
                }
                false => {
                    "it gets the kernel's arguments in their order, scratch too; `arguments = […]` in its table names \
                     others"
                }
            };
            root.below(&["check", "reference"]).hinted(message, hint);
        }
    }
}

/// The place in the file of a refused expression: its text, quoted, where it stands but once.
fn section_of<'a>(root: &Field<'a>, verdict: &Verdict) -> &'a Node {
    let evidence = |name: &str| verdict.evidence.get(name).and_then(|value| value.as_str());
    // Texts of ranges are short and stand elsewhere too.
    let arguments = root.node.get("arguments").and_then(Node::items).unwrap_or_default();
    let of_argument = [("fill_of", "fill"), ("check_of", "check")].into_iter().find_map(|(name, key)| {
        let name = evidence(name)?;
        arguments.iter().find(|item| item.text("name") == Some(name))?.get(key)
    });
    let by_text = || find_text(root.node, evidence("expression")?);
    of_argument.or_else(by_text).unwrap_or_else(|| root.below(&["problems"]).node)
}

fn find_text<'n>(node: &'n Node, wanted: &str) -> Option<&'n Node> {
    match &node.data {
        Data::Text(text) if text == wanted => Some(node),
        Data::List(items) => items.iter().find_map(|item| find_text(item, wanted)),
        Data::Table(entries) => entries.iter().find_map(|entry| find_text(&entry.value, wanted)),
        _ => None,
    }
}
