//! One candidate through the judge, for every command that has one judged: read from the command line, compiled, gated,
//! timed, and beside a rival where the command asks for that.
//!
//! [`ask`], [`AskedCandidate::open`] and [`OpenedCandidate::judged`] lead from a command line to a verdict; [`run`] goes
//! the whole way for a command whose verdict is its answer, [`judge`] for one that goes on from it.

use std::io;
use std::path::PathBuf;

use evo_protocol::binary::Binary;
use evo_protocol::device::{DeviceInfo, DeviceKind};
use evo_protocol::envelope::{EnvelopeStatus, LimitName};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::measurement::{Measurement, TimingMode};
use evo_protocol::plan::{BufferPlan, ProblemPlan};
use evo_protocol::verdict::{Gate, GateReport, GateState, Verdict, VerdictClass, VerdictKind};
use evo_space::diagnostic::nearest;
use evo_space::genome::{Configuration, Genome};
use serde::Serialize;

use super::answer::Answer;
use super::call::Call;
use super::candidate::CandidateArgs;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::one_args::TestOneArgs;
use super::rival::ChosenRival;
use super::session::{self, DeviceSetup};
use super::{candidate, device_lane, output, seed, words};
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
use crate::report::envelope::CallFacts;
use crate::report::judged::{EvaluatedProblem, Setting, VerdictAnswer, VerdictBrief, VerdictFields, text};
use crate::supervise::job::{Job, JobReach, Standing};
use crate::supervise::lane::{Lane, LaneError};
use crate::timing::acceptance::{RivalFindings, RivalProblem, TimeRatio, tail_ratio};

/// The comparison of `evo benchmark`, as `--allow-not-run` names it.
pub const BASELINE: &str = "baseline";
/// The counters of `evo profile`.
pub const PROFILE: &str = "profile";
/// The work of `evo sanitize`.
pub const SANITIZE: &str = "sanitize";
/// The work of `evo crosscheck`, and who times and checks a kernel too, in the order in which they are asked: the Python
/// package `cuda-bench`; `torch.utils.benchmark` and `torch.testing`; the evaluator of KernelBench; CUTLASS's profiler on
/// the same GEMM; a program of the user.
pub const CROSSCHECK: &str = "crosscheck";
pub const HARNESSES: [&str; 5] = ["nvbench", "torch", "kernelbench", "cutlass", "command"];
/// The work of `evo invert`.
pub const INVERT: &str = "invert";
/// The goals of `evo gate --goals`.
pub const GOALS: [&str; 3] = ["faster_than", "metrics", "p90"];

/// What is asked of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Every gate, and its time.
    Whole,
    /// Every gate on its answers; nothing is timed.
    Gates,
    /// Small shapes alone.
    Tiny,
    /// Every gate, less deeply, and a short measurement.
    Quick,
    /// Also the default configuration's time beside it.
    Times,
    /// Also a rival's time beside it.
    Evaluate,
    /// Also a baseline's time beside it.
    Gate,
    /// Also a profiler's counters.
    Profile,
    /// Also the times of harmed copies beside it.
    Invert,
    /// Also what others' clocks say of it.
    Crosscheck,
    /// No gate: a tool watches its launches.
    Sanitize,
}

