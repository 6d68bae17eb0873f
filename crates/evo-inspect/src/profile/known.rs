//! What is known of a launch whatever becomes of the profiler: from its plan, from compiler and driver, and from
//! evo's own time.

use evo_protocol::binary::EntryResources;
use evo_protocol::device::{DeviceInfo, DeviceKind, EntryAttributes};
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::{LaunchPlan, ProblemPlan};

use evo_compile::occupancy::{BlockNeeds, Multiprocessor, OccupancyLimit, WARP};
use evo_journal::leaderboard::roofline_ns;
use evo_journal::record::ProblemWork;

pub type Known<T> = Result<T, String>;

#[derive(Clone, Copy, Debug)]
pub struct KnownSources<'a> {
    pub device: &'a DeviceInfo,
    pub plan: &'a ProblemPlan,
    pub resources: &'a [EntryResources],
    /// Empty where the driver was not asked.
    pub attributes: &'a [EntryAttributes],
    /// evo's own time of a call, never one from under a profiler.
    pub time_ns: Option<f64>,
    pub mode: TimingMode,
}

#[derive(Clone, Debug, PartialEq)]
pub struct KnownFacts {
    pub launch: usize,
    pub ctas: u64,
    /// Blocks over those that are resident on the whole device at once.
    pub waves: Known<f64>,
    /// Resident warps over the most that fit, percent.
    pub occupancy_limit_percent: Known<f64>,
    pub limited_by: Known<OccupancyLimit>,
    /// Per thread.
    pub registers: Known<u64>,
    /// Per thread, stores and loads together.
    pub spill_bytes: Known<u64>,
    /// The least time that the device's peaks allow over evo's own time.
    pub roofline_ratio: Known<f64>,
    pub sm_count: Known<u64>,
    /// evo's own time of a call over that of so many empty launches.
    pub launch_floor_ratio: Known<f64>,
    /// Whether memory traffic bounds the problem, and not arithmetic.
    pub is_memory_bound: Known<bool>,
    /// Whether tensor cores are meant: 16-bit floats and a problem that arithmetic bounds.
    pub is_tensor_meant: Known<bool>,
}

/// What a launch of an empty kernel takes, nanoseconds: back to back in a graph, and alone behind a flush of the L2
/// cache with its events. Measured on an H200 with driver 580.
const FLOOR_HOT_NS: f64 = 970.0;
const FLOOR_COLD_NS: f64 = 3_600.0;

const HOST: &str = "the host device has no multiprocessors";

impl KnownFacts {
    pub fn of(sources: &KnownSources<'_>) -> KnownFacts {
        let KnownSources { device, plan, .. } = *sources;
        let at = main_launch(plan);
        let launch = plan.launches.get(at);
        let attributes = sources.attributes.get(at);
        let compiled = launch.and_then(|own| sources.resources.iter().find(|one| one.entry == own.entry));
        let (resident, occupancy_limit_percent, limited_by) = residency(device, launch, attributes, compiled);
        let ctas = launch.map_or(0, |own| product(own.grid));
        let sm_count = match device.kind {
            DeviceKind::Cuda if device.multiprocessors > 0 => Ok(u64::from(device.multiprocessors)),
            DeviceKind::Cuda => Err("the device does not say how many it has".to_string()),
            _ => Err(HOST.to_string()),
        };
        let work = ProblemWork::of(plan);
        let is_memory_bound = memory_bound(device, &work);
        KnownFacts {
            launch: at,
            ctas,
            waves: resident.and_then(|blocks| match (blocks, &sm_count) {
                (_, Err(why)) => Err(why.clone()),
                (0, _) => Err("not one block is resident".to_string()),
                (blocks, Ok(sm_count)) => Ok(ctas as f64 / (blocks * sm_count) as f64),
            }),
            occupancy_limit_percent,
            limited_by,
            registers: match device.kind {
                DeviceKind::Cuda => registers(attributes, compiled)
                    .ok_or_else(|| "neither the driver nor the compiler says".to_string()),
                _ => Err("the host device does not report them".to_string()),
            },
            spill_bytes: compiled
                .and_then(|own| own.spill_store_bytes.zip(own.spill_load_bytes))
                .map(|(stored, loaded)| stored.saturating_add(loaded))
                .ok_or_else(|| "the compiler does not report it".to_string()),
            roofline_ratio: roofline_ns(device, &work)
                .ok_or_else(|| "the device's peaks or the problem's work are not known".to_string())
                .and_then(|least| Ok(least / time_of(sources)?)),
            sm_count,
            launch_floor_ratio: floor(sources),
            is_tensor_meant: is_memory_bound.clone().map(|bound| work.half && !bound),
            is_memory_bound,
        }
    }
}

/// What a plan spends its time in, as far as that can be told without timing each launch.
pub fn main_launch(plan: &ProblemPlan) -> usize {
    let threads = |launch: &LaunchPlan| product(launch.grid).saturating_mul(product(launch.block));
    // Of equal ones the first, as `max_by_key` would not have it.
    let most = plan.launches.iter().map(threads).max();
    plan.launches.iter().position(|launch| Some(threads(launch)) == most).unwrap_or(0)
}

fn product(extents: [i64; 3]) -> u64 {
    extents.iter().map(|extent| u64::try_from(*extent).unwrap_or(0)).fold(1, u64::saturating_mul)
}

/// Resident blocks of a multiprocessor, resident warps over the most that fit, percent, and what limits them.
type Residency = (Known<u64>, Known<f64>, Known<OccupancyLimit>);

