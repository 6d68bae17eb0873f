//! What a sweep is of: a kernel on a device, with its compilers and a worker that judges and times, and with the variants at
//! which compute-sanitizer looks; or, with `--device replay:FILE`, a recording that answers in the place of both.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evo_device::probe::DeviceChoice;
use evo_device::telemetry::GpuUtilization;
use evo_protocol::binary::Binary;
use evo_protocol::device::{DeviceInfo, DeviceKind, DeviceLimits};
use evo_protocol::worker::SpecialValues;
use evo_space::genome::Configuration;
use evo_space::space::SearchSpace;

use super::conditions::{JudgedUnder, definition, inputs};
use super::workers::{self, LaneOrder, StartedLane};
use crate::cli::args::SweepArgs;
use crate::cli::sanitize::{HostTwin, SanitizeWhen, tool_on};
use crate::cli::{CliError, DeviceSetup, Result, judge, session, words};
use crate::compile::CompileFarm;
use crate::engine::live::LiveCompilers;
use crate::engine::live_sanitizer::{DeviceSanitizer, TwinLooks};
use crate::engine::prepared::PreparedKernel;
use crate::engine::recipe::KernelRecipe;
use crate::engine::{
    Compilers, Inbox, LanePart, NoSanitizer, Recipe, SanitizePlan, Sanitizer, Utilization, single,
};
use crate::journal::definition::Conditions;
use crate::journal::record::{LaneAccount, StudyHeader, space_hash};
use crate::kernel::limits::constraints::DeviceSpace;
use crate::kernel::lint;
use crate::kernel::resolve::resolve;
use crate::kernel::spec::{KernelSpec, ProblemSpec, ReferenceSpec, ReplacedDefault, SpaceFile};
use crate::kernel::tiny::{FilledDevice, FillingProblem, filling_problem};
use crate::replay::Recording;
use crate::replay::device::{self, RecordedBuild, ReplayCompilers, ReplayDevice};
use crate::supervise::job::{Job, JobReach};
use crate::supervise::lane::LaneOptions;

/// Points that stand for the space where the problem of a cheap ranking is chosen.
const STAND_INS: usize = 32;

/// Compilers and a device, or a recording in their place, ready for the engine.
pub struct Stage<'a, R: Recipe> {
    pub recipe: R,
    pub compilers: Box<dyn Compilers<R::Prepared> + 'a>,
    pub lanes: Vec<LanePart<R::Job>>,
    pub header: StudyHeader,
    pub notices: Vec<String>,
}

/// The kernel of a space file on a device of this machine.
pub struct LiveSubject {
    /// Has a kernel and valid points. Its host twin has it too.
    pub file: Arc<SpaceFile>,
    /// The file's space without what the device cannot launch, where that is less.
    pub within: Option<DeviceSpace>,
    pub setup: DeviceSetup,
    problems: Vec<String>,
    workers: Option<Vec<LaneOrder>>,
    limit_tool: Duration,
    /// Variants are screened on one small problem alone, which is made once the device is known.
    pub is_hint: bool,
    /// The problem on which variants are only screened; absent before the start.
    pub filling: OnceLock<FillingProblem>,
}

impl LiveSubject {
    pub fn open(arguments: &SweepArgs) -> Result<LiveSubject> {
        let name = words::space_name(arguments.space.as_deref())?;
        let file = Arc::new(words::space(&name, arguments.limits.access())?);
        let kernel = session::kernel_of(&file)?;
        let workers = workers::orders(arguments)?;
        let setup = match &workers {
            None => session::setup(&arguments.device)?,
            Some(orders) => {
                workers::refuse_elsewhere(arguments, orders)?;
                session::setup_on(workers::device_choice(orders, &arguments.device)?)
            }
        };
        let mut setup = setup.fenced(arguments.sandbox).within(&arguments.limits);
        setup.farm.jobs = arguments.jobs.unwrap_or(setup.farm.jobs);
        setup.worker_command.clone_from(&arguments.worker_command);
        // Only for its errors, before anything is started; `start` asks again.
        let chosen = session::problems(kernel, setup.choice.kind, &arguments.problems)?;
        let limits = limits_of(&setup.choice);
        let within = limits.and_then(|own| DeviceSpace::fold(&file.space, &kernel.launches, &chosen, &own));
        let (problems, limit_tool) = (arguments.problems.clone(), arguments.limits.tool);
        let (is_hint, filling) = (false, OnceLock::new());
        Ok(LiveSubject { file, within, setup, problems, workers, limit_tool, is_hint, filling })
    }

