//! Numbers that are known once a variant is compiled and before it runs, for a search to learn from: they explain
//! cliffs that no product of parameters does, such as spills.

use evo_protocol::binary::{Binary, EntryResources};
use evo_protocol::facts::Facts;
use evo_protocol::plan::{LaunchPlan, ProblemPlan};

use super::occupancy::{BlockNeeds, Multiprocessor};

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
