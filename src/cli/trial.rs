//! One candidate on a device: what `test-one`, `test` and `benchmark` have in common. The engine compiles, judges and
//! times; this only brings the parts together.

use evo_protocol::device::DeviceInfo;
use evo_protocol::measurement::TimingMode;
use evo_space::genome::Configuration;
use evo_space::shell::quote;

use super::aim::Aim;
use super::args::{SandboxMode, TestOneArgs};
use super::call::Call;
use super::error::CliError;
use super::session::{self, DeviceSetup};
use super::{aim, described, seed, words};
use crate::compile::{FULL_CACHE_HINT, compile_one, full_cache};
use crate::engine::ports::CompileAnswer;
use crate::engine::recipe::{KernelRecipe, PreparedKernel};
use crate::engine::single::{self, Single};
use crate::kernel::spec::SpaceFile;
use crate::report::single::Setting;
use crate::supervise::job::{Job, Standing};
use crate::supervise::lane::Lane;

/// What became of the candidate.
pub struct Tried<T> {
    pub setting: Setting,
    pub single: Single,
    /// As it was judged; absent for one that was refused before.
    pub job: Option<Job>,
    /// Absent where no device was opened.
    pub device: Option<DeviceInfo>,
    /// The timing mode that ranks.
    pub mode: TimingMode,
    /// Whether the kernel is declared persistent.
    pub is_persistent: bool,
    /// What was found beyond the verdict; only of a candidate that passed.
    pub found: Option<T>,
}

/// A device that has just judged a candidate, for whatever else is asked of it.
pub struct Bench<'a> {
    pub file: &'a SpaceFile,
    pub setup: &'a DeviceSetup,
    pub recipe: &'a KernelRecipe<'a>,
    pub lane: &'a mut Lane,
    /// The candidate's.
    pub job: &'a Job,
}

/// Judges the candidate that the arguments name; `further` is asked of one that passed.
pub fn run<T>(
    arguments: &TestOneArgs,
    call: &Call,
    aim: Aim,
    further: impl FnOnce(&mut Bench<'_>) -> Result<T, CliError>,
) -> Result<Tried<T>, CliError> {
    arguments.limits.begin(call)?;
    aim::check_names(&arguments.allow_not_run, aim)?;
    let (file, configuration, genome) = words::parse(&arguments.words, arguments.access.access())?;
    call.know(|facts| facts.candidate = Some(described::candidate(&file, &configuration)));
    let kernel = session::kernel_of(&file)?;
    let setup = session::setup(&arguments.device, None)?.fenced(arguments.sandbox).within(&arguments.limits);
    let problems = session::problems(kernel, setup.choice.kind, &arguments.problems)?;
    let seed = arguments.seed.map_or_else(seed::random, Ok)?;
    let mut setting = setting(arguments, seed, aim, &file, &setup, &configuration);
    setting.kernel = kernel.name.clone();
    call.know(|facts| {
        facts.device = Some(setting.device.clone());
        facts.repro = setting.repro.clone();
    });
    let (is_persistent, mode) = (kernel.is_persistent, kernel.objective.ranking.timing());
    // Before a worker is started, because this verdict needs no device.
    if let Some(evaluation) = single::constraint_verdict(&file.space, &configuration) {
        let single = Single::refused(evaluation);
        return Ok(Tried { setting, single, job: None, device: None, mode, is_persistent, found: None });
    }
    let mut lane = session::lane(&setup, arguments.worker_command.as_deref(), Some(kernel))?;
    let device = lane.info().clone();
    setting.device = device.name.clone();
    let names: Vec<String> = problems.iter().map(|problem| problem.name.clone()).collect();
    call.know(|facts| {
        facts.device = Some(device.name.clone());
        facts.conditions = Some(described::conditions(&device, seed, &names));
    });
    let recipe = session::recipe(kernel, &problems, &setup, &lane, seed)?;
    let made = single::job(&recipe, genome, configuration, true, |prepared| compile(&setup, prepared))?;
    let (single, job) = match made {
        Ok((begun, job)) => {
            let job = if aim == Aim::Gates { job.gates_only() } else { job };
            (begun.judged(lane.evaluate(&job, &Standing::default())), Some(job))
        }
        Err(evaluation) => (Single::refused(*evaluation), None),
    };
    let found = match &job {
        Some(job) if single.evaluation.verdict.is_pass() && !single.lost => {
            let mut bench = Bench { file: &file, setup: &setup, recipe: &recipe, lane: &mut lane, job };
            Some(further(&mut bench)?)
        }
        _ => None,
    };
    Ok(Tried { setting, single, job, device: Some(device), mode, is_persistent, found })
}

/// Compiles one source.
///
/// # Errors
/// The compiler does not start, or the cache is full.
pub fn compile(
    setup: &DeviceSetup,
    prepared: &PreparedKernel,
) -> Result<CompileAnswer<evo_protocol::binary::Binary>, CliError> {
    let answer = compile_one(&setup.farm, prepared.source.clone())?;
    match full_cache(&answer) {
        Some(message) => Err(CliError::harness(message).with_hint(FULL_CACHE_HINT)),
        None => Ok(answer),
    }
}

fn setting(
    arguments: &TestOneArgs,
    seed: u64,
    aim: Aim,
    file: &SpaceFile,
    setup: &DeviceSetup,
    configuration: &Configuration,
) -> Setting {
    let space = session::space_word(file);
    let mut words = vec!["evo".to_string(), aim.command().to_string(), quote(&space).into_owned()];
    words.extend(configuration.iter().map(|(name, value)| quote(&format!("{name}={value}")).into_owned()));
    words.extend([format!("--device {}", setup.choice.spec), format!("--seed {seed}")]);
    words.extend(options(arguments));
    Setting {
        repro: words.join(" "),
        seed,
        space,
        kernel: String::new(),
        device: setup.choice.name.clone().unwrap_or_else(|| setup.choice.spec.clone()),
    }
}

/// The options that decide what came of it, as they were given.
fn options(arguments: &TestOneArgs) -> Vec<String> {
    let mut words: Vec<String> =
        arguments.problems.iter().map(|problem| format!("--problem {}", quote(problem))).collect();
    words.extend(
        arguments.worker_command.iter().map(|command| format!("--worker-command {}", quote(command))),
    );
    if arguments.sandbox == SandboxMode::Off {
        words.push("--sandbox off".to_string());
    }
    words.extend(arguments.allow_not_run.iter().map(|name| format!("--allow-not-run {}", quote(name))));
    words.extend(arguments.access.words());
    words.extend(arguments.limits.words());
    words
}
