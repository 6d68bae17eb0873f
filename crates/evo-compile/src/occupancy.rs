//! Numbers that are known once a variant is compiled, without a device: above all how many warps of it a multiprocessor
//! can hold at once.
//!
//! The arithmetic is that of NVIDIA's occupancy calculator: registers are given to warps, within a
//! quarter of the multiprocessor, in units of 256; shared memory to blocks, in small units, with a
//! reserve for the system. Sizes are those of the CUDA programming guide's table of technical
//! specifications.

use evo_protocol::binary::{Binary, EntryResources};
use evo_protocol::device::capability;
use evo_protocol::evaluation::Facts;
use evo_protocol::plan::{LaunchPlan, ProblemPlan};
use evo_protocol::words;

pub const WARP: u64 = 32;
/// Of a multiprocessor, whatever its kind.
const REGISTERS: u64 = 64 * 1024;
/// Registers are given to warps in units of this many (8 per thread).
const REGISTER_UNIT: u64 = 256;
const PARTITIONS: u64 = 4;

pub fn registers_of_warp(registers_per_thread: u64) -> u64 {
    (registers_per_thread * WARP).next_multiple_of(REGISTER_UNIT)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiprocessor {
    pub warps: u64,
    pub blocks: u64,
    /// Shared memory, bytes; the part of it that each block costs beside its own; the unit.
    pub shared_bytes: u64,
    pub shared_reserve_bytes: u64,
    pub shared_unit_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockNeeds {
    pub threads: u64,
    pub registers_per_thread: u64,
    pub shared_bytes: u64,
}

words! {
    OccupancyLimit {
        Blocks = "blocks",
        Warps = "warps",
        Registers = "registers",
        SharedMemory = "shared_memory",
    }
}

impl Multiprocessor {
    /// `sm_89`, `sm_90a`, …; `None` for unknown ones and for the host.
    pub fn of_arch(arch: &str) -> Option<Multiprocessor> {
        let digits = capability(arch)?;
        let (warps, blocks, shared_kib) = match digits {
            75 => (32, 16, 64),
            80 => (64, 32, 164),
            86 => (48, 16, 100),
            87 => (48, 16, 164),
            89 => (48, 24, 100),
            90 | 100 | 103 => (64, 32, 228),
            110 => (48, 24, 228),
            120 | 121 => (48, 24, 100),
            _ => return None,
        };
        let (shared_reserve_bytes, shared_unit_bytes) = if digits < 80 { (0, 256) } else { (1024, 128) };
        let shared_bytes = shared_kib * 1024;
        Some(Multiprocessor { warps, blocks, shared_bytes, shared_reserve_bytes, shared_unit_bytes })
    }

    /// With how many blocks are resident; of equal limits the first.
    pub fn limit(&self, needs: BlockNeeds) -> (OccupancyLimit, u64) {
        let warps = needs.threads.div_ceil(WARP).max(1);
        // At least one unit, so that a launch without a register count does not divide by zero.
        let per_warp = registers_of_warp(needs.registers_per_thread).max(REGISTER_UNIT);
        // Each partition has its own registers, so the remainder of a partition is lost and is rounded away
        // before multiplying.
        let warps_by_registers = REGISTERS / PARTITIONS / per_warp * PARTITIONS;
        let units =
            needs.shared_bytes.saturating_add(self.shared_reserve_bytes).div_ceil(self.shared_unit_bytes);
        let by_shared =
            // No units: neither the block nor a reserve takes shared memory, so it does not limit anything.
            (self.shared_bytes / self.shared_unit_bytes).checked_div(units).unwrap_or(self.blocks);
        let others = [
            (OccupancyLimit::Blocks, self.blocks),
            (OccupancyLimit::Registers, warps_by_registers / warps),
            (OccupancyLimit::SharedMemory, by_shared),
        ];
        let least = (OccupancyLimit::Warps, self.warps / warps);
        others.into_iter().fold(least, |least, own| if own.1 < least.1 { own } else { least })
    }

    pub fn occupancy(&self, needs: BlockNeeds) -> f64 {
        let warps = self.limit(needs).1 * needs.threads.div_ceil(WARP);
        warps as f64 / self.warps as f64
    }
}

/// Numbers that are known once a variant is compiled and before it runs, for a search to learn from: they explain
/// cliffs that no product of parameters does, such as spills.
pub fn facts_of(resources: &[EntryResources], plans: &[ProblemPlan], arch: &str) -> Facts {
    let most = |of: fn(&EntryResources) -> Option<u64>| {
        resources.iter().filter_map(of).max().map(|value| value as f64)
    };
    let launches = || plans.iter().flat_map(|plan| &plan.launches);
    let needs = launches().filter_map(|launch| needs_of(resources, launch));
    let occupancy = Multiprocessor::of_arch(arch)
        // The least over the launches, as the other facts are the most: each describes the worst of them.
        .and_then(|own| needs.map(|needs| own.occupancy(needs)).min_by(f64::total_cmp));
    let shared = launches().map(|launch| shared_of(resources, launch)).max();
    // Without a launch only the static part is known.
    let shared = shared.map(|value| value as f64).or(most(|one| one.shared_static_bytes));
    Facts {
        registers: most(|one| one.registers.map(u64::from)),
        spill_bytes: most(|one| Some(one.spill_store_bytes?.saturating_add(one.spill_load_bytes?))),
        stack_bytes: most(|one| one.stack_bytes),
        shared_bytes: shared,
        occupancy,
        binary_bytes: None,
    }
}

pub fn with_size_of(facts: Facts, binaries: &[Binary]) -> Facts {
    let size = |binary: &Binary| std::fs::metadata(&binary.path).ok().map(|file| file.len());
    let sizes: Option<Vec<u64>> = binaries.iter().map(size).collect();
    let largest = sizes.and_then(|sizes| sizes.into_iter().max());
    Facts { binary_bytes: largest.map(|bytes| bytes as f64), ..facts }
}

fn entry_of<'a>(resources: &'a [EntryResources], launch: &LaunchPlan) -> Option<&'a EntryResources> {
    resources.iter().find(|one| one.entry == launch.entry)
}

