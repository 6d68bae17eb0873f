//! One candidate on a device: what `test-one`, `test`, `benchmark` and `sanitize` have in common. The engine compiles,
//! judges and times; this only brings the parts together.
//!
//! [`ask`], [`AskedCandidate::open`] and [`OpenedCandidate::job`] lead from a command line to a job that nothing has judged yet; [`run`]
//! goes the whole way.

use evo_protocol::binary::Binary;
use evo_protocol::device::{DeviceInfo, DeviceKind};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::{BufferPlan, ProblemPlan};
use evo_space::genome::Configuration;

use super::aim::{self, Aim};
use super::call::Call;
use super::error::CliError;
use super::one_args::TestOneArgs;
use super::session::{self, DeviceSetup};
use super::{candidate, described, device_lane, seed, words};
use crate::compile::{FULL_CACHE_HINT, full_cache};
use crate::engine::candidate::{CandidateKind, ResolvedCandidate};
use crate::engine::ports::CompileAnswer;
use crate::engine::prepared::PreparedKernel;
use crate::engine::recipe::KernelRecipe;
use crate::engine::single::{self, Single, SingleJob};
use crate::kernel::resolve::resolve;
use crate::kernel::spec::{KernelSpec, ProblemSpec, ReferenceSpec, SpaceFile};
use crate::report::single::Setting;
use crate::supervise::job::{Job, Standing};
use crate::supervise::lane::{Lane, LaneError};

/// What became of the candidate.
pub struct Tried<T> {
    pub asked: AskedCandidate,
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
    /// What was found of it.
    pub single: &'a Single,
    /// Of the inputs.
    pub seed: u64,
}

/// What a command line asks for. No device is open yet.
pub struct AskedCandidate {
    pub candidate: ResolvedCandidate,
    pub setup: DeviceSetup,
    pub seed: u64,
    pub setting: Setting,
}

/// Reads what a command line asks for and notes it for the command's object.
pub fn ask(arguments: &TestOneArgs, call: &Call, aim: Aim) -> Result<AskedCandidate, CliError> {
    let until = match aim {
        // It ends in order by then, and leaves a line.
        Aim::Evaluate => {
            arguments.run.limits.begin_orderly(call)?;
            arguments.run.limits.total.until()
        }
        _ => {
            arguments.run.limits.begin(call)?;
            None
        }
    };
    aim::check_names(&arguments.allow_not_run, aim)?;
    let access = arguments.run.access.access();
    let mut candidate =
        candidate::resolve(&arguments.words, &arguments.candidate, &arguments.run.device, access)?;
    arguments.add_grid(&mut candidate.file);
    described::candidate(call, &candidate);
    let kernel = session::kernel_of(&candidate.file)?;
    let setup = session::setup_for(&arguments.run)?;
    let setup = DeviceSetup { until, ..setup };
    session::problems(kernel, setup.choice.kind, &arguments.problems)?;
    let seed = arguments.run.seed.map_or_else(seed::random, Ok)?;
    let setting = Setting {
        repro: call.chose(Some(&setup.choice.spec), seed),
        seed,
        space: session::space_word(&candidate.file),
        kernel: kernel.name.clone(),
        device: setup.choice.name.clone().unwrap_or_else(|| setup.choice.spec.clone()),
    };
    call.know(|facts| facts.device = Some(setting.device.clone()));
    Ok(AskedCandidate { candidate, setup, seed, setting })
}

/// A device that runs the candidate's kernel.
pub struct OpenedCandidate<'a> {
    asked: &'a AskedCandidate,
    pub lane: Lane,
    /// The candidate's.
    pub recipe: KernelRecipe<'a>,
}

impl AskedCandidate {
    /// The candidate's kernel.
    pub fn kernel(&self) -> Result<&KernelSpec, CliError> {
        session::kernel_of(&self.candidate.file)
    }

    /// The problems of a kernel that the command line asks for.
    pub fn problems<'a>(
        &self,
        kernel: &'a KernelSpec,
        arguments: &TestOneArgs,
    ) -> Result<Vec<&'a ProblemSpec>, CliError> {
        session::problems(kernel, self.setup.choice.kind, &arguments.problems)
    }

    /// The verdict on a candidate that violates constraints, which needs no device.
    pub fn refused(&self) -> Option<Evaluation> {
        single::constraint_verdict(&self.candidate.file.space, &self.candidate.configuration)
    }

    /// Opens the device and makes everything ready that all variants of the kernel need.
    pub fn open(&self, arguments: &TestOneArgs, call: &Call) -> Result<OpenedCandidate<'_>, CliError> {
        let lane =
            device_lane::lane(&self.setup, arguments.run.worker_command.as_deref(), Some(self.kernel()?))?;
        let device = lane.info().clone();
        let problems = self.problems(self.kernel()?, arguments)?;
        let names: Vec<String> = problems.iter().map(|problem| problem.name.clone()).collect();
        call.know(|facts| {
            facts.device = Some(device.name.clone());
            facts.conditions = Some(described::conditions(&device, self.seed, &names));
        });
        self.open_on(lane, arguments, true)
    }

    /// The same on a lane that is open already; `is_new` where its reference was not asked yet.
    pub fn open_on(
        &self,
        mut lane: Lane,
        arguments: &TestOneArgs,
        is_new: bool,
    ) -> Result<OpenedCandidate<'_>, CliError> {
        let kernel = self.kernel()?;
        let problems = self.problems(kernel, arguments)?;
        let recipe = session::recipe(kernel, &problems, &self.setup, &lane, self.seed)?;
        if is_new {
            rehearse(&mut lane, kernel, &problems, &self.candidate.configuration, &recipe)?;
        }
        Ok(OpenedCandidate { asked: self, lane, recipe })
    }
}

