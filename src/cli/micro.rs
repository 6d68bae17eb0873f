//! `evo micro`: a cheap ranking of a space on one problem, from which the next sweep begins.
//!
//! The loop is a sweep's, with jobs that end after the small shapes and a screening. Its study lives in a folder of its
//! own for as long as the command runs: what stays is the ranking, which is a hint and no evidence.

use std::path::PathBuf;

use clap::Args;
use evo_protocol::device::DeviceInfo;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::micro::{MICRO_SCHEMA, MicroDevice, MicroRanking};
use evo_protocol::verdict::VERDICT_VERSION;
use evo_search::registry;
use evo_space::genome::{Configuration, ContentHash};
use evo_space::space::SearchSpace;
use evo_system::scratch::{ScratchFolder, ScratchPlace};
use serde_json::{Value, json};

use super::answer::Answer;
use super::call::Call;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::limits::LimitArgs;
use super::one_args::{SandboxMode, SpaceAccessArgs, jobs};
use super::session::{self, DeviceSetup};
use super::{cache, described, device_lane, evaluate, opened, output, progress, seed, sweep};
use crate::budget::{Budget, StopReason};
use crate::clock::CommandClock;
use crate::engine::micro::{MicroRecipe, ranked, tried};
use crate::engine::{Engine, Inbox, LanePart, NoSanitizer, Options, Parts, RunSummary, SanitizePlan, live};
use crate::event::Observer;
use crate::journal::micro_file::{self, MICRO};
use crate::journal::own_folder::OwnFolder;
use crate::journal::record::{FORMAT_UNEDITED, StudyHeader, now, space_hash};
use crate::kernel::resolve::resolve;
use crate::kernel::spec::{KernelSpec, ProblemSpec, SpaceFile};
use crate::kernel::tiny::{FilledDevice, FillingProblem, blocks, filling_problem};
use crate::report::micro;
use crate::report::width::stdout_width;
use crate::study::{EarlierResults, Study, StudyRequest, StudyWish};

/// Evaluations of a generation, a slice of bookkeeping.
const POPULATION: u32 = 16;
/// Points that stand for the space where the problem is chosen.
const STAND_INS: u64 = 32;
/// The folder of the study while the command runs.
const STUDY: &str = "micro";
/// What came of the search.
struct MicroOutcome {
    ranking: MicroRanking,
    problem: FillingProblem,
    summary: RunSummary,
    passed: usize,
}

/// Runs the command.
pub fn run(arguments: &MicroArgs, call: &Call) -> Result<Answer, CliError> {
    let clock = CommandClock::start();
    arguments.limits.begin_orderly(call)?;
    let mut budget = Budget::default().with_limit(&arguments.budget)?;
    budget.wall = budget.wall.into_iter().chain(arguments.limits.total.limit_total).min();
    let file = opened::space(&opened::space_name(arguments.space.as_deref())?, arguments.access.access())?;
    let kernel = session::kernel_of(&file)?;
    let setup = session::setup(&arguments.device, arguments.jobs)?
        .fenced(arguments.sandbox)
        .within(&arguments.limits);
    let timed = session::problems(kernel, setup.choice.kind, &arguments.problems)?;
    let seed = arguments.seed.map_or_else(seed::random, Ok)?;
    call.chose(Some(&setup.choice.spec), seed);
    // From here on others wait: two at once would disturb each other's times.
    let _turn = evaluate::take_turn(&arguments.out, &setup.choice)?;
    let micro = Micro { arguments, file: &file, kernel, setup: &setup, timed: &timed, seed };
    let done = micro.search(budget, clock, call)?;
    micro.report(&done, call)
}

/// A command line with everything that it names.
struct Micro<'a> {
    arguments: &'a MicroArgs,
    file: &'a SpaceFile,
    kernel: &'a KernelSpec,
    setup: &'a DeviceSetup,
    timed: &'a [&'a ProblemSpec],
    seed: u64,
}

