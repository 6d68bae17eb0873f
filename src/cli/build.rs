//! `evo build`: one candidate compiled for the device of this machine. The same object as `evo compile`.

use super::answer::Answer;
use super::args::BuildArgs;
use super::call::Call;
use super::compile::{self, CompileTask};
use super::compile_target::CompileTarget;
use super::error::CliError;
use super::{session, words};

/// Runs the command.
pub fn run(arguments: &BuildArgs, call: &Call) -> Result<Answer, CliError> {
    arguments.limits.begin(call)?;
    let (file, _, genome) = words::parse(&arguments.words, arguments.access.access())?;
    let setup = session::setup(&arguments.device, None)?;
    call.know(|facts| {
        facts.device = Some(setup.choice.name.clone().unwrap_or_else(|| setup.choice.spec.clone()))
    });
    let order = CompileTask {
        file: &file,
        target: CompileTarget::parse(&setup.choice.arch)?,
        genome: Some(genome),
        genomes: Box::new(std::iter::empty()),
        jobs: Some(1),
        deadline: arguments.limits.limit_compile,
    };
    compile::carry_out(order, call)
}
