//! What a device cannot take, as far as it is known without running anything: before compiling (launches, memory, tensor
//! maps) and from what the compiler reports (resources). `constraints` says the same of a whole space.
//!
//! Everything here is arithmetic on a plan, so a configuration that cannot be launched costs microseconds instead of a
//! compile, and a scratch of terabytes never drives a machine into its swap. Each refusal says the number, the limit, the
//! launch and the problem, because "too much shared memory" alone has sent people hunting hangs.

use evo_compile::occupancy::{WARP, registers_of_warp};
use evo_protocol::binary::EntryResources;
use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::{DeviceInfo, DeviceKind, DeviceLimits, capability};
use evo_protocol::plan::{BufferPlan, LaunchPlan, ProblemPlan};
use evo_protocol::verdict::{Verdict, VerdictKind};

pub mod constraints;

const AXES: [&str; 3] = ["x", "y", "z"];

pub type Checked = Result<(), Box<Verdict>>;

/// Refuses a plan that the device cannot launch (`static_reject` with the cause `threads`, `grid`, `smem`,
/// `cluster` or `cooperative`). A plan without launches is legal: a call at a size of 0 may have nothing to do.
pub fn check_launches(plan: &ProblemPlan, limits: &DeviceLimits, checks: CheckSet) -> Checked {
    let limit = |check, answer: Checked| if checks.include(check) { answer } else { Ok(()) };
    for launch in &plan.launches {
        let check = LaunchCheck { plan, launch, limits };
        limit(GateCheck::LimitThreads, check.threads())?;
        limit(GateCheck::LimitGrid, check.grid())?;
        limit(GateCheck::LimitShared, check.shared_memory())?;
        limit(GateCheck::LimitCluster, check.cluster())?;
        check.cooperative()?;
    }
    Ok(())
}

pub fn check_timed(plan: &ProblemPlan, checks: CheckSet) -> Checked {
    if plan.launches.is_empty() && checks.include(GateCheck::LimitWork) {
        let message =
            format!("no launch of timed problem `{}` takes place: every `when` is false", plan.name);
        return Err(refusal(plan, "zero_work", message));
    }
    Ok(())
}

fn refusal(plan: &ProblemPlan, cause: &str, message: String) -> Box<Verdict> {
    let verdict = Verdict::new(VerdictKind::StaticReject, message).with_cause(cause);
    Box::new(verdict.with("problem", plan.name.clone()))
}

struct LaunchCheck<'a> {
    plan: &'a ProblemPlan,
    launch: &'a LaunchPlan,
    limits: &'a DeviceLimits,
}

