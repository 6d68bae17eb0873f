//! One candidate through the judge, for every command that has one judged: read from the command line, compiled, gated,
//! timed, and beside a rival where the command asks for that.
//!
//! [`ask`] reads what a command line asks for, and [`AskedCandidate::on_device`] judges it; [`run`] is for the commands
//! whose answer is the verdict.

use std::io;
use std::path::PathBuf;

use evo_protocol::binary::Binary;
use evo_protocol::device::DeviceInfo;
use evo_protocol::envelope::{CommandEnvelope, EnvelopeStatus, LimitName};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::measurement::{Measurement, TimingMode};
use evo_protocol::plan::{BufferPlan, ProblemPlan};
use evo_protocol::request::EvaluationLevel;
use evo_protocol::verdict::{Gate, GateReport, GateState, Verdict, VerdictClass, VerdictKind};
use evo_space::document::suggestion;
use evo_space::genome::{Configuration, ContentHash, Genome};
use serde_json::Value;

use super::candidate::CandidateArgs;
use super::rival::ChosenRival;
use super::{
    Answer, Call, CliError, DeviceSetup, ExitCode, Result, TestOneArgs, candidate, output, seed, session,
    words,
};
use crate::compile::{FULL_CACHE_HINT, full_cache};
use crate::engine::candidate::{CandidateKind, ResolvedCandidate};
use crate::engine::ports::{CompileAnswer, PairAnswer};
use crate::engine::prepared::PreparedKernel;
use crate::engine::recipe::KernelRecipe;
use crate::engine::single::{self, Single, SingleJob};
use crate::journal::leaderboard::roofline_ns;
use crate::journal::own_folder::OwnFolder;
use crate::journal::record::ProblemWork;
use crate::kernel::resolve::resolve;
use crate::kernel::spec::{KernelSpec, ProblemSpec, ReferenceSpec, SpaceFile};
use crate::report::judged::{
    EvaluatedProblem, Measured, Pairs, Setting, VerdictAnswer, VerdictBrief, VerdictFields, geometric_mean,
    text,
};
use crate::supervise::job::{Job, JobReach, Judgement, Standing};
use crate::supervise::lane::{Lane, LaneError, LaneOptions};
use crate::timing::acceptance::{RivalFindings, RivalProblem, TimeRatio, tail_ratio};

pub const BASELINE: &str = "baseline";
pub const PROFILE: &str = "profile";
pub const SANITIZE: &str = "sanitize";
pub const CROSSCHECK: &str = "crosscheck";
pub const HARNESSES: [&str; 5] = ["nvbench", "torch", "kernelbench", "cutlass", "command"];
pub const INVERT: &str = "invert";
pub const GOALS: [&str; 3] = ["faster_than", "metrics", "p90"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Every gate, and its time.
    Whole,
    Compile,
    /// Every gate on its answers; nothing is timed.
    Gates,
    Tiny,
    /// Every gate, less deeply, and a short measurement.
    Quick,
    /// Also the default configuration's time beside it.
    Times,
    Evaluate,
    Gate,
    Profile,
    /// Also the times of harmed copies beside it.
    Invert,
    /// Also what others' clocks say of it.
    Crosscheck,
    /// No gate: a tool watches its launches.
    Sanitize,
}

impl Aim {
    pub fn of(level: EvaluationLevel) -> Aim {
        match level {
            EvaluationLevel::Compile => Aim::Compile,
            EvaluationLevel::Tiny => Aim::Tiny,
            EvaluationLevel::Quick => Aim::Quick,
            EvaluationLevel::Full | EvaluationLevel::Confirm => Aim::Evaluate,
        }
    }

    /// Others may find right what is wrong.
    fn goes_beyond(self, verdict: &Verdict) -> bool {
        match self {
            Aim::Times | Aim::Profile | Aim::Invert => verdict.is_pass(),
            Aim::Crosscheck => verdict.is_pass() || verdict.kind.class() == VerdictClass::Wrong,
            _ => false,
        }
    }

    /// The gates that it demands. `confirmation` compares two variants, which only a sweep does.
    pub fn demanded(self) -> impl Iterator<Item = Gate> {
        let last = match self {
            Aim::Gates => Some(Gate::Repeatability),
            Aim::Tiny => Some(Gate::TinyShapes),
            Aim::Sanitize | Aim::Compile => None,
            _ => Some(Gate::Honesty),
        };
        Gate::ALL.iter().copied().filter(move |gate| last.is_some_and(|last| *gate <= last))
    }