fn shared_of(resources: &[EntryResources], launch: &LaunchPlan) -> u64 {
    let fixed = entry_of(resources, launch).and_then(|one| one.shared_static_bytes).unwrap_or(0);
    fixed.saturating_add(u64::try_from(launch.shared_bytes).unwrap_or(0))
}

/// What a block needs; `None` where the compiler did not say how many registers.
fn needs_of(resources: &[EntryResources], launch: &LaunchPlan) -> Option<BlockNeeds> {
    let registers_per_thread = u64::from(entry_of(resources, launch)?.registers?);
    let extent = |extent: &i64| u64::try_from(*extent).unwrap_or(0);
    let threads = launch.block.iter().map(extent).fold(1, u64::saturating_mul);
    Some(BlockNeeds { threads, registers_per_thread, shared_bytes: shared_of(resources, launch) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_binds_in_its_turn() {
        use OccupancyLimit::{Blocks, Registers, SharedMemory, Warps};
        for (arch, threads, registers_per_thread, shared_kib, expected) in [
            ("sm_90a", 256, 32, 0, (Warps, 8)),
            ("sm_90a", 32, 16, 0, (Blocks, 32)),
            ("sm_86", 256, 32, 0, (Warps, 6)),
            ("sm_90a", 256, 128, 0, (Registers, 2)),
            // 128 × 32 are 4096 a warp, four warps in each quarter; 65 are given as 72.
            ("sm_80", 256, 128, 0, (Registers, 2)),
            ("sm_80", 256, 65, 0, (Registers, 3)),
            ("sm_80", 1024, 64, 0, (Registers, 1)),
            ("sm_80", 1024, 65, 0, (Registers, 0)),
            // With 1 KiB a block for the system from 8.0 on.
            ("sm_90a", 128, 32, 100, (SharedMemory, 2)),
            ("sm_80", 128, 32, 81, (SharedMemory, 2)),
            ("sm_80", 128, 32, 82, (SharedMemory, 1)),
            ("sm_75", 128, 32, 32, (SharedMemory, 2)),
            ("sm_90", 128, 32, 227, (SharedMemory, 1)),
            ("sm_90", 128, 32, 228, (SharedMemory, 0)),
        ] {
            let needs = BlockNeeds { threads, registers_per_thread, shared_bytes: shared_kib * 1024 };
            let found = Multiprocessor::of_arch(arch).unwrap().limit(needs);
            assert_eq!(found, expected, "{arch} {needs:?}");
        }
    }

    #[test]
    fn occupancy_is_a_share_of_the_warps() {
        let own = Multiprocessor::of_arch("sm_90a").unwrap();
        let share = |threads, registers_per_thread| {
            own.occupancy(BlockNeeds { threads, registers_per_thread, shared_bytes: 0 })
        };
        assert_eq!(
            [share(256, 32), share(256, 128), share(256, 65), share(1024, 255)],
            [1.0, 0.25, 0.375, 0.0]
        );
        assert_eq!(share(33, 32), 1.0, "32 blocks of 2 warps");
        assert_eq!(Multiprocessor::of_arch("host"), None);
        assert_eq!(Multiprocessor::of_arch("sm_20"), None);
    }

    fn plan(launches: &[(&str, i64, i64)]) -> ProblemPlan {
        let launch = |(entry, threads, shared_bytes): &(&str, i64, i64)| {
            let (entry, block, shared_bytes) = (entry.to_string(), [*threads, 1, 1], *shared_bytes);
            LaunchPlan { entry, block, shared_bytes, ..LaunchPlan::default() }
        };
        ProblemPlan { launches: launches.iter().map(launch).collect(), ..ProblemPlan::default() }
    }

    fn entry(name: &str, registers: u32, fixed: u64, spilled: Option<u64>) -> EntryResources {
        EntryResources {
            entry: name.into(),
            registers: Some(registers),
            shared_static_bytes: Some(fixed),
            spill_store_bytes: spilled,
            spill_load_bytes: spilled,
            ..EntryResources::default()
        }
    }

    #[test]
    fn of_several_kernels_the_worst_counts() {
        let resources = [entry("a", 32, 1024, Some(4)), entry("b", 128, 0, None)];
        let facts = facts_of(&resources, &[plan(&[("a", 256, 512)]), plan(&[("b", 256, 0)])], "sm_90a");
        let values = [Some(128.0), Some(8.0), None, Some(1536.0), Some(0.25), None];
        assert_eq!(facts.values(), values);
        assert_eq!(Facts::NAMES.len(), values.len());
    }

    #[test]
    fn what_is_not_known_stays_unknown() {
        let silent = [EntryResources { entry: "a".into(), ..EntryResources::default() }];
        let facts = facts_of(&silent, &[plan(&[("a", 256, 64), ("other", 32, 0)])], "sm_90a");
        assert_eq!(facts, Facts { shared_bytes: Some(64.0), ..Facts::default() });
        assert!(facts_of(&[], &[], "host").is_empty());
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(text, r#"{"shared_bytes":64.0}"#);
        assert_eq!(serde_json::from_str::<Facts>("{}").unwrap(), Facts::default());
    }
}
