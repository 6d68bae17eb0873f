//! Runs the profiler around a worker that makes a candidate's launches, and reads its report back.
//!
//! Nothing that is not whole counts, and no time from under a profiler is used as a time.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::slice;
use std::time::{Duration, Instant};

use evo_protocol::plan::ProblemPlan;

use super::metrics::{self, WantedMetric};
use super::raw_page::RawPage;
use crate::tool::{FoundTool, PERMISSION_HINT, ToolArguments, ToolFailure, ToolState, run_tool, run_under};
use evo_compile::image::plain_name;
use evo_protocol::entry_name::base;
use evo_supervise::child::DeathHow;
use evo_supervise::job::Job;
use evo_supervise::lane::{LaneError, LaneOptions};
use evo_supervise::solo::{SoloOrder, SoloRun};
use evo_system::regular;

/// Calls before those that are looked at: caches and clocks are warm then.
const WARMUP: u32 = 3;
/// One call is enough, because each kernel is replayed until all counters are read.
const CALLS: u32 = 1;
/// How often the profiler may say that it does not know a metric. Each time one or more are left out.
const ATTEMPTS: usize = 4;
/// Bytes of its messages that are read.
const LOG_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
pub struct Collection<'a> {
    pub tool: &'a FoundTool,
    pub options: &'a LaneOptions,
    pub job: &'a Job,
    pub plan: &'a ProblemPlan,
    pub wanted: &'a [WantedMetric],
    pub folder: &'a Path,
    pub limit: Duration,
}

