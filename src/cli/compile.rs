//! `evo compile`: variants through the compiler without a device, with what each would use.
//!
//! This is how one sees from a laptop that a variant overflows an L4's shared memory or spills.
//! Results are printed in the order of the space while others are still compiling; a bad variant is a
//! line like any other.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use evo_device::host;
use evo_protocol::binary::{Binary, EntryResources};
use evo_protocol::device::{DeviceKind, DeviceLimits};
use evo_protocol::envelope::LimitName;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::schema::{ConfigurationObject, HashText};
use evo_protocol::specialization::Specialization;
use evo_protocol::verdict::{Gate, Verdict, VerdictKind};
use evo_space::genome::{Configuration, ContentHash, Genome};
use evo_space::sample;
use evo_space::space::SearchSpace;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::answer::Answer;
use super::args::CompileArgs;
use super::call::Call;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::{candidate, output, session};
use crate::compile::{FULL_CACHE_HINT, FarmOptions, VariantFarm, VariantOutcome, full_cache};
use crate::engine::prepared;
use crate::engine::prepared::KernelDraft;
use crate::engine::recipe::{KernelRecipe, problems_on};
use crate::kernel::spec::{KernelSpec, SpaceFile};
use crate::kernel::specialize;
use crate::report::width::{stdout_width, wrapped};

/// Runs the command.
pub fn run(arguments: &CompileArgs, call: &Call) -> Result<Answer, CliError> {
    arguments.limits.begin(call)?;
    let many = arguments.all || arguments.sample.is_some();
    let values = |word: &String| word.contains('=') || word.starts_with('@');
    if many
        && (arguments.words.len() > 1 || arguments.words.iter().any(values) || arguments.candidate.is_given())
    {
        return Err(CliError::usage("--all and --sample take a space and no values"));
    }
    let access = arguments.access.access();
    let resolved = candidate::resolve(&arguments.words, &arguments.candidate, &arguments.arch, access)?;
    let (file, genome) = (&resolved.file, resolved.genome.clone());
    let kernel = session::kernel_to(file, "compile")?;
    let target = CompileTarget::parse(&arguments.arch)?;
    let genomes: Box<dyn Iterator<Item = Genome> + '_> = match arguments.sample {
        _ if arguments.all => file.space.iter(),
        Some(count) => {
            Box::new(file.space.sample_distinct(count, &mut sample::seeded(arguments.seed)).into_iter())
        }
        None => Box::new(std::iter::empty()),
    };
    let genome = (!many).then_some(genome);
    if !many {
        session::candidate(call, &resolved);
    }
    // One variant has as many sources as it has sets of constants.
    let sources = specialize::of_kernel(kernel).len();
    let jobs = arguments.jobs.or((!many).then_some(sources));
    let deadline = arguments.limits.limit_compile;
    carry_out(CompileTask { file, target, genome, genomes, jobs, deadline }, call)
}

pub struct CompileTask<'a> {
    pub file: &'a SpaceFile,
    pub target: CompileTarget,
    /// The only one, where there is only one.
    pub genome: Option<Genome>,
    /// Otherwise these.
    pub genomes: Box<dyn Iterator<Item = Genome> + 'a>,
    /// Compile processes; one per core where absent.
    pub jobs: Option<usize>,
    /// For one variant.
    pub deadline: Duration,
}