    pub fn depth(self) -> JobDepth {
        let reach = match self {
            Aim::Compile => JobReach::Whole,
            Aim::Tiny => JobReach::Tiny,
            Aim::Quick => JobReach::Screening,
            _ => JobReach::Deep,
        };
        JobDepth { reach, is_timed: self != Aim::Gates }
    }

    pub fn check_names(self, names: &[String]) -> Result<()> {
        let beside: Vec<&str> = match self {
            Aim::Times => vec![BASELINE],
            Aim::Gate => GOALS.into_iter().chain([SANITIZE]).collect(),
            Aim::Profile => vec![PROFILE],
            Aim::Invert => vec![INVERT],
            Aim::Crosscheck => HARNESSES.into_iter().chain([CROSSCHECK]).collect(),
            _ => vec![SANITIZE],
        };
        let known: Vec<&str> = self.demanded().map(Gate::as_str).chain(beside).collect();
        let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) else { return Ok(()) };
        let hint = suggestion(unknown, known.iter().copied(), || format!("there are {}", known.join(", ")));
        Err(CliError::usage(format!("`--allow-not-run {unknown}`: nothing that runs here has this name"))
            .with_hint(hint))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobDepth {
    pub reach: JobReach,
    /// Otherwise the gates alone.
    pub is_timed: bool,
}

impl JobDepth {
    fn is_deep(self) -> bool {
        self.reach == JobReach::Deep
    }

    fn of(self, job: Job) -> Job {
        let job = if self.is_timed { job } else { job.gates_only() };
        Job { reach: self.reach, ..job }
    }
}

pub struct AskedCandidate {
    pub options: TestOneArgs,
    pub candidate: ResolvedCandidate,
    pub setup: DeviceSetup,
    pub seed: u64,
    pub setting: Setting,
}

pub fn ask(options: &TestOneArgs, call: &Call, aim: Aim) -> Result<AskedCandidate> {
    Ok(ask_checked(options, call, aim, |_| Ok(()))?.0)
}

/// The same with a check of the command's own, whose error is told before any of the device.
pub fn ask_checked<T>(
    options: &TestOneArgs,
    call: &Call,
    aim: Aim,
    check: impl FnOnce(&KernelSpec) -> Result<T>,
) -> Result<(AskedCandidate, T)> {
    let limits = &options.run.limits;
    let until = match aim {
        // It ends in order by then, and leaves a line.
        Aim::Evaluate => {
            limits.begin_orderly(call)?;
            limits.until()
        }
        _ => {
            limits.begin(call)?;
            None
        }
    };
    aim.check_names(&options.allow_not_run)?;
    let access = options.run.limits.access();
    let mut candidate = candidate::resolve(&options.words, &options.candidate, &options.run.device, access)?;
    options.add_grid(&mut candidate.file);
    session::candidate(call, &candidate);
    let kernel = session::kernel_of(&candidate.file)?;
    let checked = check(kernel)?;
    let mut setup = session::setup_for(&options.run)?;
    setup.limits.until = until;
    session::problems(kernel, setup.choice.kind, &options.problems)?;
    let seed = options.run.seed.map_or_else(seed::random, Ok)?;
    let setting = Setting {
        repro: call.chose(Some(&setup.choice.spec), seed),
        seed,
        space: session::space_word(&candidate.file),
        kernel: kernel.name.clone(),
        device: setup.device_name(),
    };
    call.know(|facts| facts.device = Some(setting.device.clone()));
    Ok((AskedCandidate { options: options.clone(), candidate, setup, seed, setting }, checked))
}

impl AskedCandidate {
    pub fn kernel(&self) -> Result<&KernelSpec> {
        session::kernel_of(&self.candidate.file)
    }

