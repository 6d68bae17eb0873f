//! A configuration made ready for the compilers: its sources, its plans, and the hashes that identify them.

use evo_compile::includes::FileReader;
use evo_compile::search_path::SearchPath;
use evo_kernel::render::render;
use evo_kernel::spec::KernelSpec;
use evo_kernel::tiny::TinyShapes;
use evo_protocol::binary::{Binary, EntryResources, KernelSource, Specialization};
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Gate, Verdict, VerdictClass, VerdictKind};
use evo_protocol::worker::{BinaryRef, CandidateBuild};
use evo_space::genome::{Configuration, ContentHash};

use crate::ports::Refused;

#[derive(Debug)]
pub struct KernelDraft {
    /// Without sources where rendering failed.
    pub kernel: PreparedKernel,
    /// The first reason why the device could not run it, whatever the compiler says.
    pub refused: Option<Refused>,
}

impl KernelDraft {
    pub fn refused(configuration: Configuration, gate: Gate, verdict: Box<Verdict>) -> KernelDraft {
        let kernel = PreparedKernel { configuration, ..PreparedKernel::default() };
        KernelDraft { kernel, refused: Some(Refused { gate, verdict }) }
    }

    /// Ready for the compilers, unless it is refused.
    pub(super) fn ready(self) -> Result<PreparedKernel, Refused> {
        match self.refused {
            Some(refused) => Err(refused),
            None if self.kernel.sources.is_empty() => {
                Err(refusal(Box::new(Verdict::new(VerdictKind::RenderError, "no source was rendered"))))
            }
            None => Ok(self.kernel),
        }
    }
}

pub(super) fn refusal(verdict: Box<Verdict>) -> Refused {
    let gate = match verdict.kind.class() {
        VerdictClass::Compile => Gate::Compile,
        _ => Gate::StaticLimits,
    };
    Refused { gate, verdict }
}

pub fn source_of(
    kernel: &KernelSpec,
    configuration: &Configuration,
    search: &SearchPath,
) -> Result<(KernelSource, ContentHash), Box<Verdict>> {
    let source = render(kernel, configuration)?;
    let included = included(&FileReader::default(), search, &source);
    let hash = joined(included.as_ref(), ContentHash::of(source.text.as_bytes()));
    Ok((source, hash))
}

pub(super) fn included(
    files: &FileReader,
    search: &SearchPath,
    source: &KernelSource,
) -> Option<ContentHash> {
    let search = search.with_options(&source.options);
    files.scan(&source.text, &search).digest()
}

fn joined(included: Option<&ContentHash>, own: ContentHash) -> ContentHash {
    match included {
        None => own,
        Some(included) => ContentHash::of_parts([own.as_str().as_bytes(), included.as_str().as_bytes()]),
    }
}

pub(super) fn one_hash(hashes: Vec<ContentHash>) -> ContentHash {
    match &hashes[..] {
        [only] => only.clone(),
        several => ContentHash::of_parts(several.iter().map(|own| own.as_str().as_bytes())),
    }
}

#[derive(Clone, Debug, Default)]
pub struct PreparedKernel {
    pub configuration: Configuration,
    /// One for each set of constants; at least one.
    pub sources: Vec<KernelSource>,
    pub(super) text: Option<ContentHash>,
    pub included: Option<ContentHash>,
    pub tiny: TinyShapes,
    pub checked: Vec<ProblemPlan>,
    pub timed: Vec<ProblemPlan>,
}

impl PreparedKernel {
    /// The plans by which a variant may be refused, timed ones first: a shape that evo derived refuses nothing before it
    /// runs.
    pub fn plans(&self) -> impl Iterator<Item = &ProblemPlan> {
        let listed = if self.tiny.derived { &[][..] } else { &self.tiny.plans[..] };
        self.timed.iter().chain(&self.checked).chain(listed)
    }

    /// The compiler's options, which no constant changes but by macros.
    pub(super) fn options(&self) -> &[String] {
        self.sources.first().map_or(&[], |source| &source.options)
    }

    pub(super) fn with_included(&self, own: ContentHash) -> ContentHash {
        joined(self.included.as_ref(), own)
    }

    /// Of grids, blocks, shapes: two configurations with the same machine code may still differ here.
    pub(super) fn plan_hash(&self) -> ContentHash {
        let text = |plans: &Vec<ProblemPlan>| serde_json::to_vec(plans).unwrap_or_default();
        let small = [&self.tiny.plans, &self.tiny.several];
        let parts = [text(small[0]), text(small[1]), text(&self.checked), text(&self.timed)];
        ContentHash::of_parts(parts.iter().map(Vec::as_slice))
    }
}

#[derive(Clone, Debug)]
pub struct BuiltCode {
    pub constants: Specialization,
    pub resources: Vec<EntryResources>,
}

pub fn built_codes(sources: &[KernelSource], binaries: &[Binary]) -> Vec<BuiltCode> {
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
    use super::*;

    fn binary(registers: Option<u32>, threads_max: Option<u32>) -> Binary {
        let entry = EntryResources { entry: "k".into(), registers, threads_max, ..EntryResources::default() };
        Binary { resources: vec![entry], ..Binary::default() }
    }

    #[test]
    fn of_several_binaries_the_worst_is_recorded() {
        let worst = worst(&[binary(Some(64), Some(256)), binary(Some(96), None)]);
        assert_eq!((worst.len(), worst[0].registers, worst[0].threads_max), (1, Some(96), Some(256)));
        assert_eq!(super::worst(&[binary(Some(64), None), binary(None, None)])[0].registers, None);
    }
}
