//! A profiler's look at one candidate that passed its gates, for `evo profile` and `evo sweep --profile`.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use evo_protocol::device::{DeviceInfo, DeviceKind, EntryAttributes};
use evo_protocol::envelope::{EnvelopeError, EnvelopeStatus, ErrorCode};
use evo_protocol::known::told;
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::schema;
use evo_space::genome::ContentHash;
use serde_json::{Value, json};

use super::error::CliError;
use super::judge::PROFILE;
use crate::compile::cache::{self, Cache};
use crate::engine::single::Single;
use crate::inspect::profile::{self, Collection, KnownFacts, KnownSources, MetricSet, NoCounters, Profile};
use crate::journal::record::now;
use crate::report::envelope::{CallFacts, ResultAlone};
use crate::report::profile::ProfileResult;
use crate::supervise::job::Job;
use crate::supervise::lane::LaneOptions;
use crate::tool::{self, FoundTool, ToolKind, ToolPlaces};

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