    fn problems<'a>(&self, kernel: &'a KernelSpec) -> Result<Vec<&'a ProblemSpec>> {
        session::problems(kernel, self.setup.choice.kind, &self.options.problems)
    }

    fn recipe<'a>(&self, kernel: &'a KernelSpec, lane: &Lane) -> Result<KernelRecipe<'a>> {
        session::recipe(kernel, &self.problems(kernel)?, &self.setup, lane.info(), self.seed)
    }

    pub fn lane_options(&self) -> Result<LaneOptions> {
        session::lane_options(&self.setup, Some(self.kernel()?))
    }

    pub fn is_allowed(&self, name: &str) -> bool {
        self.options.allow_not_run.iter().any(|allowed| allowed == name)
    }

    pub fn refused(&self) -> Result<Option<Judged>> {
        let refused = single::constraint_verdict(&self.candidate.file.space, &self.candidate.configuration);
        refused.map(|evaluation| self.judged(Single::refused(evaluation))).transpose()
    }

    /// A candidate that did not reach the device.
    fn judged(&self, single: Single) -> Result<Judged> {
        let findings = RivalFindings {
            correct: single.evaluation.verdict.is_pass(),
            not_compared: Some("the candidate did not pass its gates".into()),
            ..RivalFindings::default()
        };
        Ok(Judged {
            single,
            job: None,
            device: None,
            mode: self.kernel()?.objective.ranking.timing(),
            canonical: Vec::new(),
            pairs: Vec::new(),
            findings,
            allowed: Vec::new(),
            score: None,
        })
    }

    /// Opens the device and makes everything ready that all variants of the kernel need.
    pub fn open(&self, call: &Call) -> Result<OpenedCandidate<'_>> {
        let kernel = self.kernel()?;
        let lane = session::lane(&self.setup, Some(kernel))?;
        let names: Vec<String> = self.problems(kernel)?.iter().map(|problem| problem.name.clone()).collect();
        session::know_device(call, lane.info(), self.seed, &names);
        self.open_on(lane, true)
    }

    /// The same on a lane that is open already; `is_new` where its reference was not asked yet.
    pub fn open_on(&self, mut lane: Lane, is_new: bool) -> Result<OpenedCandidate<'_>> {
        let kernel = self.kernel()?;
        let recipe = self.recipe(kernel, &lane)?;
        if is_new {
            rehearse(&mut lane, kernel, &self.problems(kernel)?, &self.candidate.configuration, &recipe)?;
        }
        Ok(OpenedCandidate { asked: self, lane, recipe })
    }

    /// Judges the candidate, as deep as the aim goes, on a device of its own. `further` gets what came so far that the
    /// device was opened for it, before the device is given back.
    pub fn on_device<T>(
        &self,
        call: &Call,
        aim: Aim,
        further: impl FnOnce(&mut OpenedCandidate<'_>, &mut Judged) -> Result<T>,
    ) -> Result<(Judged, Option<T>)> {
        if let Some(refused) = self.refused()? {
            return Ok((refused, None));
        }
        let mut opened = self.open(call)?;
        let mut judged = opened.judged(aim)?;
        let found = further(&mut opened, &mut judged)?;
        Ok((judged, Some(found)))
    }
}

pub struct OpenedCandidate<'a> {
    asked: &'a AskedCandidate,
    pub lane: Lane,
    pub recipe: KernelRecipe<'a>,
}