/// Compiles, and prints or hands over what came of it.
pub fn carry_out(order: CompileTask<'_>, call: &Call) -> Result<Answer, CliError> {
    let CompileTask { file, target, genome, genomes, jobs, deadline } = order;
    let kernel = session::kernel_to(file, "compile")?;
    let problems = problems_on(kernel, target.kind);
    // What judges answers plays no part here: neither the reference kernel nor a seed.
    let recipe = KernelRecipe::new(kernel, target.limits.clone(), &problems, None, 0).targeting(&target.arch);
    let only = genome.as_ref().map(|genome| file.space.configuration(genome));
    let columns = ResourceColumns::of(&file.space, kernel, target.kind, only.as_ref(), stdout_width());
    let compile_run =
        CompileRun { file, kernel, target: &target, recipe, columns, call, is_alone: genome.is_some() };
    let start = Instant::now();
    let mut options = FarmOptions { deadline, ..FarmOptions::new(target.kind, &target.arch) };
    options.jobs = jobs.unwrap_or(options.jobs);
    let (sender, done) = mpsc::channel();
    let on_done = Box::new(move |ticket, outcome| drop(sender.send((ticket, outcome))));
    let farm = VariantFarm::start(options, on_done)?;
    let compiled = match compile_run.compile_all(genome.into_iter().chain(genomes), &farm, &done) {
        Ok(compiled) => compiled,
        // A reader that has seen enough (`| head`) is not an error.
        Err(EarlyEnd::Stdout(error)) => return output::written(Err(error)).map(|()| ExitCode::Done.into()),
        Err(EarlyEnd::CacheFull(message)) => {
            return Err(CliError::harness(message).with_hint(FULL_CACHE_HINT));
        }
    };
    let CompiledAll { counts, only } = compiled;
    eprint!("{}", counts.text(&target.arch, farm.toolchain(), farm.jobs(), start.elapsed()));
    Ok(match only {
        Some(variant) => answer(&variant, &kernel.name, &target.arch, call),
        None => {
            let all = CompiledMany { kernel: &kernel.name, arch: &target.arch, counts };
            Answer::of(ExitCode::Done, &all)
        }
    })
}

/// The answer about the only variant.
fn answer(variant: &CompiledVariant, kernel: &str, arch: &str, call: &Call) -> Answer {
    let kind = variant.verdict.as_ref().map(|verdict| verdict.kind);
    if kind == Some(VerdictKind::CompileTimeout) {
        call.hit(LimitName::Compile);
    }
    let exit = if kind.is_none() { ExitCode::Done } else { ExitCode::Failed };
    let result = Some(CompiledBrief { fits: kind.is_none(), outcome: variant.outcome() });
    let answer = Answer::of(exit, &CompiledAnswer { result, ..variant.answer(kernel, arch) });
    match variant.verdict.as_ref().filter(|verdict| verdict.is_trouble()) {
        Some(verdict) => answer.despite(session::trouble("the variant could not be compiled", verdict)),
        None => answer,
    }
}

/// Blanks between columns.
const GAP: usize = 2;

/// Room for the verdict, whose length is not known before the last row: `static_reject:registers` and shorter.
const VERDICT_WIDTH: usize = 23;

/// The columns after parameters and entry: head, width, whether the host's compiler tells the number, and how
/// long the column stays when the table is too wide.
const NUMBERS: &[(&str, usize, bool, u8)] = &[
    ("regs", 4, false, 6),
    ("stack", 6, false, 1),
    ("spill", 6, false, 5),
    ("smem static", 11, false, 3),
    ("dynamic", 8, true, 4),
    ("threads", 7, true, 2),
];

/// Heads and widths; known before the first row, so that rows need not wait for the last.
pub struct ResourceColumns {
    parameters: Vec<(String, usize)>,
    entry_width: usize,
    /// Positions in `NUMBERS`.
    numbers: Vec<usize>,
    /// `NAME=value` of parameters that are the same in all rows and had no room.
    shared: Vec<String>,
    left_out: Vec<String>,
    width: usize,
}

impl ResourceColumns {
    /// Wide enough for every value of every parameter and every entry, and at most `width` characters in all.
    /// `only` is the configuration of a table with one variant.
    pub fn of(
        space: &SearchSpace,
        kernel: &KernelSpec,
        kind: DeviceKind,
        only: Option<&Configuration>,
        width: usize,
    ) -> ResourceColumns {
        let longest = |name: &str, values: &mut dyn Iterator<Item = usize>| {
            values.chain([name.len()]).max().unwrap_or(0)
        };
        let parameters = space.parameters().iter().map(|parameter| {
            let mut lengths = parameter.values.iter().map(|value| value.to_string().len());
            (parameter.name.to_string(), longest(&parameter.name, &mut lengths))
        });
        let fixed = space.parameters().iter().filter_map(|parameter| {
            let only = only.and_then(|configuration| configuration.get(&parameter.name));
            let single = parameter.values.first().filter(|_| parameter.values.len() == 1);
            Some((parameter.name.to_string(), only.or(single)?.to_string()))
        });
        // With their constants in brackets, as `EntryUse::name` gives them.
        let longest_set = specialize::of_kernel(kernel).iter().map(|own| own.to_string().len()).max();
        let brackets = longest_set.filter(|length| *length > 0).map_or(0, |length| length + 3);
        let mut entries = kernel.launches.iter().map(|launch| launch.entry.len() + brackets);
        let entry_width = longest("entry", &mut entries);
        let is_told = |at: &usize| kind != DeviceKind::Host || NUMBERS[*at].2;
        let numbers = (0..NUMBERS.len()).filter(is_told).collect();
        let (shared, left_out) = (Vec::new(), Vec::new());
        let columns = ResourceColumns {
            parameters: parameters.collect(),
            entry_width,
            numbers,
            shared,
            left_out,
            width,
        };
        columns.fitted(&fixed.collect::<Vec<_>>())
    }

