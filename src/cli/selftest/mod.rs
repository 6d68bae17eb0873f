//! `evo selftest`: whether evo judges rightly on this machine's device, kept in `evidence/`.
//!
//! Continuous integration has no GPU, so this command and its output show that the CUDA device works. What asks whether a
//! change has broken the judge is in `crates/evo-selftest/`, on the same checks and the same bench.

mod bench;
mod checks;
mod device;
mod faults;

use evo_protocol::device::DeviceInfo;
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::Answer;
use super::args::{SelftestArgs, SelftestSubject};
use super::call::Call;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::session::{self, DeviceSetup};
use super::{output, seed};

pub use bench::{SelftestBench, open_device, probe_image};
pub use checks::{SelftestCheck, SelftestReport};
pub use device::spread;
pub use faults::{FaultLook, ProcessLine, SANITIZED, SanitizedFault, processes, scratch};

/// Runs the command: 0 when nothing failed, 1 otherwise.
pub fn run(arguments: &SelftestArgs, call: &Call) -> Result<Answer, CliError> {
    arguments.limits.begin(call)?;
    // Another order and other inputs each time: a fault may spoil its neighbor only in some orders.
    let seed = arguments.seed.map_or_else(seed::random, Ok)?;
    call.chose(None, seed);
    let setup = session::setup(&arguments.device)?.fenced(arguments.sandbox);
    let (info, report) = match (arguments.subject, arguments.sanitize) {
        (SelftestSubject::Device, true) => {
            return Err(CliError::usage("`--sanitize` is for `evo selftest faults`"));
        }
        (SelftestSubject::Faults, true) => return sanitized(&setup, arguments, seed),
        (SelftestSubject::Device, false) => device::run(&setup)?,
        (SelftestSubject::Faults, false) => {
            output::say(&format!("seed {seed}: repeat with --seed {seed}"));
            faults::run(&setup, arguments.only.as_deref(), seed)?
        }
    };
    let exit = if report.passed() { ExitCode::Done } else { ExitCode::Failed };
    if arguments.json {
        let own = SelftestAnswer { device: &info, passed: report.passed(), checks: &report.checks };
        return Ok(Answer::of(exit, &own));
    }
    let legend = match arguments.subject {
        SelftestSubject::Faults => {
            "VENLD: verdict, evidence, neighbor, leftovers, delay; ! where one is wrong\n"
        }
        SelftestSubject::Device => "",
    };
    output::stdout(&format!("{}{legend}{}", title(&info), report.table()))?;
    Ok(exit.into())
}

/// The answer of `evo selftest`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SelftestAnswer<'a> {
    device: &'a DeviceInfo,
    passed: bool,
    #[schemars(with = "Vec<serde_json::Value>")]
    checks: &'a [checks::SelftestCheck],
}

/// The answer of `evo selftest faults --sanitize`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SanitizedAnswer<'a> {
    device: &'a DeviceInfo,
    seed: u64,
    tool: SelftestTool<'a>,
    passed: bool,
    #[schemars(with = "Vec<serde_json::Value>")]
    rows: &'a [faults::SanitizedRow],
}

#[derive(Debug, Serialize, JsonSchema)]
struct SelftestTool<'a> {
    name: &'a str,
    version: String,
}

fn title(info: &DeviceInfo) -> String {
    format!("{} ({})\n", info.name, info.driver)
}

/// Which check of compute-sanitizer finds which fault. Rows are told while they come; the table is printed last.
fn sanitized(setup: &DeviceSetup, arguments: &SelftestArgs, seed: u64) -> Result<Answer, CliError> {
    let (info, tool, rows) = faults::sanitize(setup, arguments.only.as_deref(), seed, |row| {
        output::say(&format!("{} {:.1} s", row.fault, row.elapsed_ms / 1e3));
    })?;
    let passed = rows.iter().all(|row| row.passed != Some(false));
    let exit = if passed { ExitCode::Done } else { ExitCode::Failed };
    let (name, version) = (tool.kind.as_str(), tool.version.to_string());
    if arguments.json {
        let tool = SelftestTool { name, version };
        return Ok(Answer::of(exit, &SanitizedAnswer { device: &info, seed, tool, passed, rows: &rows }));
    }
    output::stdout(&format!("{name} {version} on {}{}", title(&info), faults::table(&rows)))?;
    Ok(exit.into())
}
