//! `evo profile`: what a profiler sees of one candidate that passed its gates, and what that means.

// Comments on flags are help texts, in which `[default: …]` is not a link.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use clap::{Args, ValueEnum};
use evo_protocol::device::{DeviceInfo, DeviceKind, EntryAttributes};
use evo_protocol::envelope::{EnvelopeError, EnvelopeStatus, ErrorCode, LimitName};
use evo_protocol::known::{Known, told};
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::schema;
use evo_space::genome::ContentHash;
use serde_json::{Value, json};

use super::answer::Answer;
use super::call::Call;
use super::error::CliError;
use super::judge::{self, Aim, PROFILE, Tried};
use super::one_args::TestOneArgs;
use super::{device_lane, output, session};
use crate::compile::cache::{self, Cache};
use crate::engine::single::Single;
use crate::inspect::profile::{
    self, Collection, KnownFacts, KnownSources, MetricSet, NoCounters, Profile, UnknownMetric,
};
use crate::journal::record::now;
use crate::report::envelope::{CallFacts, ResultAlone};
use crate::report::profile::{ProfileAnswer, ProfileResult, text};
use crate::study::{KeptProfile, ProfileFile, ProfileFileError, keep_profile};
use crate::supervise::job::Job;
use crate::supervise::lane::LaneOptions;
use crate::tool::{self, FoundTool, ToolKind, ToolPlaces};

/// Runs the command.
pub fn run(arguments: &ProfileArgs, call: &Call) -> Result<Answer, CliError> {
    let one = &arguments.one;
    profile::check_names(&arguments.metrics).map_err(|UnknownMetric { name, hint }| {
        CliError::usage(format!("`--metrics {name}`: there is no such metric")).with_hint(hint)
    })?;
    if one.problems.len() > 1 {
        let text = format!("`--problem` {} times: a profile is of one problem", one.problems.len());
        return Err(CliError::usage(text).with_hint("call `evo profile` once for each problem"));
    }
    let tried = judge::run(judge::ask(one, call, Aim::Profile)?, one, call, Aim::Profile, |bench| {
        let kernel = session::kernel_of(bench.file)?;
        device_lane::lane_options(bench.setup, one.run.worker_command.as_deref(), Some(kernel))
    })?;
    // Its lane is gone by now, so that the profiler has the device to itself.
    let judged = tried.found.as_ref().zip(tried.judged.job.as_ref()).zip(tried.judged.device.as_ref());
    let Some(((options, job), device)) = judged else { return tried.answer(one, call, Aim::Profile, None) };
    let looked = look_at(arguments, &tried, options, job, device)?;
    answer(arguments, call, &tried, &looked)
}

/// Has the profiler look at a plan of the candidate.
fn look_at<T>(
    arguments: &ProfileArgs,
    tried: &Tried<T>,
    options: &LaneOptions,
    job: &Job,
    device: &DeviceInfo,
) -> Result<CounterLook, CliError> {
    let plan = job.timed.first().ok_or_else(|| CliError::harness("the job has no timed problem"))?;
    let sources = sources_of(device, plan, job, &tried.judged.single, tried.judged.mode);
    let set = match arguments.set {
        CounterSet::Light => MetricSet::Light,
        CounterSet::Wide => MetricSet::Wide,
    };
    let order = CounterOrder {
        set,
        further: &arguments.metrics,
        ncu: arguments.ncu.as_deref(),
        keep_report: arguments.keep_report,
        limit: arguments.one.run.limits.limit_tool,
    };
    look(&CounterSubject { options, job, sources }, &order)
}

/// Shows what was found, keeps it, and says how the command ended.
fn answer<T>(
    arguments: &ProfileArgs,
    call: &Call,
    tried: &Tried<T>,
    looked: &CounterLook,
) -> Result<Answer, CliError> {
    let profile = &looked.profile;
    let absent = profile.counters.is_err().then_some(PROFILE);
    let ended = tried.ended(&arguments.one, call, Aim::Profile, absent, &text(profile))?;
    let is_allowed = ended.allowed_not_run().iter().any(|name| name == PROFILE);
    let error = profile.counters.as_ref().err().map(error_of);
    if error.as_ref().is_some_and(|error| error.code() == ErrorCode::TimedOut) {
        call.hit(LimitName::Tool);
    }
    let kept = keep(arguments, call, tried, looked, error.as_ref().map(CliError::envelope));
    let checked = tried.judged.checked();
    let [profile_file, report_file] = files(&kept, profile.counters.is_ok());
    let mut answer = ended.answer(&ProfileAnswer {
        fields: tried.fields(&checked),
        profile_file,
        report_file,
        result: ProfileResult::of(profile),
    });
    match error {
        // The exit code may say that this was meant; the status says that nobody read a counter, and the error why.
        Some(error) if is_allowed => {
            let exit = answer.exit;
            answer = Answer { exit, ..answer.despite(error) };
        }
        Some(error) => answer = answer.despite(error),
        None => {}
    }
    // What was found is shown all the same.
    Ok(kept.err().into_iter().fold(answer, Answer::despite))
}