    /// Gives up columns in the order of other tables: parameters that are the same in all rows move below, then
    /// numbers go, then the widest parameters.
    fn fitted(mut self, fixed: &[(String, String)]) -> ResourceColumns {
        if self.is_too_wide() {
            self.shared = fixed.iter().map(|(name, value)| format!("{name}={value}")).collect();
            self.parameters.retain(|(name, _)| !fixed.iter().any(|(own, _)| own == name));
        }
        while self.is_too_wide() {
            let least = (0..self.numbers.len()).min_by_key(|at| NUMBERS[self.numbers[*at]].3);
            let widest = (0..self.parameters.len()).max_by_key(|at| self.parameters[*at].1);
            match (least, widest) {
                (Some(at), _) => self.left_out.push(NUMBERS[self.numbers.remove(at)].0.to_string()),
                (None, Some(at)) => self.left_out.push(self.parameters.remove(at).0),
                (None, None) => break,
            }
        }
        self
    }

    fn is_too_wide(&self) -> bool {
        let parameters: usize = self.parameters.iter().map(|(_, width)| width + GAP).sum();
        let numbers: usize = self.numbers.iter().map(|at| NUMBERS[*at].1 + GAP).sum();
        parameters + self.entry_width + numbers + GAP + VERDICT_WIDTH > self.width
    }

    /// The line of heads.
    pub fn header(&self) -> String {
        let mut line = String::new();
        for (name, width) in &self.parameters {
            let _ = write!(line, "{name:>width$}  ");
        }
        let _ = write!(line, "{:<1$}", "entry", self.entry_width);
        for at in &self.numbers {
            let (name, width, ..) = NUMBERS[*at];
            let _ = write!(line, "  {name:>width$}");
        }
        line + "  verdict\n"
    }

    /// What the table leaves out, if it leaves out anything.
    pub fn footer(&self) -> String {
        let mut text = String::new();
        if !self.shared.is_empty() {
            text += &wrapped(&format!("same in all rows: {}", self.shared.join(", ")), self.width);
        }
        if !self.left_out.is_empty() {
            let list = self.left_out.join(", ");
            text += &wrapped(&format!("not shown in {} columns: {list}", self.width), self.width);
        }
        text
    }

    /// A row for each entry; the message of a failure below.
    pub fn rows(&self, variant: &CompiledVariant) -> String {
        let mut text = String::new();
        let mut head = String::new();
        for (name, width) in &self.parameters {
            let value = variant.configuration.get(name).map(ToString::to_string).unwrap_or_default();
            let _ = write!(head, "{value:>width$}  ");
        }
        let outcome = variant.outcome();
        for entry in &variant.entries {
            text.push_str(&self.row(&head, &entry.name(), entry.cells(), &outcome));
        }
        if variant.entries.is_empty() {
            text.push_str(&self.row(&head, "", Default::default(), &outcome));
        }
        if let Some(verdict) = &variant.verdict {
            verdict.message.lines().for_each(|line| text.push_str(&format!("    {line}\n")));
        }
        text
    }

    fn row(&self, head: &str, entry: &str, cells: [String; 6], outcome: &str) -> String {
        let mut line = format!("{head}{entry:<width$}", width = self.entry_width);
        for at in &self.numbers {
            let cell = if cells[*at].is_empty() { "-" } else { &cells[*at] };
            let width = NUMBERS[*at].1;
            let _ = write!(line, "  {cell:>width$}");
        }
        format!("{line}  {outcome}\n")
    }
}