impl LaunchCheck<'_> {
    /// The number and its limit become evidence under `name` and `name_limit`.
    fn refuse(&self, cause: &str, what: String, name: &str, value: i64, limit: u64) -> Box<Verdict> {
        let message = format!("{what}, in launch `{}` of problem `{}`", self.launch.entry, self.plan.name);
        let verdict = *refusal(self.plan, cause, message);
        let verdict = verdict.with("entry", self.launch.entry.clone());
        Box::new(verdict.with(name, value).with(&format!("{name}_limit"), limit))
    }

    fn threads(&self) -> Checked {
        let (block, limit) = (self.launch.block, u64::from(self.limits.threads_per_block));
        let refuse = |what, name, value, limit| Err(self.refuse("threads", what, name, value, limit));
        let mut axes = AXES.into_iter().zip(block).zip(self.limits.block.map(u64::from));
        if let Some(((name, extent), limit)) = axes.clone().find(|((_, extent), _)| *extent < 1) {
            let what = format!("a block of {extent} threads in {name} does no work");
            return refuse(what, "block", extent, limit);
        }
        // From here on the extents are positive, which `product` and the casts below rely on.
        let threads = product(block);
        if threads.is_none_or(|threads| threads as u64 > limit) {
            let what = format!("a block of {} threads exceeds the limit of {limit}", extents(block));
            return refuse(what, "threads", threads.unwrap_or(i64::MAX), limit);
        }
        let Some(((name, extent), limit)) = axes.find(|((_, extent), limit)| *extent as u64 > *limit) else {
            return Ok(());
        };
        let what = format!("a block of {extent} threads in {name} exceeds the limit of {limit}");
        refuse(what, "block", extent, limit)
    }

    fn grid(&self) -> Checked {
        for ((name, extent), limit) in AXES.into_iter().zip(self.launch.grid).zip(self.limits.grid) {
            let limit = u64::from(limit);
            let what = match extent {
                ..=-1 => format!("a grid of {extent} blocks in {name} is negative"),
                0 => format!("a grid of 0 blocks in {name} does no work"),
                _ if extent as u64 > limit => {
                    format!("a grid of {extent} blocks in {name} exceeds the limit of {limit}")
                }
                _ => continue,
            };
            let verdict = self.refuse("grid", what, "grid", extent, limit);
            let hint = "a launch with `when` is left out where there is nothing to do: when = \"N > 0\"";
            return Err(if extent == 0 { Box::new(verdict.with(Verdict::HINT, hint)) } else { verdict });
        }
        Ok(())
    }

    fn shared_memory(&self) -> Checked {
        let (bytes, limit) = (self.launch.shared_bytes, self.limits.shared_optin_bytes);
        let what = match bytes {
            ..=-1 => format!("{bytes} bytes of dynamic shared memory are negative"),
            _ if bytes as u64 > limit => {
                format!("{bytes} bytes of dynamic shared memory exceed the limit of {limit}")
            }
            _ => return Ok(()),
        };
        Err(self.refuse("smem", what, "shared_bytes", bytes, limit))
    }

    fn cluster(&self) -> Checked {
        let Some(cluster) = self.launch.cluster else { return Ok(()) };
        let limit = u64::from(self.limits.cluster);
        let refuse = |what, value| Err(self.refuse("cluster", what, "cluster", value, limit));
        for ((name, extent), blocks) in AXES.into_iter().zip(cluster).zip(self.launch.grid) {
            let of = format!("a cluster of {extent} blocks in {name}");
            if extent < 1 {
                return refuse(format!("{of} does no work"), extent);
            }
            if blocks % extent != 0 {
                return refuse(format!("{of} does not divide the grid of {blocks}"), extent);
            }
        }
        let blocks = product(cluster);
        if blocks.is_none_or(|blocks| blocks as u64 > limit) {
            let what = match limit {
                1 => format!("a cluster of {} blocks needs a device with clusters", extents(cluster)),
                _ => format!("a cluster of {} blocks exceeds the limit of {limit}", extents(cluster)),
            };
            return refuse(what, blocks.unwrap_or(i64::MAX));
        }
        Ok(())
    }

    fn cooperative(&self) -> Checked {
        if !self.launch.cooperative || self.limits.cooperative {
            return Ok(());
        }
        let what = "a cooperative launch needs a device that supports it".to_string();
        Err(self.refuse("cooperative", what, "cooperative", 1, 0))
    }
}

fn product(extents: [i64; 3]) -> Option<i64> {
    extents[0].checked_mul(extents[1])?.checked_mul(extents[2])
}

/// `32`, `32x4` or `32x4x2`.
fn extents(extents: [i64; 3]) -> String {
    let used = extents.iter().rposition(|extent| *extent != 1).map_or(1, |last| last + 1);
    extents[..used].iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
}

/// Of one problem's buffers together: the device's memory, or three quarters of the machine's where that is the device.
pub fn memory_cap(info: &DeviceInfo) -> u64 {
    match info.kind {
        DeviceKind::Host => info.memory_bytes / 4 * 3,
        DeviceKind::Cuda | DeviceKind::Replay => info.memory_bytes,
    }
}

pub fn check_memory(plan: &ProblemPlan, cap: u64) -> Checked {
    let total = plan.buffers.iter().map(BufferPlan::bytes).fold(0, u64::saturating_add);
    let Some(largest) = plan.buffers.iter().max_by_key(|buffer| buffer.bytes()) else { return Ok(()) };
    if total <= cap {
        return Ok(());
    }
    let (problem, name) = (&plan.name, &largest.name);
    let [needed, most, limit] = [total, largest.bytes(), cap].map(with_unit);
    let message = format!(
        "the buffers of problem `{problem}` need {needed}, of which `{name}` takes {most}; the limit here is {limit}"
    );
    let verdict = refusal(plan, "memory", message).with("argument", largest.name.clone());
    Err(Box::new(verdict.with("bytes", total).with("bytes_limit", cap)))
}