impl<'a> OpenedCandidate<'a> {
    /// Compiles the candidate: a job that nothing has judged yet, or why there is none. A deep one has what only thorough
    /// gates need.
    pub fn job(&self, deep: bool) -> Result<SingleJob<KernelRecipe<'a>>, CliError> {
        let ResolvedCandidate { configuration, genome, .. } = &self.asked.candidate;
        single::job(&self.recipe, genome.clone(), configuration.clone(), deep, |prepared| {
            compile(&self.asked.setup, prepared)
        })
    }
}

/// Judges the candidate that the arguments name; `further` is asked of one of which the aim wants to know more.
pub fn run<T>(
    arguments: &TestOneArgs,
    call: &Call,
    aim: Aim,
    further: impl FnOnce(&mut Bench<'_>) -> Result<T, CliError>,
) -> Result<Tried<T>, CliError> {
    run_asked(ask(arguments, call, aim)?, arguments, call, aim, further)
}

/// The same for what [`ask`] has read.
///
/// # Errors
/// Those of [`run`].
pub fn run_asked<T>(
    asked: AskedCandidate,
    arguments: &TestOneArgs,
    call: &Call,
    aim: Aim,
    further: impl FnOnce(&mut Bench<'_>) -> Result<T, CliError>,
) -> Result<Tried<T>, CliError> {
    let mut setting = asked.setting.clone();
    let kernel = asked.kernel()?;
    let (is_persistent, mode) = (kernel.is_persistent, kernel.objective.ranking.timing());
    // Before a worker is started, because this verdict needs no device.
    if let Some(evaluation) = asked.refused() {
        let single = Single::refused(evaluation);
        let (job, device, found) = (None, None, None);
        return Ok(Tried { asked, setting, single, job, device, mode, is_persistent, found });
    }
    let mut opened = asked.open(arguments, call)?;
    let device = opened.lane.info().clone();
    setting.device = device.name.clone();
    let (single, job) = match opened.job(true)? {
        Ok((begun, job)) => {
            let job = if aim == Aim::Gates { job.gates_only() } else { job };
            (begun.judged(opened.lane.evaluate(&job, &Standing::default())), Some(job))
        }
        Err(evaluation) => (Single::refused(*evaluation), None),
    };
    let found = match &job {
        Some(job) if aim.goes_beyond(&single.evaluation.verdict) && !single.lost => {
            // What a source stands in for is the space's own kernel.
            let space = match asked.candidate.provenance.kind {
                CandidateKind::Source => {
                    Some(words::named_space(&arguments.words).open(arguments.run.access.access())?)
                }
                _ => None,
            };
            let base = space.as_ref().unwrap_or(&asked.candidate.file);
            let kernel = session::kernel_of(base)?;
            let problems = asked.problems(kernel, arguments)?;
            let (setup, lane) = (&asked.setup, &mut opened.lane);
            let recipe = session::recipe(kernel, &problems, setup, lane, asked.seed)?;
            let mut bench =
                Bench { file: base, setup, recipe: &recipe, lane, job, single: &single, seed: asked.seed };
            Some(further(&mut bench)?)
        }
        _ => None,
    };
    drop(opened);
    Ok(Tried { asked, setting, single, job, device: Some(device), mode, is_persistent, found })
}

/// Compiles the sources of a configuration.
pub fn compile(
    setup: &DeviceSetup,
    prepared: &PreparedKernel,
) -> Result<CompileAnswer<Vec<Binary>>, CliError> {
    let answer = setup.compile_all(&prepared.sources)?;
    match full_cache(&answer) {
        Some(message) => Err(CliError::harness(message).with_hint(FULL_CACHE_HINT)),
        None => Ok(answer),
    }
}

/// Asks a reference by command about the smallest problem, before there is a study or a variant: a command that does
/// not work is a mistake in the space. Does nothing for other references.
pub fn rehearse(
    lane: &mut Lane,
    kernel: &KernelSpec,
    problems: &[&ProblemSpec],
    configuration: &Configuration,
    recipe: &KernelRecipe,
) -> Result<(), CliError> {
    let ReferenceSpec::Command(_) = &kernel.check.reference else { return Ok(()) };
    let elements = |plan: &ProblemPlan| plan.buffers.iter().map(BufferPlan::elements).sum::<u64>();
    let plans = problems.iter().filter_map(|problem| resolve(kernel, configuration, problem).ok());
    let Some(smallest) = plans.min_by_key(elements) else { return Ok(()) };
    match lane.prepare(recipe.judging().0, &[smallest]) {
        Ok(()) => Ok(()),
        Err(LaneError::Refused { error }) => Err(CliError::usage(error.message).with_hint(format!(
            "nothing of `{}` can be judged without its reference; `docs/space_files.md` says what a command is handed",
            kernel.name
        ))),
        Err(error @ LaneError::OutOfTime) => {
            Err(CliError::limit(format!("the reference was not computed: {error}")))
        }
        Err(error) => Err(CliError::harness(format!("the reference was not computed: {error}"))),
    }
}

/// Has a GPU's lane compute the answers of a built-in reference while the first proposals are compiled. On the host device
/// both would use the same processor.
pub fn answer_ahead(
    lane: &mut Lane,
    kernel: &KernelSpec,
    problems: &[&ProblemSpec],
    configuration: &Configuration,
    recipe: &KernelRecipe,
) {
    let is_builtin = matches!(kernel.check.reference, ReferenceSpec::Builtin { .. });
    if !is_builtin || lane.info().kind != DeviceKind::Cuda {
        return;
    }
    let plans = problems.iter().filter_map(|problem| resolve(kernel, configuration, problem).ok());
    lane.answer_ahead(recipe.judging().0, plans.collect());
}