/// Variants handed to the farm ahead of the one that is printed next, per worker.
const AHEAD: usize = 8;

/// Why compiling ends early.
pub enum EarlyEnd {
    Stdout(io::Error),
    CacheFull(String),
}

impl From<io::Error> for EarlyEnd {
    fn from(error: io::Error) -> EarlyEnd {
        EarlyEnd::Stdout(error)
    }
}

/// One run of the command.
pub struct CompileRun<'a> {
    pub file: &'a SpaceFile,
    pub kernel: &'a KernelSpec,
    pub target: &'a CompileTarget,
    pub recipe: KernelRecipe<'a>,
    pub columns: ResourceColumns,
    pub call: &'a Call,
    /// There is one variant, so its object is the command's.
    pub is_alone: bool,
}

/// What came of it all.
pub struct CompiledAll {
    pub counts: CompileCounts,
    pub only: Option<CompiledVariant>,
}

impl CompileRun<'_> {
    /// Keeps the farm fed, prints in order.
    pub fn compile_all(
        &self,
        genomes: impl Iterator<Item = Genome>,
        farm: &VariantFarm,
        done: &mpsc::Receiver<(u64, VariantOutcome)>,
    ) -> Result<CompiledAll, EarlyEnd> {
        let mut genomes = genomes.enumerate();
        // By position, so that the first is the next to print.
        let mut open: BTreeMap<u64, (KernelDraft, Option<VariantOutcome>)> = BTreeMap::new();
        let mut printer = Printer::new(self);
        loop {
            for (number, genome) in genomes.by_ref().take(AHEAD * farm.jobs() - open.len()) {
                let mut draft = self.draft(&genome);
                let known = match draft.kernel.sources.is_empty() {
                    false => {
                        farm.submit(number as u64, draft.kernel.sources.clone());
                        None
                    }
                    true => Some(Err(draft.refused.take().map_or_else(nothing, |own| own.verdict))),
                };
                open.insert(number as u64, (draft, known));
            }
            if open.is_empty() {
                return Ok(printer.finish()?);
            }
            while let Some(first) = open.first_entry().filter(|first| first.get().1.is_some()) {
                if let (draft, Some(outcome)) = first.remove() {
                    printer.print(self.judge(draft, outcome))?;
                }
            }
            if !open.is_empty() {
                // The farm answers every ticket, so this ends.
                let Ok((ticket, outcome)) = done.recv() else { return Ok(printer.finish()?) };
                if let Some(message) = full_cache(&outcome) {
                    printer.finish()?;
                    return Err(EarlyEnd::CacheFull(message));
                }
                if let Some(entry) = open.get_mut(&ticket) {
                    entry.1 = Some(outcome);
                }
            }
        }
    }

    fn draft(&self, genome: &Genome) -> KernelDraft {
        let configuration = self.file.space.configuration(genome);
        let Some(constraint) = self.file.space.violations(genome).first().copied() else {
            return self.recipe.draft(&configuration);
        };
        let because = constraint.because.as_ref().map_or(String::new(), |why| format!(" ({why})"));
        let message = format!("it violates `{}`{because}", constraint.expr.text());
        let verdict = Box::new(Verdict::new(VerdictKind::RejectedConstraint, message));
        KernelDraft::refused(configuration, Gate::StaticLimits, verdict)
    }

    /// The verdict: what the compiler says, then what was known before, then what both make together.
    fn judge(&self, draft: KernelDraft, outcome: VariantOutcome) -> CompiledVariant {
        let KernelDraft { kernel, refused } = draft;
        let (binaries, verdict) = match outcome {
            Err(verdict) => (Vec::new(), Some(verdict)),
            Ok(binaries) => {
                let code = prepared::built_codes(&kernel.sources, &binaries);
                let together = || self.recipe.check_compiled(kernel.plans(), &code).err();
                (binaries, refused.or_else(together).map(|refused| refused.verdict))
            }
        };
        let constants = kernel.sources.iter().map(|source| source.constants.clone()).collect();
        let plans: Vec<ProblemPlan> = kernel.timed.into_iter().chain(kernel.checked).collect();
        CompiledVariant::new(
            kernel.configuration,
            &plans,
            CompiledCode { constants, binaries },
            verdict.map(|verdict| *verdict),
        )
    }
}

