//! The real recipe: a kernel's description, rendered and resolved for a device.

use std::fs;

use evo_compile::includes::FileReader;
use evo_compile::occupancy;
use evo_compile::search_path::SearchPath;
use evo_journal::own_folder::OwnFolder;
use evo_journal::record::ProblemWork;
use evo_kernel::dictionary::dictionary;
use evo_kernel::render::{render, render_for};
use evo_kernel::resolve::resolve;
use evo_kernel::spec::{KernelSpec, ProblemSpec, ReferenceSpec};
use evo_kernel::tiny::{self, DERIVED_HINT, TinyShapes};
use evo_kernel::{limits, render, specialize};
use evo_protocol::binary::{Binary, KernelSource, Specialization};
use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::{DeviceInfo, DeviceKind, DeviceLimits};
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Gate, Verdict, VerdictKind};
use evo_protocol::worker::{BinaryRef, Candidate, CheckPlan, InstrumentedBuild, ReferencePlan, SERIES_MS};
use evo_space::genome::{Configuration, ContentHash};
use evo_supervise::job::{Job, JobReach, TinyNotes};

use crate::ports::{BuildRecord, CompileAnswer, Identity, JobOrder, Recipe, Refused};
use crate::prepared::{self, BuiltCode, KernelDraft, PreparedKernel, included, one_hash, refusal};

#[derive(Debug)]
pub struct KernelRecipe<'a> {
    kernel: &'a KernelSpec,
    limits: DeviceLimits,
    pub arch: String,
    memory_cap: Option<u64>,
    timed: Vec<&'a ProblemSpec>,
    checked: Vec<&'a ProblemSpec>,
    further: Vec<Specialization>,
    reference: Option<CompiledReference>,
    reference_single: Option<CompiledReference>,
    prepare: Option<CompiledReference>,
    /// How answers are judged.
    pub check: CheckPlan,
    /// What it runs on: the host watches instrumented builds, and shapes near the timed ones follow the problems.
    kind: Option<DeviceKind>,
    /// The environment may name include folders: what is in included files is part of a variant's identity.
    pub search: SearchPath,
    files: FileReader,
    pub conditions: Option<ContentHash>,
    pub reach: JobReach,
}

/// The naive kernel, which every variant of a run needs. It is compiled once, so its bytes are kept: the cache
/// may be removed while evo runs.
#[derive(Clone, Debug)]
struct CompiledReference {
    binary: BinaryRef,
    entries: Vec<String>,
    bytes: Vec<u8>,
    code: ContentHash,
}

impl CompiledReference {
    fn of(binary: &Binary, entries: Vec<String>) -> CompiledReference {
        let bytes = fs::read(&binary.path).unwrap_or_default();
        CompiledReference { binary: BinaryRef::of(binary), entries, bytes, code: binary.code_hash.clone() }
    }

    fn whole(&self) -> (BinaryRef, Vec<String>) {
        if let Some(path) = self.binary.path.as_ref().filter(|path| !path.exists()) {
            // Where it cannot be written, the device worker says that it is gone.
            let folder = path.parent().and_then(|folder| OwnFolder::create(folder).ok());
            let name = path.file_name().and_then(|name| name.to_str());
            let _ = folder.zip(name).map(|(folder, name)| folder.replace(name, &self.bytes, true));
        }
        (self.binary.clone(), self.entries.clone())
    }
}

impl<'a> KernelRecipe<'a> {
    /// A recipe for the given problems. `reference` is the compiled naive kernel with its entries,
    /// where the kernel is checked against one; `seed` decides the inputs, by a hash.
    pub fn new(
        kernel: &'a KernelSpec,
        limits: DeviceLimits,
        problems: &[&'a ProblemSpec],
        reference: Option<(Binary, Vec<String>)>,
        seed: u64,
    ) -> KernelRecipe<'a> {
        let select = |wanted: fn(&ProblemSpec) -> bool| {
            problems.iter().copied().filter(|problem| wanted(problem)).collect()
        };
        KernelRecipe {
            kernel,
            limits,
            arch: String::new(),
            memory_cap: None,
            timed: select(|problem| problem.timed),
            // A timed problem is checked as well (`Job::all_checked`), so it is not listed twice.
            checked: select(|problem| problem.checked && !problem.timed),
            further: Vec::new(),
            reference: reference.map(|(binary, entries)| CompiledReference::of(&binary, entries)),
            reference_single: None,
            prepare: None,
            check: check_plan(kernel, seed),
            kind: None,
            search: SearchPath::default(),
            files: FileReader::default(),
            conditions: None,
            reach: JobReach::Whole,
        }
    }