impl Aim {
    /// Whether something is asked of a candidate beyond its verdict. Others may find right what is wrong.
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
            Aim::Sanitize => None,
            _ => Some(Gate::Honesty),
        };
        Gate::ALL.iter().copied().filter(move |gate| last.is_some_and(|last| *gate <= last))
    }

    /// How deep a candidate is looked at for it.
    fn depth(self) -> JobDepth {
        match self {
            Aim::Tiny => JobDepth { deep: false, reach: JobReach::Tiny },
            Aim::Quick => JobDepth { deep: false, reach: JobReach::Screening },
            _ => JobDepth::DEEP,
        }
    }

    /// Refuses names of `--allow-not-run` that nothing of the command has.
    pub fn check_names(self, names: &[String]) -> Result<(), CliError> {
        let beside: Vec<&str> = match self {
            Aim::Times => vec![BASELINE],
            Aim::Gate => GOALS.into_iter().chain([SANITIZE]).collect(),
            Aim::Profile => vec![PROFILE],
            Aim::Invert => vec![INVERT],
            Aim::Crosscheck => HARNESSES.into_iter().chain([CROSSCHECK]).collect(),
            Aim::Sanitize | Aim::Evaluate | Aim::Whole | Aim::Gates | Aim::Tiny | Aim::Quick => {
                vec![SANITIZE]
            }
        };
        let known: Vec<&str> = self.demanded().map(Gate::as_str).chain(beside).collect();
        let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) else { return Ok(()) };
        let hint = match nearest(unknown, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", known.join(", ")),
        };
        Err(CliError::usage(format!("`--allow-not-run {unknown}`: nothing that runs here has this name"))
            .with_hint(hint))
    }
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
    aim.check_names(&arguments.allow_not_run)?;
    let access = arguments.run.access.access();
    let mut candidate =
        candidate::resolve(&arguments.words, &arguments.candidate, &arguments.run.device, access)?;
    arguments.add_grid(&mut candidate.file);
    session::candidate(call, &candidate);
    let kernel = session::kernel_of(&candidate.file)?;
    let setup = DeviceSetup { until, ..session::setup_for(&arguments.run)? };
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

impl AskedCandidate {
    /// The candidate's kernel.
    pub fn kernel(&self) -> Result<&KernelSpec, CliError> {
        session::kernel_of(&self.candidate.file)
    }

    /// The timing mode that ranks.
    pub fn mode(&self) -> Result<TimingMode, CliError> {
        Ok(self.kernel()?.objective.ranking.timing())
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
            facts.conditions = Some(session::conditions(&device, self.seed, &names));
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

/// How much of a candidate is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobDepth {
    /// Every gate at full depth, and the full measurement.
    pub deep: bool,
    pub reach: JobReach,
}

impl JobDepth {
    pub const DEEP: JobDepth = JobDepth { deep: true, reach: JobReach::Whole };
}

/// A device that runs the candidate's kernel.
pub struct OpenedCandidate<'a> {
    asked: &'a AskedCandidate,
    pub lane: Lane,
    /// The candidate's.
    pub recipe: KernelRecipe<'a>,
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

    /// Compiles and judges the candidate; with gates alone nothing is timed.
    pub fn judged(&mut self, depth: JobDepth, gates_alone: bool) -> Result<Judged, CliError> {
        let (single, job) = match self.job(depth.deep)? {
            Ok((begun, job)) => {
                let job = if gates_alone { job.gates_only() } else { Job { reach: depth.reach, ..job } };
                (begun.judged(self.lane.evaluate(&job, &Standing::default())), Some(job))
            }
            Err(evaluation) => (Single::refused(*evaluation), None),
        };
        let kernel = self.asked.kernel()?;
        let device = Some(self.lane.info().clone());
        let mut judged = Judged { job, device, ..Judged::refused(single, kernel.objective.ranking.timing()) };
        judged.canonical = canonical(kernel, judged.plans());
        Ok(judged)
    }
}

/// A candidate as it was judged, beside its rival where it was compared with one.
pub struct Judged {
    pub single: Single,
    /// Absent for one that was refused before it reached the device.
    pub job: Option<Job>,
    /// Absent where no device was opened.
    pub device: Option<DeviceInfo>,
    /// The timing mode that ranks.
    pub mode: TimingMode,
    /// For each timed problem.
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
    /// A candidate that was not compared, and never reached the device.
    pub fn refused(single: Single, mode: TimingMode) -> Judged {
        let findings = RivalFindings {
            correct: single.evaluation.verdict.is_pass(),
            missing: Vec::new(),
            is_same_code: false,
            not_compared: Some("the candidate did not pass its gates".into()),
            noise_floor: None,
            problems: Vec::new(),
        };
        Judged {
            single,
            job: None,
            device: None,
            mode,
            canonical: Vec::new(),
            pairs: Vec::new(),
            findings,
            allowed: Vec::new(),
            score: None,
        }
    }