/// Writes the profile into the folder of the candidate's study, or into that of its kernel.
fn keep<T>(
    arguments: &ProfileArgs,
    call: &Call,
    tried: &Tried<T>,
    looked: &CounterLook,
    error: Option<EnvelopeError>,
) -> Result<KeptProfile, CliError> {
    let facts = call.facts();
    let evaluation = &tried.judged.single.evaluation;
    let hashes = [evaluation.source_hash.as_ref(), evaluation.code_hash.as_ref()];
    let object = document(&facts, hashes, &looked.profile, error);
    let kind = tried.judged.device.as_ref().map_or("host", |device| device.kind.as_str());
    let folder = judge::study_folder(&arguments.one.candidate, (&tried.setting.kernel, kind), &facts)
        .map_err(|(path, source)| ProfileFileError::Unwritable { path, source })?;
    let own_source = evaluation.source_hash.as_ref().filter(|_| arguments.one.candidate.source.is_some());
    let file = ProfileFile {
        hash: own_source.unwrap_or(&evaluation.configuration_hash).as_str(),
        problem: &looked.profile.problem,
        object: &object,
        report: looked.report.as_deref(),
    };
    Ok(keep_profile(&folder, &file)?)
}

/// Where the files are, or why there are none.
fn files(kept: &Result<KeptProfile, CliError>, has_counters: bool) -> [Known<String>; 2] {
    let shown = |path: &Path| Known::Is(path.display().to_string());
    let none = |why: &str| Known::Unknown(why.to_string());
    match kept {
        Ok(KeptProfile::Written { profile, report: Some(report) }) => [shown(profile), shown(report)],
        Ok(KeptProfile::Written { profile, report: None }) => {
            let why =
                if has_counters { "`--keep-report` keeps it" } else { "there is none without counters" };
            [shown(profile), none(why)]
        }
        Ok(KeptProfile::Earlier { profile }) => {
            let why = format!("`{}` has counters of an earlier run and is kept", profile.display());
            output::say(&format!("note: {why}"));
            [none(&why), none(&why)]
        }
        Err(_) => [none("it was not written"), none("it was not written")],
    }
}

/// `evo profile`
#[derive(Debug, Args)]
pub struct ProfileArgs {
    #[command(flatten)]
    pub one: TestOneArgs,
    /// Which counters: those that name the bottleneck, or more that explain it
    #[arg(long, value_enum, default_value_t = CounterSet::Light, value_name = "light|wide", hide_possible_values = true)]
    pub set: CounterSet,
    /// Further counters: fields of `--set wide`, or ncu's own names such as `dram__bytes_read.sum`
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// Keep ncu's own report beside the object
    #[arg(long = "keep-report")]
    pub keep_report: bool,
    /// The program `ncu`, or the folder that holds it [default: EVO_NCU, PATH, toolkits]
    #[arg(long, value_name = "PROGRAM")]
    pub ncu: Option<PathBuf>,
}

/// How many counters are collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CounterSet {
    /// A dozen
    Light,
    /// The same, stalls and instruction counts
    Wide,
}

/// What is looked at.
pub struct CounterSubject<'a> {
    /// What workers of the device are told.
    pub options: &'a LaneOptions,
    pub job: &'a Job,
    /// Device and plan, and what is known of them.
    pub sources: KnownSources<'a>,
}

/// How it is looked at.
pub struct CounterOrder<'a> {
    pub set: MetricSet,
    pub further: &'a [String],
    /// The profiler, where the user names it.
    pub ncu: Option<&'a Path>,
    pub keep_report: bool,
    pub limit: Duration,
}

