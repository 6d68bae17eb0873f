//! The command: opens a device or starts a lane, runs the checks of one subject, prints them.

use std::hash::{BuildHasher, Hasher, RandomState};

use evo_device::device::Device;
use evo_device::open::open;
use evo_protocol::binary::{HEADER_END, KernelSource};
use evo_protocol::envelope::ErrorCode;
use evo_protocol::specialization::Specialization;
use evo_space::genome::ContentHash;

use super::bench::SelftestBench;
use super::checks::SelftestReport;
use super::faults::SanitizedRow;
use super::{alarms, crash, device, faults, gates, latency, ptx, references};
use crate::cli::answer::Answer;
use crate::cli::args::{SelftestArgs, SelftestSubject};
use crate::cli::call::Call;
use crate::cli::device_lane;
use crate::cli::error::CliError;
use crate::cli::exit_code::ExitCode;
use crate::cli::output;
use crate::cli::session::{self, DeviceSetup};
use crate::compile::compile_one;
use crate::kernel::catalog;

/// Runs the command: 0 when nothing failed, 1 otherwise.
pub fn run(arguments: &SelftestArgs, call: &Call) -> Result<Answer, CliError> {
    arguments.limits.begin(call)?;
    let seed = seed(arguments);
    call.chose(None, seed);
    // It starts evo itself, always on the host, so it needs no device here.
    if arguments.subject == SelftestSubject::Crash {
        return crash::run(arguments, seed);
    }
    if arguments.sanitize && arguments.subject != SelftestSubject::Faults {
        return Err(CliError::usage("`--sanitize` is for `evo selftest faults`"));
    }
    let setup = session::setup(&arguments.device, None)?.fenced(arguments.sandbox);
    if arguments.sanitize {
        return sanitized(&setup, arguments, seed);
    }
    let (info, report) = match arguments.subject {
        SelftestSubject::Gates => return gates::run(arguments, &setup, seed),
        SelftestSubject::Alarms => return alarms::run(arguments, &setup, seed),
        SelftestSubject::Device => on_device(&setup)?,
        SelftestSubject::Ptx => ptx::run(&setup, arguments.only.as_deref(), seed)?,
        SelftestSubject::References => references::run(&setup, seed)?,
        SelftestSubject::Faults => faults_on(&setup, arguments, seed)?,
        SelftestSubject::Latency | SelftestSubject::Crash => on_lane(&setup, seed)?,
    };
    let exit = if report.passed() { ExitCode::Done } else { ExitCode::Failed };
    if arguments.json {
        let whole = serde_json::json!({ "device": info, "passed": report.passed(), "checks": report.checks });
        return Ok(Answer::object(exit, &whole));
    }
    print(&info, &report)?;
    Ok(exit.into())
}

fn on_device(setup: &DeviceSetup) -> Result<(serde_json::Value, SelftestReport), CliError> {
    let hash = ContentHash::of(device::PROBES.as_bytes());
    let symbol = format!("extern \"C\" __device__ const char evo_variant_hash[] = \"{hash}\";\n");
    let source = KernelSource {
        text: format!("{symbol}{HEADER_END}{}", device::PROBES),
        options: Vec::new(),
        entries: device::ENTRIES.iter().map(|entry| entry.to_string()).collect(),
        file_name: "probes.cu".into(),
        variant_hash: hash.clone(),
        instrumented: false,
        constants: Specialization::default(),
    };
    let binary = compile_one(&setup.farm, source)?.map_err(|verdict| {
        CliError::harness(format!("the probe kernels do not compile: {}", verdict.message))
    })?;
    let image = std::fs::read(&binary.path)?;
    let cubin = device_lane::support_cubin(setup)?;
    let mut device: Box<dyn Device> =
        open(&setup.choice.spec, cubin.as_deref(), device_lane::rooms(setup.sandbox)?)
            .map_err(|error| CliError::environment(error.to_string()).with_code(ErrorCode::NoDevice))?;
    let info = serde_json::to_value(device.info())?;
    let mut report = latency::overheads(device.as_mut());
    report.checks.extend(device::run(device.as_mut(), &image, &hash).checks);
    Ok((info, report))
}

fn faults_on(
    setup: &DeviceSetup,
    arguments: &SelftestArgs,
    seed: u64,
) -> Result<(serde_json::Value, SelftestReport), CliError> {
    eprintln!("seed {seed}: repeat with --seed {seed}");
    let (info, report) = faults::run(setup, arguments.only.as_deref(), seed)?;
    Ok((serde_json::to_value(info)?, report))
}

/// Which check of compute-sanitizer finds which fault. Rows are told while they come; the table is printed last.
fn sanitized(setup: &DeviceSetup, arguments: &SelftestArgs, seed: u64) -> Result<Answer, CliError> {
    let told = |row: &SanitizedRow| output::say(&format!("{} {:.1} s", row.fault, row.elapsed_ms / 1e3));
    let (info, tool, rows) = faults::sanitize(setup, arguments.only.as_deref(), seed, told)?;
    let passed = rows.iter().all(|row| row.passed != Some(false));
    let exit = if passed { ExitCode::Done } else { ExitCode::Failed };
    if arguments.json {
        let tool = serde_json::json!({ "name": tool.kind.name(), "version": tool.version.to_string() });
        let whole =
            serde_json::json!({ "device": info, "seed": seed, "tool": tool, "passed": passed, "rows": rows });
        return Ok(Answer::object(exit, &whole));
    }
    let title = format!("{} {} on {} ({})\n", tool.kind.name(), tool.version, info.name, info.driver);
    output::stdout(&format!("{title}{}", faults::table(&rows)))?;
    Ok(exit.into())
}

fn on_lane(setup: &DeviceSetup, seed: u64) -> Result<(serde_json::Value, SelftestReport), CliError> {
    let file = catalog::open("faults")?;
    let mut bench = SelftestBench::start(&file, setup, seed)?;
    let info = serde_json::to_value(bench.lane.info())?;
    Ok((info, latency::run(&mut bench, setup)?))
}

/// Another order and other inputs each time: a fault may spoil its neighbor only in some orders.
fn seed(arguments: &SelftestArgs) -> u64 {
    arguments.seed.unwrap_or_else(|| RandomState::new().build_hasher().finish() >> 32)
}

fn print(info: &serde_json::Value, report: &SelftestReport) -> Result<(), CliError> {
    let mut text =
        format!("{} ({})\n", info["name"].as_str().unwrap_or("?"), info["driver"].as_str().unwrap_or("?"));
    text.push_str(&report.table());
    output::stdout(&text)?;
    Ok(())
}