    pub fn evaluation(&self) -> &Evaluation {
        &self.single.evaluation
    }

    /// The timed problems; none for a candidate that never reached the device.
    pub fn plans(&self) -> &[ProblemPlan] {
        self.job.as_ref().map(|job| &job.timed[..]).unwrap_or_default()
    }

    /// The problems that were checked, timed or not; none for a candidate that never reached the device.
    pub fn checked(&self) -> Vec<ProblemPlan> {
        self.job.as_ref().map(Job::all_checked).unwrap_or_default()
    }

    /// Why numbers of the comparison are missing.
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

    /// The timed problems with their times and comparisons.
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

    /// What says nothing about a candidate is an error of the command's.
    fn no_trouble(&self) -> Result<(), CliError> {
        let verdict = &self.evaluation().verdict;
        match (self.single.lost, verdict.is_trouble()) {
            (true, _) => Err(CliError::device(verdict.message.as_str())),
            (_, true) => Err(session::trouble("the candidate could not be judged", verdict)),
            _ => Ok(()),
        }
    }
}

/// What was measured on a problem in a mode.
pub fn time_of<'e>(
    evaluation: &'e Evaluation,
    plan: &ProblemPlan,
    mode: TimingMode,
) -> Option<&'e Measurement> {
    evaluation.measurements.iter().find(|time| time.problem == plan.name && time.mode == mode)
}

/// The single times of a problem, nanoseconds.
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

/// Judges the candidate as deep as that, and compares it with a rival where there is one. `note` gets the verdict as soon
/// as it is known. What says nothing about the candidate is an error.
pub fn judge(
    one: &TestOneArgs,
    asked: &AskedCandidate,
    opened: &mut OpenedCandidate<'_>,
    depth: JobDepth,
    rival: Option<&ChosenRival>,
    note: impl FnOnce(&Evaluation),
) -> Result<Judged, CliError> {
    let mut judged = opened.judged(depth, false)?;
    if judged.job.is_some() {
        note(judged.evaluation());
    }
    judged.no_trouble()?;
    let missing = missing(judged.evaluation(), Aim::Evaluate).into_iter().map(String::from);
    (judged.allowed, judged.findings.missing) =
        missing.partition(|name| one.allow_not_run.iter().any(|allowed| allowed == name));
    let may_compare = judged.findings.correct && judged.findings.missing.is_empty();
    if let Some(rival) = rival.filter(|_| may_compare) {
        judged.findings.not_compared = None;
        match ranking_rival(one, opened, asked, rival)? {
            Ok(rival) => compare(opened, asked, &rival, &mut judged),
            Err(why) => judged.findings.not_compared = Some(why),
        }
    }
    Ok(judged)
}

/// Times a judged candidate and its rival side by side.
fn compare(
    opened: &mut OpenedCandidate<'_>,
    asked: &AskedCandidate,
    (against, rival_job): &(Evaluation, Job),
    judged: &mut Judged,
) {
    let Some(job) = judged.job.clone() else { return };
    let code = judged.evaluation().code_hash.as_ref();
    let launches = |job: &Job| job.timed.iter().map(|plan| plan.launches.clone()).collect::<Vec<_>>();
    if code.is_some() && code == against.code_hash.as_ref() && launches(&job) == launches(rival_job) {
        judged.findings.is_same_code = true;
        return;
    }
    let times = single::compare(&mut opened.lane, rival_job, &job, job.timed.len());
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
            asked.seed,
        ),
    };
    let rows: Vec<RivalProblem> = job.timed.iter().enumerate().map(row).collect();
    judged.score = score(&rows, &job.timed);
    judged.findings.problems = rows;
}

/// The weighted geometric mean of the speed-ups; `None` unless all canonical problems have one.
fn score(rows: &[RivalProblem], plans: &[ProblemPlan]) -> Option<f64> {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (row, plan) in rows.iter().zip(plans).filter(|(row, _)| row.canonical) {
        sum -= plan.weight * row.ratio?.median.ln();
        weights += plan.weight;
    }
    Some((sum / weights).exp()).filter(|score| score.is_finite() && *score > 0.0)
}

