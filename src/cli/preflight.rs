//! `evo preflight`: is everything here that a sweep on this device needs? Looks, starts one worker,
//! writes nothing but a probe file in the cache.

use evo_device::host::room;
use evo_device::telemetry;
use evo_protocol::device::DeviceKind;
use serde::Serialize;

use super::answer::Answer;
use super::args::PreflightArgs;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::output;
use super::session::{self, DeviceSetup};
use crate::compile::cache::{self, Cache};
use crate::compile::{hostcxx, nvrtc};

/// One thing that was looked for.
#[derive(Debug, Serialize)]
struct Finding {
    name: &'static str,
    /// Absent: not needed for this device and not there.
    ok: Option<bool>,
    message: String,
}

impl Finding {
    fn of(name: &'static str, needed: bool, answer: Result<String, String>) -> Finding {
        match answer {
            Ok(message) => Finding { name, ok: Some(true), message },
            Err(message) => Finding { name, ok: needed.then_some(false), message },
        }
    }
}

/// Runs the command: 0 when a sweep can start, 1 otherwise.
pub fn run(arguments: &PreflightArgs) -> Result<Answer, CliError> {
    let setup = session::setup(&arguments.device, None)?.fenced(arguments.sandbox);
    let cuda = setup.choice.kind == DeviceKind::Cuda;
    let findings = vec![
        Finding::of("gpu", cuda, gpus()),
        Finding::of("nvrtc", cuda, nvrtc_library()),
        Finding::of("c++ compiler", !cuda, host_compiler()),
        Finding::of("cache", true, cache_folder()),
        Finding::of("sandbox", false, sandbox(&setup)),
        Finding::of("worker", true, worker(&setup)),
    ];
    let ready = findings.iter().all(|finding| finding.ok != Some(false));
    let exit = if ready { ExitCode::Done } else { ExitCode::Failed };
    if arguments.json {
        return Ok(Answer::object(exit, &json(&setup, ready, &findings)));
    }
    output::stdout(&text(&setup, ready, &findings))?;
    Ok(exit.into())
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

fn nvrtc_library() -> Result<String, String> {
    nvrtc::locate().map(|library| library.path.display().to_string()).map_err(|error| error.with_hint())
}

fn host_compiler() -> Result<String, String> {
    hostcxx::locate().map(|compiler| compiler.version).map_err(|error| error.with_hint())
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

/// Starts a worker as a sweep would and ends it again.
fn worker(setup: &DeviceSetup) -> Result<String, String> {
    let lane = session::lane(setup, None, None).map_err(|error| error.to_string())?;
    let info = lane.info();
    Ok(format!("{} ({}), {} multiprocessors", info.name, info.driver, info.multiprocessors))
}

fn json(setup: &DeviceSetup, ready: bool, findings: &[Finding]) -> serde_json::Value {
    serde_json::json!({ "device": setup.choice.spec, "ready": ready, "findings": findings })
}

fn text(setup: &DeviceSetup, ready: bool, findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.ok {
            Some(true) => "ok     ",
            Some(false) => "MISSING",
            None => "absent ",
        };
        let message = finding.message.replace('\n', "\n                      ");
        text.push_str(&format!("{mark} {:<13} {message}\n", finding.name));
    }
    let verdict = if ready { "ready" } else { "not ready" };
    text.push_str(&format!("{verdict} for `--device {}`\n", setup.choice.spec));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_needed_is_absent_and_not_missing() {
        assert_eq!(Finding::of("gpu", false, Err("none".into())).ok, None);
        assert_eq!(Finding::of("gpu", true, Err("none".into())).ok, Some(false));
    }
}
