//! `evo preflight`: is everything here that a sweep on this device needs, and what else could be used? Looks, starts one
//! worker, and writes nothing but a probe file in the cache, and with `--write` the answer.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evo_device::host::room;
use evo_device::probe::DeviceChoice;
use evo_device::telemetry;
use evo_protocol::binary::KernelSource;
use evo_protocol::device::DeviceKind;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::args::PreflightArgs;
use super::init::unwritable;
use super::{Answer, Call, DeviceSetup, ExitCode, Result, session};
use crate::compile::cache::Cache;
use crate::compile::toolbox::Toolbox;
use crate::compile::{FarmOptions, cache, compile_one, confined, hostcxx, nvrtc};
use crate::journal::own_folder::OwnFolder;
use crate::report::templates::page;
use crate::tool::{PERMISSION_HINT, SurveyedTool, ToolPlaces, profiling_permission, survey};

const TOOLCHAIN: &str = "toolchain.json";

/// 0 when a sweep can start, 1 otherwise.
pub fn run(arguments: &PreflightArgs, call: &Call) -> Result<Answer> {
    let (setup, absent) = match session::setup(&arguments.device) {
        Ok(setup) => (setup, None),
        // What else is missing for a GPU is what the command is for.
        Err(error) if arguments.device.starts_with("cuda") => (without_gpu(&arguments.device), Some(error)),
        Err(error) => return Err(error),
    };
    let setup = setup.fenced(arguments.sandbox);
    let findings = all(&setup);
    let tools = survey(&ToolPlaces::of_environment());
    let ready = findings.iter().all(|finding| finding.ok != Some(false));
    let exit = if ready { ExitCode::Done } else { ExitCode::Failed };
    let device = setup.choice.spec.clone();
    let whole = PreflightAnswer { device, ready, findings: &findings, tools: &tools };
    call.show(&page("preflight.txt.j2", &whole))?;
    let kept = arguments.write.then(|| keep(&arguments.out, &format!("{:#}\n", json!(whole))));
    let unkept = kept.and_then(Result::err);
    Ok(absent.into_iter().chain(unkept).fold(Answer::of(exit, &whole), Answer::despite))
}

fn without_gpu(device: &str) -> DeviceSetup {
    let spec = device.to_string();
    session::setup_on(DeviceChoice { kind: DeviceKind::Cuda, spec, arch: String::new(), name: None })
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct PreflightAnswer<'a> {
    device: String,
    ready: bool,
    findings: &'a [Finding],
    tools: &'a [SurveyedTool],
}

fn keep(out: &Path, text: &str) -> Result<()> {
    let written = OwnFolder::create(out).and_then(|folder| folder.replace(TOOLCHAIN, text.as_bytes(), true));
    let hint = "choose another folder with `--out`";
    written.map_err(|error| unwritable(&out.join(TOOLCHAIN), &error).with_hint(hint))
}

/// Longest wait for the probe of the compiler, whose headers are compiled first.
const PROBE_DEADLINE: Duration = Duration::from_secs(60);

const CXX_HINT: &str = "install g++ (`apt install g++`) or let `CXX` name a C++ compiler";

/// Less free disk than this, bytes, does not hold even a short sweep's cache and evidence.
const DISK_MIN: u64 = 128 << 20;
const DISK_AMPLE: u64 = 1 << 30;

#[derive(Debug, Serialize, JsonSchema)]
pub struct Finding {
    pub name: &'static str,
    /// Absent: not needed for this device and not there.
    pub ok: Option<bool>,
    pub message: String,
}

impl Finding {
    fn of(name: &'static str, needed: bool, answer: Result<String, String>) -> Finding {
        match answer {
            Ok(message) => Finding { name, ok: Some(true), message },
            Err(message) => Finding { name, ok: needed.then_some(false), message },
        }
    }
}

pub fn all(setup: &DeviceSetup) -> Vec<Finding> {
    let cuda = setup.choice.kind == DeviceKind::Cuda;
    vec![
        Finding::of("gpu", cuda, gpus()),
        Finding::of("nvrtc", cuda, nvrtc_library()),
        Finding::of("c++ compiler", !cuda, host_compiler()),
        Finding::of("cache", true, cache_folder()),
        Finding::of("sandbox", false, sandbox(setup)),
        Finding::of("worker", true, worker(setup)),
        free_disk(),
        Finding::of("gpu state", false, gpu_states()),
        Finding::of("profiling", false, profiling()),
    ]
}

fn gpus() -> Result<String, String> {
    let gpus = telemetry::list();
    let names: Vec<String> = gpus.iter().map(|gpu| format!("cuda:{} {}", gpu.index, gpu.name)).collect();
    let driver = telemetry::driver_version().unwrap_or_else(|| "unknown".into());
    if names.is_empty() {
        Err("NVML lists no GPU".into())
    } else {
        Ok(format!("{} (driver {driver})", names.join(", ")))
    }
}

fn confinement() -> &'static str {
    match confined::is_supported() {
        true => "sources can open include folders only",
        false => "without Landlock, sources can open every file that you can",
    }
}

fn nvrtc_library() -> Result<String, String> {
    let shown = |library: nvrtc::NvrtcLibrary| format!("{} ({})", library.path.display(), confinement());
    nvrtc::locate(&Toolbox::from_env()).map(shown).map_err(|error| error.with_hint())
}