    pub fn space(&self) -> &SearchSpace {
        self.within.as_ref().map_or(&self.file.space, |within| &within.space)
    }

    fn filled(
        &self,
        kernel: &KernelSpec,
        problems: &[&ProblemSpec],
        info: &DeviceInfo,
    ) -> Result<&FillingProblem> {
        let space = self.space();
        let genomes = std::iter::once(space.default_genome()).chain(space.quasi_random(1).take(STAND_INS));
        let stand_ins: Vec<Configuration> = genomes.map(|genome| space.configuration(&genome)).collect();
        let timed: Vec<&ProblemSpec> = problems.iter().copied().filter(|problem| problem.timed).collect();
        let device = FilledDevice { multiprocessors: info.multiprocessors, l2_bytes: info.l2_bytes };
        let filling = filling_problem(kernel, &stand_ins, &timed, device).ok_or_else(|| {
            CliError::usage("the default configuration has a launch plan for no timed problem")
        })?;
        Ok(self.filling.get_or_init(|| filling))
    }

    pub fn kernel_name(&self) -> &str {
        self.file.kernel.as_ref().map_or("", |kernel| &kernel.name)
    }

    pub fn tries_special_values(&self) -> bool {
        let kernel = self.file.kernel.as_ref();
        kernel.is_some_and(|kernel| kernel.check.special_values == SpecialValues::Reference)
    }

    pub fn demands_sanitizer(&self) -> bool {
        self.file.kernel.as_ref().is_some_and(|kernel| kernel.check.demands_sanitizer)
    }

    /// As `--device` names it: the first lane's where there are several.
    pub fn device_word<'a>(&'a self, named: &'a str) -> &'a str {
        if self.workers.is_some() { &self.setup.choice.spec } else { named }
    }

    /// The study's name where the user gave none: `KERNEL-DEVICE`.
    pub fn default_study(&self) -> String {
        format!("{}-{}", self.kernel_name(), self.setup.choice.kind.as_str())
    }

    /// The variant is known to pass. A worker runs meanwhile and is gone afterwards.
    pub fn job_of(&self, seed: u64, configuration: &Configuration) -> Result<(Job, LaneOptions)> {
        let kernel = session::kernel_of(&self.file)?;
        let problems = session::problems(kernel, self.setup.choice.kind, &self.problems)?;
        let lane = session::lane(&self.setup, Some(kernel))?;
        let recipe = session::recipe(kernel, &problems, &self.setup, lane.info(), seed)?;
        let genome = self.file.space.genome(configuration);
        let genome = genome.ok_or_else(|| CliError::harness("the variant is not of this space"))?;
        let compile = |prepared: &PreparedKernel| judge::compile(&self.setup, prepared);
        match single::job(&recipe, genome, configuration.clone(), false, compile)? {
            Ok((_, job)) => Ok((job, session::lane_options(&self.setup, Some(kernel))?)),
            Err(refused) => {
                Err(CliError::harness(format!("the variant is refused now: {}", refused.verdict.label())))
            }
        }
    }

    fn sanitizer(
        &self,
        (seed, is_demanded): (u64, bool),
        kernel: &KernelSpec,
        options: LaneOptions,
    ) -> DeviceSanitizer {
        let (kind, limit) = (self.setup.choice.kind, self.limit_tool);
        let twin = HostTwin::beside(kind, Arc::clone(&self.file), self.setup.sandbox, seed);
        DeviceSanitizer {
            kind,
            tool: tool_on(kind, None),
            options,
            checks: kernel.check.sanitizers.clone(),
            limit,
            is_demanded,
            stuck: Vec::new(),
            twin: twin.map(|twin| TwinLooks::new(Box::new(twin), limit)),
        }
    }

