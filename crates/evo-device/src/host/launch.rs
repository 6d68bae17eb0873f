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
    check_geometry(bound, limits, seats)?;
    // Cannot overflow, since the geometry was checked first.
    let threads: u32 = bound.block.iter().product();
    if let Some(most) = entry.threads_max.filter(|most| threads > *most) {
        let message =
            format!("`{}` is launched with {threads} threads, its launch bounds allow {most}", entry.name);
        return Err(refuse("threads", message, threads.into(), most.into()));
    }
    let (fixed, dynamic) = (entry.shared_static_bytes, u64::from(bound.shared_bytes));
    if fixed > limits.shared_static_bytes {
        let most = limits.shared_static_bytes;
        let message =
            format!("`{}` has {fixed} bytes of static shared memory, the limit is {most}", entry.name);
        return Err(refuse("smem", message, fixed, most));
    }
    if fixed + dynamic > limits.shared_optin_bytes {
        let most = limits.shared_optin_bytes;
        let message = format!("{dynamic} bytes of dynamic and {fixed} of static shared memory exceed {most}");
        return Err(refuse("smem", message, fixed + dynamic, most));
    }
    Ok(())
}

fn check_geometry(bound: &BoundLaunch, limits: &DeviceLimits, seats: usize) -> Result<(), DeviceError> {
    let axes = ["x", "y", "z"];
    for (axis, name) in axes.into_iter().enumerate() {
        for (what, given, most) in
            [("grid", bound.grid[axis], limits.grid[axis]), ("block", bound.block[axis], limits.block[axis])]
        {
            if given == 0 || given > most {
                let cause = if what == "grid" { "grid" } else { "threads" };
                let message = format!("{what} {name} is {given}, allowed are 1 to {most}");
                return Err(refuse(cause, message, given.into(), most.into()));
            }
        }
    }
    let threads: u64 = bound.block.iter().map(|&extent| u64::from(extent)).product();
    let most = u64::from(limits.threads_per_block);
    if threads > most {
        return Err(refuse(
            "threads",
            format!("{threads} threads per block, the limit is {most}"),
            threads,
            most,
        ));
    }
    check_cluster(bound, limits)?;
    let blocks = bound.blocks();
    if bound.cooperative && blocks > seats as u64 {
        let message =
            format!("a cooperative launch of {blocks} blocks, {seats} can be resident (one per core)");
        return Err(refuse("cooperative", message, blocks, seats as u64));
    }
    Ok(())
}

fn check_cluster(bound: &BoundLaunch, limits: &DeviceLimits) -> Result<(), DeviceError> {
    let Some(cluster) = bound.cluster else { return Ok(()) };
    let blocks: u64 = cluster.iter().map(|&extent| u64::from(extent)).fold(1, u64::saturating_mul);
    let most = u64::from(limits.cluster);
    let refused = |message: String| Err(refuse("cluster", message, blocks, most));
    if blocks == 0 || blocks > most {
        let why = "larger ones are not portable, and few GPUs have room for them";
        return refused(format!("a cluster of {blocks} blocks, allowed are 1 to {most}: {why}"));
    }
    for (axis, (extent, blocks)) in cluster.into_iter().zip(bound.grid).enumerate() {
        if blocks % extent != 0 {
            let name = ["x", "y", "z"][axis];
            return refused(format!("a grid of {blocks} blocks in {name} is not whole clusters of {extent}"));
        }
    }
    Ok(())
}

fn refuse(cause: &str, message: String, given: u64, most: u64) -> DeviceError {
    let error = DeviceError::plain(VerdictKind::LaunchFail, message).with_cause(cause);
    error.with("given", given).with("limit", most)
}

pub fn with_entry(mut error: DeviceError, entry: &str) -> DeviceError {
    error.message = format!("`{entry}`: {}", error.message);
    error.with("entry", entry)
}