fn nothing() -> Box<Verdict> {
    Box::new(Verdict::new(VerdictKind::HarnessError, "there is nothing to compile"))
}

/// Prints each variant as it comes, and counts.
struct Printer<'a> {
    order: &'a CompileRun<'a>,
    out: io::BufWriter<io::Stdout>,
    all: CompiledAll,
    flushed: Instant,
}

impl<'a> Printer<'a> {
    fn new(order: &'a CompileRun<'a>) -> Printer<'a> {
        Printer {
            order,
            out: io::BufWriter::new(io::stdout()),
            all: CompiledAll { counts: CompileCounts::default(), only: None },
            flushed: Instant::now(),
        }
    }

    fn print(&mut self, variant: CompiledVariant) -> io::Result<()> {
        let order = self.order;
        match (order.call.is_json(), order.is_alone) {
            (true, false) => {
                order.call.line(&json!(variant.answer(&order.kernel.name, &order.target.arch)))?
            }
            (true, true) => {}
            (false, _) => self.print_rows(&variant)?,
        }
        self.all.counts.add(&variant);
        self.all.only = order.is_alone.then_some(variant);
        Ok(())
    }

    fn print_rows(&mut self, variant: &CompiledVariant) -> io::Result<()> {
        if self.all.counts.count() == 0 {
            self.out.write_all(self.order.columns.header().as_bytes())?;
        }
        self.out.write_all(self.order.columns.rows(variant).as_bytes())?;
        // Often enough for a person, seldom enough for a fast farm.
        if self.flushed.elapsed() > Duration::from_millis(100) {
            self.flushed = Instant::now();
            self.out.flush()?;
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<CompiledAll> {
        if !self.order.call.is_json() && self.all.counts.count() > 0 {
            self.out.write_all(self.order.columns.footer().as_bytes())?;
        }
        self.out.flush()?;
        Ok(self.all)
    }
}

pub struct CompiledVariant {
    pub configuration: Configuration,
    pub entries: Vec<EntryUse>,
    code: CompiledCode,
    /// Absent for a variant that compiles and fits.
    pub verdict: Option<Verdict>,
}

/// What the compiler made of a variant's sources.
#[derive(Default)]
pub struct CompiledCode {
    /// Of each source; one empty set where nothing is specialized.
    pub constants: Vec<Specialization>,
    /// In the same order; none where a source did not compile.
    pub binaries: Vec<Binary>,
}

impl CompiledCode {
    /// Position of the source that a problem runs.
    fn position(&self, plan: &ProblemPlan) -> usize {
        self.constants.iter().position(|own| own.serves(&plan.sizes)).unwrap_or(0)
    }
}

/// What one entry point uses, and what its launches ask for at most.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EntryUse {
    #[schemars(with = "BTreeMap<String, i64>")]
    constants: Specialization,
    #[serde(flatten)]
    pub resources: EntryResources,
    shared_dynamic_bytes: Option<i64>,
    threads: Option<i64>,
}

impl CompiledVariant {
    /// Joins the compiler's report with the launches of all problems. Kernels that no launch uses are
    /// left out; launches that never happen are too.
    pub fn new(
        configuration: Configuration,
        plans: &[ProblemPlan],
        code: CompiledCode,
        verdict: Option<Verdict>,
    ) -> CompiledVariant {
        let mut entries: Vec<EntryUse> = Vec::new();
        for (plan, launch) in plans.iter().flat_map(|plan| plan.launches.iter().map(move |one| (plan, one))) {
            let at = code.position(plan);
            let constants = code.constants.get(at).cloned().unwrap_or_default();
            // Saturating, because refused launches are shown too, whatever extents they ask for.
            let threads = launch.block.iter().copied().fold(1, i64::saturating_mul);
            let position = entries
                .iter()
                .position(|entry| entry.resources.entry == launch.entry && entry.constants == constants);
            let position = position.unwrap_or_else(|| {
                let reported = code.binaries.get(at).into_iter().flat_map(|binary| &binary.resources);
                let resources = reported.into_iter().find(|entry| entry.entry == launch.entry).cloned();
                let resources = resources.unwrap_or_else(|| EntryResources {
                    entry: launch.entry.clone(),
                    ..EntryResources::default()
                });
                entries.push(EntryUse { constants, resources, shared_dynamic_bytes: None, threads: None });
                entries.len() - 1
            });
            let entry = &mut entries[position];
            entry.shared_dynamic_bytes = entry.shared_dynamic_bytes.max(Some(launch.shared_bytes));
            entry.threads = entry.threads.max(Some(threads));
        }
        CompiledVariant { configuration, entries, code, verdict }
    }

