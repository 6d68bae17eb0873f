//! The binaries of one configuration: which problems each serves, and what it uses.

use evo_protocol::binary::{Binary, EntryResources, KernelSource};
use evo_protocol::specialization::Specialization;
use evo_protocol::worker::{BinaryRef, CandidateBuild};
use evo_space::genome::ContentHash;

/// What the compiler reports of one binary, and the problems that it serves.
#[derive(Clone, Debug)]
pub struct BuiltCode {
    pub constants: Specialization,
    pub resources: Vec<EntryResources>,
}

/// What was made of sources, in their order.
pub fn of(sources: &[KernelSource], binaries: &[Binary]) -> Vec<BuiltCode> {
    let one = |(source, binary): (&KernelSource, &Binary)| BuiltCode {
        constants: source.constants.clone(),
        resources: binary.resources.clone(),
    };
    sources.iter().zip(binaries).map(one).collect()
}

/// The same for a worker. `variant_hash` is that of the configuration whose sources were compiled.
pub(super) fn candidates(
    sources: &[KernelSource],
    binaries: &[Binary],
    variant_hash: &ContentHash,
) -> Vec<CandidateBuild> {
    let one = |(source, binary): (&KernelSource, &Binary)| CandidateBuild {
        constants: source.constants.clone(),
        variant_hash: source.constants.variant_hash(variant_hash),
        binary: BinaryRef::of(binary),
        entries: source.entries.clone(),
        instrumented: None,
    };
    sources.iter().zip(binaries).map(one).collect()
}

/// What each entry uses at most in any of the binaries; of the limit on threads, the least.
pub(super) fn worst(binaries: &[Binary]) -> Vec<EntryResources> {
    let mut found: Vec<EntryResources> = Vec::new();
    for own in binaries.iter().flat_map(|binary| &binary.resources) {
        let Some(worst) = found.iter_mut().find(|other| other.entry == own.entry) else {
            found.push(own.clone());
            continue;
        };
        // A number that is not known of one binary is not known of all.
        fn most<T: Ord + Copy>(one: Option<T>, other: Option<T>) -> Option<T> {
            Some(one?.max(other?))
        }
        *worst = EntryResources {
            entry: own.entry.clone(),
            registers: most(worst.registers, own.registers),
            stack_bytes: most(worst.stack_bytes, own.stack_bytes),
            spill_store_bytes: most(worst.spill_store_bytes, own.spill_store_bytes),
            spill_load_bytes: most(worst.spill_load_bytes, own.spill_load_bytes),
            shared_static_bytes: most(worst.shared_static_bytes, own.shared_static_bytes),
            threads_max: [worst.threads_max, own.threads_max].into_iter().flatten().min(),
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn binary(registers: Option<u32>, threads_max: Option<u32>) -> Binary {
        let entry = EntryResources { entry: "k".into(), registers, threads_max, ..EntryResources::default() };
        Binary {
            hash: ContentHash::of(b"file"),
            code_hash: ContentHash::of(b"code"),
            path: PathBuf::new(),
            resources: vec![entry],
            toolchain: String::new(),
            compile_ms: 1.0,
            cached: false,
            log: String::new(),
        }
    }

    #[test]
    fn of_several_binaries_the_worst_is_recorded() {
        let worst = worst(&[binary(Some(64), Some(256)), binary(Some(96), None)]);
        assert_eq!((worst.len(), worst[0].registers, worst[0].threads_max), (1, Some(96), Some(256)));
        assert_eq!(super::worst(&[binary(Some(64), None), binary(None, None)])[0].registers, None);
    }
}
