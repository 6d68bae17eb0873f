//! The launch gate: the module carries its own hash, and every launch fits the device.

use std::collections::BTreeSet;

use evo_device::device::BoundLaunch;
use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::{DeviceError, DeviceInfo, DeviceLimits, EntryAttributes};
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Gate, Verdict, VerdictKind};
use evo_protocol::worker::GateAnswer;

use super::run;
use super::state::Judge;

/// Fewer blocks than this for each multiprocessor is worth a note, no more: persistent kernels launch
/// about one on purpose.
const BLOCKS_PER_MULTIPROCESSOR: u64 = 4;
/// Registers are handed out to warps in units of 256.
const REGISTER_UNIT: u64 = 256;
/// Launches with few blocks that are named: a loop may have thousands.
const FEW_SHOWN_MAX: usize = 20;

/// Checks echo and resources; nothing is launched.
pub(super) fn check(judge: &mut Judge, slot: u8, plans: &[ProblemPlan]) -> Result<GateAnswer, DeviceError> {
    let checks = judge.slot(slot)?.candidate.check.checks;
    let mut found = GateAnswer::begin(Gate::Launch);
    // The hash first: the resources of a stale binary would be those of another variant.
    echo(judge, slot, checks, &mut found)?;
    if found.verdict.is_some() {
        return Ok(found);
    }
    let info = judge.device.info().clone();
    let mut few = BTreeSet::new();
    for plan in plans {
        for launch in &plan.launches {
            found.report.cases += 1;
            let bound = run::geometry(launch)?;
            if !checks.include(GateCheck::LaunchResources) {
                continue;
            }
            let module = judge.slot(slot)?.build_for(plan)?.module;
            let attributes = judge.device.attributes(module, &bound)?;
            if let Some(verdict) = refuse(&bound, &attributes, &info) {
                found.refuse(verdict.with("problem", plan.name.clone()));
                found.attributes.push(attributes);
                return Ok(found);
            }
            let blocks = blocks(&bound);
            if blocks < BLOCKS_PER_MULTIPROCESSOR * u64::from(info.multiprocessors) {
                few.insert(format!("{}: {} launches {blocks} blocks", plan.name, bound.entry));
            }
            found.attributes.push(attributes);
        }
    }
    if !few.is_empty() {
        let beyond = few.len().saturating_sub(FEW_SHOWN_MAX);
        let mut shown: Vec<String> = few.into_iter().take(FEW_SHOWN_MAX).collect();
        shown.extend((beyond > 0).then(|| format!("and {beyond} more")));
        found.report.evidence.insert("few_blocks", shown);
    }
    found.report.message = match found.report.cases {
        1 => "1 launch fits".to_string(),
        cases => format!("{cases} launches fit"),
    };
    Ok(found)
}

fn echo(judge: &mut Judge, slot: u8, checks: CheckSet, found: &mut GateAnswer) -> Result<(), DeviceError> {
    let own = judge.slot(slot)?;
    let builds = own.builds.iter().zip(&own.candidate.builds);
    let builds: Vec<_> = builds.map(|(own, build)| (own.module, build.variant_hash.clone())).collect();
    for (module, hash) in builds {
        match judge.device.echo(module)? {
            _ if !checks.include(GateCheck::VariantHash) => {}
            Some(echo) if echo == hash.as_str() => found.report.evidence.insert("echo", "matches"),
            Some(echo) => {
                let message = format!("the binary carries hash `{echo}`, the variant's is `{hash}`");
                let verdict = Verdict::new(VerdictKind::StaleBinary, message);
                found.refuse(verdict.with("echo", echo).with("variant_hash", hash.as_str()));
                return Ok(());
            }
            None => found.report.evidence.insert("echo", "not checked: no symbol `evo_variant_hash`"),
        }
    }
    Ok(())
}

fn blocks(launch: &BoundLaunch) -> u64 {
    launch.grid.iter().map(|extent| u64::from(*extent)).product()
}

