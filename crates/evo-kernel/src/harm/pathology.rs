//! What can be done to any kernel.

use evo_protocol::device::DeviceKind;
use evo_protocol::invert::MetricDirection;

use crate::spec::MetricEvidence;

/// One way to harm a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pathology {
    /// Fewer registers a thread, so that values are spilled to local memory.
    RegisterCap,
    /// Shared memory that nothing uses, so that fewer blocks are resident.
    ResidentBlocks,
    /// Every `__syncthreads()` several times.
    Barriers,
    /// Loads of global memory that pass by the L1 cache.
    L1Bypass,
    /// A lower level of optimization.
    CompilerLevel,
    /// A delay before the first statement of each block.
    EntryDelay,
    /// A branch at the beginning that splits each warp in two.
    DivergentEntry,
}

impl Pathology {
    /// All of them, in the order of `docs/INVERT.md`.
    pub const ALL: [Pathology; 7] = [
        Pathology::RegisterCap,
        Pathology::ResidentBlocks,
        Pathology::Barriers,
        Pathology::L1Bypass,
        Pathology::CompilerLevel,
        Pathology::EntryDelay,
        Pathology::DivergentEntry,
    ];

    /// As `--only` and files name it.
    pub fn name(self) -> &'static str {
        match self {
            Pathology::RegisterCap => "register_cap",
            Pathology::ResidentBlocks => "resident_blocks",
            Pathology::Barriers => "barriers",
            Pathology::L1Bypass => "l1_bypass",
            Pathology::CompilerLevel => "compiler_level",
            Pathology::EntryDelay => "entry_delay",
            Pathology::DivergentEntry => "divergent_entry",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Pathology> {
        Pathology::ALL.into_iter().find(|own| own.name() == name)
    }

    /// What a kernel lacks that suffers from it.
    pub fn resource(self) -> &'static str {
        match self {
            Pathology::RegisterCap => "registers",
            Pathology::ResidentBlocks => "resident blocks that hide latency",
            Pathology::Barriers => "barriers",
            Pathology::L1Bypass => "reuse in the L1 cache",
            Pathology::CompilerLevel => "instruction scheduling",
            Pathology::EntryDelay => "the time until a block has begun its work",
            Pathology::DivergentEntry => "issue slots of the prologue",
        }
    }

    /// One unit of its doses.
    pub fn unit(self, kind: DeviceKind) -> &'static str {
        match (self, kind) {
            (Pathology::RegisterCap, _) => "halving of the registers a thread",
            (Pathology::ResidentBlocks, _) => "halving of the resident blocks",
            (Pathology::Barriers, _) => "as many barriers again",
            (Pathology::L1Bypass, _) => "all loads",
            (Pathology::CompilerLevel, _) => "level of optimization",
            (Pathology::EntryDelay, DeviceKind::Cuda) => "1800 cycles (about 1 µs)",
            (Pathology::EntryDelay, _) => "500 steps of one thread (about 1 µs)",
            (Pathology::DivergentEntry, _) => "8 steps of each half of a warp",
        }
    }

    /// By what a profiler sees that it happened; nothing where no metric goes one way for certain.
    pub fn moves(self) -> Option<MetricEvidence> {
        use MetricDirection::{Down, Up};
        let (metric, direction) = match self {
            Pathology::RegisterCap => ("local_load_sectors", Up),
            Pathology::ResidentBlocks => ("occupancy_percent", Down),
            Pathology::Barriers | Pathology::EntryDelay => ("instructions", Up),
            Pathology::L1Bypass => ("l1_hit_percent", Down),
            // Another schedule may have more instructions or fewer.
            Pathology::CompilerLevel => return None,
            Pathology::DivergentEntry => ("threads_per_instruction", Down),
        };
        Some(MetricEvidence::of(metric, direction))
    }

    /// The opposite: what to try where it costs much.
    pub fn try_next(self) -> &'static str {
        match self {
            Pathology::RegisterCap => {
                "give threads more registers: fewer threads a block, a lower second argument of __launch_bounds__, a smaller \
                 tile a thread"
            }
            Pathology::ResidentBlocks => {
                "more resident blocks: less shared memory or fewer registers a block, smaller tiles; or more stages of \
                 loads in flight"
            }
            Pathology::Barriers => {
                "fewer barriers: warp-level synchronization, double buffering, larger steps between barriers"
            }
            Pathology::L1Bypass => {
                "more reuse close by: staging in shared memory or registers, __ldg, neighboring threads on \
                 neighboring data"
            }
            Pathology::CompilerLevel => {
                "unroll and reorder by hand what the compiler schedules; --use_fast_math"
            }
            Pathology::EntryDelay => {
                "longer blocks: persistent blocks, more work a block, a shorter prologue, programmatic dependent launch"
            }
            Pathology::DivergentEntry => {
                "a shorter prologue: precomputed indices, fewer branches, more work a thread"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for own in Pathology::ALL {
            assert_eq!(Pathology::named(own.name()), Some(own));
        }
        assert_eq!(Pathology::named("bank_conflicts"), None);
    }
}
