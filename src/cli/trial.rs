//! One candidate on a device: what `test-one`, `test` and `benchmark` have in common. The engine compiles, judges and
//! times; this only brings the parts together.

use evo_protocol::device::DeviceInfo;
use evo_protocol::measurement::TimingMode;
use evo_space::shell::quote;

use super::aim::Aim;
use super::args::{SandboxMode, TestOneArgs};
use super::call::Call;
use super::error::CliError;
use super::session::{self, DeviceSetup};
use super::{aim, candidate, described, seed, words};
use crate::compile::{FULL_CACHE_HINT, compile_one, full_cache};
use crate::engine::candidate::{CandidateKind, ResolvedCandidate};
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
    /// What was found beyond the verdict; only of a candidate that passed and was to be timed.
    pub found: Option<T>,
}

/// A device that has just judged a candidate, for whatever else is asked of it.
pub struct Bench<'a> {
    /// The space with its own kernel, and a recipe for that.
    pub file: &'a SpaceFile,
    pub setup: &'a DeviceSetup,
    pub recipe: &'a KernelRecipe<'a>,
    pub lane: &'a mut Lane,
    /// The candidate's.
    pub job: &'a Job,
}

/// Judges the candidate that the arguments name; `further` is asked of one that passed and is to be timed.
pub fn run<T>(
    arguments: &TestOneArgs,
    call: &Call,
    aim: Aim,
    further: impl FnOnce(&mut Bench<'_>) -> Result<T, CliError>,
) -> Result<Tried<T>, CliError> {
    arguments.limits.begin(call)?;
    aim::check_names(&arguments.allow_not_run, aim)?;
    let access = arguments.access.access();
    let candidate = candidate::resolve(&arguments.words, &arguments.candidate, &arguments.device, access)?;
    described::candidate(call, &candidate);
    let ResolvedCandidate { file, configuration, genome, provenance } = &candidate;
    let kernel = session::kernel_of(file)?;
    let setup = session::setup(&arguments.device, None)?.fenced(arguments.sandbox).within(&arguments.limits);
    let problems = session::problems(kernel, setup.choice.kind, &arguments.problems)?;
    let seed = arguments.seed.map_or_else(seed::random, Ok)?;
    let mut setting = setting(arguments, seed, aim, &candidate, &setup);
    setting.kernel = kernel.name.clone();
    call.know(|facts| {
        facts.device = Some(setting.device.clone());
        facts.repro = setting.repro.clone();
    });
    let (is_persistent, mode) = (kernel.is_persistent, kernel.objective.ranking.timing());
    // Before a worker is started, because this verdict needs no device.
    if let Some(evaluation) = single::constraint_verdict(&file.space, configuration) {
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
    session::rehearse(&mut lane, kernel, &problems, configuration, &recipe)?;
    let made = single::job(&recipe, genome.clone(), configuration.clone(), true, |prepared| {
        compile(&setup, prepared)
    })?;
    let (single, job) = match made {
        Ok((begun, job)) => {
            let job = if aim == Aim::Gates { job.gates_only() } else { job };
            (begun.judged(lane.evaluate(&job, &Standing::default())), Some(job))
        }
        Err(evaluation) => (Single::refused(*evaluation), None),
    };
    let found = match &job {
        Some(job) if aim.goes_further() && single.evaluation.verdict.is_pass() && !single.lost => {
            // What a source stands in for is the space's own kernel.
            let space = match provenance.kind {
                CandidateKind::Source => Some(words::named_space(&arguments.words).open(access)?),
                _ => None,
            };
            let base = space.as_ref().unwrap_or(file);
            let kernel = session::kernel_of(base)?;
            let problems = session::problems(kernel, setup.choice.kind, &arguments.problems)?;
            let recipe = session::recipe(kernel, &problems, &setup, &lane, seed)?;
            let mut bench = Bench { file: base, setup: &setup, recipe: &recipe, lane: &mut lane, job };
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
    candidate: &ResolvedCandidate,
    setup: &DeviceSetup,
) -> Setting {
    let space = session::space_word(&candidate.file);
    let mut words = vec!["evo".to_string(), aim.command().to_string(), quote(&space).into_owned()];
    words.push(candidate::again(candidate, &arguments.candidate));
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