/// Another point of a space, judged on the same lane.
pub struct OtherPoint<'a> {
    /// As messages name it: `the rival`.
    pub what: &'a str,
    pub file: &'a SpaceFile,
    pub genome: Genome,
    pub configuration: Configuration,
}

impl OtherPoint<'_> {
    /// Its gates and times, or why there are none.
    pub fn judged(
        self,
        recipe: &KernelRecipe<'_>,
        setup: &DeviceSetup,
        lane: &mut Lane,
        depth: JobDepth,
    ) -> Result<Result<(Evaluation, Job), String>, CliError> {
        let OtherPoint { what, file, genome, configuration } = self;
        if let Some(refused) = single::constraint_verdict(&file.space, &configuration) {
            return Ok(Err(format!("{what} is not valid: {}", refused.verdict.message)));
        }
        let begun =
            single::job(recipe, genome, configuration, depth.deep, |prepared| compile(setup, prepared))?;
        let (begun, job) = match begun {
            Ok((begun, job)) => (begun, Job { reach: depth.reach, ..job }),
            Err(refused) => return Ok(Err(format!("{what} is refused: {}", refused.verdict.label()))),
        };
        let single = begun.judged(lane.evaluate(&job, &Standing::default()));
        if single.lost {
            return Err(CliError::device(format!("the device was lost while {what} was judged")));
        }
        Ok(Ok((single.evaluation, job)))
    }
}

/// The rival's gates and times, or why there are none.
pub fn judge_rival(
    one: &TestOneArgs,
    opened: &mut OpenedCandidate<'_>,
    asked: &AskedCandidate,
    rival: &ChosenRival,
    depth: JobDepth,
) -> Result<Result<(Evaluation, Job), String>, CliError> {
    let ResolvedCandidate { file, genome, configuration, .. } = &rival.resolved;
    let kernel = session::kernel_of(file)?;
    let problems = asked.problems(kernel, one)?;
    let recipe = session::recipe(kernel, &problems, &asked.setup, &opened.lane, asked.seed)?;
    let (genome, configuration) = (genome.clone(), configuration.clone());
    OtherPoint { what: "the rival", file, genome, configuration }.judged(
        &recipe,
        &asked.setup,
        &mut opened.lane,
        depth,
    )
}

/// Judges a rival, deep as the candidate's so that the samples of both were taken in one way. The inner error says why
/// there is nothing to compare with.
pub fn ranking_rival(
    one: &TestOneArgs,
    opened: &mut OpenedCandidate<'_>,
    asked: &AskedCandidate,
    rival: &ChosenRival,
) -> Result<Result<(Evaluation, Job), String>, CliError> {
    let judged = judge_rival(one, opened, asked, rival, JobDepth::DEEP)?;
    Ok(judged.and_then(|(evaluation, job)| match evaluation.may_rank() {
        true => Ok((evaluation, job)),
        false => Err(format!("the rival does not pass its gates: {}", evaluation.verdict.label())),
    }))
}

/// What became of a candidate whose verdict is the command's answer.
pub struct Tried<T> {
    pub asked: AskedCandidate,
    pub setting: Setting,
    pub judged: Judged,
    /// What was found beyond the verdict; only of a candidate of which the aim wants to know more.
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
    pub single: &'a Single,
    /// Of the inputs.
    pub seed: u64,
}