#[derive(Debug)]
pub struct Collected {
    pub launches: Vec<ProfiledLaunch>,
    pub missing: Vec<MissingMetric>,
    pub left_out: Vec<String>,
    pub report: PathBuf,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ProfiledLaunch {
    pub entry: String,
    pub grid: [i64; 3],
    pub block: [i64; 3],
    pub metrics: BTreeMap<String, Option<f64>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MissingMetric {
    pub field: String,
    pub launch: usize,
    pub reason: String,
}

/// Only a whole report is an answer; a metric without a value is not an error.
pub fn collect(collection: &Collection<'_>) -> Result<Collected, ToolFailure> {
    let began = Instant::now();
    let left = || collection.limit.saturating_sub(began.elapsed());
    let mut counters = metrics::counters(collection.wanted);
    let mut unknown: Vec<String> = Vec::new();
    for attempt in 0..ATTEMPTS {
        let report = collection.folder.join(format!("report-{attempt}.ncu-rep"));
        let log_file = collection.folder.join(format!("messages-{attempt}.txt"));
        let arguments = arguments(collection, &counters, &report, &log_file);
        let Collection { tool, options, job, plan, .. } = *collection;
        let under = SoloOrder::once(options, job, slice::from_ref(plan), left());
        let run = run_under(tool, &arguments, &SoloOrder { warmup: WARMUP, calls: CALLS, ..under })?;
        let log = log_of(&log_file, &run);
        let refused: Vec<String> = unknown_counters(&log, &counters).into_iter().cloned().collect();
        if !refused.is_empty() && refused.len() < counters.len() {
            counters.retain(|counter| !refused.contains(counter));
            unknown.extend(refused);
            continue;
        }
        whole(collection, &run, &log, &report)?;
        let page = read_back(collection, &report, left())?;
        let (launches, missing) = values(collection, &page, &unknown)?;
        return Ok(Collected { launches, missing, left_out: arguments.left_out, report });
    }
    let text = format!("`ncu` does not know `{}`, and more", unknown.join("`, `"));
    Err(ToolFailure::new(ToolState::Incompatible, text))
}

/// Options without which the numbers would mean something else are demanded.
fn arguments(collection: &Collection<'_>, counters: &[String], report: &Path, log: &Path) -> ToolArguments {
    let launches = collection.plan.launches.len();
    let skipped = launches * WARMUP as usize;
    // evo's own kernels, which fill buffers in between, are called `evo_*` and match no entry.
    let kernels = format!("regex:^({})$", entries(collection.plan).join("|"));
    ToolArguments::of(collection.tool)
        .preferred("--target-processes", ["application-only"])
        .demanded("--log-file", [log.as_os_str()])
        .preferred("--kernel-name-base", ["function"])
        .demanded("--kernel-name", [kernels])
        .demanded("--launch-skip", [skipped.to_string()])
        .demanded("--launch-count", [(launches * CALLS as usize).to_string()])
        .preferred("--replay-mode", ["kernel"])
        .demanded("--cache-control", ["none"])
        .demanded("--clock-control", ["none"])
        .demanded("--metrics", [counters.join(",")])
        .preferred("--force-overwrite", [""; 0])
        .demanded("--export", [report.as_os_str()])
}

fn entries(plan: &ProblemPlan) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for launch in &plan.launches {
        let name = base(plain_name(&launch.entry));
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let escaped = |letter: char| match letter {
        letter if letter.is_ascii_alphanumeric() || letter == '_' => vec![letter],
        letter => vec!['\\', letter],
    };
    names.into_iter().map(|name| name.chars().flat_map(escaped).collect()).collect()
}

fn log_of(file: &Path, run: &SoloRun) -> String {
    let mut bytes = regular::read(file).unwrap_or_default();
    bytes.truncate(LOG_MAX);
    format!("{}\n{}", String::from_utf8_lossy(&bytes), run.log)
}

fn whole(collection: &Collection<'_>, run: &SoloRun, log: &str, report: &Path) -> Result<(), ToolFailure> {
    if let Some(failure) = named_failure(log) {
        return Err(failure);
    }
    let said = last_message(log);
    let late = || {
        let text = format!("`ncu` was ended after {:.0} s{said}", collection.limit.as_secs_f64());
        ToolFailure::new(ToolState::TimedOut, text)
            .with_hint("raise `--limit tool`, or ask for fewer metrics")
    };
    let broken = |why: String| ToolFailure::new(ToolState::Broken, format!("{why}{said}"));
    match &run.launched {
        Err(LaneError::Died { death }) if matches!(death.how, DeathHow::Deadline { .. }) => {
            return Err(late());
        }
        Err(error) => {
            return Err(broken(format!("under `ncu` the candidate was not launched to the end: {error}")));
        }
        Ok(launched) => {
            let expected = (collection.plan.launches.len() as u64) * u64::from(WARMUP + CALLS);
            if launched.iter().sum::<u64>() != expected {
                let text = format!("under `ncu` {launched:?} kernels were launched instead of {expected}");
                return Err(broken(text));
            }
        }
    }
    match run.status {
        None => Err(late()),
        Some(status) if !status.success() => Err(broken(format!("`ncu` failed with {status}"))),
        Some(_) if fs::metadata(report).is_ok_and(|file| file.len() > 0) => Ok(()),
        Some(_) => Err(broken("`ncu` ended well and left no report".to_string())),
    }
}

fn read_back(collection: &Collection<'_>, report: &Path, limit: Duration) -> Result<RawPage, ToolFailure> {
    let broken = |why: String| ToolFailure::new(ToolState::Broken, why);
    let arguments = ToolArguments::of(collection.tool)
        .demanded("--import", [report.as_os_str()])
        .demanded("--csv", [""; 0])
        .demanded("--page", ["raw"])
        .demanded("--print-units", ["base"])
        .preferred("--print-kernel-base", ["function"]);
    let run = run_tool(collection.tool, &arguments, collection.folder, limit)?;
    // Messages come before the table on stdout, or on stderr.
    let (table, messages) = (run.stdout.text(), run.stderr.text());
    let said = format!("{table}\n{messages}");
    if !run.succeeded() {
        let failure = named_failure(&said);
        let code = run.status.and_then(|status| status.code());
        let code = code.map_or("a signal".to_string(), |code| format!("exit code {code}"));
        let text = format!("`ncu --import` ended with {code}{}", last_message(&said));
        return Err(failure.unwrap_or_else(|| broken(text)));
    }
    RawPage::read(&table).map_err(|error| {
        let text = format!("the report of `ncu` cannot be read: {error}{}", last_message(&said));
        broken(text)
    })
}

fn values(
    collection: &Collection<'_>,
    page: &RawPage,
    unknown: &[String],
) -> Result<(Vec<ProfiledLaunch>, Vec<MissingMetric>), ToolFailure> {
    let plan = collection.plan;
    let broken = |why: String| Err(ToolFailure::new(ToolState::Broken, why));
    if page.launches() != plan.launches.len() {
        return broken(format!(
            "`ncu` reports {} launches instead of {}",
            page.launches(),
            plan.launches.len()
        ));
    }
    let (mut launches, mut missing) = (Vec::new(), Vec::new());
    for (at, launch) in plan.launches.iter().enumerate() {
        let (found, entry) = (page.kernel(at).unwrap_or_default(), base(plain_name(&launch.entry)));
        if found != entry {
            return broken(format!(
                "launch {at} of the report is of `{found}`, and the plan launches `{entry}`"
            ));
        }
        let metrics = collection.wanted.iter().map(|metric| {
            let value = value(page, at, metric, unknown).map_err(|reason| {
                missing.push(MissingMetric { field: metric.field.clone(), launch: at, reason });
            });
            (metric.field.clone(), value.ok())
        });
        let metrics = metrics.collect();
        let (entry, grid, block) = (launch.entry.clone(), launch.grid, launch.block);
        launches.push(ProfiledLaunch { entry, grid, block, metrics });
    }
    Ok((launches, missing))
}

/// A metric's value: the sum of its counters, all of which must be there.
fn value(page: &RawPage, launch: usize, metric: &WantedMetric, unknown: &[String]) -> Result<f64, String> {
    if let Some(why) = &metric.unanswerable {
        return Err(why.clone());
    }
    let mut sum = 0.0;
    for counter in &metric.counters {
        if unknown.contains(counter) {
            return Err(format!("`ncu` does not know `{counter}` on this device"));
        }
        sum += page.value(launch, counter, metric.unit)?;
    }
    Ok(sum)
}

const INCOMPATIBLE_HINT: &str = "install the Nsight Compute that came with the driver's CUDA version, or update the driver; EVO_NCU names another one";
const BUSY_HINT: &str =
    "end the other profiler; for NVIDIA's monitoring: `dcgmi profile --pause`, afterwards `--resume`";

/// What its messages mean: lines that begin with `==ERROR==` or `==WARNING==`, since its exit code says little. The first
/// that is found counts. Words are those of Nsight Compute 2022 to 2025, as its documentation and public reports of users
/// have them.
const KNOWN: &[(&str, ToolState, Option<&str>)] = &[
    ("ERR_NVGPUCTRPERM", ToolState::Refused, Some(PERMISSION_HINT)),
    ("does not have permission to access", ToolState::Refused, Some(PERMISSION_HINT)),
    ("requires administrator privileges", ToolState::Refused, Some(PERMISSION_HINT)),
    ("driver is not compatible with", ToolState::Incompatible, Some(INCOMPATIBLE_HINT)),
    ("driver version is insufficient", ToolState::Incompatible, Some(INCOMPATIBLE_HINT)),
    (
        "Profiling is not supported",
        ToolState::Incompatible,
        Some("this version of the profiler does not know this device"),
    ),
    ("driver resource was unavailable", ToolState::Busy, Some(BUSY_HINT)),
    ("concurrently collecting profiling data", ToolState::Busy, Some(BUSY_HINT)),
    ("Already under profiling", ToolState::Busy, Some(BUSY_HINT)),
    ("InterprocessLock", ToolState::Busy, Some(BUSY_HINT)),
    ("nsight-compute-lock", ToolState::Busy, Some(BUSY_HINT)),
    ("Failed to load Nsight Compute CUDA modules", ToolState::Incompatible, Some(INCOMPATIBLE_HINT)),
    (
        "failed to connect to the CUDA driver",
        ToolState::Incompatible,
        Some("there is no CUDA driver that it can use"),
    ),
    ("No kernels were profiled", ToolState::Broken, None),
];

const NO_METRIC: &str = "Failed to find metric";

const QUOTED: usize = 300;

pub fn named_failure(log: &str) -> Option<ToolFailure> {
    KNOWN.iter().find_map(|(words, state, hint)| {
        let line = messages(log).find(|line| line.contains(words))?;
        let message = format!("`ncu` says: {}", quoted(line));
        Some(ToolFailure { state: *state, message, hint: hint.map(String::from) })
    })
}

fn unknown_counters<'a>(log: &str, asked: &'a [String]) -> Vec<&'a String> {
    // A name may come as a pattern, with its points escaped and all that it could end in: `regex:^a__b\.(sum|avg)$`.
    let lines: Vec<String> =
        messages(log).filter(|line| line.contains(NO_METRIC)).map(|line| line.replace('\\', "")).collect();
    let base = |counter: &str| counter.split('.').next().unwrap_or_default().to_string();
    let is_in = |line: &String, counter: &String| {
        line.contains(counter.as_str()) || words(line).any(|word| word == base(counter))
    };
    asked.iter().filter(|counter| lines.iter().any(|line| is_in(line, counter))).collect()
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
}

