//! `evo build`: one candidate compiled for the device of this machine. The same object as `evo compile`.

use super::answer::Answer;
use super::args::BuildArgs;
use super::call::Call;
use super::compile::CompileTarget;
use super::compile::{self, CompileTask};
use super::error::CliError;
use super::{candidate, described, session};

/// Runs the command.
pub fn run(arguments: &BuildArgs, call: &Call) -> Result<Answer, CliError> {
    arguments.limits.begin(call)?;
    let access = arguments.access.access();
    let resolved = candidate::resolve(&arguments.words, &arguments.candidate, &arguments.device, access)?;
    described::candidate(call, &resolved);
    let setup = session::setup(&arguments.device, None)?;
    call.know(|facts| {
        facts.device = Some(setup.choice.name.clone().unwrap_or_else(|| setup.choice.spec.clone()))
    });
    let order = CompileTask {
        file: &resolved.file,
        target: CompileTarget::parse(&setup.choice.arch)?,
        genome: Some(resolved.genome.clone()),
        genomes: Box::new(std::iter::empty()),
        jobs: Some(1),
        deadline: arguments.limits.limit_compile,
    };
    compile::carry_out(order, call)
}