/// Judges what was asked for; `further` is asked of a candidate of which the aim wants to know more.
pub fn run<T>(
    asked: AskedCandidate,
    arguments: &TestOneArgs,
    call: &Call,
    aim: Aim,
    further: impl FnOnce(&mut Bench<'_>) -> Result<T, CliError>,
) -> Result<Tried<T>, CliError> {
    let mut setting = asked.setting.clone();
    // Before a worker is started, because this verdict needs no device.
    if let Some(evaluation) = asked.refused() {
        let judged = Judged::refused(Single::refused(evaluation), asked.mode()?);
        return Ok(Tried { asked, setting, judged, found: None });
    }
    let mut opened = asked.open(arguments, call)?;
    setting.device = opened.lane.info().name.clone();
    let judged = opened.judged(aim.depth(), aim == Aim::Gates)?;
    let found = match &judged.job {
        Some(job) if aim.goes_beyond(&judged.evaluation().verdict) && !judged.single.lost => {
            // What a source stands in for is the space's own kernel.
            let space = match asked.candidate.provenance.kind {
                CandidateKind::Source => {
                    Some(words::named_space(&arguments.words).open(arguments.run.access.access())?)
                }
                _ => None,
            };
            let file = space.as_ref().unwrap_or(&asked.candidate.file);
            let kernel = session::kernel_of(file)?;
            let problems = asked.problems(kernel, arguments)?;
            let (setup, lane, seed) = (&asked.setup, &mut opened.lane, asked.seed);
            let recipe = session::recipe(kernel, &problems, setup, lane, seed)?;
            let single = &judged.single;
            Some(further(&mut Bench { file, setup, recipe: &recipe, lane, job, single, seed })?)
        }
        _ => None,
    };
    drop(opened);
    Ok(Tried { asked, setting, judged, found })
}

/// How a command ended whose answer is a verdict, before its object is made.
pub struct Ended {
    answer: Answer,
    /// What was demanded and did not run.
    missing: Vec<&'static str>,
}

impl Ended {
    pub fn allowed_not_run(&self) -> &[String] {
        &self.answer.allowed_not_run
    }

    /// The command's answer with its own fields.
    pub fn answer(self, own: &impl Serialize) -> Answer {
        let Answer { own, result, reasons, .. } = Answer::of(self.answer.exit, own);
        Answer { own, result, reasons, ..self.answer }
    }
}

impl<T> Tried<T> {
    /// The command's own fields, as far as every command has them.
    pub fn fields<'a>(&'a self, checked: &'a [ProblemPlan]) -> VerdictFields<'a> {
        VerdictFields::of(&self.setting, self.judged.evaluation(), &self.judged.single.attributes, checked)
    }

    pub fn brief(&self, ended: &Ended) -> VerdictBrief<'_> {
        let verdict = &self.judged.evaluation().verdict;
        VerdictBrief {
            verdict: verdict.label(),
            class: verdict.kind.class(),
            message: &verdict.message,
            not_run: ended.missing.clone(),
        }
    }

    /// Prints the text, and says how it ended: exit code and status from the verdict and from the gates that ran. A gate that
    /// was demanded and did not run never counts as a pass, unless `--allow-not-run` names it; nor does `absent`, which was
    /// demanded beside the gates. `more` is what the command says beyond the verdict.
    pub fn ended(
        &self,
        arguments: &TestOneArgs,
        call: &Call,
        aim: Aim,
        absent: impl IntoIterator<Item = &'static str>,
        more: &str,
    ) -> Result<Ended, CliError> {
        let Tried { setting, judged, .. } = self;
        let evaluation = judged.evaluation();
        if let Some(hit) = limit_hit(&evaluation.verdict, arguments) {
            call.hit(hit);
        }
        let missing: Vec<&str> = missing(evaluation, aim).into_iter().chain(absent).collect();
        let answer = ended(&judged.single, &missing, &arguments.allow_not_run);
        if !call.is_json() {
            output::stdout(&format!("{more}{}", text(setting, evaluation, &judged.single.attributes)))?;
            if answer.status == EnvelopeStatus::NotRun {
                output::say(&format!("not run, which does not count as a pass: {}", missing.join(", ")));
            }
        }
        Ok(Ended { answer, missing })
    }

    /// The whole answer of a command that says nothing beyond the verdict.
    pub fn answer(
        &self,
        arguments: &TestOneArgs,
        call: &Call,
        aim: Aim,
        absent: impl IntoIterator<Item = &'static str>,
    ) -> Result<Answer, CliError> {
        let ended = self.ended(arguments, call, aim, absent, "")?;
        let checked = self.judged.checked();
        let (fields, result) = (self.fields(&checked), self.brief(&ended));
        Ok(ended.answer(&VerdictAnswer { fields, result }))
    }
}

