//! What is known of a variant once it is compiled and before anything of it runs: the numbers that a
//! search may learn from. Unlike parameters they say what the compiler made of a configuration, and
//! explain cliffs that no product of parameters does: spills, a block too few on each multiprocessor.

use serde::{Deserialize, Serialize};

use super::compiler::{Binary, EntryResources};
use super::occupancy::{BlockNeeds, Multiprocessor};
use crate::kernel::plan::{LaunchPlan, ProblemPlan};

/// Facts of a compiled variant. Of several kernels and launches each fact is the worst; `None` is not
/// known, as most are on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Registers per thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registers: Option<f64>,
    /// Bytes per thread spilled to local memory, stores and loads together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill_bytes: Option<f64>,
    /// Stack bytes per thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_bytes: Option<f64>,
    /// Shared memory per block, static and dynamic, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_bytes: Option<f64>,
    /// Resident warps over the device's maximum, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occupancy: Option<f64>,
    /// Size of the compiled file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary_bytes: Option<f64>,
}

impl Facts {
    /// How many facts there are.
    pub const COUNT: usize = 6;

    /// The names of the facts, in order.
    pub const NAMES: [&'static str; Facts::COUNT] =
        ["registers", "spill_bytes", "stack_bytes", "shared_bytes", "occupancy", "binary_bytes"];

    /// What the compiler reports of some kernels, and of these launches of them on a device of `arch`.
    pub fn of(resources: &[EntryResources], plans: &[ProblemPlan], arch: &str) -> Facts {
        let most = |of: fn(&EntryResources) -> Option<u64>| {
            resources.iter().filter_map(of).max().map(|value| value as f64)
        };
        let launches = || plans.iter().flat_map(|plan| &plan.launches);
        let needs = launches().filter_map(|launch| needs_of(resources, launch));
        let occupancy = Multiprocessor::of_arch(arch)
            .and_then(|own| needs.map(|needs| own.occupancy(needs)).min_by(f64::total_cmp));
        let shared = launches().map(|launch| shared_of(resources, launch)).max();
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

    /// The same with the size of the compiled file, if there is one.
    pub fn with_size_of(self, binary: &Binary) -> Facts {
        let size = std::fs::metadata(&binary.path).ok().map(|file| file.len() as f64);
        Facts { binary_bytes: size, ..self }
    }

    /// The facts in the order of `NAMES`.
    pub fn values(&self) -> [Option<f64>; Facts::COUNT] {
        [
            self.registers,
            self.spill_bytes,
            self.stack_bytes,
            self.shared_bytes,
            self.occupancy,
            self.binary_bytes,
        ]
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.values().iter().all(Option::is_none)
    }
}

fn entry_of<'a>(resources: &'a [EntryResources], launch: &LaunchPlan) -> Option<&'a EntryResources> {
    resources.iter().find(|one| one.entry == launch.entry)
}

/// Static and dynamic bytes of a block.
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
    use std::collections::BTreeMap;

    use super::*;

    fn plan(launches: &[(&str, i64, i64)]) -> ProblemPlan {
        let launch = |(entry, threads, shared_bytes): &(&str, i64, i64)| LaunchPlan {
            entry: entry.to_string(),
            grid: [1; 3],
            block: [*threads, 1, 1],
            shared_bytes: *shared_bytes,
            cluster: None,
            cooperative: false,
            programmatic: false,
            arguments: Vec::new(),
        };
        ProblemPlan {
            name: "p".into(),
            sizes: BTreeMap::new(),
            weight: 1.0,
            buffers: Vec::new(),
            scalars: Vec::new(),
            launches: launches.iter().map(launch).collect(),
            reference_launches: Vec::new(),
            flops: None,
            bytes: None,
        }
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
        let facts = Facts::of(&resources, &[plan(&[("a", 256, 512)]), plan(&[("b", 256, 0)])], "sm_90a");
        let values = [Some(128.0), Some(8.0), None, Some(1536.0), Some(0.25), None];
        assert_eq!(facts.values(), values);
        assert_eq!(Facts::NAMES.len(), values.len());
    }

    #[test]
    fn what_is_not_known_stays_unknown() {
        let silent = [EntryResources { entry: "a".into(), ..EntryResources::default() }];
        let facts = Facts::of(&silent, &[plan(&[("a", 256, 64), ("other", 32, 0)])], "sm_90a");
        assert_eq!(facts, Facts { shared_bytes: Some(64.0), ..Facts::default() });
        assert!(Facts::of(&[], &[], "host").is_empty());
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(text, r#"{"shared_bytes":64.0}"#);
        assert_eq!(serde_json::from_str::<Facts>("{}").unwrap(), Facts::default());
    }
}