impl Micro<'_> {
    fn space(&self) -> &SearchSpace {
        &self.file.space
    }

    /// The default configuration, and some that stand for the space.
    fn stand_ins(&self) -> Vec<Configuration> {
        let space = self.space();
        let spread = space.quasi_random(1).take(STAND_INS as usize);
        let genomes = std::iter::once(space.default_genome()).chain(spread);
        genomes.map(|genome| space.configuration(&genome)).collect()
    }

    /// Searches within the budget.
    fn search(&self, budget: Budget, clock: CommandClock, call: &Call) -> Result<MicroOutcome, CliError> {
        let inbox = Inbox::new();
        let farm = sweep::farm(self.setup, &inbox)?;
        let lane = device_lane::lane(self.setup, None, Some(self.kernel))?;
        let info = lane.info().clone();
        let timed: Vec<&ProblemSpec> = self.timed.iter().copied().filter(|one| one.timed).collect();
        let filled = FilledDevice { multiprocessors: info.multiprocessors, l2_bytes: info.l2_bytes };
        let filling = filling_problem(self.kernel, &self.stand_ins(), &timed, filled).ok_or_else(|| {
            CliError::usage("the default configuration has a launch plan for no timed problem")
        })?;
        let (problem, device) = (&filling.problem, MicroDevice::of(&info));
        call.know(|facts| {
            facts.device = Some(info.name.clone());
            facts.conditions =
                Some(described::conditions(&info, self.seed, std::slice::from_ref(&problem.name)));
        });
        let recipe = MicroRecipe(session::recipe(self.kernel, &[problem], self.setup, &lane, self.seed)?);
        let inputs = sweep::study_inputs(self.file, self.kernel, &session::search(self.setup), &farm);
        let hash = space_hash(&inputs);
        let folder = self.scratch()?;
        let wish = StudyWish::Begin;
        let request = StudyRequest { out: folder.path(), name: Some(STUDY), default_name: STUDY, wish };
        let choice = sweep::choose(self.space().count(), &budget, info.kind, POPULATION);
        let header = StudyHeader {
            inputs,
            space_hash: hash.clone(),
            valid: self.space().count().to_string(),
            problems: vec![problem.name.clone()],
            strategy: choice.strategy.to_string(),
            ..self.plain_header(info)
        };
        let mut study = Study::open(&request, header, clock.clone())?;
        live::watch_signals(inbox.sender())
            .map_err(|error| CliError::harness(format!("cannot watch for Ctrl-C: {error}")))?;
        let mut observer = self.observer(call);
        let parts = Parts {
            study: &mut study,
            space: self.space(),
            strategy: registry::create(choice.strategy, self.space(), self.seed)?,
            recipe: &recipe,
            compilers: Box::new(farm),
            lanes: LanePart::only(Box::new(lane), Box::new(NoSanitizer("a hint is not looked at"))),
            anchors: None,
            observer: &mut *observer,
            inbox,
            earlier: EarlierResults::default(),
        };
        call.leave_signals(true);
        let summary = Engine::new(parts, self.options(budget, clock)).and_then(Engine::run);
        call.leave_signals(false);
        let evaluations = &study.history.evaluations;
        let ranking = self.ranking(device, hash, &filling, evaluations);
        let passed = evaluations.iter().filter(|one| one.verdict.is_pass()).count();
        Ok(MicroOutcome { ranking, summary: summary?, passed, problem: filling.clone() })
    }

    /// What the file says of a search's evaluations.
    fn ranking(
        &self,
        device: MicroDevice,
        space_hash: ContentHash,
        filling: &FillingProblem,
        evaluations: &[Evaluation],
    ) -> MicroRanking {
        let plan = |own: &Configuration| resolve(self.kernel, own, &filling.problem);
        let ctas = |own: &Configuration| plan(own).map_or(0, |plan| blocks(&plan));
        MicroRanking {
            schema: MICRO_SCHEMA.to_string(),
            kernel: self.kernel.name.clone(),
            device,
            space_hash,
            problem: filling.problem.name.clone(),
            tried: tried(evaluations),
            ranked: ranked(evaluations, usize::from(self.arguments.top), filling.work, ctas),
        }
    }

    /// A folder for the study. The next ranking sweeps it, should this process be killed.
    fn scratch(&self) -> Result<ScratchFolder, CliError> {
        let place = ScratchPlace::new(self.setup.farm.cache.join("micro"));
        let made = place.probe().and_then(|()| {
            place.sweep();
            place.folder()
        });
        made.map_err(|error| CliError::harness(format!("cannot make a folder in the cache: {error}")))
    }
}