    pub fn serving<'p>(self, problems: impl IntoIterator<Item = &'p ProblemSpec>) -> KernelRecipe<'a> {
        let own = problems.into_iter().map(|one| specialize::constants_of(&self.kernel.specialize, one));
        KernelRecipe { further: specialize::distinct(own), ..self }
    }

    /// The machine code of the reference kernels.
    pub fn references(&self) -> Vec<ContentHash> {
        let references = [&self.reference, &self.reference_single, &self.prepare];
        references.into_iter().flatten().map(|reference| reference.code.clone()).collect()
    }

    /// The same where the naive kernel is there in single precision too, which tells what f32 costs in each case.
    pub fn with_single(self, binary: Option<&Binary>) -> KernelRecipe<'a> {
        let reference_single = binary.map(|binary| CompiledReference::of(binary, Vec::new()));
        KernelRecipe { reference_single, ..self }
    }

    /// The same where the task's own kernels derive inputs from inputs: their binary and their entries.
    pub fn preparing(self, binary: Option<(Binary, Vec<String>)>) -> KernelRecipe<'a> {
        let prepare = binary.map(|(binary, entries)| CompiledReference::of(&binary, entries));
        KernelRecipe { prepare, ..self }
    }

    /// The same for a known device: facts then include the occupancy, and problems must fit its memory.
    pub fn on_device(self, info: &DeviceInfo) -> KernelRecipe<'a> {
        let (arch, memory_cap) = (info.arch.clone(), Some(limits::memory_cap(info)));
        KernelRecipe { arch, memory_cap, kind: Some(info.kind), ..self }
    }

    /// Also where it is refused: `evo compile` shows what a refused variant would use all the same.
    pub fn draft(&self, configuration: &Configuration) -> KernelDraft {
        let mut refused = None;
        let mut resolve_all = |problems: &[&ProblemSpec]| -> Vec<ProblemPlan> {
            let plans = problems.iter().map(|problem| resolve(self.kernel, configuration, problem));
            plans.filter_map(|plan| keep(&mut refused, plan)).collect()
        };
        let (timed, checked) = (resolve_all(&self.timed), resolve_all(&self.checked));
        let fits = |plan: &ProblemPlan| self.check_plan(plan).is_ok();
        let asked = self.constants();
        let tiny = tiny::shapes(self.kernel, configuration, &asked, &fits);
        let tiny = self.under_checks(keep(&mut refused, tiny).unwrap_or_default());
        let constants = keep(&mut refused, self.all_constants(&tiny)).unwrap_or_default();
        // Problems first: a message about a shape that nobody asked for is harder to understand.
        for plan in timed.iter().chain(&checked).chain(&tiny.plans) {
            keep(&mut refused, self.check_plan(plan));
        }
        for plan in &timed {
            keep(&mut refused, limits::check_timed(plan, self.check.checks));
        }
        let rendered = constants.iter().map(|own| render_for(self.kernel, configuration, own));
        let sources = keep(&mut refused, rendered.collect::<Result<Vec<_>, _>>()).unwrap_or_default();
        // The one text has what all of them include.
        let whole = match self.kernel.specialize.is_empty() {
            true => sources.first().cloned(),
            false => render(self.kernel, configuration).ok(),
        };
        let included = whole.as_ref().and_then(|source| included(&self.files, &self.search, source));
        let text = whole.map(|source| ContentHash::of(source.text.as_bytes()));
        let configuration = configuration.clone();
        let kernel = PreparedKernel { configuration, sources, text, included, tiny, checked, timed };
        KernelDraft { kernel, refused }
    }

    fn constants(&self) -> Vec<Specialization> {
        let names = &self.kernel.specialize;
        let own =
            self.timed.iter().chain(&self.checked).map(|problem| specialize::constants_of(names, problem));
        let mut sets = specialize::distinct(own.chain(self.further.iter().cloned()));
        if sets.is_empty() {
            sets.extend(self.kernel.problems.first().map(|first| specialize::constants_of(names, first)));
        }
        sets
    }

    fn all_constants(&self, tiny: &TinyShapes) -> Result<Vec<Specialization>, Box<Verdict>> {
        let names = &self.kernel.specialize;
        let listed = tiny.plans.iter().map(|plan| Specialization::of(names, &plan.sizes));
        let sets = specialize::distinct(self.constants().into_iter().chain(listed));
        specialize::check_count(&sets).map(|()| sets)
    }

    fn under_checks(&self, tiny: TinyShapes) -> TinyShapes {
        let check = if tiny.derived { GateCheck::DerivedShapes } else { GateCheck::ListedShapes };
        match self.check.checks.include(check) {
            true => tiny,
            false => TinyShapes { absent: "left out".to_string(), ..TinyShapes::default() },
        }
    }

    fn check_plan(&self, plan: &ProblemPlan) -> Result<(), Box<Verdict>> {
        if let Some(cap) = self.memory_cap.filter(|_| self.check.checks.include(GateCheck::LimitMemory)) {
            limits::check_memory(plan, cap)?;
        }
        limits::check_tensor_maps(plan, &self.arch)?;
        limits::check_launches(plan, &self.limits, self.check.checks)
    }

    /// The plan of a problem that the recipe was not made for, refused as a timed one of its own is.
    pub fn plan_of(
        &self,
        configuration: &Configuration,
        problem: &ProblemSpec,
        built: &[BuiltCode],
    ) -> Result<ProblemPlan, Box<Verdict>> {
        let plan = resolve(self.kernel, configuration, problem)?;
        self.check_plan(&plan)?;
        limits::check_timed(&plan, self.check.checks)?;
        let compiled = self.check_compiled(std::iter::once(&plan), built);
        compiled.map(|()| plan).map_err(|refused| refused.verdict)
    }

    /// Refuses spills beyond the space's rule, and launches that exceed the device together with what the kernels use.
    pub fn check_compiled<'p>(
        &self,
        mut plans: impl Iterator<Item = &'p ProblemPlan>,
        built: &[BuiltCode],
    ) -> Result<(), Refused> {
        let checks = self.check.checks;
        let spills = self.kernel.check.spill_bytes_max.filter(|_| checks.include(GateCheck::Spills));
        let fits = |plan| match checks.include(GateCheck::CompiledLimits) {
            true => self.check_fits(plan, built),
            false => Ok(()),
        };
        built
            .iter()
            .try_for_each(|own| limits::check_spills(&own.resources, spills))
            .and_then(|()| plans.try_for_each(fits))
            .map_err(|verdict| Refused { gate: Gate::Compile, verdict })
    }

    /// Refuses a plan whose code the device cannot launch so, and one for which there is no code.
    fn check_fits(&self, plan: &ProblemPlan, built: &[BuiltCode]) -> Result<(), Box<Verdict>> {
        match built.iter().find(|own| own.constants.serves(&plan.sizes)) {
            Some(own) => limits::check_resources(&own.resources, plan, &self.limits),
            None => {
                let message = format!("nothing was compiled for `{}`", plan.name);
                Err(Box::new(Verdict::new(VerdictKind::HarnessError, message)))
            }
        }
    }

    /// The hash of a variant's plans, and of how its own options relax its judgement: code that is equal with and
    /// without them is judged twice.
    fn plan_hash(&self, prepared: &PreparedKernel) -> ContentHash {
        let plans = prepared.plan_hash();
        let own = render::relaxations(prepared.options());
        match own == (self.check.fast_math, self.check.flushes_subnormals) {
            true => plans,
            false => ContentHash::of_parts([plans.as_str().as_bytes(), &[u8::from(own.0), u8::from(own.1)]]),
        }
    }

    /// The tiny shapes that the compiled kernel can be launched at, and what is to be said about them.
    fn launchable_shapes(&self, tiny: &TinyShapes, built: &[BuiltCode]) -> (Vec<ProblemPlan>, TinyNotes) {
        if !tiny.derived {
            let absent = tiny.absent.clone();
            return (tiny.plans.clone(), TinyNotes { absent, ..TinyNotes::default() });
        }
        let plans = self.launchable(tiny.plans.clone(), built);
        let not_derived = plans.is_empty();
        let absent = match not_derived && tiny.absent.is_empty() {
            true => {
                "no shape can be derived: the kernel cannot be launched at any; tails not checked".to_string()
            }
            false => tiny.absent.clone(),
        };
        (plans, TinyNotes { absent, not_derived, hint: Some(DERIVED_HINT), ..TinyNotes::default() })
    }

    fn launchable(&self, mut plans: Vec<ProblemPlan>, built: &[BuiltCode]) -> Vec<ProblemPlan> {
        plans.retain(|plan| self.check_fits(plan, built).is_ok());
        plans
    }

    /// Shapes just below the timed ones, and shapes drawn by lot, by a seed that no kernel knows.
    fn drawn_shapes(&self, configuration: &Configuration) -> Vec<ProblemPlan> {
        let fits = |plan: &ProblemPlan| self.check_plan(plan).is_ok();
        let problems = self.kind.map_or(Vec::new(), |kind| problems_on(self.kernel, kind));
        let constants = self.constants();
        let timed = problems.into_iter().filter(|problem| {
            let own = specialize::constants_of(&self.kernel.specialize, problem);
            let is_asked = !problem.on_request || self.timed.iter().any(|one| one.name == problem.name);
            problem.timed && is_asked && constants.contains(&own)
        });
        let mut plans: Vec<ProblemPlan> =
            timed.flat_map(|problem| tiny::near_shapes(self.kernel, configuration, problem, &fits)).collect();
        plans.extend(tiny::drawn_shapes(self.kernel, configuration, &constants, self.check.seed, &fits));
        plans
    }
}