    /// `fits`, or the verdict's label.
    pub fn outcome(&self) -> String {
        self.verdict.as_ref().map_or("fits".to_string(), Verdict::label)
    }

    /// Milliseconds of compiling all of its binaries; absent where there are none.
    fn compile_ms(&self) -> Option<f64> {
        let binaries = &self.code.binaries;
        (!binaries.is_empty()).then(|| binaries.iter().map(|binary| binary.compile_ms).sum())
    }

    /// Whether all of its binaries came from the cache; absent where there are none.
    fn is_cached(&self) -> Option<bool> {
        let binaries = &self.code.binaries;
        (!binaries.is_empty()).then(|| binaries.iter().all(|binary| binary.cached))
    }

    fn spills(&self) -> bool {
        let spilled = |entry: &EntryUse| spill_bytes(&entry.resources).is_some_and(|bytes| bytes > 0);
        self.entries.iter().any(spilled)
    }

    /// One object. `fits` says that it compiles and may be launched, not that it is right.
    fn answer<'a>(&'a self, kernel: &'a str, arch: &'a str) -> CompiledAnswer<'a> {
        // One binary for all problems is described by the variant's own fields.
        let only = self.code.binaries.first().filter(|_| self.code.binaries.len() == 1);
        let pairs = self.code.constants.iter().zip(&self.code.binaries);
        let binaries = pairs.map(|(constants, binary)| CompiledBinary {
            constants,
            binary_hash: &binary.hash,
            code_hash: &binary.code_hash,
            path: &binary.path,
            compile_ms: binary.compile_ms,
            cached: binary.cached,
            log: &binary.log,
        });
        CompiledAnswer {
            kernel,
            arch,
            configuration: &self.configuration,
            configuration_hash: self.configuration.hash(),
            fits: self.verdict.is_none(),
            verdict: self.verdict.as_ref(),
            entries: &self.entries,
            binaries: binaries.collect(),
            binary_hash: only.map(|binary| &binary.hash),
            code_hash: only.map(|binary| &binary.code_hash),
            path: only.map(|binary| binary.path.as_path()),
            toolchain: self.code.binaries.first().map(|binary| binary.toolchain.as_str()),
            compile_ms: self.compile_ms(),
            cached: self.is_cached(),
            log: only.map(|binary| binary.log.as_str()),
            result: None,
        }
    }
}

/// The answer of `evo compile` and `evo build` about one variant, and a line of the stream about many.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CompiledAnswer<'a> {
    kernel: &'a str,
    arch: &'a str,
    #[schemars(with = "ConfigurationObject")]
    configuration: &'a Configuration,
    #[schemars(with = "HashText")]
    configuration_hash: ContentHash,
    fits: bool,
    verdict: Option<&'a Verdict>,
    entries: &'a [EntryUse],
    binaries: Vec<CompiledBinary<'a>>,
    #[schemars(with = "Option<HashText>")]
    binary_hash: Option<&'a ContentHash>,
    #[schemars(with = "Option<HashText>")]
    code_hash: Option<&'a ContentHash>,
    path: Option<&'a Path>,
    toolchain: Option<&'a str>,
    compile_ms: Option<f64>,
    cached: Option<bool>,
    log: Option<&'a str>,
    /// Absent in a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<CompiledBrief>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CompiledBrief {
    fits: bool,
    outcome: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CompiledBinary<'a> {
    #[schemars(with = "BTreeMap<String, i64>")]
    constants: &'a Specialization,
    #[schemars(with = "HashText")]
    binary_hash: &'a ContentHash,
    #[schemars(with = "HashText")]
    code_hash: &'a ContentHash,
    path: &'a Path,
    compile_ms: f64,
    cached: bool,
    log: &'a str,
}

/// The last object of a stream.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CompiledMany<'a> {
    kernel: &'a str,
    arch: &'a str,
    #[serde(flatten)]
    counts: CompileCounts,
}

