//! `evo render`: exactly the text that the compiler gets, so that a person can read or compile it.

use evo_device::host::translate::SHIPPED_HEADERS;
use evo_protocol::binary::KernelSource;
use evo_protocol::specialization::Specialization;
use evo_space::genome::Configuration;

use super::answer::Answer;
use super::args::RenderArgs;
use super::call::Call;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::{candidate, described, output, session};
use crate::engine::candidate::ResolvedCandidate;
use crate::kernel::spec::KernelSpec;
use crate::kernel::{render, specialize};

/// Runs the command: the text on stdout; options and warnings on stderr. With `--json` one object.
pub fn run(arguments: &RenderArgs, call: &Call) -> Result<Answer, CliError> {
    if let Some(name) = &arguments.header {
        return header(name);
    }
    let resolved =
        candidate::resolve(&arguments.words, &arguments.candidate, "any", arguments.access.access())?;
    described::candidate(call, &resolved);
    let ResolvedCandidate { file, configuration, genome, .. } = &resolved;
    let kernel = session::kernel_to(file, "render")?;
    let source = match &arguments.problem {
        Some(name) => render::render_for(kernel, configuration, &constants(kernel, name)?),
        None => render::render(kernel, configuration),
    };
    let source = source.map_err(|verdict| {
        CliError::usage(format!("`{configuration}` does not render: {}", verdict.message))
    })?;
    if !arguments.json {
        output::stdout(&source.text)?;
        eprintln!(
            "options: {}",
            if source.options.is_empty() { "none".into() } else { source.options.join(" ") }
        );
        eprintln!("entries: {}", source.entries.join(" "));
        if let Some(reference) = kernel.check.reference.command_line() {
            eprintln!("reference: {reference}");
        }
    }
    for constraint in file.space.violations(genome) {
        let because = constraint.because.as_ref().map_or(String::new(), |why| format!(" ({why})"));
        eprintln!("warning: this configuration violates `{}`{because}", constraint.expr.text());
    }
    if !arguments.json {
        return Ok(ExitCode::Done.into());
    }
    let mut own = object(&kernel.name, configuration, &source);
    if let Some(reference) = kernel.check.reference.command_line() {
        own["reference"] = reference.into();
    }
    Ok(Answer::object(ExitCode::Done, &own))
}

/// The constants of a problem.
fn constants(kernel: &KernelSpec, name: &str) -> Result<Specialization, CliError> {
    match kernel.problems.iter().find(|problem| problem.name == name) {
        Some(problem) => Ok(specialize::constants_of(&kernel.specialize, problem)),
        None => {
            let names: Vec<&str> = kernel.problems.iter().map(|problem| problem.name.as_str()).collect();
            Err(CliError::usage(format!("there is no problem `{name}`"))
                .with_hint(format!("problems are {}", names.join(", "))))
        }
    }
}

fn header(name: &str) -> Result<Answer, CliError> {
    let Some((_, text)) = SHIPPED_HEADERS.iter().find(|(own, _)| *own == name) else {
        let names = SHIPPED_HEADERS.map(|(own, _)| own).join(", ");
        return Err(CliError::usage(format!("no header `{name}` ships with evo"))
            .with_hint(format!("the headers are {names}")));
    };
    output::stdout(text)?;
    Ok(ExitCode::Done.into())
}

fn object(kernel: &str, configuration: &Configuration, source: &KernelSource) -> serde_json::Value {
    serde_json::json!({
        "kernel": kernel,
        "configuration": configuration,
        "constants": source.constants,
        "hash": source.variant_hash,
        "code_hash": source.code_hash(),
        "file_name": source.file_name,
        "options": source.options,
        "entries": source.entries,
        "text": source.text,
    })
}