fn keep<T>(refused: &mut Option<Refused>, result: Result<T, Box<Verdict>>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(verdict) => {
            refused.get_or_insert_with(|| refusal(verdict));
            None
        }
    }
}

pub fn problems_on(kernel: &KernelSpec, kind: DeviceKind) -> Vec<&ProblemSpec> {
    let runs = |problem: &&ProblemSpec| problem.device.as_deref().is_none_or(|own| own == kind.as_str());
    kernel.problems.iter().filter(runs).collect()
}

fn check_plan(kernel: &KernelSpec, seed: u64) -> CheckPlan {
    let check = &kernel.check;
    let reference = match &check.reference {
        ReferenceSpec::Builtin { name } => ReferencePlan::Builtin { name: name.clone() },
        ReferenceSpec::Kernel { .. } => ReferencePlan::Kernel,
        ReferenceSpec::Command(command) => ReferencePlan::Command(command.clone()),
        ReferenceSpec::Npy { outputs } => ReferencePlan::Npy {
            outputs: outputs.iter().map(|(name, path)| (name.clone(), path.clone())).collect(),
        },
    };
    let (fast_math, flushes_subnormals) = render::relaxations(&render::fixed(kernel));
    CheckPlan {
        reference,
        atol: check.atol,
        rtol: check.rtol,
        trusted_factor: check.trusted_factor,
        seed: input_seed(seed),
        seeds: check.seeds,
        families: check.families.clone(),
        dictionary: dictionary(kernel),
        deterministic: check.deterministic,
        repeats: check.repeats,
        allow_state: check.allow_state,
        special_values: check.special_values,
        fast_math,
        flushes_subnormals,
        series_ms: SERIES_MS,
        reference_f64: match &check.reference {
            ReferenceSpec::Kernel { real, .. } => *real,
            ReferenceSpec::Command(command) => !command.single,
            _ => false,
        },
        checks: CheckSet::default(),
        task: check.task,
    }
}