/// Bytes stored and loaded by spills, if the compiler said.
fn spill_bytes(entry: &EntryResources) -> Option<u64> {
    Some(entry.spill_store_bytes? + entry.spill_load_bytes?)
}

impl EntryUse {
    /// Its name, with its constants where it has some: `attention_forward [CAUSAL=1]`.
    pub fn name(&self) -> String {
        match self.constants.is_empty() {
            true => self.resources.entry.clone(),
            false => format!("{} [{}]", self.resources.entry, self.constants),
        }
    }

    /// Registers, stack, spills, static and dynamic shared memory, threads; empty where unknown.
    pub fn cells(&self) -> [String; 6] {
        fn cell<T: ToString>(value: Option<T>) -> String {
            value.map(|value| value.to_string()).unwrap_or_default()
        }
        [
            cell(self.resources.registers),
            cell(self.resources.stack_bytes),
            cell(spill_bytes(&self.resources)),
            cell(self.resources.shared_static_bytes),
            cell(self.shared_dynamic_bytes),
            cell(self.threads),
        ]
    }
}

/// Counts over all variants.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct CompileCounts {
    #[serde(rename = "variants")]
    count: usize,
    #[serde(rename = "fitting")]
    fits: usize,
    spilling: usize,
    compiled: usize,
    cached: usize,
    /// By the verdict's label.
    outcomes: BTreeMap<String, usize>,
}

impl CompileCounts {
    /// Counts one more.
    pub fn add(&mut self, variant: &CompiledVariant) {
        self.count += 1;
        self.spilling += usize::from(variant.spills());
        match variant.is_cached() {
            Some(true) => self.cached += 1,
            Some(false) => self.compiled += 1,
            None => {}
        }
        match &variant.verdict {
            None => self.fits += 1,
            Some(verdict) => *self.outcomes.entry(verdict.label()).or_default() += 1,
        }
    }

    /// Variants so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// `8 variants for sm_89 by nvrtc 13.0: 6 fit, 2 static_reject:smem; 1 spill` and how long it took.
    pub fn text(&self, arch: &str, toolchain: &str, jobs: usize, elapsed: Duration) -> String {
        let mut outcomes = format!("{} fit", self.fits);
        for (label, count) in &self.outcomes {
            let _ = write!(outcomes, ", {count} {label}");
        }
        if self.spilling > 0 {
            let _ = write!(outcomes, "; {} spill", self.spilling);
        }
        let (seconds, plural) = (elapsed.as_secs_f64(), if self.count == 1 { "" } else { "s" });
        let (compiled, cached) = (self.compiled, self.cached);
        let processes = if jobs == 1 { "process" } else { "processes" };
        format!(
            "{} variant{plural} for {arch} by {toolchain}: {outcomes}\n\
             {compiled} compiled and {cached} from the cache in {seconds:.1} s by {jobs} {processes}\n",
            self.count
        )
    }
}

/// The architecture that is compiled for.
pub struct CompileTarget {
    pub kind: DeviceKind,
    pub arch: String,
    pub limits: DeviceLimits,
}

impl CompileTarget {
    /// The target of a name such as `sm_90a` or `host`.
    pub fn parse(arch: &str) -> Result<CompileTarget, CliError> {
        if arch == DeviceKind::Host.as_str() {
            return Ok(CompileTarget {
                kind: DeviceKind::Host,
                arch: arch.to_string(),
                limits: host::limits(),
            });
        }
        let limits = DeviceLimits::of_arch(arch).ok_or_else(|| {
            CliError::usage(format!("unknown target `{arch}`"))
                .with_hint("sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120, … or host")
        })?;
        Ok(CompileTarget { kind: DeviceKind::Cuda, arch: arch.to_string(), limits })
    }
}

#[cfg(test)]
mod columns_tests {
    use std::time::Duration;

    use evo_protocol::binary::{Binary, EntryResources};
    use evo_protocol::plan::ProblemPlan;
    use evo_protocol::specialization::Specialization;
    use evo_protocol::verdict::{Verdict, VerdictKind};
    use evo_space::genome::ContentHash;
    use evo_space::value::Value;
    use serde_json::json;

    use super::*;
    use crate::cli::compile::{CompileCounts, CompiledCode};

