//! `evo selftest`: evo's checks of itself on this machine's device, kept in `evidence/`.
//!
//! CI has no GPU, so what the CUDA device does is shown by these commands and their output.

mod bench;
mod device;
mod faults;
mod latency;

use evo_device::device::Device;
use evo_device::open::open;
use evo_protocol::binary::{HEADER_END, KernelSource};
use evo_space::genome::ContentHash;
use serde::Serialize;

use self::bench::Bench;
use super::args::{SelftestArgs, SelftestSubject};
use super::exit_code::ExitCode;
use super::session::{self, Place};
use crate::compile::compile_one;
use crate::kernel::catalog;

/// Runs the command: 0 when nothing failed, 1 otherwise.
pub fn run(arguments: &SelftestArgs) -> anyhow::Result<ExitCode> {
    let place = session::place(&arguments.device, None)?;
    let (info, report) = match arguments.subject {
        SelftestSubject::Device => on_device(&place)?,
        SelftestSubject::Faults | SelftestSubject::Latency => on_lane(&place, arguments.subject)?,
    };
    print(arguments, &info, &report)?;
    Ok(if report.passed() { ExitCode::Done } else { ExitCode::Failed })
}

fn on_device(place: &Place) -> anyhow::Result<(serde_json::Value, Report)> {
    let hash = ContentHash::of(device::PROBES.as_bytes());
    let symbol = format!("extern \"C\" __device__ const char evo_variant_hash[] = \"{hash}\";\n");
    let source = KernelSource {
        text: format!("{symbol}{HEADER_END}{}", device::PROBES),
        options: Vec::new(),
        entries: device::ENTRIES.iter().map(|entry| entry.to_string()).collect(),
        file_name: "probes.cu".into(),
        variant_hash: hash.clone(),
    };
    let binary = compile_one(&place.farm, source)
        .map_err(session::setup_error)?
        .map_err(|verdict| anyhow::anyhow!("the probe kernels do not compile: {}", verdict.message))?;
    let image = std::fs::read(&binary.path)?;
    let cubin = session::support_cubin(place)?;
    let mut device: Box<dyn Device> = open(&place.choice.spec, cubin.as_deref())?;
    let info = serde_json::to_value(device.info())?;
    let mut report = latency::overheads(device.as_mut());
    report.checks.extend(device::run(device.as_mut(), &image, &hash).checks);
    Ok((info, report))
}

fn on_lane(place: &Place, subject: SelftestSubject) -> anyhow::Result<(serde_json::Value, Report)> {
    let file = catalog::open("faults")?;
    let mut bench = Bench::start(&file, place, 1)?;
    let info = serde_json::to_value(bench.lane.info())?;
    let report = match subject {
        SelftestSubject::Faults => faults::run(&mut bench)?,
        _ => latency::run(&mut bench, place)?,
    };
    Ok((info, report))
}

fn print(arguments: &SelftestArgs, info: &serde_json::Value, report: &Report) -> anyhow::Result<()> {
    if arguments.json {
        let whole = serde_json::json!({ "device": info, "passed": report.passed(), "checks": report.checks });
        super::stdout(&format!("{}\n", serde_json::to_string_pretty(&whole)?))?;
        return Ok(());
    }
    let mut text =
        format!("{} ({})\n", info["name"].as_str().unwrap_or("?"), info["driver"].as_str().unwrap_or("?"));
    for check in &report.checks {
        let mark = match check.passed {
            Some(true) => "pass   ",
            Some(false) => "FAIL   ",
            None => "not_run",
        };
        text.push_str(&format!("{mark} {:<24} {}\n", check.name, check.message));
    }
    super::stdout(&text)?;
    Ok(())
}

/// One check's answer.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    pub name: String,
    /// `None`: it did not run, and `message` says why. Never counts as passed.
    pub passed: Option<bool>,
    pub message: String,
}

/// Checks in the order they ran.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub checks: Vec<Check>,
}

impl Report {
    /// Adds an answer; an error is a failed check.
    pub fn add(&mut self, name: &str, answer: Result<String, String>) {
        let (passed, message) = match answer {
            Ok(message) => (Some(true), message),
            Err(message) => (Some(false), message),
        };
        self.checks.push(Check { name: name.into(), passed, message });
    }

    /// Adds a check that could not run.
    pub fn skip(&mut self, name: &str, why: &str) {
        self.checks.push(Check { name: name.into(), passed: None, message: why.into() });
    }

    /// Whether nothing failed.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.passed != Some(false))
    }
}