fn refuse(launch: &BoundLaunch, attributes: &EntryAttributes, info: &DeviceInfo) -> Option<Verdict> {
    refuse_block(launch, attributes, &info.limits)
        .or_else(|| refuse_cluster(launch, &info.limits))
        .or_else(|| refuse_residency(launch, attributes, info))
}

fn failure(launch: &BoundLaunch, cause: &str, message: String) -> Option<Verdict> {
    let entry = &launch.entry;
    let verdict = Verdict::new(VerdictKind::LaunchFail, format!("`{entry}`: {message}"));
    Some(verdict.with_cause(cause).with("entry", entry.clone()))
}

fn refuse_block(
    launch: &BoundLaunch,
    attributes: &EntryAttributes,
    limits: &DeviceLimits,
) -> Option<Verdict> {
    let fail = |cause: &str, message: String| failure(launch, cause, message);
    let threads: u64 = launch.block.iter().map(|extent| u64::from(*extent)).product();
    let threads_max = u64::from(attributes.threads_max.min(limits.threads_per_block));
    if threads == 0 || threads > threads_max {
        return fail("threads", format!("{threads} threads a block, {threads_max} are possible"))
            .map(|verdict| verdict.with("threads", threads).with("threads_max", threads_max));
    }
    let over = |values: &[u32; 3], most: &[u32; 3]| values.iter().zip(most).any(|(v, m)| *v == 0 || v > m);
    if over(&launch.grid, &limits.grid) {
        return fail("grid", format!("grid `{:?}` exceeds `{:?}`", launch.grid, limits.grid));
    }
    if over(&launch.block, &limits.block) {
        return fail("threads", format!("block `{:?}` exceeds `{:?}`", launch.block, limits.block));
    }
    let warps = threads.div_ceil(32);
    let registers =
        warps * (u64::from(attributes.registers.unwrap_or(0)) * 32).next_multiple_of(REGISTER_UNIT);
    if registers > u64::from(limits.registers_per_block) {
        let most = limits.registers_per_block;
        return fail("regs", format!("{registers} registers a block, {most} are there"))
            .map(|verdict| verdict.with("registers", registers).with("registers_max", most));
    }
    let shared = attributes.shared_static_bytes + u64::from(launch.shared_bytes);
    if shared > limits.shared_optin_bytes {
        let most = limits.shared_optin_bytes;
        return fail("smem", format!("{shared} bytes of shared memory a block, {most} are possible"))
            .map(|verdict| verdict.with("shared_bytes", shared).with("shared_bytes_max", most));
    }
    None
}

fn refuse_cluster(launch: &BoundLaunch, limits: &DeviceLimits) -> Option<Verdict> {
    if let Some(cluster) = launch.cluster {
        let size: u64 = cluster.iter().map(|extent| u64::from(*extent)).product();
        let divides = launch.grid.iter().zip(&cluster).all(|(grid, own)| *own > 0 && grid % own == 0);
        if size > u64::from(limits.cluster) || !divides {
            let most = limits.cluster;
            return failure(
                launch,
                "cluster",
                format!("cluster `{cluster:?}` of at most {most} blocks in grid `{:?}`", launch.grid),
            );
        }
    }
    None
}

fn refuse_residency(
    launch: &BoundLaunch,
    attributes: &EntryAttributes,
    info: &DeviceInfo,
) -> Option<Verdict> {
    let fail = |cause: &str, message: String| failure(launch, cause, message);
    let resident = attributes.blocks_per_multiprocessor;
    if resident == Some(0) {
        return fail("occupancy", "not one block fits a multiprocessor".into());
    }
    // A cooperative grid waits for all of its blocks, so one that does not fit at once would hang.
    if launch.cooperative {
        if !info.limits.cooperative {
            return fail("cooperative", "the device has no cooperative launches".into());
        }
        let most = resident.map(|own| u64::from(own) * u64::from(info.multiprocessors));
        if let Some(most) = most.filter(|most| blocks(launch) > *most) {
            let blocks = blocks(launch);
            return fail("cooperative", format!("{blocks} blocks must be resident at once, {most} fit"))
                .map(|verdict| verdict.with("blocks", blocks).with("blocks_max", most));
        }
    }
    None
}