/// The driver counts the blocks; evo's own arithmetic says what limits them, if both agree.
fn residency(
    device: &DeviceInfo,
    launch: Option<&LaunchPlan>,
    attributes: Option<&EntryAttributes>,
    compiled: Option<&EntryResources>,
) -> Residency {
    const UNSAID: &str = "neither the driver nor the compiler says what the kernel needs";
    let unknown = |why: &str| (Err(why.to_string()), Err(why.to_string()), Err(why.to_string()));
    if device.kind != DeviceKind::Cuda {
        return unknown(HOST);
    }
    let Some(launch) = launch else { return unknown("the plan has no launch") };
    let counted = attributes.and_then(|own| own.blocks_per_multiprocessor).map(u64::from);
    let threads = product(launch.block);
    let Some(own) = Multiprocessor::of_arch(&device.arch) else {
        let why = format!("what a multiprocessor of `{}` holds is not known", device.arch);
        let (_, percent, limited_by) = unknown(&why);
        return (counted.ok_or(why), percent, limited_by);
    };
    let fixed = attributes.map(|own| own.shared_static_bytes);
    let fixed = fixed.or(compiled.and_then(|own| own.shared_static_bytes));
    let computed = registers(attributes, compiled).zip(fixed).map(|(registers_per_thread, fixed)| {
        let shared_bytes = fixed.saturating_add(u64::try_from(launch.shared_bytes).unwrap_or(0));
        own.limit(BlockNeeds { threads, registers_per_thread, shared_bytes })
    });
    let Some(blocks) = counted.or(computed.map(|(_, blocks)| blocks)) else { return unknown(UNSAID) };
    let limited_by = match computed {
        Some((limit, own)) if own == blocks => Ok(limit),
        Some((_, own)) => {
            Err(format!("the driver counts {blocks} resident blocks, and evo's own arithmetic {own}"))
        }
        None => Err(UNSAID.to_string()),
    };
    let percent = 100.0 * (blocks * threads.div_ceil(WARP)) as f64 / own.warps as f64;
    (Ok(blocks), Ok(percent), limited_by)
}

fn registers(attributes: Option<&EntryAttributes>, compiled: Option<&EntryResources>) -> Option<u64> {
    attributes.and_then(|own| own.registers).or(compiled.and_then(|own| own.registers)).map(u64::from)
}

fn time_of(sources: &KnownSources<'_>) -> Known<f64> {
    let time = sources.time_ns.filter(|time| time.is_finite() && *time > 0.0);
    time.ok_or_else(|| "the candidate has no time on this problem".to_string())
}

fn floor(sources: &KnownSources<'_>) -> Known<f64> {
    if sources.device.kind != DeviceKind::Cuda {
        return Err("the host device has no launch floor".to_string());
    }
    let one = match sources.mode {
        TimingMode::Hot => FLOOR_HOT_NS,
        TimingMode::Cold => FLOOR_COLD_NS,
        TimingMode::Eager => return Err("a time with the launch in it has no floor".to_string()),
    };
    Ok(time_of(sources)? / (one * sources.plan.launches.len().max(1) as f64))
}

fn memory_bound(device: &DeviceInfo, work: &ProblemWork) -> Known<bool> {
    let memory = roofline_ns(device, &ProblemWork { flops: None, ..work.clone() });
    let compute = roofline_ns(device, &ProblemWork { bytes: None, ..work.clone() });
    let both = memory.zip(compute).map(|(memory, compute)| memory >= compute);
    both.ok_or_else(|| "the space file or the device does not say how much work and how fast".to_string())
}

#[cfg(test)]
mod tests {

    use super::*;
    use evo_journal::example as fake;
    use evo_supervise::job::example;

    fn launch(entry: &str, grid: i64, threads: i64) -> LaunchPlan {
        let (grid, block) = ([grid, 1, 1], [threads, 1, 1]);
        LaunchPlan { entry: entry.into(), grid, block, ..LaunchPlan::default() }
    }

    fn device(kind: DeviceKind, arch: &str) -> DeviceInfo {
        DeviceInfo {
            kind,
            arch: arch.into(),
            multiprocessors: 132,
            bandwidth: Some(4.8e12),
            flops_f32: Some(6e13),
            ..fake::header().device
        }
    }

    fn facts(device: &DeviceInfo, attributes: &[EntryAttributes], time_ns: Option<f64>) -> KnownFacts {
        let plan = ProblemPlan {
            launches: vec![launch("small", 4, 32), launch("k", 264, 256)],
            flops: Some(1e6),
            bytes: Some(4.8e6),
            ..example::plan("p", 1.0)
        };
        let resources = [EntryResources {
            entry: "k".into(),
            registers: Some(64),
            spill_store_bytes: Some(8),
            spill_load_bytes: Some(16),
            shared_static_bytes: Some(0),
            ..EntryResources::default()
        }];
        let (plan, resources, mode) = (&plan, &resources, TimingMode::Hot);
        KnownFacts::of(&KnownSources { device, plan, resources, attributes, time_ns, mode })
    }

    #[test]
    fn what_is_not_known_says_why() {
        let counted = |blocks| EntryAttributes {
            registers: Some(64),
            blocks_per_multiprocessor: Some(blocks),
            ..EntryAttributes::default()
        };
        let gpu = device(DeviceKind::Cuda, "sm_90a");
        insta::assert_debug_snapshot!([
            // 64 registers are 2048 a warp: four blocks of eight warps.
            ("the launch with most threads is looked at", facts(&gpu, &[], Some(4_000.0))),
            ("the driver agrees", facts(&gpu, &[counted(32), counted(4)], None)),
            ("the driver has the last word", facts(&gpu, &[counted(32), counted(2)], None)),
            ("the host", facts(&device(DeviceKind::Host, "host"), &[], Some(4_000.0))),
            ("a new architecture", facts(&device(DeviceKind::Cuda, "sm_150"), &[], None)),
        ]);
    }
}