impl<'a> OpenedCandidate<'a> {
    /// Compiles the candidate: a job that nothing has judged yet, or why there is none. A deep one has what only thorough
    /// gates need.
    pub fn job(&self, deep: bool) -> Result<SingleJob<KernelRecipe<'a>>> {
        let ResolvedCandidate { configuration, genome, .. } = &self.asked.candidate;
        single::job(&self.recipe, genome.clone(), configuration.clone(), deep, |prepared| {
            compile(&self.asked.setup, prepared)
        })
    }

    pub fn judged(&mut self, aim: Aim) -> Result<Judged> {
        let depth = aim.depth();
        let (single, job) = match self.job(depth.is_deep())? {
            Err(evaluation) => (Single::refused(*evaluation), None),
            Ok((begun, _)) if aim == Aim::Compile => {
                let later = Gate::ALL.iter().filter(|gate| **gate >= Gate::Launch);
                let not_asked =
                    |gate: &Gate| GateReport::not_run(*gate, "the level `compile` ends before it");
                let gates = later.map(not_asked).collect();
                (begun.judged(Judgement { gates, ..Judgement::begin() }), None)
            }
            Ok((begun, job)) => {
                let job = depth.of(job);
                (begun.judged(self.lane.evaluate(&job, &Standing::default())), Some(job))
            }
        };
        let device = Some(self.lane.info().clone());
        let mut judged = Judged { job, device, ..self.asked.judged(single)? };
        judged.canonical = canonical(self.asked.kernel()?, judged.plans());
        let missing = missing(judged.evaluation(), aim).into_iter().map(String::from);
        (judged.allowed, judged.findings.missing) = missing.partition(|name| self.asked.is_allowed(name));
        Ok(judged)
    }

    /// Compares a judged candidate with a rival where there is one and it may be. What says nothing about the candidate is
    /// an error.
    pub fn compare(&mut self, judged: &mut Judged, aim: Aim, rival: Option<&ChosenRival>) -> Result<()> {
        let what = if aim == Aim::Compile { "compiled" } else { "judged" };
        let trouble = trouble(&judged.single, &format!("the candidate could not be {what}"));
        trouble.map_or(Ok(()), Err)?;
        let Some(rival) = rival.filter(|_| judged.is_right()) else { return Ok(()) };
        judged.findings.not_compared = None;
        match self.ranking_rival(rival)? {
            Ok(rival) => self.beside(&rival, judged),
            Err(why) => judged.findings.not_compared = Some(why),
        }
        Ok(())
    }

    fn beside(&mut self, (against, rival_job): &(Evaluation, Job), judged: &mut Judged) {
        let Some(job) = judged.job.clone() else { return };
        if judged.has_code_of(against.code_hash.as_ref(), &rival_job.timed) {
            judged.findings.is_same_code = true;
            return;
        }
        let times = single::compare(&mut self.lane, rival_job, &job, job.timed.len());
        judged.findings.noise_floor = times.noise_floor;
        judged.pairs = times.problems;
        let row = |(at, plan): (usize, &ProblemPlan)| RivalProblem {
            problem: plan.name.clone(),
            canonical: judged.canonical.get(at).copied().unwrap_or(true),
            ratio: judged.pairs.get(at).and_then(|pair| pair.as_ref().ok()).map(|pair| TimeRatio {
                median: pair.ratio,
                low: pair.ratio_low,
                high: pair.ratio_high,
            }),
            tail: tail_ratio(
                &samples(judged.evaluation(), plan, judged.mode),
                &samples(against, plan, judged.mode),
                self.asked.seed,
            ),
        };
        let rows: Vec<RivalProblem> = job.timed.iter().enumerate().map(row).collect();
        let canonical = rows.iter().zip(&job.timed).filter(|(row, _)| row.canonical);
        let ratios = canonical.map(|(row, plan)| (plan.weight, row.ratio.map(|ratio| 1.0 / ratio.median)));
        judged.score = geometric_mean(ratios);
        judged.findings.problems = rows;
    }

    pub fn rival(
        &mut self,
        rival: &ChosenRival,
        depth: JobDepth,
    ) -> Result<Result<(Evaluation, Job), String>> {
        let ResolvedCandidate { file, genome, configuration, .. } = &rival.resolved;
        let recipe = self.asked.recipe(session::kernel_of(file)?, &self.lane)?;
        let (genome, configuration) = (genome.clone(), configuration.clone());
        let point = OtherPoint { what: "the rival", file, genome, configuration };
        let judged = point.judged(&recipe, &self.asked.setup, &mut self.lane, depth)?;
        Ok(judged.map(|(single, job)| (single.evaluation, job)).map_err(|refused| refused.why))
    }

    /// The same, deep as the candidate's so that the samples of both were taken in one way. The inner error says why there
    /// is nothing to compare with.
    pub fn ranking_rival(&mut self, rival: &ChosenRival) -> Result<Result<(Evaluation, Job), String>> {
        let judged = self.rival(rival, Aim::Evaluate.depth())?;
        Ok(judged.and_then(|(evaluation, job)| match evaluation.may_rank() {
            true => Ok((evaluation, job)),
            false => Err(format!("the rival does not pass its gates: {}", evaluation.verdict.label())),
        }))
    }
}

pub struct Judged {
    pub single: Single,
    /// Absent for one that was refused before it reached the device.
    pub job: Option<Job>,
    /// Absent where no device was opened.
    pub device: Option<DeviceInfo>,
    pub mode: TimingMode,
    pub canonical: Vec<bool>,
    /// For each timed problem; empty where nothing was compared.
    pub pairs: Vec<PairAnswer>,
    pub findings: RivalFindings,
    /// Gates that did not run and were allowed not to.
    pub allowed: Vec<String>,
    /// Weighted geometric mean speed-up over the canonical problems.
    pub score: Option<f64>,
}

impl Judged {
    pub fn evaluation(&self) -> &Evaluation {
        &self.single.evaluation
    }