/// The last message of a log, for failures that have no name.
fn last_message(log: &str) -> String {
    messages(log).last().map(|line| format!(" ({})", quoted(line))).unwrap_or_default()
}

fn messages(log: &str) -> impl Iterator<Item = &str> {
    log.lines().map(str::trim).filter(|line| line.starts_with("==ERROR==") || line.starts_with("==WARNING=="))
}

fn quoted(line: &str) -> String {
    let text = line.trim_start_matches("==ERROR==").trim_start_matches("==WARNING==").trim();
    evo_space::text::printable(&evo_space::text::shortened(text, QUOTED)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_a_state_and_metrics_that_are_not_known_are_found_by_name_or_pattern() {
        let asked = ["a__b.sum", "a__bc.sum", "d__e.avg.pct", "d__f.avg"].map(String::from);
        let told = [
            // Those of each state are played in `tests/it/profile.rs`. The reason comes before what follows from it.
            "==WARNING== No kernels were profiled.\n==ERROR== ERR_NVGPUCTRPERM",
            "==PROF== Connected to process 12 (/usr/bin/evo)\n==PROF== Disconnected",
            "a kernel prints ERR_NVGPUCTRPERM",
            "",
            "==ERROR== Failed to find metric a__b.sum",
            r"==ERROR== Failed to find metric regex:^d__e\.(sum|avg|pct)$",
            "==ERROR== Failed to find metric(s) a__bc.sum, d__f.avg",
            "==PROF== a__b.sum",
        ]
        .map(|log| {
            let (failure, unknown) = (named_failure(log), unknown_counters(log, &asked));
            format!("{log}\n  {:?} {unknown:?}", failure.map(|own| (own.state, own.message)))
        });
        insta::assert_snapshot!(told.join("\n"));
    }
}