    /// `header` is that of the study on a device.
    pub fn start(
        &self,
        seed: u64,
        sanitize: SanitizePlan,
        header: impl FnOnce(DeviceInfo) -> StudyHeader,
        inbox: &Inbox<Vec<Binary>>,
    ) -> Result<Stage<'_, KernelRecipe<'_>>> {
        let kernel = session::kernel_of(&self.file)?;
        let problems = session::problems(kernel, self.setup.choice.kind, &self.problems)?;
        let farm = CompileFarm::start(self.setup.farm.clone())?;
        let mut lanes = self.lanes(kernel)?;
        let lane = &mut lanes.first_mut().ok_or_else(|| CliError::harness("no lane was started"))?.lane;
        let info = lane.info().clone();
        let problems = match self.is_hint {
            true => vec![&self.filled(kernel, &problems, &info)?.problem],
            false => problems,
        };
        let mut recipe = session::recipe(kernel, &problems, &self.setup, &info, seed)?;
        if self.is_hint {
            recipe.reach = JobReach::Hint;
        }
        let default = self.space().configuration(&self.space().default_genome());
        judge::rehearse(lane, kernel, &problems, &default, &recipe)?;
        // On the host device compilers would want the same processor.
        if matches!(kernel.check.reference, ReferenceSpec::Builtin { .. }) && info.kind == DeviceKind::Cuda {
            let plans = problems.iter().filter_map(|problem| resolve(kernel, &default, problem).ok());
            lane.answer_ahead(&recipe.check, plans.collect());
        }
        let names = |timed: bool| {
            let some = problems.iter().filter(|one| one.timed == timed);
            some.map(|one| one.name.clone()).collect::<Vec<_>>()
        };
        let judged = JudgedUnder {
            gates: lane.judge().to_string(),
            device: lane.info().clone(),
            settings: workers::lane_settings(lane),
            sandbox: self.setup.sandbox,
            sampling_max: self.setup.limits.sampling_max,
            kernel: kernel.clone(),
            check: recipe.check.clone(),
            references: recipe.references(),
            inputs: inputs(&self.file, kernel, &session::search(&self.setup), &farm),
        };
        // A worker that does not say which gates it has gives results that hold nowhere else.
        let conditions = (!lane.judge().is_empty()).then(|| judged.conditions());
        recipe.conditions = conditions.as_ref().map(Conditions::hash);
        let warnings = lint::warnings(kernel, &default);
        let warned = warnings.iter().map(|warning| format!("warning: {warning}"));
        let JudgedUnder { device, inputs, .. } = judged;
        let (lanes, notice) = self.parts(lanes, kernel, seed, sanitize);
        let notices = warned.chain(notice).collect();
        // Said when the file was opened; the study keeps it beside its other remarks.
        let on_device = self.within.as_ref().and_then(|within| within.replaced_default.as_ref());
        let replaced = self.file.replaced_default.iter().chain(on_device).map(ReplacedDefault::note);
        let warnings = replaced.chain(warnings.iter().cloned()).collect();
        let header = StudyHeader {
            space: session::space_word(&self.file),
            space_hash: space_hash(&inputs),
            inputs,
            conditions,
            definition: Some(definition(&self.file.space, kernel, &problems)),
            problems: names(true),
            checked: names(false),
            ranking: kernel.objective.ranking,
            allow_trade: kernel.objective.allow_trade,
            warnings,
            ..header(device)
        };
        Ok(Stage {
            recipe,
            compilers: Box::new(LiveCompilers { farm, inbox: inbox.sender() }),
            lanes,
            header,
            notices,
        })
    }

    fn lanes(&self, kernel: &KernelSpec) -> Result<Vec<StartedLane>> {
        if let Some(orders) = &self.workers {
            return workers::start_all(orders, &self.setup, kernel);
        }
        let lane = session::lane(&self.setup, Some(kernel))?;
        let options = Some(session::lane_options(&self.setup, Some(kernel))?);
        let (name, device_uuid) = (self.setup.choice.spec.clone(), lane.info().uuid.clone());
        let account = LaneAccount { name, device_uuid, ..LaneAccount::default() };
        Ok(vec![StartedLane { lane, account, options }])
    }