    /// The timed problems; none for a candidate that never reached the device.
    pub fn plans(&self) -> &[ProblemPlan] {
        self.job.as_ref().map(|job| &job.timed[..]).unwrap_or_default()
    }

    pub fn device_name(&self, asked: &AskedCandidate) -> String {
        self.device.as_ref().map_or_else(|| asked.setting.device.clone(), |device| device.name.clone())
    }

    /// Whether it passed, and all that was demanded of it ran.
    pub fn is_right(&self) -> bool {
        self.findings.correct && self.findings.missing.is_empty()
    }

    /// Whether its machine code and its launches are those of another one.
    pub fn has_code_of(&self, code: Option<&ContentHash>, plans: &[ProblemPlan]) -> bool {
        let launches =
            |plans: &[ProblemPlan]| plans.iter().map(|plan| plan.launches.clone()).collect::<Vec<_>>();
        let own = self.evaluation().code_hash.as_ref();
        own.is_some() && own == code && launches(self.plans()) == launches(plans)
    }

    pub fn why_not_compared(&self) -> String {
        let findings = &self.findings;
        let pair = self.pairs.iter().find_map(|pair| pair.as_ref().err());
        match (findings.is_same_code, &findings.not_compared, pair) {
            (true, ..) => "it has the rival's machine code and launches, so nothing was compared".to_string(),
            (_, Some(why), _) => why.clone(),
            (_, _, Some(error)) => error.clone(),
            _ => "it could not be measured".to_string(),
        }
    }

    pub fn problems(&self) -> Vec<EvaluatedProblem<'_>> {
        let mut problems = Vec::new();
        for (at, plan) in self.plans().iter().enumerate() {
            let time = time_of(self.evaluation(), plan, self.mode);
            let least = self.device.as_ref().and_then(|device| roofline_ns(device, &ProblemWork::of(plan)));
            problems.push(EvaluatedProblem {
                plan,
                canonical: self.canonical.get(at).copied().unwrap_or(true),
                time,
                pair: self.pairs.get(at).and_then(|pair| pair.as_ref().ok()),
                roofline_ratio: least.zip(time).map(|(least, time)| least / time.p50_ns),
            });
        }
        problems
    }

    /// What was measured, beside the default configuration where it was compared with that.
    pub fn measured<'a>(&'a self, kernel: &KernelSpec, compared: Result<&'a Pairs, String>) -> Measured<'a> {
        Measured {
            evaluation: self.evaluation(),
            problems: self.problems(),
            device: self.device.as_ref(),
            is_persistent: kernel.is_persistent,
            compared,
        }
    }
}

/// What says nothing about a candidate is an error of the command's.
fn trouble(single: &Single, what: &str) -> Option<CliError> {
    let verdict = &single.evaluation.verdict;
    match (single.lost, verdict.is_trouble()) {
        // First, because what a lost device answers says nothing about the variant.
        (true, _) => Some(CliError::device(verdict.message.as_str())),
        (_, true) => Some(session::trouble(what, verdict)),
        _ => None,
    }
}

pub fn time_of<'e>(
    evaluation: &'e Evaluation,
    plan: &ProblemPlan,
    mode: TimingMode,
) -> Option<&'e Measurement> {
    evaluation.measurements.iter().find(|time| time.problem == plan.name && time.mode == mode)
}

pub fn samples(evaluation: &Evaluation, plan: &ProblemPlan, mode: TimingMode) -> Vec<f64> {
    time_of(evaluation, plan, mode).map(|time| time.raw_ns.clone()).unwrap_or_default()
}

/// Which timed problems are canonical; all of them where this run has none that is marked.
fn canonical(kernel: &KernelSpec, plans: &[ProblemPlan]) -> Vec<bool> {
    let is_marked = |plan: &ProblemPlan| {
        kernel.problems.iter().any(|problem| problem.name == plan.name && problem.canonical)
    };
    let marked: Vec<bool> = plans.iter().map(is_marked).collect();
    if marked.contains(&true) { marked } else { vec![true; plans.len()] }
}

pub struct OtherPoint<'a> {
    /// As messages name it: `the rival`.
    pub what: &'a str,
    pub file: &'a SpaceFile,
    pub genome: Genome,
    pub configuration: Configuration,
}

pub struct RefusedPoint {
    pub label: String,
    pub why: String,
}