/// A hash: the study's seed is printed and drives the search, and generators of inputs are not to start from it.
fn input_seed(seed: u64) -> u64 {
    let hash = ContentHash::of_parts([b"inputs".as_slice(), seed.to_le_bytes().as_slice()]);
    // The hash is 32 hexadecimal digits; half of them make the number.
    u64::from_str_radix(&hash.as_str()[..16], 16).unwrap_or(seed)
}

impl Recipe for KernelRecipe<'_> {
    type Prepared = PreparedKernel;
    /// One for each source, in order.
    type Binary = Vec<Binary>;
    type Job = Job;

    fn prepare(&self, configuration: &Configuration) -> Result<PreparedKernel, Refused> {
        self.draft(configuration).ready()
    }

    fn identity(&self, prepared: &PreparedKernel) -> Identity {
        let codes: Vec<ContentHash> = prepared.sources.iter().map(KernelSource::code_hash).collect();
        Identity {
            source: prepared.with_included(one_hash(codes)),
            text: prepared.text.clone().map(|own| prepared.with_included(own)),
            plan: self.plan_hash(prepared),
            conditions: self.conditions.clone(),
        }
    }

    fn record(&self, prepared: &PreparedKernel, binaries: &Vec<Binary>) -> BuildRecord {
        let resources = prepared::worst(binaries);
        let known = occupancy::facts_of(&resources, &prepared.timed, &self.arch);
        BuildRecord {
            compile_ms: binaries.iter().map(|own| own.compile_ms).sum(),
            resources,
            binary_hash: Some(one_hash(binaries.iter().map(|own| own.hash.clone()).collect())),
            code_hash: Some(one_hash(binaries.iter().map(|own| own.code_hash.clone()).collect())),
            facts: Some(occupancy::with_size_of(known, binaries)).filter(|facts| !facts.is_empty()),
            toolchain: binaries.first().map(|own| own.toolchain.clone()).unwrap_or_default(),
        }
    }

    fn job(
        &self,
        prepared: &PreparedKernel,
        binaries: &Vec<Binary>,
        order: JobOrder,
    ) -> Result<Job, Refused> {
        let built = prepared::built_codes(&prepared.sources, binaries);
        self.check_compiled(prepared.plans(), &built)?;
        let (tiny, tiny_notes) = self.launchable_shapes(&prepared.tiny, &built);
        let is_hint = self.reach == JobReach::Hint;
        // A hint has no finalists, so nothing is ever looked at in depth.
        let order = JobOrder { deep: order.deep.filter(|_| !is_hint), ..order };
        let several = if is_hint { Vec::new() } else { prepared.tiny.several.clone() };
        let drawn =
            if order.deep.is_some() { self.drawn_shapes(&prepared.configuration) } else { Vec::new() };
        // Options may differ from variant to variant, and only a variant that declares them is judged by them.
        let (fast_math, flushes_subnormals) = render::relaxations(prepared.options());
        Ok(Job {
            number: order.number,
            candidate: Candidate {
                label: order.label,
                builds: prepared::candidates(&prepared.sources, binaries, &order.variant_hash),
                reference: self.reference.as_ref().map(CompiledReference::whole),
                reference_single: self.reference_single.as_ref().map(|own| own.whole().0),
                prepare: self.prepare.as_ref().map(CompiledReference::whole),
                check: CheckPlan {
                    series_ms: order.deep.map_or(SERIES_MS, |own| own.series_ms),
                    fast_math,
                    flushes_subnormals,
                    ..self.check.clone()
                },
            },
            tiny,
            several: self.launchable(several, &built),
            drawn: self.launchable(drawn, &built),
            tiny_notes,
            checked: prepared.checked.clone(),
            timed: prepared.timed.clone(),
            ranking: self.kernel.objective.ranking,
            busy: order.deep.is_some_and(|own| own.busy),
            sampling_max: order.deep.and_then(|own| own.sampling_max),
            reach: if order.deep.is_some() { JobReach::Deep } else { self.reach },
        })
    }

    fn instrumented(&self, prepared: &PreparedKernel) -> Option<PreparedKernel> {
        let watched = |own: &KernelSource| KernelSource { instrumented: true, ..own.clone() };
        let sources = prepared.sources.iter().map(watched).collect();
        (self.kind == Some(DeviceKind::Host)).then(|| PreparedKernel { sources, ..prepared.clone() })
    }

    fn add_instrumented(&self, job: &mut Job, answer: &CompileAnswer<Vec<Binary>>) {
        for (position, build) in job.candidate.builds.iter_mut().enumerate() {
            build.instrumented = match answer {
                Ok(binaries) => {
                    binaries.get(position).map(|own| InstrumentedBuild::Binary(BinaryRef::of(own)))
                }
                Err(verdict) => {
                    let first = verdict.message.lines().next().unwrap_or_default();
                    Some(InstrumentedBuild::Failed { why: format!("{}: {first}", verdict.label()) })
                }
            };
        }
    }

    fn work(&self, prepared: &PreparedKernel) -> Vec<ProblemWork> {
        prepared.timed.iter().map(ProblemWork::of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_do_not_start_from_the_printed_seed() {
        let seeds: Vec<u64> = (0..100).map(input_seed).collect();
        assert!((0..100).zip(&seeds).all(|(seed, own)| seed != *own));
        assert_eq!(seeds[1], input_seed(1), "a seed repeats its inputs");
        assert_eq!(seeds.iter().collect::<std::collections::BTreeSet<_>>().len(), 100);
    }
}
