//! Limits that are known once a variant is compiled: what its kernels use, added to what its launches
//! ask for, against what the device has.
//!
//! A launch that asks for 40 KiB of dynamic shared memory passes before compiling; if the kernel holds 30
//! KiB of its own, it cannot run on a device with 64. The same goes for registers times threads.

use evo_protocol::binary::EntryResources;
use evo_protocol::device::DeviceLimits;
use evo_protocol::plan::{LaunchPlan, ProblemPlan};
use evo_protocol::verdict::{Verdict, VerdictKind};

/// Registers are given to warps in units of this many (8 per thread).
const REGISTER_UNIT: u64 = 256;
/// Threads of a warp.
const WARP: u64 = 32;

/// Refuses a launch that the device cannot take (`static_reject` with the cause `smem`, `registers` or
/// `threads`). Entries without a report pass: their kernel is judged at launch.
pub fn check(
    resources: &[EntryResources],
    plan: &ProblemPlan,
    limits: &DeviceLimits,
) -> Result<(), Box<Verdict>> {
    for launch in &plan.launches {
        let Some(entry) = resources.iter().find(|entry| entry.entry == launch.entry) else { continue };
        check_launch(entry, launch, limits).map_err(|verdict| {
            Box::new(verdict.with("entry", launch.entry.clone()).with("problem", plan.name.clone()))
        })?;
    }
    Ok(())
}

/// Refuses entries that spill more than the space's rule allows (`spill_excess`).
pub fn check_spills(resources: &[EntryResources], spill_bytes_max: Option<u64>) -> Result<(), Box<Verdict>> {
    let Some(limit) = spill_bytes_max else { return Ok(()) };
    for entry in resources {
        let (Some(stored), Some(loaded)) = (entry.spill_store_bytes, entry.spill_load_bytes) else {
            continue;
        };
        let spilled = stored + loaded;
        if spilled > limit {
            let message = format!("`{}` spills {spilled} bytes; the space allows {limit}", entry.entry);
            let verdict = Verdict::new(VerdictKind::SpillExcess, message).with("entry", entry.entry.clone());
            return Err(Box::new(verdict.with("spill_bytes", spilled).with("spill_bytes_max", limit)));
        }
    }
    Ok(())
}

fn check_launch(entry: &EntryResources, launch: &LaunchPlan, limits: &DeviceLimits) -> Result<(), Verdict> {
    let (name, threads) = (&entry.entry, threads_of(launch));
    let refuse = |cause: &str, message: String, value: u64, limit: u64| {
        let verdict = Verdict::new(VerdictKind::StaticReject, message).with_cause(cause);
        Err(verdict.with("value", value).with("limit", limit))
    };
    // Nothing reported means nothing to object to here: the launch gate asks the driver.
    let fixed = entry.shared_static_bytes.unwrap_or(0);
    if fixed > limits.shared_static_bytes {
        let limit = limits.shared_static_bytes;
        let optin = limits.shared_optin_bytes;
        let message = format!(
            "`{name}` holds {fixed} bytes of static shared memory; the limit is {limit}, and {optin} for dynamic \
             shared memory"
        );
        return refuse("smem", message, fixed, limit);
    }
    let asked = u64::try_from(launch.shared_bytes).unwrap_or(0);
    if fixed + asked > limits.shared_optin_bytes {
        let limit = limits.shared_optin_bytes;
        let message = format!(
            "`{name}` needs {fixed} static and {asked} dynamic bytes of shared memory; the limit is {limit}"
        );
        return refuse("smem", message, fixed + asked, limit);
    }
    if let Some(limit) = entry.threads_max.map(u64::from).filter(|&limit| threads > limit) {
        let message = format!("`{name}` is launched with {threads} threads; its launch bounds allow {limit}");
        return refuse("threads", message, threads, limit);
    }
    let needed = registers_of(entry, threads);
    if needed > u64::from(limits.registers_per_block) {
        let limit = u64::from(limits.registers_per_block);
        let each = entry.registers.unwrap_or(0);
        let message = format!(
            "{threads} threads of `{name}` need {needed} registers ({each} each); the limit is {limit}"
        );
        return refuse("registers", message, needed, limit);
    }
    Ok(())
}

/// Threads of a block; 0 for a block that `limits::launch` refuses anyway.
fn threads_of(launch: &LaunchPlan) -> u64 {
    let extent = |extent: &i64| u64::try_from(*extent).unwrap_or(0);
    launch.block.iter().map(extent).fold(1, u64::saturating_mul)
}

/// Registers of a block, as they are allocated: whole warps, in units.
fn registers_of(entry: &EntryResources, threads: u64) -> u64 {
    let per_warp = (u64::from(entry.registers.unwrap_or(0)) * WARP).next_multiple_of(REGISTER_UNIT);
    per_warp.saturating_mul(threads.div_ceil(WARP))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(entry: EntryResources, threads: i64, shared_bytes: i64) -> String {
        let launch = LaunchPlan {
            entry: "k".to_string(),
            grid: [1, 1, 1],
            block: [threads, 1, 1],
            shared_bytes,
            cluster: None,
            cooperative: false,
            programmatic: false,
            l2_persist: None,
            arguments: Vec::new(),
        };
        let limits = DeviceLimits::of_arch("sm_89").unwrap();
        match check_launch(&EntryResources { entry: "k".to_string(), ..entry }, &launch, &limits) {
            Ok(()) => "fits".to_string(),
            Err(verdict) => verdict.label(),
        }
    }

    #[test]
    fn sums_are_held_against_the_limits() {
        let shared = |bytes| EntryResources { shared_static_bytes: Some(bytes), ..EntryResources::default() };
        let registers = |count| EntryResources { registers: Some(count), ..EntryResources::default() };
        assert_eq!(check_one(shared(30 << 10), 256, 69 << 10), "fits");
        assert_eq!(check_one(shared(30 << 10), 256, 70 << 10), "static_reject:smem");
        assert_eq!(check_one(shared(64 << 10), 256, 0), "static_reject:smem");
        assert_eq!(check_one(registers(64), 1024, 0), "fits");
        // 65 registers are allocated as 72.
        assert_eq!(check_one(registers(65), 896, 0), "fits");
        assert_eq!(check_one(registers(65), 928, 0), "static_reject:registers");
        let bounded = EntryResources { threads_max: Some(128), ..EntryResources::default() };
        assert_eq!(check_one(bounded.clone(), 128, 0), "fits");
        assert_eq!(check_one(bounded, 256, 0), "static_reject:threads");
        assert_eq!(check_one(EntryResources::default(), 1024, 99 << 10), "fits");
    }
}
