//! `evo test-one`: one configuration through every gate, with what each saw.

use evo_space::shell::quote;

use super::args::TestOneArgs;
use super::candidate::{self, CandidateArgs};
use super::error::CliError;
use super::exit_code::ExitCode;
use super::session::{self, DeviceSetup};
use super::{output, seed};
use crate::compile::{FULL_CACHE_HINT, compile_one, full_cache};
use crate::engine::candidate::{Provenance, ResolvedCandidate};
use crate::engine::recipe::PreparedKernel;
use crate::engine::single::{self, Single};
use crate::report::single::{Setting, json, text};
use crate::supervise::job::Standing;

/// Runs the command.
pub fn run(arguments: &TestOneArgs) -> Result<ExitCode, CliError> {
    let access = arguments.access.access();
    let candidate = candidate::resolve(&arguments.words, &arguments.candidate, &arguments.device, access)?;
    let kernel = session::kernel_of(&candidate.file)?;
    let setup = session::setup(&arguments.device, None)?.fenced(arguments.sandbox);
    let problems = session::problems(kernel, setup.choice.kind, &arguments.problems)?;
    let seed = arguments.seed.map_or_else(seed::random, Ok)?;
    let mut setting = setting(seed, &candidate, &setup, &arguments.candidate);
    setting.kernel = kernel.name.clone();
    // Before a worker is started, because this verdict needs no device.
    if let Some(evaluation) = single::constraint_verdict(&candidate.file.space, &candidate.configuration) {
        return show(arguments, &setting, &candidate.provenance, &Single::refused(evaluation));
    }
    let mut lane = session::lane(&setup, arguments.worker_command.as_deref(), Some(kernel))?;
    setting.device = lane.info().name.clone();
    let recipe = session::recipe(kernel, &problems, &setup, &lane, seed)?;
    session::rehearse(&mut lane, kernel, &problems, &candidate.configuration, &recipe)?;
    let compile = |prepared: &PreparedKernel| {
        let answer = compile_one(&setup.farm, prepared.source.clone())?;
        match full_cache(&answer) {
            Some(message) => Err(CliError::harness(message).with_hint(FULL_CACHE_HINT)),
            None => Ok(answer),
        }
    };
    let (genome, configuration) = (candidate.genome.clone(), candidate.configuration.clone());
    let single = match single::job(&recipe, genome, configuration, true, compile)? {
        Ok((begun, job)) => begun.judged(lane.evaluate(&job, &Standing::default())),
        Err(evaluation) => Single::refused(*evaluation),
    };
    show(arguments, &setting, &candidate.provenance, &single)
}

fn setting(
    seed: u64,
    candidate: &ResolvedCandidate,
    setup: &DeviceSetup,
    arguments: &CandidateArgs,
) -> Setting {
    let space = session::space_word(&candidate.file);
    let again = candidate::again(candidate, arguments);
    Setting {
        repro: format!("evo test-one {} {again} --device {} --seed {seed}", quote(&space), setup.choice.spec),
        seed,
        space,
        kernel: String::new(),
        device: setup.choice.name.clone().unwrap_or_else(|| setup.choice.spec.clone()),
    }
}

fn show(
    arguments: &TestOneArgs,
    setting: &Setting,
    provenance: &Provenance,
    single: &Single,
) -> Result<ExitCode, CliError> {
    let (evaluation, attributes) = (&single.evaluation, &single.attributes);
    if arguments.json {
        let mut object = json(setting, evaluation, attributes);
        object["candidate"] = serde_json::to_value(provenance)?;
        output::print_json(&object)?;
    } else {
        output::stdout(&text(setting, evaluation, attributes))?;
    }
    Ok(match (single.lost, evaluation.verdict.is_pass()) {
        // First, because what a lost device answers says nothing about the variant.
        (true, _) => ExitCode::DeviceLost,
        (_, true) => ExitCode::Done,
        (_, false) if evaluation.verdict.is_trouble() => ExitCode::Harness,
        (_, false) => ExitCode::Failed,
    })
}
