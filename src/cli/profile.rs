//! `evo profile`: what a profiler sees of one candidate that passed its gates, and what that means.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use evo_protocol::device::{DeviceKind, EntryAttributes};
use evo_protocol::envelope::{CommandEnvelope, EnvelopeStatus, ErrorCode, LimitName};
use evo_protocol::known::{Known, told};
use evo_protocol::plan::ProblemPlan;
use evo_protocol::schema;
use evo_space::genome::ContentHash;
use serde_json::json;

use super::judge::{self, Aim, AskedCandidate, Judged, PROFILE, Tried, VerdictEnd, time_of};
use super::one_args::{TestOneArgs, choice};
use super::{Answer, Call, CliError, Result, output};
use crate::compile::cache::{self, Cache};
use crate::inspect::profile::{
    self, Collection, KnownFacts, KnownSources, MetricSet, NoCounters, Profile, UnknownMetric,
};
use crate::journal::own_folder::OwnFolder;
use crate::journal::record::now;
use crate::report::envelope::ResultAlone;
use crate::report::profile::{ProfileAnswer, ProfileResult, text};
use crate::study::{KeptProfile, ProfileFile, ProfileFileError, keep_profile};
use crate::supervise::job::Job;
use crate::supervise::lane::LaneOptions;
use crate::tool::{self, FoundTool, ToolKind, ToolPlaces};

pub fn run(arguments: &ProfileArgs, call: &Call) -> Result<Answer> {
    let one = &arguments.one;
    profile::check_names(&arguments.metrics).map_err(|UnknownMetric { name, hint }| {
        CliError::usage(format!("`--metrics {name}`: there is no such metric")).with_hint(hint)
    })?;
    if one.problems.len() > 1 {
        let text = format!("`--problem` {} times: a profile is of one problem", one.problems.len());
        return Err(CliError::usage(text).with_hint("call `evo profile` once for each problem"));
    }
    let tried = judge::run(judge::ask(one, call, Aim::Profile)?, call, Aim::Profile, |_| Ok(()))?;
    let judged = &tried.judged;
    if tried.found.is_none() {
        return tried.answer(call);
    }
    let plan = judged.plans().first().ok_or_else(|| CliError::harness("the job has no timed problem"))?;
    // Its lane is gone by now, so that the profiler has the device to itself.
    let looked = look(&CounterOrder {
        set: arguments.set,
        further: &arguments.metrics,
        ncu: arguments.ncu.as_deref(),
        keep_report: arguments.keep_report,
        ..CounterOrder::of(&tried.asked, judged, plan)?
    })?;
    answer(arguments, call, &tried, &looked)
}

fn answer(arguments: &ProfileArgs, call: &Call, tried: &Tried<()>, looked: &CounterLook) -> Result<Answer> {
    let profile = &looked.profile;
    let absent = profile.counters.is_err().then_some(PROFILE);
    let VerdictEnd { answer, fields, .. } = tried.ended(call, absent, &text(profile))?;
    let error = profile.counters.as_ref().err().map(error_of);
    if error.as_ref().is_some_and(|error| error.code() == ErrorCode::TimedOut) {
        call.hit(LimitName::Tool);
    }
    let kept = keep(arguments, call, tried, looked);
    let [profile_file, report_file] = files(&kept, profile.counters.is_ok());
    let result = ProfileResult::of(profile);
    let mut answer = answer.with(&ProfileAnswer { fields, profile_file, report_file, result });
    if let Some(error) = error {
        // The exit code may say that this was meant; the status says that nobody read a counter, and the error why.
        let is_allowed = answer.allowed_not_run.iter().any(|name| name == PROFILE);
        let exit = answer.exit;
        answer = answer.despite(error);
        if is_allowed {
            answer.exit = exit;
        }
    }
    // What was found is shown all the same.
    Ok(kept.err().into_iter().fold(answer, Answer::despite))
}

/// Writes the profile into the folder of the candidate's study, or into that of its kernel.
fn keep(
    arguments: &ProfileArgs,
    call: &Call,
    tried: &Tried<()>,
    looked: &CounterLook,
) -> Result<KeptProfile> {
    let facts = call.facts();
    let evaluation = tried.judged.evaluation();
    let kind = tried.judged.device.as_ref().map_or("host", |device| device.kind.as_str());
    let candidate = &arguments.one.candidate;
    let folder = judge::study_folder(candidate, (&tried.asked.setting.kernel, kind), &facts)
        .map_err(|(path, source)| ProfileFileError::Unwritable { path, source })?;
    let hashes = [evaluation.source_hash.as_ref(), evaluation.code_hash.as_ref()];
    write_profile(&folder, &facts, candidate.hash(evaluation), hashes, looked)
}

/// Writes a profile into a folder. `hash` names the file, `hashes` are those of the source and of the machine code.
pub fn write_profile(
    folder: &OwnFolder,
    facts: &CommandEnvelope,
    hash: &ContentHash,
    [source_hash, code_hash]: [Option<&ContentHash>; 2],
    CounterLook { profile, report }: &CounterLook,
) -> Result<KeptProfile> {
    let error = profile.counters.as_ref().err().map(|none| error_of(none).envelope());
    let status = if error.is_some() { EnvelopeStatus::NotRun } else { EnvelopeStatus::Pass };
    let (told, reasons) = told(&ResultAlone { result: ProfileResult::of(profile) });
    let object = json!({
        "schema": "evo.profile", "version": schema::version(PROFILE), "at": now(), "status": status,
        "error": error, "candidate": facts.candidate, "device": facts.device, "conditions": facts.conditions,
        "repro": facts.repro, "source_hash": source_hash, "code_hash": code_hash,
        "result": told["result"], "reasons": reasons,
    });
    let (hash, problem, report) = (hash.as_str(), &profile.problem, report.as_deref());
    Ok(keep_profile(folder, &ProfileFile { hash, problem, object: &object, report })?)
}