impl OtherPoint<'_> {
    /// Its verdict and the job that gave it, with times to be taken whatever the depth.
    pub fn judged(
        self,
        recipe: &KernelRecipe<'_>,
        setup: &DeviceSetup,
        lane: &mut Lane,
        depth: JobDepth,
    ) -> Result<Result<(Single, Job), RefusedPoint>> {
        let OtherPoint { what, file, genome, configuration } = self;
        let refused = |verdict: &Verdict, why: String| Ok(Err(RefusedPoint { label: verdict.label(), why }));
        if let Some(Evaluation { verdict, .. }) = single::constraint_verdict(&file.space, &configuration) {
            return refused(&verdict, format!("{what} is not valid: {}", verdict.message));
        }
        let compile = |prepared: &PreparedKernel| compile(setup, prepared);
        let (begun, job) = match single::job(recipe, genome, configuration, depth.is_deep(), compile)? {
            Ok(begun) => begun,
            Err(own) => return refused(&own.verdict, format!("{what} is refused: {}", own.verdict.label())),
        };
        let single = begun.judged(lane.evaluate(&depth.of(job.clone()), &Standing::default()));
        if single.lost {
            return Err(CliError::device(format!("the device was lost while {what} was judged")));
        }
        Ok(Ok((single, job)))
    }
}

pub struct Tried<T> {
    pub asked: AskedCandidate,
    pub judged: Judged,
    /// What was found beyond the verdict; only of a candidate of which the aim wants to know more.
    pub found: Option<T>,
}

/// A device that has just judged a candidate, for whatever else is asked of it.
pub struct Bench<'a> {
    pub asked: &'a AskedCandidate,
    /// The space with its own kernel, and a recipe for that.
    pub file: &'a SpaceFile,
    pub recipe: &'a KernelRecipe<'a>,
    pub lane: &'a mut Lane,
    pub job: &'a Job,
    pub single: &'a Single,
}

/// Judges what was asked for; `further` is asked of a candidate of which the aim wants to know more.
pub fn run<T>(
    mut asked: AskedCandidate,
    call: &Call,
    aim: Aim,
    further: impl FnOnce(&mut Bench<'_>) -> Result<T>,
) -> Result<Tried<T>> {
    let (judged, found) = asked.on_device(call, aim, |opened, judged| {
        let goes_beyond = aim.goes_beyond(&judged.evaluation().verdict) && !judged.single.lost;
        let Some(job) = judged.job.as_ref().filter(|_| goes_beyond) else { return Ok(None) };
        // What a source stands in for is the space's own kernel.
        let is_source = asked.candidate.provenance.kind == CandidateKind::Source;
        let TestOneArgs { words, run, .. } = &asked.options;
        let own = || words::named_space(words).open(run.limits.access());
        let space = is_source.then(own).transpose()?;
        let file = space.as_ref().unwrap_or(&asked.candidate.file);
        let recipe = asked.recipe(session::kernel_of(file)?, &opened.lane)?;
        let (asked, lane, single) = (&asked, &mut opened.lane, &judged.single);
        further(&mut Bench { asked, file, recipe: &recipe, lane, job, single }).map(Some)
    })?;
    asked.setting.device = judged.device_name(&asked);
    Ok(Tried { asked, judged, found: found.flatten() })
}

/// How a command ended whose answer is a verdict, and what its object has in any case.
pub struct VerdictEnd<'a> {
    pub answer: Answer,
    pub fields: VerdictFields<'a>,
    pub brief: VerdictBrief<'a>,
}

