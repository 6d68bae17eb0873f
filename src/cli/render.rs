//! `evo render`: exactly the text that the compiler gets, so that a person can read or compile it.

use evo_device::host::translate::SHIPPED_HEADERS;
use evo_protocol::binary::{HEADER_END, KernelSource, Specialization};
use evo_space::genome::{Configuration, ContentHash};
use schemars::JsonSchema;
use serde::Serialize;

use super::args::RenderArgs;
use super::{Answer, Call, CliError, ExitCode, Result, candidate, output, session};
use crate::engine::candidate::ResolvedCandidate;
use crate::kernel::spec::KernelSpec;
use crate::kernel::{render, specialize};

/// Runs the command: the text on stdout, which compiles without further options; options and warnings on stderr. With `--json` one object.
pub fn run(arguments: &RenderArgs, call: &Call) -> Result<Answer> {
    if let Some(name) = &arguments.header {
        return header(name);
    }
    let resolved =
        candidate::resolve(&arguments.words, &arguments.candidate, "any", arguments.limits.access())?;
    session::candidate(call, &resolved);
    let ResolvedCandidate { file, configuration, genome, .. } = &resolved;
    let kernel = session::kernel_to(file, "render")?;
    let source = match &arguments.problem {
        Some(name) => render::render_for(kernel, configuration, &constants(kernel, name)?),
        None => render::render(kernel, configuration),
    };
    let source = source.map_err(|verdict| {
        CliError::usage(format!("`{configuration}` does not render: {}", verdict.message))
    })?;
    if !call.is_json() {
        output::stdout(&standalone(&source))?;
        let has_options = !source.options.is_empty();
        eprintln!("options: {}", if has_options { source.options.join(" ") } else { "none".into() });
        eprintln!("entries: {}", source.entries.join(" "));
        if let Some(reference) = kernel.check.reference.command_line() {
            eprintln!("reference: {reference}");
        }
    }
    for constraint in file.space.violations(genome) {
        let because = constraint.because.as_ref().map_or(String::new(), |why| format!(" ({why})"));
        eprintln!("warning: this configuration violates `{}`{because}", constraint.expr.text());
    }
    let own = Rendered {
        kernel: &kernel.name,
        configuration,
        constants: &source.constants,
        hash: &source.variant_hash,
        code_hash: source.code_hash(),
        file_name: &source.file_name,
        options: &source.options,
        entries: &source.entries,
        text: &source.text,
        reference: kernel.check.reference.command_line(),
    };
    Ok(Answer::of(ExitCode::Done, &own))
}

/// The text with the macros of its options, so that `evo render > k.cu` is a whole kernel. They stand before the `#line` of
/// the user's source, whose lines keep their numbers; a template's lines are those of the text itself, and its macros
/// stay options. Given once more on a command line, a macro of an option has the last word.
fn standalone(source: &KernelSource) -> String {
    let Some((header, body)) = source.text.split_once(HEADER_END) else { return source.text.clone() };
    if !body.starts_with("#line 1 ") {
        return source.text.clone();
    }
    let given = source.options.iter().filter_map(|option| option.strip_prefix("-D"));
    let macros: String = given
        .map(|given| {
            let (name, value) = given.split_once('=').unwrap_or((given, "1"));
            // `F(x)` is a macro `F`.
            let plain = name.split('(').next().unwrap_or(name);
            format!("#ifndef {plain}\n#define {name} {value}\n#endif\n")
        })
        .collect();
    format!("{header}{HEADER_END}{macros}{body}")
}

fn constants(kernel: &KernelSpec, name: &str) -> Result<Specialization> {
    match kernel.problems.iter().find(|problem| problem.name == name) {
        Some(problem) => Ok(specialize::constants_of(&kernel.specialize, problem)),
        None => {
            let names: Vec<&str> = kernel.problems.iter().map(|problem| problem.name.as_str()).collect();
            Err(CliError::usage(format!("there is no problem `{name}`"))
                .with_hint(format!("problems are {}", names.join(", "))))
        }
    }
}

fn header(name: &str) -> Result<Answer> {
    let Some((_, text)) = SHIPPED_HEADERS.iter().find(|(own, _)| *own == name) else {
        let names = SHIPPED_HEADERS.map(|(own, _)| own).join(", ");
        return Err(CliError::usage(format!("no header `{name}` ships with evo"))
            .with_hint(format!("the headers are {names}")));
    };
    output::stdout(text)?;
    Ok(ExitCode::Done.into())
}

/// `evo render`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Rendered<'a> {
    kernel: &'a str,
    configuration: &'a Configuration,
    #[schemars(with = "std::collections::BTreeMap<String, i64>")]
    constants: &'a Specialization,
    hash: &'a ContentHash,
    code_hash: ContentHash,
    file_name: &'a str,
    options: &'a [String],
    entries: &'a [String],
    text: &'a str,
    /// The command that gives expected answers, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(body: &str) -> KernelSource {
        KernelSource {
            options: ["-DA=4", "--use_fast_math", "-DB", "-DF(x)=x"].map(String::from).into(),
            ..KernelSource::plain("k.cu", format!("// evo: k A=4\n{HEADER_END}{body}"), [""; 0])
        }
    }

    #[test]
    fn the_printed_source_brings_its_macros() {
        insta::assert_snapshot!(standalone(&source("#line 1 \"k.cu\"\nint a[A];\n")));
        let template = source("#line 4 \"k.cu\"\nint a[4];\n");
        assert_eq!(standalone(&template), template.text, "lines of a template are those of the text");
    }
}