fn files(kept: &Result<KeptProfile>, has_counters: bool) -> [Known<String>; 2] {
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

#[derive(Debug, Args)]
pub struct ProfileArgs {
    #[command(flatten)]
    pub one: TestOneArgs,
    /// Which counters: those that name the bottleneck, or more that explain it
    #[arg(long, value_parser = choice([("light", MetricSet::Light), ("wide", MetricSet::Wide)]), default_value = "light", value_name = "light|wide", hide_possible_values = true)]
    pub set: MetricSet,
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

pub struct CounterOrder<'a> {
    /// What workers of the device are told.
    pub options: LaneOptions,
    pub job: &'a Job,
    /// Device and plan, and what is known of them.
    pub sources: KnownSources<'a>,
    pub set: MetricSet,
    pub further: &'a [String],
    pub ncu: Option<&'a Path>,
    pub keep_report: bool,
    pub limit: Duration,
}

impl<'a> CounterOrder<'a> {
    pub fn light(
        options: LaneOptions,
        job: &'a Job,
        sources: KnownSources<'a>,
        limit: Duration,
    ) -> CounterOrder<'a> {
        let (set, further) = (MetricSet::Light, &[][..]);
        CounterOrder { options, job, sources, set, further, ncu: None, keep_report: false, limit }
    }

    /// The same of a candidate that was judged on a device, on a plan of its job.
    pub fn of(asked: &AskedCandidate, judged: &'a Judged, plan: &'a ProblemPlan) -> Result<CounterOrder<'a>> {
        let (Some(job), Some(device)) = (&judged.job, &judged.device) else {
            return Err(CliError::harness("the candidate did not reach the device"));
        };
        let sources = KnownSources {
            device,
            plan,
            resources: &judged.evaluation().resources,
            attributes: attributes_of(&judged.single.attributes, job, plan),
            time_ns: time_of(judged.evaluation(), plan, judged.mode).map(|time| time.p50_ns),
            mode: judged.mode,
        };
        Ok(CounterOrder::light(asked.lane_options()?, job, sources, asked.options.run.limits.tool))
    }
}

/// What the driver says of each launch of a plan: the launch gate asks for all plans in order.
pub fn attributes_of<'a>(all: &'a [EntryAttributes], job: &Job, plan: &ProblemPlan) -> &'a [EntryAttributes] {
    let checked = job.all_checked();
    let before: usize =
        checked.iter().take_while(|own| own.name != plan.name).map(|own| own.launches.len()).sum();
    all.get(before..before + plan.launches.len()).unwrap_or_default()
}

pub struct CounterLook {
    pub profile: Profile,
    pub report: Option<Vec<u8>>,
}

/// Has the profiler look, where there is something to look at.
///
/// # Errors
/// evo's own folders and files. That the profiler gives no answer is in the profile.
pub fn look(order: &CounterOrder<'_>) -> Result<CounterLook> {
    let KnownSources { device, plan, .. } = order.sources;
    let (mut version, mut report) = (None, None);
    let counters = match device.kind {
        DeviceKind::Cuda => match tool::locate(ToolKind::Ncu, order.ncu, &ToolPlaces::of_environment()) {
            Ok(found) => {
                version = Some(found.version.to_string());
                collect(order, &found, &mut report)?
            }
            Err(failure) => Err(NoCounters::Failed(failure)),
        },
        _ => Err(NoCounters::HostDevice),
    };
    let known = KnownFacts::of(&order.sources);
    Ok(CounterLook { profile: Profile { problem: plan.name.clone(), known, version, counters }, report })
}

fn collect(
    order: &CounterOrder<'_>,
    tool: &FoundTool,
    report: &mut Option<Vec<u8>>,
) -> Result<Result<profile::Collected, NoCounters>> {
    let CounterOrder { options, job, sources: KnownSources { device, plan, .. }, limit, .. } = order;
    let limit = *limit;
    let wanted = &profile::wanted(order.set, order.further, &device.arch);
    let scratch = Cache::open(&cache::default_dir())?.scratch()?;
    let folder = scratch.path();
    let collected = match profile::collect(&Collection { tool, options, job, plan, wanted, folder, limit }) {
        Ok(collected) => collected,
        Err(failure) => return Ok(Err(NoCounters::Failed(failure))),
    };
    if order.keep_report {
        let read = fs::read(&collected.report);
        *report = Some(
            read.map_err(|error| CliError::harness(format!("cannot read the report of `ncu`: {error}")))?,
        );
    }
    Ok(Ok(collected))
}

pub fn error_of(none: &NoCounters) -> CliError {
    match none {
        NoCounters::HostDevice => CliError::tool("the host device has no counters")
            .with_hint("profile on a GPU with `--device cuda`")
            .with_code(ErrorCode::NoDevice),
        NoCounters::Failed(failure) => failure.clone().into(),
    }
}