    fn parts(
        &self,
        lanes: Vec<StartedLane>,
        kernel: &KernelSpec,
        seed: u64,
        sanitize: SanitizePlan,
    ) -> (Vec<LanePart<Job>>, Option<String>) {
        let mut first = None;
        let mut parts = Vec::new();
        for StartedLane { lane, account, options } in lanes {
            let looks = options.filter(|_| sanitize.finalists);
            let device = looks.map(|options| self.sanitizer((seed, sanitize.demanded), kernel, options));
            let (sanitizer, notice) = ready_sanitizer(sanitize, self.setup.choice.kind, device);
            first.get_or_insert(notice);
            let watch = GpuUtilization::watch(&lane.info().uuid);
            let utilization = watch.map(|watch| Box::new(move || watch.mean()) as Utilization);
            parts.push(LanePart { device: Box::new(lane), sanitizer, account, utilization });
        }
        (parts, first.flatten())
    }
}

/// None for a GPU of a kind that is not known.
fn limits_of(choice: &DeviceChoice) -> Option<DeviceLimits> {
    match choice.kind {
        DeviceKind::Host => Some(evo_device::host::limits()),
        DeviceKind::Cuda => DeviceLimits::of_arch(&choice.arch),
        DeviceKind::Replay => None,
    }
}

/// Of a sweep that was asked for nothing else.
const EVERY: NonZeroU32 = NonZeroU32::new(5).expect("is not 0");

/// What the user or the space file asks for is demanded.
pub fn sanitize_plan(asked: Option<SanitizeWhen>, is_required: bool) -> Result<SanitizePlan> {
    let plan = |every, demanded| SanitizePlan { finalists: true, every, demanded };
    Ok(match asked {
        None => plan(Some(EVERY), is_required),
        Some(SanitizeWhen::Finalists) => plan(None, true),
        Some(SanitizeWhen::Every(every)) => plan(Some(every), true),
        Some(SanitizeWhen::Off) if is_required => {
            return Err(CliError::usage(
                "`--sanitize off`: the space file demands the sanitizer (`[check] sanitize = \"required\"`)",
            )
            .with_hint("leave the option out, or edit the space file"));
        }
        Some(SanitizeWhen::Off) => SanitizePlan::default(),
    })
}

/// A sanitizer for a lane, and what to tell people. `device` is absent for a lane by command: no tool of this machine can
/// look at its device.
fn ready_sanitizer(
    plan: SanitizePlan,
    kind: DeviceKind,
    device: Option<DeviceSanitizer>,
) -> (Box<dyn Sanitizer<Job>>, Option<String>) {
    const OUT_OF_REACH: &str = "the device of a lane by command is out of reach of this machine's tools";
    if !plan.finalists {
        return (Box::new(NoSanitizer("`--sanitize off`")), None);
    }
    let (why, by) = match &device {
        Some(device) => {
            (device.tool.as_ref().err().map(|failure| failure.message.clone()), "not looked at by")
        }
        None => (Some(OUT_OF_REACH.to_string()), "looked at neither by"),
    };
    let host = if device.is_none() { " nor on the host device" } else { "" };
    let notice = why.and_then(|why| match (plan.demanded, kind) {
        (true, _) => {
            Some(format!("warning: compute-sanitizer is demanded, so nothing will be confirmed: {why}"))
        }
        (false, DeviceKind::Cuda) => Some(format!("finalists are {by} compute-sanitizer{host}: {why}")),
        // No host device has the tool, so there is nothing to report.
        (false, DeviceKind::Host | DeviceKind::Replay) => None,
    });
    match device {
        Some(device) => (Box::new(device), notice),
        None => (Box::new(NoSanitizer(OUT_OF_REACH)), notice),
    }
}

pub struct ReplayedSubject {
    pub recording: Recording,
    /// `--device` without `replay:`, as the result names the recording.
    pub path: String,
    /// The space as the study's header names it, and its text where the user named one.
    space: String,
    space_text: String,
    jobs: usize,
}

