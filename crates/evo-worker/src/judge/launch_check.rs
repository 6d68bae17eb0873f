//! The launch gate: the module carries its own hash, and every launch fits the device.

use std::collections::BTreeSet;

use evo_device::device::BoundLaunch;
use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::{DeviceError, DeviceInfo, EntryAttributes};
use evo_protocol::verdict::{Verdict, VerdictKind};

use super::bench::GateRun;
use super::run;

/// Fewer blocks than this for each multiprocessor is worth a note, no more: persistent kernels launch
/// about one on purpose.
const BLOCKS_PER_MULTIPROCESSOR: u64 = 4;
/// Registers are handed out to warps in units of 256.
const REGISTER_UNIT: u64 = 256;
/// Launches with few blocks that are named: a loop may have thousands.
const FEW_SHOWN_MAX: usize = 20;

/// Checks echo and resources; nothing is launched.
pub(super) fn check(run: &mut GateRun<'_>) -> Result<(), DeviceError> {
    let checks = run.check.checks;
    // The hash first: the resources of a stale binary would be those of another variant.
    echo(run, checks)?;
    if run.found.verdict.is_some() {
        return Ok(());
    }
    let info = run.judge.device().info().clone();
    let mut few = BTreeSet::new();
    let launches = run.plans.iter().flat_map(|plan| plan.launches.iter().map(move |launch| (plan, launch)));
    for (plan, launch) in launches {
        run.found.report.cases += 1;
        let bound = run::geometry(launch)?;
        if !checks.include(GateCheck::LaunchResources) {
            continue;
        }
        let module = run.judge.slot(run.slot)?.build_for(plan)?.module;
        let attributes = run.judge.device().attributes(module, &bound)?;
        let refused = refuse(&bound, &attributes, &info);
        run.found.attributes.push(attributes);
        if let Some(verdict) = refused {
            run.found.refuse(verdict.with("problem", plan.name.clone()));
            return Ok(());
        }
        let blocks = bound.blocks();
        if blocks < BLOCKS_PER_MULTIPROCESSOR * u64::from(info.multiprocessors) {
            few.insert(format!("{}: {} launches {blocks} blocks", plan.name, bound.entry));
        }
    }
    let report = &mut run.found.report;
    if !few.is_empty() {
        let beyond = few.len().saturating_sub(FEW_SHOWN_MAX);
        let mut shown: Vec<String> = few.into_iter().take(FEW_SHOWN_MAX).collect();
        shown.extend((beyond > 0).then(|| format!("and {beyond} more")));
        report.evidence.insert("few_blocks", shown);
    }
    report.message = match report.cases {
        1 => "1 launch fits".to_string(),
        cases => format!("{cases} launches fit"),
    };
    Ok(())
}

fn echo(run: &mut GateRun<'_>, checks: CheckSet) -> Result<(), DeviceError> {
    let slot = run.judge.slot(run.slot)?;
    let builds = slot.builds.iter().zip(&slot.candidate.builds);
    let builds: Vec<_> = builds.map(|(loaded, build)| (loaded.module, build.variant_hash.clone())).collect();
    for (module, hash) in builds {
        match run.judge.device().echo(module)? {
            _ if !checks.include(GateCheck::VariantHash) => {}
            Some(echo) if echo == hash.as_str() => run.found.report.evidence.insert("echo", "matches"),
            Some(echo) => {
                let message = format!("the binary carries hash `{echo}`, the variant's is `{hash}`");
                let verdict = Verdict::new(VerdictKind::StaleBinary, message);
                run.found.refuse(verdict.with("echo", echo).with("variant_hash", hash.as_str()));
                return Ok(());
            }
            None => {
                run.found.report.evidence.insert("echo", "not checked: no symbol `evo_variant_hash`");
            }
        }
    }
    Ok(())
}

/// One limit after the other: the first that a launch exceeds, with its numbers.
fn refuse(launch: &BoundLaunch, attributes: &EntryAttributes, info: &DeviceInfo) -> Option<Verdict> {
    let limits = &info.limits;
    let failure = |cause: &str, message: String, numbers: &[(&str, u64)]| {
        let entry = &launch.entry;
        let verdict = Verdict::new(VerdictKind::LaunchFail, format!("`{entry}`: {message}"));
        let verdict = verdict.with_cause(cause).with("entry", entry.clone());
        Some(numbers.iter().fold(verdict, |verdict, (name, number)| verdict.with(name, *number)))
    };
    let product = |extents: &[u32; 3]| extents.iter().map(|extent| u64::from(*extent)).product::<u64>();
    let threads = product(&launch.block);
    let most = u64::from(attributes.threads_max.min(limits.threads_per_block));
    if threads == 0 || threads > most {
        let message = format!("{threads} threads a block, {most} are possible");
        return failure("threads", message, &[("threads", threads), ("threads_max", most)]);
    }
    let over = |values: &[u32; 3], most: &[u32; 3]| values.iter().zip(most).any(|(v, m)| *v == 0 || v > m);
    if over(&launch.grid, &limits.grid) {
        return failure("grid", format!("grid `{:?}` exceeds `{:?}`", launch.grid, limits.grid), &[]);
    }
    if over(&launch.block, &limits.block) {
        return failure("threads", format!("block `{:?}` exceeds `{:?}`", launch.block, limits.block), &[]);
    }
    let of_warp = (u64::from(attributes.registers.unwrap_or(0)) * 32).next_multiple_of(REGISTER_UNIT);
    let (registers, most) = (threads.div_ceil(32) * of_warp, u64::from(limits.registers_per_block));
    if registers > most {
        let message = format!("{registers} registers a block, {most} are there");
        return failure("regs", message, &[("registers", registers), ("registers_max", most)]);
    }
    let shared = attributes.shared_static_bytes + u64::from(launch.shared_bytes);
    let most = limits.shared_optin_bytes;
    if shared > most {
        let message = format!("{shared} bytes of shared memory a block, {most} are possible");
        return failure("smem", message, &[("shared_bytes", shared), ("shared_bytes_max", most)]);
    }
    if let Some(cluster) = launch.cluster {
        let divides = launch.grid.iter().zip(&cluster).all(|(grid, own)| *own > 0 && grid % own == 0);
        let most = limits.cluster;
        if product(&cluster) > u64::from(most) || !divides {
            let grid = launch.grid;
            let message = format!("cluster `{cluster:?}` of at most {most} blocks in grid `{grid:?}`");
            return failure("cluster", message, &[]);
        }
    }
    let resident = attributes.blocks_per_multiprocessor;
    if resident == Some(0) {
        return failure("occupancy", "not one block fits a multiprocessor".into(), &[]);
    }
    // A cooperative grid waits for all of its blocks, so one that does not fit at once would hang.
    if launch.cooperative && !limits.cooperative {
        return failure("cooperative", "the device has no cooperative launches".into(), &[]);
    }
    let most = resident.map(|resident| u64::from(resident) * u64::from(info.multiprocessors));
    let most = most.filter(|most| launch.cooperative && launch.blocks() > *most)?;
    let blocks = launch.blocks();
    let message = format!("{blocks} blocks must be resident at once, {most} fit");
    failure("cooperative", message, &[("blocks", blocks), ("blocks_max", most)])
}
