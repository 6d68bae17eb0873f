//! What supervision costs on this machine. Published, because a tool that claims to survive hung kernels should say how
//! long that takes.

use std::time::Instant;

use evo::cli::error::CliError;
use evo::cli::selftest::{SelftestBench, SelftestReport};
use evo::cli::session;
use evo::cli::session::DeviceSetup;
use evo::kernel::catalog;
use evo::supervise::job::Standing;
use evo::supervise::lane::LaneLimits;
use evo::timing::stats;

use crate::order::Order;

const REPEATS: usize = 5;

pub fn run(order: &Order, report: &mut SelftestReport) -> Result<serde_json::Value, CliError> {
    let file = catalog::open("faults")?;
    let mut bench = SelftestBench::start(&file, &order.setup, order.seed, LaneLimits::default())?;
    report.add("worker_start", worker_start(&order.setup));
    report.add("sigkill_to_usable_1_block", recovery(&mut bench, true)?);
    report.add("sigkill_to_usable_full_grid", recovery(&mut bench, false)?);
    report.add("noise_floor", noise_floor(&mut bench)?);
    Ok(serde_json::to_value(bench.lane.info())?)
}

/// From `exec` to an open device.
fn worker_start(setup: &DeviceSetup) -> Result<String, String> {
    let mut samples = Vec::new();
    for _ in 0..REPEATS {
        let began = Instant::now();
        let lane = session::lane(setup, None).map_err(|error| error.to_string())?;
        samples.push(began.elapsed().as_secs_f64() * 1e3);
        drop(lane);
    }
    Ok(spread(samples))
}

/// From the missed deadline of an endless kernel to a passed health check in the next process. The first
/// tiny shape is one block; without tiny shapes the kernel spins on the whole grid, and an incumbent of
/// a microsecond keeps the deadline short.
fn recovery(bench: &mut SelftestBench<'_>, tiny: bool) -> Result<Result<String, String>, CliError> {
    let mut job = match bench.job(&bench.with_fault("spin"), true)? {
        Ok(job) => job,
        Err(verdict) => return Ok(Err(verdict.message)),
    };
    if !tiny {
        job.tiny.clear();
    }
    let times = job.timed.iter().map(|plan| (plan.name.clone(), 1e3)).collect();
    let standing = Standing::new(times, 1e3);
    let mut samples = Vec::new();
    for _ in 0..REPEATS {
        let result = bench.lane.evaluate(&job, &standing);
        let verdict = result.verdict;
        match result.recovery {
            Some(recovery) => samples.push(recovery.elapsed_ms),
            None => {
                return Ok(Err(format!("an endless kernel gave {}: {}", verdict.label(), verdict.message)));
            }
        }
    }
    Ok(Ok(spread(samples)))
}

fn noise_floor(bench: &mut SelftestBench<'_>) -> Result<Result<String, String>, CliError> {
    let job = match bench.job(&bench.configuration(&[]), true)? {
        Ok(job) => job,
        Err(verdict) => return Ok(Err(verdict.message)),
    };
    Ok(match bench.lane.noise_floor(&job, 1) {
        Ok(noise) => Ok(format!(
            "{:.3} % (single block pairs {:.3} %), A against A on `{}`",
            noise.floor * 100.0,
            noise.block_floor * 100.0,
            job.timed[0].name
        )),
        Err(error) => Err(error.to_string()),
    })
}

/// Milliseconds as a person reads them.
fn spread(mut samples: Vec<f64>) -> String {
    samples.sort_by(f64::total_cmp);
    let (least, most) = (samples[0], samples[samples.len() - 1]);
    let median = stats::median(&samples);
    format!("median {median:.1} ms (min {least:.1}, max {most:.1}, n {})", samples.len())
}
