//! `evo selftest references`: built-in references as the device computes them, beside the plain functions.

use evo_device::open::open;

use super::checks::SelftestReport;
use crate::cli::device_lane;
use crate::cli::error::CliError;
use crate::cli::session::DeviceSetup;
use crate::worker::judge::agreement::{Agreement, compare_references};

/// Runs the comparison; one check for each problem.
pub fn run(setup: &DeviceSetup, seed: u64) -> Result<(serde_json::Value, SelftestReport), CliError> {
    eprintln!("seed {seed}: repeat with --seed {seed}");
    let path = device_lane::reference_kernels(setup, None)?;
    let image = std::fs::read(path.ok_or_else(|| CliError::harness("there are no reference kernels"))?)?;
    let cubin = device_lane::support_cubin(setup)?;
    let failed = |error: evo_protocol::device::DeviceError| CliError::environment(error.to_string());
    let mut device =
        open(&setup.choice.spec, cubin.as_deref(), device_lane::rooms(setup.sandbox)?).map_err(failed)?;
    let info = serde_json::to_value(device.info())?;
    let rows = compare_references(device.as_mut(), &image, None, seed).map_err(failed)?;
    Ok((info, report(&rows)))
}

fn report(rows: &[Agreement]) -> SelftestReport {
    let mut report = SelftestReport::default();
    for row in rows {
        let answer = match &row.difference {
            None => Ok(format!("{} kinds of inputs; {:.1e} of what may differ", row.cases, row.worst)),
            Some(difference) => Err(difference.clone()),
        };
        report.add(&row.name, answer);
    }
    report
}