impl<T> Tried<T> {
    /// Prints the text, and says how it ended: exit code and status from the verdict and from the gates that ran. A gate that
    /// was demanded and did not run never counts as a pass, unless `--allow-not-run` names it; nor does `absent`, which was
    /// demanded beside the gates. `more` is what the command says beyond the verdict.
    pub fn ended(
        &self,
        call: &Call,
        absent: impl IntoIterator<Item = &'static str>,
        more: &str,
    ) -> Result<VerdictEnd<'_>> {
        let Tried { asked: AskedCandidate { options, setting, .. }, judged, .. } = self;
        let evaluation = judged.evaluation();
        let verdict = &evaluation.verdict;
        note_limit(call, verdict, options);
        let (mut missing, mut allowed) = (judged.findings.missing.clone(), judged.allowed.clone());
        for name in absent {
            let names = if self.asked.is_allowed(name) { &mut allowed } else { &mut missing };
            names.push(name.to_string());
        }
        let not_run = [&missing[..], &allowed].concat();
        let answer = ended(&judged.single, &missing, allowed);
        call.show(&format!("{more}{}", text(setting, evaluation, &judged.single.attributes)))?;
        if !call.is_json() && answer.status == EnvelopeStatus::NotRun {
            output::say(&format!("not run, which does not count as a pass: {}", not_run.join(", ")));
            if evaluation.gate(Gate::TinyShapes).is_some_and(GateReport::derived_no_shapes) {
                output::say(NO_SHAPES_HINT);
            }
        }
        let checked = judged.job.as_ref().map(Job::all_checked).unwrap_or_default();
        let fields = VerdictFields::of(setting, evaluation, &judged.single.attributes, &checked);
        let (label, class) = (verdict.label(), verdict.kind.class());
        let brief = VerdictBrief { verdict: label, class, message: &verdict.message, not_run };
        Ok(VerdictEnd { answer, fields, brief })
    }

    pub fn answer(&self, call: &Call) -> Result<Answer> {
        let VerdictEnd { answer, fields, brief } = self.ended(call, None, "")?;
        Ok(answer.with(&VerdictAnswer { fields, result: brief }))
    }
}

const NO_SHAPES_HINT: &str = "hint: list small shapes as `tiny` in `[check]`, or say `tiny = \"none\"` if the kernel supports only \
     the sizes of its problems";

/// Gates of a candidate that passes, which were demanded and did not run. Where the file has no small shape, there is
/// nothing to run and nothing is missing; where evo found none, it is.
pub fn missing(evaluation: &Evaluation, aim: Aim) -> Vec<&'static str> {
    if !evaluation.verdict.is_pass() {
        return Vec::new();
    }
    let lacks = |report: &GateReport| report.lacks_shapes() && !report.derived_no_shapes();
    let ran = |report: &GateReport| report.state == GateState::Pass || lacks(report);
    aim.demanded().filter(|gate| !evaluation.gate(*gate).is_some_and(ran)).map(Gate::as_str).collect()
}

/// How a command ends by a verdict and by the gates that were demanded and did not run, and by those that were allowed not to.
pub fn ended(single: &Single, missing: &[String], allowed: Vec<String>) -> Answer {
    let verdict = &single.evaluation.verdict;
    if let Some(error) = trouble(single, "the variant could not be judged") {
        return Answer::failed(error);
    }
    if !verdict.is_pass() {
        let status =
            if verdict.kind == VerdictKind::Noisy { EnvelopeStatus::Noisy } else { EnvelopeStatus::Fail };
        return Answer { status, ..Answer::from(ExitCode::Failed) };
    }
    let (exit, status) = match missing.is_empty() {
        true => (ExitCode::Done, EnvelopeStatus::Pass),
        false => (ExitCode::Failed, EnvelopeStatus::NotRun),
    };
    Answer { allowed_not_run: allowed, status, ..Answer::from(exit) }
}

pub fn note_limit(call: &Call, verdict: &Verdict, arguments: &TestOneArgs) {
    if verdict.kind == VerdictKind::CompileTimeout {
        call.hit(LimitName::Compile);
    } else if let Some(waited_ms) = verdict.evidence.get("deadline_ms").and_then(Value::as_f64)
        && waited_ms >= arguments.run.limits.device.as_secs_f64() * 1e3
    {
        call.hit(LimitName::Device);
    }
}

/// The folder of the study that names the candidate, or the one that a sweep of its kernel would begin with.
pub fn study_folder(
    candidate: &CandidateArgs,
    (kernel, kind): (&str, &str),
    facts: &CommandEnvelope,
) -> Result<OwnFolder, (PathBuf, io::Error)> {
    let named = session::study(facts);
    // A study may be named by its path.
    let path = candidate.study.as_ref().filter(|name| named.is_some() && name.contains('/'));
    let study = named.unwrap_or_else(|| format!("{kernel}-{kind}"));
    let place = path.map_or_else(|| candidate.out.join(&study), PathBuf::from);
    let opened = match path {
        Some(path) => OwnFolder::open(path.as_ref()),
        None => OwnFolder::create(&candidate.out).and_then(|out| out.create_folder(&study)),
    };
    opened.map_err(|error| (place, error))
}