/// What is known of a candidate that was judged, on a plan of its job.
pub fn sources_of<'a>(
    device: &'a DeviceInfo,
    plan: &'a ProblemPlan,
    job: &Job,
    single: &'a Single,
    mode: TimingMode,
) -> KnownSources<'a> {
    let mut times = single.evaluation.measurements.iter();
    let time = times.find(|own| own.problem == plan.name && own.mode == mode);
    KnownSources {
        device,
        plan,
        resources: &single.evaluation.resources,
        attributes: attributes_of(&single.attributes, job, plan),
        time_ns: time.map(|time| time.p50_ns),
        mode,
    }
}

/// What the driver says of each launch of a plan: the launch gate asks for all plans in order.
pub fn attributes_of<'a>(all: &'a [EntryAttributes], job: &Job, plan: &ProblemPlan) -> &'a [EntryAttributes] {
    let checked = job.all_checked();
    let before: usize =
        checked.iter().take_while(|own| own.name != plan.name).map(|own| own.launches.len()).sum();
    all.get(before..before + plan.launches.len()).unwrap_or_default()
}

/// A profile, and the profiler's own report where it is to be kept.
pub struct CounterLook {
    pub profile: Profile,
    pub report: Option<Vec<u8>>,
}

/// Has the profiler look, where there is something to look at.
///
/// # Errors
/// evo's own folders and files. That the profiler gives no answer is in the profile.
pub fn look(subject: &CounterSubject<'_>, order: &CounterOrder<'_>) -> Result<CounterLook, CliError> {
    let KnownSources { device, plan, .. } = subject.sources;
    let known = KnownFacts::of(&subject.sources);
    let problem = plan.name.clone();
    if device.kind != DeviceKind::Cuda {
        let counters = Err(NoCounters::HostDevice);
        return Ok(CounterLook {
            profile: Profile { problem, known, version: None, counters },
            report: None,
        });
    }
    let found = match tool::locate(ToolKind::Ncu, order.ncu, &ToolPlaces::of_environment()) {
        Ok(found) => found,
        Err(failure) => {
            let counters = Err(NoCounters::Failed(failure));
            return Ok(CounterLook {
                profile: Profile { problem, known, version: None, counters },
                report: None,
            });
        }
    };
    let version = Some(found.version.to_string());
    let (counters, report) = collect(subject, order, &found)?;
    Ok(CounterLook { profile: Profile { problem, known, version, counters }, report })
}

type Counted = (Result<profile::Collected, NoCounters>, Option<Vec<u8>>);

fn collect(
    subject: &CounterSubject<'_>,
    order: &CounterOrder<'_>,
    tool: &FoundTool,
) -> Result<Counted, CliError> {
    let KnownSources { device, plan, .. } = subject.sources;
    let wanted = profile::wanted(order.set, order.further, &device.arch);
    let scratch = Cache::open(&cache::default_dir())?.scratch()?;
    let (options, job, folder, limit) = (subject.options, subject.job, scratch.path(), order.limit);
    let collected =
        profile::collect(&Collection { tool, options, job, plan, wanted: &wanted, folder, limit });
    let collected = match collected {
        Ok(collected) => collected,
        Err(failure) => return Ok((Err(NoCounters::Failed(failure)), None)),
    };
    let unreadable =
        |error: io::Error| CliError::harness(format!("cannot read the report of `ncu`: {error}"));
    let report = order.keep_report.then(|| fs::read(&collected.report).map_err(unreadable)).transpose()?;
    Ok((Ok(collected), report))
}

/// The error of a profile without counters.
pub fn error_of(none: &NoCounters) -> CliError {
    match none {
        NoCounters::HostDevice => CliError::tool("the host device has no counters")
            .with_hint("profile on a GPU with `--device cuda`")
            .with_code(ErrorCode::NoDevice),
        NoCounters::Failed(failure) => failure.clone().into(),
    }
}

/// The object that is kept of a profile. `hashes` are those of the source and of the machine code.
pub fn document(
    facts: &CallFacts,
    hashes: [Option<&ContentHash>; 2],
    profile: &Profile,
    error: Option<EnvelopeError>,
) -> Value {
    let status = if error.is_some() { EnvelopeStatus::NotRun } else { EnvelopeStatus::Pass };
    let [source_hash, code_hash] = hashes;
    let (told, reasons) = told(&ResultAlone { result: ProfileResult::of(profile) });
    json!({
        "schema": "evo.profile", "version": schema::version(PROFILE), "at": now(), "status": status,
        "error": error, "candidate": facts.candidate, "device": facts.device, "conditions": facts.conditions,
        "repro": facts.repro, "source_hash": source_hash, "code_hash": code_hash,
        "result": told["result"], "reasons": reasons,
    })
}