impl ReplayedSubject {
    pub fn open(arguments: &SweepArgs, path: &Path) -> Result<ReplayedSubject> {
        refuse_others(arguments)?;
        let access = arguments.limits.access();
        let open = |name| words::space(name, access);
        let named = arguments.space.as_deref().map(open).transpose()?;
        let (space, space_text) = match &named {
            Some(file) => (session::space_word(file), file.text.clone()),
            None => (arguments.device.clone(), String::new()),
        };
        let recording = Recording::open_in(path, named.map(|file| file.space))?;
        let (path, jobs) = (path.display().to_string(), arguments.jobs.unwrap_or(1));
        Ok(ReplayedSubject { recording, path, space, space_text, jobs })
    }

    /// `KERNEL-replay-GPU` in letters that a folder may have.
    pub fn default_study(&self) -> String {
        let name = format!("{}-replay-{}", self.recording.kernel, self.recording.gpu);
        let plain = |letter: char| {
            if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' }
        };
        name.chars().map(plain).collect::<String>().trim_start_matches('.').to_string()
    }

    /// `header` is that of the study on a device.
    pub fn start(
        &self,
        header: impl FnOnce(DeviceInfo) -> StudyHeader,
        inbox: &Inbox<RecordedBuild>,
    ) -> Stage<'_, &Recording> {
        let recording = &self.recording;
        let header = StudyHeader {
            space: self.space.clone(),
            space_hash: device::space_hash(recording, &self.space_text),
            problems: vec![recording.problem.clone()],
            ..header(device::info(recording))
        };
        Stage {
            recipe: recording,
            compilers: Box::new(ReplayCompilers { jobs: self.jobs, sender: inbox.sender() }),
            lanes: LanePart::only(
                Box::new(ReplayDevice::new(recording)),
                Box::new(NoSanitizer("a recording launches nothing")),
            ),
            header,
            notices: self.notices(),
        }
    }

    fn notices(&self) -> Vec<String> {
        let Recording { name, format, notices, .. } = &self.recording;
        let rows = self.recording.rows().len();
        let first = format!(
            "this is a replay: nothing is compiled or run; the recording of `{name}` answers ({}, {rows} \
             configurations)",
            format.as_str()
        );
        [first].into_iter().chain(notices.iter().cloned()).collect()
    }
}

fn refuse_others(arguments: &SweepArgs) -> Result<()> {
    let (option, why) = if arguments.worker_command.is_some() {
        ("--worker-command", "a replay has no worker")
    } else if arguments.workers.is_some() {
        ("--workers", "a replay has no worker")
    } else if !arguments.problems.is_empty() {
        ("--problem", "a recording has one problem")
    } else if arguments.sanitize.is_some_and(|when| when != SanitizeWhen::Off) {
        ("--sanitize", "a recording launches nothing")
    } else {
        return Ok(());
    };
    let text = format!("`{option}` cannot be used with `--device {}`: {why}", arguments.device);
    Err(CliError::usage(text).with_hint("leave it out"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_tool_can_look_at_is_said() {
        let seen = |finalists, demanded, kind| {
            let plan = SanitizePlan { finalists, every: None, demanded };
            ready_sanitizer(plan, kind, None).1.unwrap_or_default()
        };
        assert!(
            seen(true, false, DeviceKind::Cuda).starts_with("finalists are looked at neither by compute-san")
        );
        assert!(seen(true, true, DeviceKind::Host).contains("nothing will be confirmed"));
        assert_eq!(seen(false, false, DeviceKind::Cuda), "");
        // No host device has the tool.
        assert_eq!(seen(true, false, DeviceKind::Host), "");
    }

    #[test]
    fn what_is_asked_for_is_demanded() {
        let seen = |asked, is_required| {
            sanitize_plan(asked, is_required)
                .map(|plan| (plan.finalists, plan.every.map(NonZeroU32::get), plan.demanded))
        };
        let three = NonZeroU32::new(3).unwrap();
        assert_eq!(seen(None, false).unwrap(), (true, Some(5), false));
        assert_eq!(seen(None, true).unwrap(), (true, Some(5), true));
        assert_eq!(seen(Some(SanitizeWhen::Finalists), false).unwrap(), (true, None, true));
        assert_eq!(seen(Some(SanitizeWhen::Every(three)), false).unwrap(), (true, Some(3), true));
        assert_eq!(seen(Some(SanitizeWhen::Off), false).unwrap(), (false, None, false));
        assert!(seen(Some(SanitizeWhen::Off), true).is_err());
    }
}