pub fn compile(setup: &DeviceSetup, prepared: &PreparedKernel) -> Result<CompileAnswer<Vec<Binary>>> {
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
) -> Result<()> {
    let ReferenceSpec::Command(_) = &kernel.check.reference else { return Ok(()) };
    let elements = |plan: &ProblemPlan| plan.buffers.iter().map(BufferPlan::elements).sum::<u64>();
    let plans = problems.iter().filter_map(|problem| resolve(kernel, configuration, problem).ok());
    let Some(smallest) = plans.min_by_key(elements) else { return Ok(()) };
    match lane.prepare(&recipe.check, &[smallest]) {
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

#[cfg(test)]
mod tests {
    use evo_space::genome::Configuration;

    use super::*;
    use crate::journal::example as fake;

    fn passed(not_run: &[Gate]) -> Single {
        let mut evaluation = fake::evaluation(0, Configuration::new(Vec::new()), "user", Verdict::pass());
        for report in &mut evaluation.gates {
            let ran = !not_run.contains(&report.gate) && report.gate != Gate::Confirmation;
            report.state = if ran { GateState::Pass } else { GateState::NotRun };
        }
        Single::refused(evaluation)
    }

    #[track_caller]
    fn check(
        not_run: &[Gate],
        aim: Aim,
        allowed: &[&str],
        expected: (ExitCode, EnvelopeStatus),
        told: &[&str],
    ) {
        let single = passed(not_run);
        let missing = missing(&single.evaluation, aim).into_iter().map(String::from);
        let (allowed, missing): (Vec<_>, Vec<_>) = missing.partition(|name| allowed.contains(&name.as_str()));
        let answer = ended(&single, &missing, allowed);
        assert_eq!((answer.exit, answer.status), expected, "{not_run:?}");
        assert_eq!(answer.allowed_not_run, told, "{not_run:?}");
    }

    #[test]
    fn a_gate_that_did_not_run_never_passes_unless_it_is_allowed() {
        let (done, missing) =
            ((ExitCode::Done, EnvelopeStatus::Pass), (ExitCode::Failed, EnvelopeStatus::NotRun));
        check(&[], Aim::Whole, &[], done, &[]);
        check(&[Gate::Honesty], Aim::Whole, &[], missing, &[]);
        check(&[Gate::Honesty], Aim::Whole, &["honesty"], done, &["honesty"]);
        check(&[Gate::Honesty, Gate::FullShapes], Aim::Whole, &["honesty"], missing, &["honesty"]);
        check(&[Gate::Timing, Gate::Honesty], Aim::Gates, &[], done, &[]);
        check(&[Gate::Repeatability], Aim::Gates, &[], missing, &[]);
        // Allowed and run all the same: nothing to tell.
        check(&[], Aim::Whole, &["honesty"], done, &[]);
    }

    #[test]
    fn small_shapes_are_missing_unless_the_file_has_none() {
        let mut single = passed(&[Gate::TinyShapes]);
        assert_eq!(missing(&single.evaluation, Aim::Whole), ["tiny_shapes"]);
        let tiny = single.evaluation.gates.iter_mut().find(|report| report.gate == Gate::TinyShapes).unwrap();
        tiny.evidence.insert(GateReport::TAILS, GateReport::NOT_CHECKED);
        let mut underived = single.evaluation.clone();
        assert!(missing(&single.evaluation, Aim::Whole).is_empty());
        let tiny = underived.gates.iter_mut().find(|report| report.gate == Gate::TinyShapes).unwrap();
        tiny.evidence.insert(GateReport::TAILS, GateReport::NOT_DERIVED);
        assert_eq!(missing(&underived, Aim::Whole), ["tiny_shapes"]);
    }

    #[test]
    fn trouble_and_losses_say_nothing_about_the_variant() {
        let with = |kind, lost| {
            let verdict = Verdict::new(kind, "why");
            let evaluation = fake::evaluation(0, Configuration::new(Vec::new()), "user", verdict);
            let answer = ended(&Single { lost, ..Single::refused(evaluation) }, &[], Vec::new());
            (answer.exit, answer.status, answer.error.is_some())
        };
        assert_eq!(with(VerdictKind::HarnessError, false), (ExitCode::Harness, EnvelopeStatus::Error, true));
        assert_eq!(with(VerdictKind::Hang, true), (ExitCode::DeviceLost, EnvelopeStatus::Error, true));
        assert_eq!(with(VerdictKind::Noisy, false), (ExitCode::Failed, EnvelopeStatus::Noisy, false));
        assert_eq!(with(VerdictKind::WrongAnswer, false), (ExitCode::Failed, EnvelopeStatus::Fail, false));
    }
}