fn with_unit(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "bytes";
    for larger in ["kB", "MB", "GB", "TB", "PB", "EB"] {
        if value < 1000.0 {
            break;
        }
        (value, unit) = (value / 1000.0, larger);
    }
    match value {
        _ if unit == "bytes" => format!("{bytes} bytes"),
        value if value < 10.0 => format!("{value:.2} {unit}"),
        value if value < 100.0 => format!("{value:.1} {unit}"),
        value => format!("{value:.0} {unit}"),
    }
}

/// First compute capability with tensor maps (CUDA driver API, "Tensor Map Object Management").
const TENSOR_MAPS_FIRST: u32 = 90;

/// The host device has tensor maps, and so has a target that is not known.
pub fn check_tensor_maps(plan: &ProblemPlan, arch: &str) -> Checked {
    let lacks = capability(arch).is_some_and(|number| number < TENSOR_MAPS_FIRST);
    let Some(map) = plan.tensor_maps.first().filter(|_| lacks) else { return Ok(()) };
    let message = format!(
        "argument `{}` is a tensor map, which `{arch}` does not have: sm_{TENSOR_MAPS_FIRST} is the first with them, in problem `{}`",
        map.name, plan.name
    );
    Err(Box::new(refusal(plan, "tensor_map", message).with("argument", map.name.clone())))
}

/// Causes: `smem`, `registers`, `threads`. Entries without a report pass: their kernel is judged at launch.
pub fn check_resources(resources: &[EntryResources], plan: &ProblemPlan, limits: &DeviceLimits) -> Checked {
    for launch in &plan.launches {
        let Some(entry) = resources.iter().find(|entry| entry.entry == launch.entry) else { continue };
        check_entry(entry, launch, limits).map_err(|verdict| {
            Box::new(verdict.with("entry", launch.entry.clone()).with("problem", plan.name.clone()))
        })?;
    }
    Ok(())
}

