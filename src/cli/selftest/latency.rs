//! `evo selftest latency`: what supervision and gates cost on this machine. Published, because a tool
//! that claims to survive hung kernels should say how long that takes.

use std::time::Instant;

use evo_device::device::Device;
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_space::value::Value;

use super::bench::SelftestBench;
use super::checks::SelftestReport;
use crate::cli::device_lane;
use crate::cli::error::CliError;
use crate::cli::session::DeviceSetup;
use crate::supervise::job::Standing;
use crate::timing::stats;

/// Repetitions of each latency.
const REPEATS: usize = 5;

/// Measures worker start, recovery from a hang and the A/A noise floor.
pub fn run(bench: &mut SelftestBench<'_>, setup: &DeviceSetup) -> Result<SelftestReport, CliError> {
    let mut report = SelftestReport::default();
    report.add("worker_start", worker_start(setup));
    report.add("sigkill_to_usable_1_block", recovery(bench, true)?);
    report.add("sigkill_to_usable_full_grid", recovery(bench, false)?);
    report.add("noise_floor", noise_floor(bench)?);
    Ok(report)
}

fn spread(mut samples: Vec<f64>, unit: &str) -> String {
    samples.sort_by(f64::total_cmp);
    let last = samples.len() - 1;
    format!(
        "median {:.1} {unit} (min {:.1}, max {:.1}, n {})",
        stats::median(&samples),
        samples[0],
        samples[last],
        samples.len()
    )
}

/// From `exec` to an open device.
fn worker_start(setup: &DeviceSetup) -> Result<String, String> {
    let mut samples = Vec::new();
    for _ in 0..REPEATS {
        let began = Instant::now();
        let lane = device_lane::lane(setup, None, None).map_err(|error| error.to_string())?;
        samples.push(began.elapsed().as_secs_f64() * 1e3);
        drop(lane);
    }
    Ok(spread(samples, "ms"))
}

/// From the missed deadline of an endless kernel to a passed health check in the next process. The first
/// tiny shape is one block; without tiny shapes the kernel spins on the whole grid, and an incumbent of
/// a microsecond keeps the deadline short.
fn recovery(bench: &mut SelftestBench<'_>, tiny: bool) -> Result<Result<String, String>, CliError> {
    let spin = bench.configuration(&[("FAULT", Value::from("spin"))]);
    let mut job = match bench.job(&spin, true)? {
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
    Ok(Ok(spread(samples, "ms")))
}

fn noise_floor(bench: &mut SelftestBench<'_>) -> Result<Result<String, String>, CliError> {
    let good = bench.configuration(&[]);
    let job = match bench.job(&good, true)? {
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

/// Times the gates' own work on an open device: buffers of 16 MiB, as a 2048² fp32 matrix has.
pub fn overheads(device: &mut dyn Device) -> SelftestReport {
    let mut report = SelftestReport::default();
    let bytes = 16u64 << 20;
    let mut buffers = Vec::new();
    for name in ["a", "b", "c"] {
        match device.allocate(name, bytes) {
            Ok(buffer) => buffers.push(buffer),
            Err(error) => {
                report.add("allocate", Err(error.to_string()));
                return report;
            }
        }
    }
    let (a, b) = (buffers[0], buffers[1]);
    report.add("poison_16_mib", timed(device, |device| device.fill(a, 0x7fc1_7fc1)));
    report.add("copy_16_mib", timed(device, |device| device.copy(a, b)));
    report.add("hash_16_mib", timed(device, |device| device.hash(a).map(drop)));
    report
        .add("count_poison_16_mib", timed(device, |device| device.count_pattern(a, DType::F32, 1).map(drop)));
    report.add("check_guards_3_buffers", timed(device, |device| device.check_guards().map(drop)));
    report.add("arm_guards_3_buffers", timed(device, |device| device.arm_guards(0x7fff_7fff)));
    for buffer in buffers {
        let _ = device.free(buffer);
    }
    report
}

type Call<'a> = &'a mut dyn FnMut(&mut dyn Device) -> Result<(), DeviceError>;

fn timed(
    device: &mut dyn Device,
    mut call: impl FnMut(&mut dyn Device) -> Result<(), DeviceError>,
) -> Result<String, String> {
    let mut once = |call: Call<'_>| -> Result<f64, String> {
        let began = Instant::now();
        call(device).and_then(|()| device.synchronize()).map_err(|error| error.to_string())?;
        Ok(began.elapsed().as_secs_f64() * 1e6)
    };
    // A warm-up, which does not count.
    once(&mut call)?;
    let samples = (0..20).map(|_| once(&mut call)).collect::<Result<Vec<f64>, String>>()?;
    Ok(spread(samples, "µs"))
}
