//! What is refused before a kernel runs, as a GPU's driver would refuse it.

use evo_protocol::device::{DeviceError, DeviceLimits};
use evo_protocol::verdict::VerdictKind;

use super::module::HostFunction;
use crate::device::BoundLaunch;

/// `seats` is how many blocks can be resident at once.
pub fn check(
    bound: &BoundLaunch,
    entry: &HostFunction,
    limits: &DeviceLimits,
    seats: usize,
) -> Result<(), DeviceError> {
    for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
        for (what, cause, given, most) in [
            ("grid", "grid", bound.grid[axis], limits.grid[axis]),
            ("block", "threads", bound.block[axis], limits.block[axis]),
        ] {
            demand((1..=most).contains(&given), cause, given.into(), most.into(), || {
                format!("{what} {name} is {given}, allowed are 1 to {most}")
            })?;
        }
    }
    let threads: u64 = bound.block.iter().map(|&extent| u64::from(extent)).product();
    let most = u64::from(limits.threads_per_block);
    demand(threads <= most, "threads", threads, most, || {
        format!("{threads} threads per block, the limit is {most}")
    })?;
    check_cluster(bound, limits)?;
    let (blocks, most) = (bound.blocks(), seats as u64);
    demand(!bound.cooperative || blocks <= most, "cooperative", blocks, most, || {
        format!("a cooperative launch of {blocks} blocks, {most} can be resident (one per core)")
    })?;
    let (name, most) = (&entry.name, entry.threads_max.map_or(u64::MAX, u64::from));
    demand(threads <= most, "threads", threads, most, || {
        format!("`{name}` is launched with {threads} threads, its launch bounds allow {most}")
    })?;
    let (fixed, dynamic) = (entry.shared_static_bytes, u64::from(bound.shared_bytes));
    let most = limits.shared_static_bytes;
    demand(fixed <= most, "smem", fixed, most, || {
        format!("`{name}` has {fixed} bytes of static shared memory, the limit is {most}")
    })?;
    let (all, most) = (fixed + dynamic, limits.shared_optin_bytes);
    demand(all <= most, "smem", all, most, || {
        format!("{dynamic} bytes of dynamic and {fixed} of static shared memory exceed {most}")
    })
}

fn check_cluster(bound: &BoundLaunch, limits: &DeviceLimits) -> Result<(), DeviceError> {
    let Some(cluster) = bound.cluster else { return Ok(()) };
    let blocks: u64 = cluster.iter().map(|&extent| u64::from(extent)).fold(1, u64::saturating_mul);
    let most = u64::from(limits.cluster);
    demand((1..=most).contains(&blocks), "cluster", blocks, most, || {
        let why = "larger ones are not portable, and few GPUs have room for them";
        format!("a cluster of {blocks} blocks, allowed are 1 to {most}: {why}")
    })?;
    for ((extent, all), name) in cluster.into_iter().zip(bound.grid).zip(["x", "y", "z"]) {
        demand(all % extent == 0, "cluster", blocks, most, || {
            format!("a grid of {all} blocks in {name} is not whole clusters of {extent}")
        })?;
    }
    Ok(())
}

fn demand(
    holds: bool,
    cause: &str,
    given: u64,
    most: u64,
    message: impl FnOnce() -> String,
) -> Result<(), DeviceError> {
    if holds {
        return Ok(());
    }
    let error = DeviceError::plain(VerdictKind::LaunchFail, message()).with_cause(cause);
    Err(error.with("given", given).with("limit", most))
}

pub fn with_entry(mut error: DeviceError, entry: &str) -> DeviceError {
    error.message = format!("`{entry}`: {}", error.message);
    error.with("entry", entry)
}
