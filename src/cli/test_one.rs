//! `evo test-one`: one configuration through every gate, with what each saw.

use evo_space::genome::Configuration;
use evo_space::shell::quote;

use super::args::TestOneArgs;
use super::exit_code::{ExitCode, UsageError};
use super::progress::print_json;
use super::session::{self, Place};
use super::words;
use crate::compile::{compile_one, full_cache};
use crate::engine::recipe::PreparedKernel;
use crate::engine::single::{self, Single};
use crate::kernel::spec::SpaceFile;
use crate::report::single::{Setting, json, text};
use crate::supervise::job::Standing;

/// Runs the command.
pub fn run(arguments: &TestOneArgs) -> anyhow::Result<ExitCode> {
    let (file, configuration, genome) = words::parse(&arguments.words)?;
    let kernel = session::kernel_of(&file)?;
    let place = session::place(&arguments.device, None)?;
    let problems = session::problems(kernel, place.choice.kind, &arguments.problems)?;
    let mut setting = setting(arguments, &file, &place, &configuration);
    setting.kernel = kernel.name.clone();
    if let Some(evaluation) = single::constraint_verdict(&file.space, &configuration) {
        return show(arguments, &setting, &Single::refused(evaluation));
    }
    let mut lane = session::lane(&place, arguments.worker_command.as_deref())?;
    setting.device = lane.info().name.clone();
    let recipe = session::recipe(kernel, &problems, &place, &lane, arguments.seed)?;
    let compile = |prepared: &PreparedKernel| {
        let answer = compile_one(&place.farm, prepared.source.clone()).map_err(session::setup_error)?;
        match full_cache(&answer) {
            Some(message) => Err(anyhow::Error::from(UsageError(message))),
            None => Ok(answer),
        }
    };
    let single = match single::job(&recipe, genome, configuration, true, compile)? {
        Ok((begun, job)) => begun.judged(lane.evaluate(&job, &Standing::default())),
        Err(evaluation) => Single::refused(*evaluation),
    };
    show(arguments, &setting, &single)
}

fn setting(
    arguments: &TestOneArgs,
    file: &SpaceFile,
    place: &Place,
    configuration: &Configuration,
) -> Setting {
    let space = session::space_word(file);
    let word = |(name, value)| quote(&format!("{name}={value}")).into_owned();
    let words: Vec<String> = configuration.iter().map(word).collect();
    Setting {
        repro: format!(
            "evo test-one {} {} --device {} --seed {}",
            quote(&space),
            words.join(" "),
            place.choice.spec,
            arguments.seed
        ),
        space,
        kernel: String::new(),
        device: place.choice.name.clone().unwrap_or_else(|| place.choice.spec.clone()),
    }
}

fn show(arguments: &TestOneArgs, setting: &Setting, single: &Single) -> anyhow::Result<ExitCode> {
    let (evaluation, attributes) = (&single.evaluation, &single.attributes);
    if arguments.json {
        print_json(&json(setting, evaluation, attributes))?;
    } else {
        super::stdout(&text(setting, evaluation, attributes))?;
    }
    Ok(match (single.lost, evaluation.verdict.is_pass()) {
        (true, _) => ExitCode::DeviceLost,
        (_, true) => ExitCode::Done,
        (_, false) => ExitCode::Failed,
    })
}