pub fn check_spills(resources: &[EntryResources], spill_bytes_max: Option<u64>) -> Checked {
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

fn check_entry(entry: &EntryResources, launch: &LaunchPlan, limits: &DeviceLimits) -> Result<(), Verdict> {
    // 0 for a block that `check_launches` refuses anyway.
    let extents = launch.block.iter().map(|extent| u64::try_from(*extent).unwrap_or(0));
    let (name, threads) = (&entry.entry, extents.fold(1, u64::saturating_mul));
    // Nothing reported means nothing to object to here: the launch gate asks the driver.
    let fixed = entry.shared_static_bytes.unwrap_or(0);
    let asked = u64::try_from(launch.shared_bytes).unwrap_or(0);
    let (own, all) = (limits.shared_static_bytes, limits.shared_optin_bytes);
    let bound = entry.threads_max.map_or(u64::MAX, u64::from);
    // As they are allocated: whole warps, in units.
    let each = entry.registers.unwrap_or(0);
    let needed = registers_of_warp(each.into()).saturating_mul(threads.div_ceil(WARP));
    let registers = u64::from(limits.registers_per_block);
    let (cause, value, limit, message) = if fixed > own {
        let what = format!("`{name}` holds {fixed} bytes of static shared memory");
        ("smem", fixed, own, format!("{what}; the limit is {own}, and {all} for dynamic shared memory"))
    } else if fixed + asked > all {
        let what = format!("`{name}` needs {fixed} static and {asked} dynamic bytes of shared memory");
        ("smem", fixed + asked, all, format!("{what}; the limit is {all}"))
    } else if threads > bound {
        let what = format!("`{name}` is launched with {threads} threads");
        ("threads", threads, bound, format!("{what}; its launch bounds allow {bound}"))
    } else if needed > registers {
        let what = format!("{threads} threads of `{name}` need {needed} registers ({each} each)");
        ("registers", needed, registers, format!("{what}; the limit is {registers}"))
    } else {
        return Ok(());
    };
    let verdict = Verdict::new(VerdictKind::StaticReject, message).with_cause(cause);
    Err(verdict.with("value", value).with("limit", limit))
}

#[cfg(test)]
mod tests {
    use evo_protocol::dtype::DType;
    use evo_protocol::plan::{Fill, Role};
    use serde_json::json;

    use super::*;

    fn launch() -> LaunchPlan {
        LaunchPlan { entry: "k".into(), grid: [4, 2, 1], block: [32, 4, 1], ..LaunchPlan::default() }
    }

    fn plan(launches: Vec<LaunchPlan>) -> ProblemPlan {
        ProblemPlan { name: "p".into(), launches, ..ProblemPlan::default() }
    }

    #[test]
    fn what_is_beyond_a_limit_is_refused_with_number_and_limit() {
        type Change = fn(&mut LaunchPlan);
        let rows: [(&str, Change); 25] = [
            ("sm_90a", |_| {}),
            ("sm_90a", |l| l.block = [1024, 1, 1]),
            ("sm_90a", |l| l.block[1] = 0),
            ("sm_90a", |l| l.block[0] = -32),
            ("sm_90a", |l| l.block = [256, 8, 1]),
            ("sm_90a", |l| l.block = [1, 1, 128]),
            ("sm_90a", |l| l.block = [i64::MAX, 2, 1]),
            ("sm_90a", |l| l.grid = [2_147_483_647, 65_535, 65_535]),
            ("sm_90a", |l| l.grid[0] = 0),
            ("sm_90a", |l| l.grid[2] = -1),
            ("sm_90a", |l| l.grid[1] = 65_536),
            ("sm_90a", |l| l.grid[0] = 1 << 40),
            ("sm_90a", |l| l.shared_bytes = 101_377),
            ("sm_89", |l| l.shared_bytes = 101_376),
            ("sm_89", |l| l.shared_bytes = 101_377),
            ("sm_90a", |l| l.shared_bytes = -4),
            ("sm_90a", |l| l.cluster = Some([4, 2, 1])),
            ("sm_89", |l| l.cluster = Some([1, 1, 1])),
            ("sm_90a", |l| l.cluster = Some([3, 1, 1])),
            ("sm_90a", |l| (l.grid, l.cluster) = ([16, 2, 1], Some([16, 1, 1]))),
            ("sm_89", |l| l.cluster = Some([2, 1, 1])),
            ("sm_90a", |l| l.cluster = Some([2, 0, 1])),
            ("sm_89", |l| l.cooperative = true),
            ("sm_90a", |l| l.cooperative = true),
            ("none", |l| l.cooperative = true),
        ];
        let shown = rows.map(|(arch, change)| {
            let mut changed = launch();
            change(&mut changed);
            let limits = match arch {
                "none" => DeviceLimits { cooperative: false, ..DeviceLimits::of_arch("sm_90a").unwrap() },
                arch => DeviceLimits::of_arch(arch).unwrap(),
            };
            let LaunchPlan { grid, block, shared_bytes, cluster, .. } = changed;
            let found = check_launches(&plan(vec![launch(), changed]), &limits, CheckSet::default());
            let found = found.map_err(|verdict| format!("{}: {}", verdict.label(), verdict.message));
            format!("{arch} {grid:?} {block:?} {shared_bytes} {cluster:?}: {found:?}\n")
        });
        insta::assert_snapshot!(shown.concat());
    }

    #[test]
    fn no_launch_is_zero_work_and_evidence_has_numbers() {
        let limits = DeviceLimits::of_arch("sm_90a").unwrap();
        assert!(check_launches(&plan(vec![]), &limits, CheckSet::default()).is_ok());
        let idle = check_timed(&plan(vec![]), CheckSet::default()).unwrap_err();
        assert_eq!(idle.label(), "static_reject:zero_work");
        assert!(check_timed(&plan(vec![launch()]), CheckSet::default()).is_ok());
        let too_much = LaunchPlan { shared_bytes: 300_000, ..launch() };
        let verdict = check_launches(&plan(vec![too_much]), &limits, CheckSet::default()).unwrap_err();
        assert_eq!(verdict.evidence.get("shared_bytes"), Some(&300_000.into()));
        assert_eq!(verdict.evidence.get("shared_bytes_limit"), Some(&232_448.into()));
        assert_eq!(verdict.evidence.get("problem"), Some(&"p".into()));
    }

    #[test]
    fn gpus_before_sm_90_have_no_tensor_maps() {
        let map = json!({"dtype": "f32", "dims": [4], "strides": [], "box": [4], "swizzle": "none", "fill": "zero"});
        let maps = serde_json::from_value(json!([{"name": "m", "of": 0, "map": map}])).unwrap();
        let with = ProblemPlan { tensor_maps: maps, ..plan(Vec::new()) };
        for arch in ["sm_90a", "sm_90", "sm_100a", "sm_120", "host", ""] {
            assert!(check_tensor_maps(&with, arch).is_ok(), "{arch}");
        }
        let refused = check_tensor_maps(&with, "sm_89").unwrap_err();
        assert_eq!(refused.label(), "static_reject:tensor_map");
        assert_eq!(
            refused.message,
            "argument `m` is a tensor map, which `sm_89` does not have: sm_90 is the first with them, in problem `p`"
        );
        assert!(check_tensor_maps(&plan(Vec::new()), "sm_89").is_ok());
    }

    #[test]
    fn sums_are_held_against_the_limits() {
        let shared = |bytes| EntryResources { shared_static_bytes: Some(bytes), ..EntryResources::default() };
        let registers = |count| EntryResources { registers: Some(count), ..EntryResources::default() };
        let bounded = EntryResources { threads_max: Some(128), ..EntryResources::default() };
        for (entry, threads, shared_bytes, expected) in [
            (shared(30 << 10), 256, 69 << 10, "fits"),
            (shared(30 << 10), 256, 70 << 10, "static_reject:smem"),
            (shared(64 << 10), 256, 0, "static_reject:smem"),
            (registers(64), 1024, 0, "fits"),
            // 65 registers are allocated as 72.
            (registers(65), 896, 0, "fits"),
            (registers(65), 928, 0, "static_reject:registers"),
            (bounded.clone(), 128, 0, "fits"),
            (bounded, 256, 0, "static_reject:threads"),
            (EntryResources::default(), 1024, 99 << 10, "fits"),
        ] {
            let launch = LaunchPlan { block: [threads, 1, 1], shared_bytes, ..launch() };
            let found = check_entry(&entry, &launch, &DeviceLimits::of_arch("sm_89").unwrap());
            let found = found.map_or_else(|verdict| verdict.label(), |()| "fits".to_string());
            assert_eq!(found, expected, "{entry:?} {threads} {shared_bytes}");
        }
    }

    fn plan_of(elements: &[u64]) -> ProblemPlan {
        let buffer = |(position, elements): (usize, &u64)| BufferPlan {
            name: format!("b{position}"),
            dtype: DType::F32,
            shape: vec![*elements],
            role: Role::Scratch,
            fill: Fill::Unrestricted,
            symbol: None,
            view: None,
        };
        let buffers = elements.iter().enumerate().map(buffer).collect();
        ProblemPlan { buffers, ..plan(Vec::new()) }
    }

    #[test]
    fn the_sum_of_all_buffers_counts() {
        assert!(check_memory(&plan_of(&[100, 100]), 800).is_ok());
        assert!(check_memory(&plan_of(&[]), 0).is_ok());
        let verdict = check_memory(&plan_of(&[100, 101]), 800).unwrap_err();
        assert_eq!(verdict.label(), "static_reject:memory");
        let huge = check_memory(&plan_of(&[10, 411_000_000_000]), 141_000_000_000).unwrap_err();
        assert_eq!(
            huge.message,
            "the buffers of problem `p` need 1.64 TB, of which `b1` takes 1.64 TB; the limit here is 141 GB"
        );
        assert!(check_memory(&plan_of(&[1 << 61, 1 << 61, 1 << 61]), u64::MAX - 1).is_err());
    }

    #[test]
    fn sizes_for_people() {
        let shown = [0, 999, 1_500, 24_000_000, 150_000_000_000].map(with_unit);
        assert_eq!(shown, ["0 bytes", "999 bytes", "1.50 kB", "24.0 MB", "150 GB"]);
    }
}
