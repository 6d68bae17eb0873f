//! How many warps of a kernel a multiprocessor can hold at once, computed without a device.
//!
//! The arithmetic is that of NVIDIA's occupancy calculator: registers are given to warps, within a
//! quarter of the multiprocessor, in units of 256; shared memory to blocks, in small units, with a
//! reserve for the system. Sizes are those of the CUDA programming guide's table of technical
//! specifications.

use evo_protocol::device::capability;
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
}