impl Micro<'_> {
    /// The parts of a header that no other program will read.
    fn plain_header(&self, device: DeviceInfo) -> StudyHeader {
        StudyHeader {
            format: FORMAT_UNEDITED,
            verdict_version: VERDICT_VERSION,
            evo: env!("CARGO_PKG_VERSION").to_string(),
            study: STUDY.to_string(),
            kernel: self.kernel.name.clone(),
            space: session::space_word(self.file),
            space_hash: space_hash(&[]),
            inputs: Vec::new(),
            conditions: None,
            definition: None,
            valid: String::new(),
            problems: Vec::new(),
            checked: Vec::new(),
            seed: self.seed,
            strategy: String::new(),
            budget: None,
            generations: None,
            population: POPULATION,
            ranking: self.kernel.objective.ranking,
            allow_trade: false,
            per_problem: false,
            demands_sanitizer: false,
            warnings: Vec::new(),
            device,
            environment: cache::look(),
            started_at: now(),
            at_ms: None,
        }
    }

    fn options(&self, budget: Budget, clock: CommandClock) -> Options {
        Options {
            budget,
            clock,
            population: POPULATION.try_into().expect("it is not 0"),
            finalists: 0,
            valid: self.space().count(),
            run_all: false,
            remeasure: true,
            sanitize: SanitizePlan::default(),
        }
    }

    /// Programs get one object, at the end.
    fn observer(&self, call: &Call) -> Box<dyn Observer> {
        if call.is_json() { Box::new(progress::Silent) } else { progress::observer(call) }
    }

    /// Writes the file where anything passed, and shows what it says.
    fn report(&self, done: &MicroOutcome, call: &Call) -> Result<Answer, CliError> {
        let MicroOutcome { ranking, problem, summary, passed } = done;
        let path = self.arguments.out.join(MICRO).display().to_string();
        let is_written = !ranking.ranked.is_empty();
        if is_written {
            let out = OwnFolder::create(&self.arguments.out).map_err(|error| {
                CliError::harness(format!("cannot open `{}`: {error}", self.arguments.out.display()))
            })?;
            micro_file::write(&out, ranking).map_err(|error| CliError::while_running(&error))?;
        }
        let reason = summary.end.reason;
        let exit = match reason {
            StopReason::Interrupted => ExitCode::Interrupted,
            StopReason::DeviceLost => ExitCode::DeviceLost,
            StopReason::Harness => ExitCode::Harness,
            _ if is_written => ExitCode::Done,
            _ => ExitCode::Failed,
        };
        let written = is_written.then_some(path.as_str());
        let own = self.object(done, written);
        if !call.is_json() {
            output::stdout(&micro::table(ranking, stdout_width()))?;
            let said = match written {
                Some(path) => format!("kept in {path}: the next sweep of this space begins with it"),
                None => "nothing passed, so no ranking was written".to_string(),
            };
            let idle = if problem.is_filled { "" } else { "; it does not fill the device" };
            output::stdout(&format!(
                "{} tried on `{}`{idle}, {passed} passed\n{said}\n",
                ranking.tried, ranking.problem
            ))?;
        }
        let brief =
            json!({ "file": written, "tried": ranking.tried, "passed": passed, "ranked": own["ranked"] });
        Ok(Answer::object(exit, &own).in_brief(brief))
    }

    /// The command's own fields: those of the file, and how it was made.
    fn object(&self, done: &MicroOutcome, written: Option<&str>) -> Value {
        let MicroOutcome { ranking, problem, summary, passed } = done;
        let mut own = json!({
            "file": written,
            "space": session::space_word(self.file),
            "seed": self.seed,
            "passed": passed,
            "reason": summary.end.reason,
            "work": problem.work,
            "is_filled": problem.is_filled,
            "measured_on": ranking.device,
        });
        for name in ["kernel", "space_hash", "problem", "tried", "ranked"] {
            own[name] = json!(ranking)[name].clone();
        }
        own
    }
}

/// `evo micro`
#[derive(Debug, Args)]
pub struct MicroArgs {
    /// Space file (TOML or JSON), or the name of an embedded space [default: the folder's only space file, or attention_simt]
    pub space: Option<String>,
    /// Configurations that the ranking keeps
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub top: u16,
    /// Evaluations (`500`), or wall time of the whole command (`90s`, `10m`)
    #[arg(long, value_name = "LIMIT", default_value = "60s", allow_negative_numbers = true)]
    pub budget: String,
    /// Seed of the search and of the inputs [default: random]
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// `auto`, `host`, `cuda` or `cuda:INDEX`
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Make the problem from one of these (repeatable) [default: all timed problems]
    #[arg(long = "problem", value_name = "NAME")]
    pub problems: Vec<String>,
    /// Folder for micro_best.json
    #[arg(long = "out", value_name = "DIR", default_value = "evidence")]
    pub out: PathBuf,
    /// Compile processes (default: cores)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = jobs())]
    pub jobs: Option<usize>,
    /// Whether native code of the host device runs behind fences; `off` keeps it in a process of its own only
    #[arg(long, value_enum, default_value_t = SandboxMode::On, value_name = "on|off", hide_possible_values = true)]
    pub sandbox: SandboxMode,
    #[command(flatten)]
    pub access: SpaceAccessArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}
