//! `evo-selftest`: did a change break the judge? Tests that want a device, as one program that can be carried to a machine
//! with a GPU; on the host device the full tests run them.
//!
//! `gates` leaves out each check in turn, `alarms` judges shipped kernels a second time, `ptx` and `references` compare
//! what the device computes with plain loops, `crash` kills a sweep, `latency` measures what supervision costs.
//! `evo selftest` has what users need: whether evo judges rightly on their machine.

mod alarms;
mod crash;
pub mod gates;
mod latency;
mod order;
mod ptx;

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use evo::cli::error::CliError;
use evo::cli::selftest::{SelftestReport, open_device};
use evo::cli::session;
use evo::cli::{SandboxMode, output, seed};
use evo::process;
use evo::worker::judge::agreement::compare_references;
use serde_json::{Value, json};

use order::{Order, failed};

/// Tests whether evo still judges rightly
#[derive(Debug, Parser)]
#[command(
    version,
    max_term_width = 100,
    after_help = "Example: evo-selftest gates --device host --only bias\n         evo-selftest alarms --device cuda --count 2000"
)]
struct Arguments {
    /// What to test
    #[arg(value_enum)]
    subject: Subject,
    /// `auto`, `host`, `cuda` or `cuda:INDEX`; `crash` is always on the host
    #[arg(long, default_value = "auto")]
    device: String,
    /// Only checks, instructions or, for `alarms`, spaces whose name contains this
    #[arg(long, value_name = "ROW")]
    only: Option<String>,
    /// Inputs, configurations, moments; random when absent
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// `alarms`: configurations, shared out to the spaces [default: 60]; `crash`: how many moments [default: 200]
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// Whether native code of the host device runs behind fences; `off` keeps it in a process of its own only
    #[arg(long, value_enum, default_value_t = SandboxMode::On, value_name = "on|off", hide_possible_values = true)]
    sandbox: SandboxMode,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Subject {
    /// Each check inside the gates left out in turn: which broken kernel then slips through
    Gates,
    /// Random configurations of the kernels that ship, judged again by plain loops: is an honest one refused?
    Alarms,
    /// Instructions of evo/ptx.cuh: fragments, copies, barriers, beside plain loops
    Ptx,
    /// Built-in references: the device's kernels beside the plain functions, in every input family
    References,
    /// evo, its workers and its compilers killed at moments of a sweep on the host, each resumed
    Crash,
    /// SIGKILL to usable, worker start, A/A noise floor
    Latency,
}

/// Runs the program: 0 where nothing failed, 1 otherwise. Its workers and the sweeps that it kills are evo, which it is too.
pub fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|word| word == "worker" || word == "sweep") {
        return evo::cli::main();
    }
    if let Ok(program) = process::worker_program() {
        process::keep_with(program, &["worker", "--keep"]);
    }
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            output::say(&format!("error: {error}"));
            ExitCode::from(error.exit_code() as u8)
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool, CliError> {
    let seed = arguments.seed.map_or_else(seed::random, Ok)?;
    output::say(&format!("seed {seed}: repeat with --seed {seed}"));
    let device = if matches!(arguments.subject, Subject::Crash) { "host" } else { &arguments.device };
    let order = Order {
        setup: session::setup(device)?.fenced(arguments.sandbox),
        only: arguments.only.clone(),
        seed,
        count: arguments.count,
    };
    let mut report = SelftestReport { is_live: !arguments.json, ..SelftestReport::default() };
    let subject = match arguments.subject {
        Subject::Gates => gates::run,
        Subject::Alarms => alarms::run,
        Subject::Ptx => ptx::run,
        Subject::References => references,
        Subject::Crash => crash::run,
        Subject::Latency => latency::run,
    };
    let info = subject(&order, &mut report)?;
    let passed = report.passed();
    if arguments.json {
        let answer = json!({ "device": info, "seed": seed, "passed": passed, "checks": report.checks });
        output::stdout(&format!("{answer}\n"))?;
        return Ok(passed);
    }
    let count = |passed: Option<bool>| report.checks.iter().filter(|check| check.passed == passed).count();
    let [right, wrong, absent] = [Some(true), Some(false), None].map(count);
    output::stdout(&format!(
        "{right} pass, {wrong} fail, {absent} not run on {}\n",
        info["name"].as_str().unwrap_or("?")
    ))?;
    Ok(passed)
}

/// Built-in references as the device computes them, beside the plain functions; one check for each problem.
fn references(order: &Order, report: &mut SelftestReport) -> Result<Value, CliError> {
    let path = session::reference_kernels(&order.setup, None)?;
    let image = std::fs::read(path.ok_or_else(|| CliError::harness("there are no reference kernels"))?)?;
    let device = open_device(&order.setup)?;
    let info = serde_json::to_value(device.info())?;
    for row in compare_references(device, &image, None, order.seed).map_err(failed)? {
        let right = || format!("{} kinds of inputs; {:.1e} of what may differ", row.cases, row.worst);
        report.add(&row.name, row.difference.clone().map_or_else(|| Ok(right()), Err));
    }
    Ok(info)
}