    fn plan(shared_bytes: i64, threads: i64) -> ProblemPlan {
        let launch = json!({"entry": "k", "grid": [1, 1, 1], "block": [threads, 1, 1], "shared_bytes": shared_bytes,
            "cluster": null, "cooperative": false, "programmatic": false, "arguments": []});
        serde_json::from_value(json!({"name": "p", "sizes": {}, "weight": 1.0, "buffers": [], "scalars": [],
            "launches": [launch], "flops": null, "bytes": null}))
        .unwrap()
    }

    fn variant(resources: Option<EntryResources>, verdict: Option<Verdict>) -> CompiledVariant {
        let configuration =
            Configuration::new(vec![("BLOCK".into(), Value::Int(64)), ("mode".into(), Value::text("xor"))]);
        let binary = resources.map(|resources| Binary {
            hash: ContentHash::of(b"h"),
            code_hash: ContentHash::of(b"c"),
            path: "k.cubin".into(),
            resources: vec![resources],
            toolchain: "nvrtc 13.0".to_string(),
            compile_ms: 40.0,
            cached: false,
            log: String::new(),
        });
        let code = CompiledCode {
            constants: vec![Specialization::default()],
            binaries: binary.into_iter().collect(),
        };
        CompiledVariant::new(configuration, &[plan(1024, 128), plan(65_536, 64)], code, verdict)
    }

    fn columns(width: usize) -> ResourceColumns {
        let columns = ResourceColumns {
            parameters: vec![("BLOCK".to_string(), 5), ("mode".to_string(), 4)],
            entry_width: 5,
            numbers: (0..NUMBERS.len()).collect(),
            shared: Vec::new(),
            left_out: Vec::new(),
            width,
        };
        columns.fitted(&[("mode".to_string(), "xor".to_string())])
    }

    #[test]
    fn the_table_fits_the_terminal() {
        let variant = variant(None, None);
        let text = |width| {
            let columns = columns(width);
            format!("{}{}{}", columns.header(), columns.rows(&variant), columns.footer())
        };
        insta::assert_snapshot!(text(80), @r"
        BLOCK  entry  regs   spill  smem static   dynamic  verdict
           64  k         -       -            -     65536  fits
        same in all rows: mode=xor
        not shown in 80 columns: stack, threads
        ");
        insta::assert_snapshot!(text(40), @r"
        BLOCK  entry  verdict
           64  k      fits
        same in all rows: mode=xor
        not shown in 40 columns: stack, threads,
          smem static, dynamic, spill, regs
        ");
        for width in 40..120 {
            assert!(text(width).lines().all(|line| line.chars().count() <= width), "{width}");
        }
    }

    #[test]
    fn rows_show_the_largest_demand_and_failures_their_message() {
        let columns = columns(100);
        let used = EntryResources {
            entry: "k".to_string(),
            registers: Some(255),
            stack_bytes: Some(16),
            spill_store_bytes: Some(8),
            spill_load_bytes: Some(12),
            shared_static_bytes: Some(49_152),
            threads_max: None,
        };
        let verdict = Verdict::new(VerdictKind::StaticReject, "too much").with_cause("smem");
        let good = variant(Some(used.clone()), None);
        let refused = variant(Some(used), Some(verdict));
        let broken =
            variant(None, Some(Verdict::new(VerdictKind::CompileError, "k.cu(1): error: no\nsecond")));
        let mut counts = CompileCounts::default();
        let mut text = columns.header();
        for variant in [&good, &refused, &broken] {
            text.push_str(&columns.rows(variant));
            counts.add(variant);
        }
        text.push_str(&counts.text("sm_89", "nvrtc 13.0", 2, Duration::from_millis(1500)));
        insta::assert_snapshot!(text, @r"
        BLOCK  mode  entry  regs   stack   spill  smem static   dynamic  threads  verdict
           64   xor  k       255      16      20        49152     65536      128  fits
           64   xor  k       255      16      20        49152     65536      128  static_reject:smem
            too much
           64   xor  k         -       -       -            -     65536      128  compile_error
            k.cu(1): error: no
            second
        3 variants for sm_89 by nvrtc 13.0: 1 fit, 1 compile_error, 1 static_reject:smem; 2 spill
        2 compiled and 0 from the cache in 1.5 s by 2 processes
        ");
    }
}
