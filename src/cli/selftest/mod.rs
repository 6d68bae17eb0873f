//! `evo selftest`: whether evo judges rightly on this machine's device, kept in `evidence/`.
//!
//! Continuous integration has no GPU, so this command and its output show that the CUDA device works. What asks whether a
//! change has broken the judge is in `crates/evo-selftest/`, on the same checks and the same bench.

mod bench;
mod device;
mod faults;

use evo_protocol::device::DeviceInfo;
use schemars::JsonSchema;
use serde::Serialize;

use super::args::{SelftestArgs, SelftestSubject};
use super::{Answer, Call, CliError, ExitCode, Result, output, seed, session};

pub use bench::{SelftestBench, SelftestCheck, SelftestReport, open_device, probe_image};
pub use faults::{ProcessLine, SanitizedFault, processes, scratch};

/// 0 when nothing failed, 1 otherwise.
pub fn run(arguments: &SelftestArgs, call: &Call) -> Result<Answer> {
    arguments.limits.begin(call)?;
    // Another order and other inputs each time: a fault may spoil its neighbor only in some orders.
    let seed = arguments.seed.map_or_else(seed::random, Ok)?;
    call.chose(None, seed);
    let setup = session::setup(&arguments.device)?.fenced(arguments.sandbox);
    let only = arguments.only.as_deref();
    let (info, report) = match (arguments.subject, arguments.sanitize) {
        (SelftestSubject::Device, true) => {
            return Err(CliError::usage("`--sanitize` is for `evo selftest faults`"));
        }
        (SelftestSubject::Faults, true) => faults::sanitize(&setup, only, seed)?,
        (SelftestSubject::Device, false) => device::run(&setup)?,
        (SelftestSubject::Faults, false) => {
            output::say(&format!("seed {seed}: repeat with --seed {seed}"));
            faults::run(&setup, only, seed)?
        }
    };
    let exit = if report.passed() { ExitCode::Done } else { ExitCode::Failed };
    call.show(&format!("{} ({})\n{}", info.name, info.driver, report.table()))?;
    let own = SelftestAnswer { device: &info, passed: report.passed(), checks: &report.checks };
    Ok(Answer::of(exit, &own))
}

/// The answer of `evo selftest`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SelftestAnswer<'a> {
    device: &'a DeviceInfo,
    passed: bool,
    #[schemars(with = "Vec<serde_json::Value>")]
    checks: &'a [SelftestCheck],
}