/// Finds the compiler and has it compile something: a program may answer `--version` and be no compiler at all.
fn host_compiler() -> Result<String, String> {
    let options = FarmOptions { deadline: PROBE_DEADLINE, ..FarmOptions::new(DeviceKind::Host, "host") };
    let compiler = hostcxx::locate(&options.toolbox).map_err(|error| error.with_hint())?;
    match compile_one(&options, probe()) {
        Ok(Ok(_)) => Ok(format!("{} ({})", compiler.version, confinement())),
        Ok(Err(verdict)) => {
            let why = verdict.message.lines().next().unwrap_or_default();
            let name = compiler.command.join(" ");
            Err(format!("`{name}` ({}) does not compile: {why}\nhint: {CXX_HINT}", compiler.version))
        }
        Err(error) => Err(error.with_hint()),
    }
}

fn probe() -> KernelSource {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let text =
        format!("// {now}\nextern \"C\" __global__ void evo_probe(int* x) {{ x[threadIdx.x] = 1; }}\n");
    KernelSource::plain("probe.cu", text, ["evo_probe"])
}

fn cache_folder() -> Result<String, String> {
    let folder = cache::default_dir();
    let probe = Cache::open(&folder).and_then(|cache| cache.scratch());
    probe.map(|_| folder.display().to_string()).map_err(|error| error.with_hint())
}

/// The fences round host variants: found where all of them hold, or where they were declined.
fn sandbox(setup: &DeviceSetup) -> Result<String, String> {
    let report = session::rooms(setup.sandbox).and_then(|rooms| room::fences(&rooms));
    let report = report.map_err(|error| error.to_string())?;
    let text = report.to_string();
    if report.on && !report.missing().is_empty() { Err(text) } else { Ok(text) }
}

fn worker(setup: &DeviceSetup) -> Result<String, String> {
    if setup.choice.kind == DeviceKind::Cuda && setup.choice.arch.is_empty() {
        return Err("not started: there is no GPU".into());
    }
    let lane = session::lane(setup, None).map_err(|error| error.to_string())?;
    let info = lane.info();
    Ok(format!("{} ({}), {} multiprocessors", info.name, info.driver, info.multiprocessors))
}

fn free_disk() -> Finding {
    let folder = cache::default_dir();
    let existing = folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    match rustix::fs::statvfs(existing) {
        Ok(state) => room_left(state.f_bavail.saturating_mul(state.f_frsize)),
        Err(error) => Finding::of("free disk", true, Err(format!("`{}`: {error}", existing.display()))),
    }
}

/// What so many free bytes are good for: a sweep may be short, so only a disk as good as full keeps one from starting.
fn room_left(bytes: u64) -> Finding {
    let text = format!("{:.1} GiB beside the cache", bytes as f64 / f64::from(1 << 30));
    let answer = match bytes {
        DISK_AMPLE.. => Ok(text),
        _ => Err(format!("{text}: a long sweep may fill it")),
    };
    Finding::of("free disk", bytes < DISK_MIN, answer)
}

/// What else runs on the GPUs, and how they are set: whatever changes times.
fn gpu_states() -> Result<String, String> {
    let gpus = telemetry::list();
    if gpus.is_empty() {
        return Err("NVML lists no GPU".into());
    }
    let one = |gpu: &telemetry::ListedGpu| {
        let settings =
            telemetry::settings(&gpu.uuid).into_iter().map(|(name, value)| format!("{name} {value}"));
        let others = match telemetry::occupants(&gpu.uuid) {
            Some(all) if all.is_empty() => "no other process".to_string(),
            Some(all) => format!("{} processes compute on it", all.len()),
            None => "other processes unknown".to_string(),
        };
        let persistence = match telemetry::is_persistent(&gpu.uuid) {
            Some(true) => "persistence on",
            Some(false) => "persistence off",
            None => "persistence unknown",
        };
        let all: Vec<String> = settings.chain([others, persistence.to_string()]).collect();
        format!("cuda:{} {}", gpu.index, all.join(", "))
    };
    Ok(gpus.iter().map(one).collect::<Vec<_>>().join("\n"))
}

fn profiling() -> Result<String, String> {
    match profiling_permission(telemetry::driver_version().as_deref()) {
        (Some(true), because) => Ok(because),
        (Some(false), because) => Err(format!("{because}\nhint: {PERMISSION_HINT}")),
        (None, because) => Err(because),
    }
}

#[cfg(test)]
mod checks_tests {
    use super::*;

    #[test]
    fn what_is_not_needed_is_absent_and_not_missing() {
        assert_eq!(Finding::of("gpu", false, Err("none".into())).ok, None);
        assert_eq!(Finding::of("gpu", true, Err("none".into())).ok, Some(false));
    }

    #[test]
    fn little_room_is_said_and_a_full_disk_keeps_a_sweep_from_starting() {
        assert_eq!(room_left(2 << 30).ok, Some(true));
        assert_eq!(room_left(500 << 20).ok, None);
        assert!(room_left(500 << 20).message.contains("0.5 GiB beside the cache: a long sweep may fill it"));
        assert_eq!(room_left(1 << 20).ok, Some(false));
    }
}