/// Gates of a candidate that passes, which were demanded and did not run. Where no small shape can be derived, there is
/// nothing to run and nothing is missing.
pub fn missing(evaluation: &Evaluation, aim: Aim) -> Vec<&'static str> {
    if !evaluation.verdict.is_pass() {
        return Vec::new();
    }
    let ran = |gate: &Gate| {
        let ran = |report: &GateReport| report.state == GateState::Pass || report.lacks_shapes();
        evaluation.gate(*gate).is_some_and(ran)
    };
    aim.demanded().filter(|gate| !ran(gate)).map(Gate::as_str).collect()
}

fn ended(single: &Single, missing: &[&str], allowed: &[String]) -> Answer {
    let verdict = &single.evaluation.verdict;
    if single.lost {
        // First, because what a lost device answers says nothing about the variant.
        return Answer::failed(CliError::device(verdict.message.as_str()));
    }
    if verdict.is_trouble() {
        return Answer::failed(session::trouble("the variant could not be judged", verdict));
    }
    if !verdict.is_pass() {
        let status =
            if verdict.kind == VerdictKind::Noisy { EnvelopeStatus::Noisy } else { EnvelopeStatus::Fail };
        return Answer { status, ..Answer::from(ExitCode::Failed) };
    }
    let is_allowed = |name: &&&str| allowed.iter().any(|allowed| allowed == **name);
    let allowed_not_run = missing.iter().filter(is_allowed).map(|name| name.to_string()).collect();
    match missing.iter().all(|name| is_allowed(&name)) {
        true => Answer { allowed_not_run, ..Answer::from(ExitCode::Done) },
        false => Answer { allowed_not_run, status: EnvelopeStatus::NotRun, ..Answer::from(ExitCode::Failed) },
    }
}

/// The limit that a verdict is about, if it is about one.
pub fn limit_hit(verdict: &Verdict, arguments: &TestOneArgs) -> Option<LimitName> {
    if verdict.kind == VerdictKind::CompileTimeout {
        return Some(LimitName::Compile);
    }
    let waited_ms = verdict.evidence.get("deadline_ms")?.as_f64()?;
    (waited_ms >= arguments.run.limits.limit_device.as_secs_f64() * 1e3).then_some(LimitName::Device)
}

/// The folder of the study that names the candidate, or the one that a sweep of its kernel would begin with.
pub fn study_folder(
    candidate: &CandidateArgs,
    (kernel, kind): (&str, &str),
    facts: &CallFacts,
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
        let allowed: Vec<String> = allowed.iter().map(|name| name.to_string()).collect();
        let answer = ended(&single, &missing(&single.evaluation, aim), &allowed);
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
    fn shapes_that_cannot_be_derived_are_not_missing() {
        let mut single = passed(&[Gate::TinyShapes]);
        assert_eq!(missing(&single.evaluation, Aim::Whole), ["tiny_shapes"]);
        let tiny = single.evaluation.gates.iter_mut().find(|report| report.gate == Gate::TinyShapes).unwrap();
        tiny.evidence.insert(GateReport::TAILS, GateReport::NOT_CHECKED);
        assert!(missing(&single.evaluation, Aim::Whole).is_empty());
    }

    #[test]
    fn trouble_and_losses_say_nothing_about_the_variant() {
        let with = |kind, lost| {
            let verdict = Verdict::new(kind, "why");
            let evaluation = fake::evaluation(0, Configuration::new(Vec::new()), "user", verdict);
            let answer = ended(&Single { lost, ..Single::refused(evaluation) }, &[], &[]);
            (answer.exit, answer.status, answer.error.is_some())
        };
        assert_eq!(with(VerdictKind::HarnessError, false), (ExitCode::Harness, EnvelopeStatus::Error, true));
        assert_eq!(with(VerdictKind::Hang, true), (ExitCode::DeviceLost, EnvelopeStatus::Error, true));
        assert_eq!(with(VerdictKind::Noisy, false), (ExitCode::Failed, EnvelopeStatus::Noisy, false));
        assert_eq!(with(VerdictKind::WrongAnswer, false), (ExitCode::Failed, EnvelopeStatus::Fail, false));
    }
}
