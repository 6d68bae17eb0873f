//! A configuration made ready for the compilers: its sources, its plans, and the hashes that identify them.

use evo_protocol::binary::KernelSource;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Gate, Verdict, VerdictClass, VerdictKind};
use evo_space::genome::{Configuration, ContentHash};

use super::ports::Refused;
use evo_compile::includes::FileReader;
use evo_compile::search_path::SearchPath;
use evo_kernel::render::render;
use evo_kernel::spec::KernelSpec;
use evo_kernel::tiny::TinyShapes;

/// A configuration, rendered and resolved as far as possible.
#[derive(Debug)]
pub struct KernelDraft {
    /// One for each set of constants; none where rendering failed.
    pub sources: Vec<KernelSource>,
    /// Hash of the one text for all problems.
    pub(super) text: Option<ContentHash>,
    /// Hash of the files that the sources include, if there are any.
    pub included: Option<ContentHash>,
    /// Small shapes, listed or derived.
    pub tiny: TinyShapes,
    /// Problems that are checked and not timed.
    pub checked: Vec<ProblemPlan>,
    pub timed: Vec<ProblemPlan>,
    /// The first reason why the device could not run it, whatever the compiler says.
    pub refused: Option<Refused>,
}

impl KernelDraft {
    /// A configuration that is refused before anything is resolved.
    pub fn refused(gate: Gate, verdict: Box<Verdict>) -> KernelDraft {
        let refused = Some(Refused { gate, verdict });
        let (tiny, none) = (TinyShapes::default(), Vec::new);
        KernelDraft {
            sources: Vec::new(),
            text: None,
            included: None,
            tiny,
            checked: none(),
            timed: none(),
            refused,
        }
    }

    /// The plans by which a variant may be refused, timed ones first.
    pub fn plans(&self) -> impl Iterator<Item = &ProblemPlan> {
        binding(&self.timed, &self.checked, &self.tiny)
    }

    /// Ready for the compilers, unless it is refused.
    pub(super) fn ready(self, configuration: &Configuration) -> Result<PreparedKernel, Refused> {
        let KernelDraft { sources, text, included, tiny, checked, timed, refused } = self;
        match refused {
            None if !sources.is_empty() => {
                let configuration = configuration.clone();
                Ok(PreparedKernel { configuration, sources, text, included, tiny, checked, timed })
            }
            Some(refused) => Err(refused),
            None => Err(refusal(Box::new(Verdict::new(VerdictKind::RenderError, "no source was rendered")))),
        }
    }
}

/// A verdict before the device, with the gate that it belongs to.
pub(super) fn refusal(verdict: Box<Verdict>) -> Refused {
    let gate = match verdict.kind.class() {
        VerdictClass::Compile => Gate::Compile,
        _ => Gate::StaticLimits,
    };
    Refused { gate, verdict }
}

/// Plans that the file asks for: a shape that evo derived refuses nothing before it runs.
pub(super) fn binding<'a>(
    timed: &'a [ProblemPlan],
    checked: &'a [ProblemPlan],
    tiny: &'a TinyShapes,
) -> impl Iterator<Item = &'a ProblemPlan> {
    let listed = if tiny.derived { &[][..] } else { &tiny.plans[..] };
    timed.iter().chain(checked).chain(listed)
}

/// The source of a configuration, and its hash with the files that it includes, as journals keep it.
///
/// # Errors
/// The verdict on a template that does not render.
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

/// A hash of the files that a source includes; `None` where there are none but the toolchain's.
pub(super) fn included(
    files: &FileReader,
    search: &SearchPath,
    source: &KernelSource,
) -> Option<ContentHash> {
    let search = search.with_options(source.options.iter().map(String::as_str));
    files.scan(&source.text, &search).digest()
}

/// The hash of a source joined with that of the files that it includes.
fn joined(included: Option<&ContentHash>, own: ContentHash) -> ContentHash {
    match included {
        None => own,
        Some(included) => ContentHash::of_parts([own.as_str().as_bytes(), included.as_str().as_bytes()]),
    }
}

/// The hash of one, or of several together.
pub(super) fn one_hash(hashes: Vec<ContentHash>) -> ContentHash {
    match &hashes[..] {
        [only] => only.clone(),
        several => ContentHash::of_parts(several.iter().map(|own| own.as_str().as_bytes())),
    }
}

/// A rendered and resolved configuration of a kernel.
#[derive(Clone, Debug)]
pub struct PreparedKernel {
    pub configuration: Configuration,
    /// One for each set of constants; at least one.
    pub sources: Vec<KernelSource>,
    /// Hash of the one text for all problems.
    pub(super) text: Option<ContentHash>,
    /// Hash of the files that the sources include, if there are any.
    pub included: Option<ContentHash>,
    /// Small shapes, listed or derived.
    pub tiny: TinyShapes,
    /// Problems that are checked and not timed.
    pub checked: Vec<ProblemPlan>,
    pub timed: Vec<ProblemPlan>,
}

impl PreparedKernel {
    /// The compiler's options, which no constant changes but by macros.
    pub(super) fn options(&self) -> &[String] {
        self.sources.first().map_or(&[], |source| &source.options)
    }

    /// A hash of the source joined with that of the files that it includes.
    pub(super) fn with_included(&self, own: ContentHash) -> ContentHash {
        joined(self.included.as_ref(), own)
    }

    /// A hash of everything but the code that decides the outcome: grids, blocks, shapes. Two
    /// configurations with the same machine code may still differ here.
    pub(super) fn plan_hash(&self) -> ContentHash {
        let text = |plans: &Vec<ProblemPlan>| serde_json::to_vec(plans).unwrap_or_default();
        let small = [&self.tiny.plans, &self.tiny.several];
        let parts = [text(small[0]), text(small[1]), text(&self.checked), text(&self.timed)];
        ContentHash::of_parts(parts.iter().map(Vec::as_slice))
    }
}
