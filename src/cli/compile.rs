//! `evo compile`: variants through the compiler without a device, with what each would use.
//!
//! This is how one sees from a laptop that a variant overflows an L4's shared memory or spills.
//! Results are printed in the order of the space while others are still compiling; a bad variant is a
//! line like any other.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use evo_device::host;
use evo_protocol::binary::{Binary, EntryResources, Specialization};
use evo_protocol::device::{DeviceKind, DeviceLimits};
use evo_protocol::envelope::LimitName;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Gate, Verdict, VerdictKind};
use evo_space::genome::{Configuration, ContentHash, Genome};
use evo_space::sample;
use evo_space::space::SearchSpace;
use evo_space::value::Value;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::args::CompileArgs;
use super::{Answer, Call, CliError, ExitCode, Result, candidate, output, session};
use crate::compile::{CompileFarm, FULL_CACHE_HINT, FarmOptions, VariantOutcome, full_cache};
use crate::engine::prepared;
use crate::engine::prepared::KernelDraft;
use crate::engine::recipe::{KernelRecipe, problems_on};
use crate::kernel::spec::{KernelSpec, SpaceFile};
use crate::kernel::specialize;
use crate::report::table::{FittedTable, Keep};
use crate::report::templates::page;
use crate::report::width::stdout_width;

pub fn run(arguments: &CompileArgs, call: &Call) -> Result<Answer> {
    arguments.limits.begin(call)?;
    let many = arguments.all || arguments.sample.is_some();
    let values = |word: &String| word.contains('=') || word.starts_with('@');
    if many
        && (arguments.words.len() > 1 || arguments.words.iter().any(values) || arguments.candidate.is_given())
    {
        return Err(CliError::usage("--all and --sample take a space and no values"));
    }
    let access = arguments.limits.access();
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
    let deadline = arguments.limits.compile;
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

pub fn carry_out(task: CompileTask<'_>, call: &Call) -> Result<Answer> {
    let CompileTask { file, target, genome, genomes, jobs, deadline } = task;
    let kernel = session::kernel_to(file, "compile")?;
    let problems = problems_on(kernel, target.kind);
    let only = genome.as_ref().map(|genome| file.space.configuration(genome));
    // What judges answers plays no part here: neither the reference kernel nor a seed.
    let mut recipe = KernelRecipe::new(kernel, target.limits.clone(), &problems, None, 0);
    recipe.arch.clone_from(&target.arch);
    let mut compile_run = CompileRun {
        space: &file.space,
        kernel,
        arch: &target.arch,
        recipe,
        columns: ResourceColumns::of(&file.space, kernel, target.kind, only.as_ref(), stdout_width()),
        call,
        is_alone: genome.is_some(),
        counts: CompileCounts::default(),
        only: None,
    };
    let start = Instant::now();
    let mut options = FarmOptions { deadline, ..FarmOptions::new(target.kind, &target.arch) };
    options.jobs = jobs.unwrap_or(options.jobs);
    let farm = CompileFarm::start(options)?;
    let full = compile_run.compile_all(genome.into_iter().chain(genomes), &farm);
    let footer =
        if call.is_json() || compile_run.counts.count == 0 { "" } else { &compile_run.columns.footer };
    match full.and_then(|full| io::stdout().write_all(footer.as_bytes()).map(|()| full)) {
        // A reader that has seen enough (`| head`) is not an error.
        Err(error) => return output::written(Err(error)).map(|()| ExitCode::Done.into()),
        Ok(Some(message)) => return Err(CliError::harness(message).with_hint(FULL_CACHE_HINT)),
        Ok(None) => {}
    }
    let CompileRun { counts, only, .. } = compile_run;
    eprint!("{}", counts.text(&target.arch, farm.toolchain(), farm.jobs(), start.elapsed()));
    Ok(match only {
        Some(variant) => variant.answer(call),
        None => {
            Answer::of(ExitCode::Done, &CompiledMany { kernel: &kernel.name, arch: &target.arch, counts })
        }
    })
}

/// Room for the verdict, whose length is not known before the last row: `static_reject:registers` and shorter.
const VERDICT_WIDTH: usize = 23;

/// A column after parameters and entry: head, width, whether the host's compiler tells the number, how
/// long the column stays when the table is too wide, and the number.
type NumberColumn = (&'static str, usize, bool, u8, fn(&EntryUse) -> Option<i64>);

const NUMBERS: [NumberColumn; 6] = [
    ("regs", 4, false, 6, |entry| entry.resources.registers.map(i64::from)),
    ("stack", 6, false, 1, |entry| entry.resources.stack_bytes.map(|bytes| bytes as i64)),
    ("spill", 6, false, 5, |entry| spill_bytes(&entry.resources).map(|bytes| bytes as i64)),
    ("smem static", 11, false, 3, |entry| entry.resources.shared_static_bytes.map(|bytes| bytes as i64)),
    ("dynamic", 8, true, 4, |entry| entry.shared_dynamic_bytes),
    ("threads", 7, true, 2, |entry| entry.threads),
];

/// Known before the first row, so that rows need not wait for the last.
struct ResourceColumns {
    /// Of all columns: the parameters, the entry, the numbers.
    heads: Vec<String>,
    numbers: Vec<NumberColumn>,
    /// Those that fit, with their widths.
    shown: Vec<(usize, usize)>,
    footer: String,
}

impl ResourceColumns {
    /// At most `width` characters in all. `only` is the configuration of a table with one variant.
    fn of(
        space: &SearchSpace,
        kernel: &KernelSpec,
        kind: DeviceKind,
        only: Option<&Configuration>,
        width: usize,
    ) -> ResourceColumns {
        let parameters = space.parameters().iter().map(|parameter| {
            let cells = match only.and_then(|configuration| configuration.get(&parameter.name)) {
                Some(value) => vec![value.to_string()],
                None => parameter.values.iter().map(Value::to_string).collect(),
            };
            (parameter.name.to_string(), cells)
        });
        let sets = specialize::of_kernel(kernel);
        let names = kernel.launches.iter().flat_map(|launch| {
            sets.iter().map(|constants| entry_name(&launch.entry, constants)).collect::<Vec<_>>()
        });
        ResourceColumns::fitted(parameters, names.collect(), kind, width)
    }

    /// Parameters and entries with all cells that they may have.
    fn fitted(
        parameters: impl Iterator<Item = (String, Vec<String>)>,
        entries: Vec<String>,
        kind: DeviceKind,
        width: usize,
    ) -> ResourceColumns {
        let numbers: Vec<NumberColumn> =
            NUMBERS.into_iter().filter(|number| kind != DeviceKind::Host || number.2).collect();
        let parameters = parameters.map(|(name, cells)| (name, Keep::Parameter, cells));
        let entry = ("entry".to_string(), Keep::Always, entries);
        let number = |(head, width, _, rank, _): &NumberColumn| {
            (head.to_string(), Keep::Rank(*rank), vec!["9".repeat(*width)])
        };
        let (mut table, mut heads) = (FittedTable::default(), Vec::new());
        for (head, keep, cells) in parameters.chain([entry]).chain(numbers.iter().map(number)) {
            table.add(&head, keep, cells);
            heads.push(head);
        }
        let (shown, footer) = table.layout(width, VERDICT_WIDTH);
        ResourceColumns { heads, numbers, shown, footer }
    }

    fn line(&self, cells: &[String], outcome: &str) -> String {
        let mut line = String::new();
        for (at, width) in &self.shown {
            let _ = match at + 1 + self.numbers.len() == self.heads.len() {
                true => write!(line, "{:<width$}  ", cells[*at]),
                false => write!(line, "{:>width$}  ", cells[*at]),
            };
        }
        format!("{line}{outcome}\n")
    }

    fn header(&self) -> String {
        self.line(&self.heads, "verdict")
    }

    /// A row for each entry; the message of a failure below.
    fn rows(&self, variant: &CompiledAnswer) -> String {
        let row = |entry: Option<&EntryUse>| {
            let name = |own: &EntryUse| entry_name(&own.resources.entry, &own.constants);
            let mut cells: Vec<String> =
                variant.configuration.iter().map(|(_, value)| value.to_string()).collect();
            cells.push(entry.map_or(String::new(), name));
            let number = |own: &NumberColumn| entry.and_then(own.4).map_or("-".into(), |n| n.to_string());
            cells.extend(self.numbers.iter().map(number));
            self.line(&cells, &variant.outcome())
        };
        let mut text = match variant.entries.is_empty() {
            true => row(None),
            false => variant.entries.iter().map(|entry| row(Some(entry))).collect(),
        };
        if let Some(verdict) = &variant.verdict {
            verdict.message.lines().for_each(|line| text.push_str(&format!("    {line}\n")));
        }
        text
    }
}

/// Its name, with its constants where it has some: `attention_forward [CAUSAL=1]`.
fn entry_name(entry: &str, constants: &Specialization) -> String {
    match constants.is_empty() {
        true => entry.to_string(),
        false => format!("{entry} [{constants}]"),
    }
}

/// Variants handed to the farm ahead of the one that is printed next, per worker.
const AHEAD: usize = 8;

/// One run of the command. Prints each variant as it comes, and counts.
struct CompileRun<'a> {
    space: &'a SearchSpace,
    kernel: &'a KernelSpec,
    arch: &'a str,
    recipe: KernelRecipe<'a>,
    columns: ResourceColumns,
    call: &'a Call,
    /// There is one variant, so its object is the command's.
    is_alone: bool,
    counts: CompileCounts,
    only: Option<CompiledAnswer<'a>>,
}

impl<'a> CompileRun<'a> {
    /// Keeps the farm fed, prints in order. Gives the message of a full cache, which ends it early.
    fn compile_all(
        &mut self,
        genomes: impl Iterator<Item = Genome>,
        farm: &CompileFarm,
    ) -> io::Result<Option<String>> {
        let (sender, done) = mpsc::channel();
        let mut genomes = genomes.enumerate();
        // By position, so that the first is the next to print.
        let mut open: BTreeMap<usize, (KernelDraft, Option<VariantOutcome>)> = BTreeMap::new();
        loop {
            for (number, genome) in genomes.by_ref().take(AHEAD * farm.jobs() - open.len()) {
                let mut draft = self.draft(&genome);
                let known = match draft.kernel.sources.is_empty() {
                    false => {
                        let sender = sender.clone();
                        let answer = move |outcome| drop(sender.send((number, outcome)));
                        farm.submit_all(draft.kernel.sources.clone(), answer);
                        None
                    }
                    true => Some(Err(draft.refused.take().map_or_else(nothing, |refused| refused.verdict))),
                };
                open.insert(number, (draft, known));
            }
            if open.is_empty() {
                return Ok(None);
            }
            while let Some(first) = open.first_entry().filter(|first| first.get().1.is_some()) {
                if let (draft, Some(outcome)) = first.remove() {
                    let variant = self.judge(draft, outcome);
                    self.print(variant)?;
                }
            }
            if !open.is_empty() {
                // The farm answers everything, so this ends.
                let Ok((number, outcome)) = done.recv() else { return Ok(None) };
                if let Some(message) = full_cache(&outcome) {
                    return Ok(Some(message));
                }
                if let Some(entry) = open.get_mut(&number) {
                    entry.1 = Some(outcome);
                }
            }
        }
    }

    fn draft(&self, genome: &Genome) -> KernelDraft {
        let configuration = self.space.configuration(genome);
        let Some(constraint) = self.space.violations(genome).first().copied() else {
            return self.recipe.draft(&configuration);
        };
        let because = constraint.because.as_ref().map_or(String::new(), |why| format!(" ({why})"));
        let message = format!("it violates `{}`{because}", constraint.expr.text());
        let verdict = Box::new(Verdict::new(VerdictKind::RejectedConstraint, message));
        KernelDraft::refused(configuration, Gate::StaticLimits, verdict)
    }

    /// The verdict: what the compiler says, then what was known before, then what both make together.
    fn judge(&self, draft: KernelDraft, outcome: VariantOutcome) -> CompiledAnswer<'a> {
        let KernelDraft { kernel, refused } = draft;
        let (binaries, verdict) = match outcome {
            Err(verdict) => (Vec::new(), Some(verdict)),
            Ok(binaries) => {
                let code = prepared::built_codes(&kernel.sources, &binaries);
                let together = || self.recipe.check_compiled(kernel.plans(), &code).err();
                (binaries, refused.or_else(together).map(|refused| refused.verdict))
            }
        };
        let constants: Vec<Specialization> =
            kernel.sources.iter().map(|source| source.constants.clone()).collect();
        let plans = kernel.timed.iter().chain(&kernel.checked);
        let entries = entries(plans, &constants, &binaries);
        let binaries = constants.into_iter().zip(binaries).collect();
        let verdict = verdict.map(|verdict| *verdict);
        CompiledAnswer::new((&self.kernel.name, self.arch), kernel.configuration, entries, binaries, verdict)
    }

    fn print(&mut self, variant: CompiledAnswer<'a>) -> io::Result<()> {
        match (self.call.is_json(), self.is_alone) {
            (true, false) => self.call.line(&json!(variant))?,
            (true, true) => {}
            (false, _) => {
                let header = if self.counts.count == 0 { self.columns.header() } else { String::new() };
                write!(io::stdout(), "{header}{}", self.columns.rows(&variant))?;
            }
        }
        self.counts.add(&variant);
        self.only = self.is_alone.then_some(variant);
        Ok(())
    }
}

fn nothing() -> Box<Verdict> {
    Box::new(Verdict::new(VerdictKind::HarnessError, "there is nothing to compile"))
}

/// What one entry point uses, and what its launches ask for at most.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EntryUse {
    #[schemars(with = "BTreeMap<String, i64>")]
    constants: Specialization,
    #[serde(flatten)]
    resources: EntryResources,
    shared_dynamic_bytes: Option<i64>,
    threads: Option<i64>,
}

/// Joins the compiler's report with the launches of all problems. Kernels that no launch uses are left out; launches
/// that never happen are too. Binaries are in the order of their constants; there are none where a source did not
/// compile.
fn entries<'p>(
    plans: impl Iterator<Item = &'p ProblemPlan>,
    constants: &[Specialization],
    binaries: &[Binary],
) -> Vec<EntryUse> {
    let mut entries: Vec<EntryUse> = Vec::new();
    for (plan, launch) in plans.flat_map(|plan| plan.launches.iter().map(move |launch| (plan, launch))) {
        // The source that the problem runs.
        let at = constants.iter().position(|set| set.serves(&plan.sizes)).unwrap_or(0);
        let constants = constants.get(at).cloned().unwrap_or_default();
        // Saturating, because refused launches are shown too, whatever extents they ask for.
        let threads = launch.block.iter().copied().fold(1, i64::saturating_mul);
        let position = entries
            .iter()
            .position(|entry| entry.resources.entry == launch.entry && entry.constants == constants);
        let position = position.unwrap_or_else(|| {
            let reported = binaries.get(at).into_iter().flat_map(|binary| &binary.resources);
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
    entries
}

/// The answer of `evo compile` and `evo build` about one variant, and a line of the stream about many.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CompiledAnswer<'a> {
    kernel: &'a str,
    arch: &'a str,
    configuration: Configuration,
    configuration_hash: ContentHash,
    fits: bool,
    verdict: Option<Verdict>,
    entries: Vec<EntryUse>,
    binaries: Vec<CompiledBinary>,
    binary_hash: Option<ContentHash>,
    code_hash: Option<ContentHash>,
    path: Option<PathBuf>,
    toolchain: Option<String>,
    compile_ms: Option<f64>,
    cached: Option<bool>,
    log: Option<String>,
    /// Absent in a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<CompiledBrief>,
}

impl<'a> CompiledAnswer<'a> {
    /// `fits` says that it compiles and may be launched, not that it is right.
    fn new(
        (kernel, arch): (&'a str, &'a str),
        configuration: Configuration,
        entries: Vec<EntryUse>,
        binaries: Vec<(Specialization, Binary)>,
        verdict: Option<Verdict>,
    ) -> CompiledAnswer<'a> {
        // One binary for all problems is described by the variant's own fields.
        let only = binaries.first().map(|(_, binary)| binary).filter(|_| binaries.len() == 1);
        let is_built = !binaries.is_empty();
        CompiledAnswer {
            kernel,
            arch,
            configuration_hash: configuration.hash(),
            configuration,
            fits: verdict.is_none(),
            verdict,
            entries,
            binary_hash: only.map(|binary| binary.hash.clone()),
            code_hash: only.map(|binary| binary.code_hash.clone()),
            path: only.map(|binary| binary.path.clone()),
            log: only.map(|binary| binary.log.clone()),
            toolchain: binaries.first().map(|(_, binary)| binary.toolchain.clone()),
            compile_ms: is_built.then(|| binaries.iter().map(|(_, binary)| binary.compile_ms).sum()),
            // Whether all of them came from the cache.
            cached: is_built.then(|| binaries.iter().all(|(_, binary)| binary.cached)),
            binaries: binaries.into_iter().map(CompiledBinary::from).collect(),
            result: None,
        }
    }

    fn outcome(&self) -> String {
        self.verdict.as_ref().map_or("fits".to_string(), Verdict::label)
    }

    fn answer(mut self, call: &Call) -> Answer {
        if self.verdict.as_ref().is_some_and(|verdict| verdict.kind == VerdictKind::CompileTimeout) {
            call.hit(LimitName::Compile);
        }
        self.result = Some(CompiledBrief { fits: self.fits, outcome: self.outcome() });
        let answer = Answer::of(if self.fits { ExitCode::Done } else { ExitCode::Failed }, &self);
        match self.verdict.as_ref().filter(|verdict| verdict.is_trouble()) {
            Some(verdict) => answer.despite(session::trouble("the variant could not be compiled", verdict)),
            None => answer,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct CompiledBrief {
    fits: bool,
    outcome: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CompiledBinary {
    #[schemars(with = "BTreeMap<String, i64>")]
    constants: Specialization,
    binary_hash: ContentHash,
    code_hash: ContentHash,
    path: PathBuf,
    compile_ms: f64,
    cached: bool,
    log: String,
}

impl From<(Specialization, Binary)> for CompiledBinary {
    fn from((constants, binary): (Specialization, Binary)) -> CompiledBinary {
        let Binary { hash: binary_hash, code_hash, path, compile_ms, cached, log, .. } = binary;
        CompiledBinary { constants, binary_hash, code_hash, path, compile_ms, cached, log }
    }
}

/// The last object of a stream.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CompiledMany<'a> {
    kernel: &'a str,
    arch: &'a str,
    #[serde(flatten)]
    counts: CompileCounts,
}

fn spill_bytes(entry: &EntryResources) -> Option<u64> {
    Some(entry.spill_store_bytes? + entry.spill_load_bytes?)
}

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
    fn add(&mut self, variant: &CompiledAnswer) {
        let spilled = |entry: &EntryUse| spill_bytes(&entry.resources).is_some_and(|bytes| bytes > 0);
        self.count += 1;
        self.spilling += usize::from(variant.entries.iter().any(spilled));
        self.cached += usize::from(variant.cached == Some(true));
        self.compiled += usize::from(variant.cached == Some(false));
        match &variant.verdict {
            None => self.fits += 1,
            Some(_) => *self.outcomes.entry(variant.outcome()).or_default() += 1,
        }
    }

    /// `8 variants for sm_89 by nvrtc 13.0: 6 fit, 2 static_reject:smem; 1 spill` and how long it took.
    fn text(&self, arch: &str, toolchain: &str, jobs: usize, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64();
        let more = json!({ "arch": arch, "toolchain": toolchain, "jobs": jobs, "seconds": seconds });
        page("compile.txt.j2", &json!({ "counts": self, "run": more }))
    }
}

pub struct CompileTarget {
    pub kind: DeviceKind,
    pub arch: String,
    pub limits: DeviceLimits,
}

impl CompileTarget {
    pub fn parse(arch: &str) -> Result<CompileTarget> {
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
    use super::*;

    fn plan(shared_bytes: i64, threads: i64) -> ProblemPlan {
        let launch = json!({"entry": "k", "grid": [1, 1, 1], "block": [threads, 1, 1], "shared_bytes": shared_bytes,
            "cluster": null, "cooperative": false, "programmatic": false, "arguments": []});
        serde_json::from_value(json!({"name": "p", "sizes": {}, "weight": 1.0, "buffers": [], "scalars": [],
            "launches": [launch], "reference_launches": [], "flops": null, "bytes": null}))
        .unwrap()
    }

    fn variant(resources: Option<EntryResources>, verdict: Option<Verdict>) -> CompiledAnswer<'static> {
        let configuration =
            Configuration::new(vec![("BLOCK".into(), Value::Int(64)), ("mode".into(), Value::text("xor"))]);
        let binary = resources.map(|resources| Binary {
            hash: ContentHash::of(b"h"),
            code_hash: ContentHash::of(b"c"),
            path: "k.cubin".into(),
            resources: vec![resources],
            toolchain: "nvrtc 13.0".to_string(),
            compile_ms: 40.0,
            ..Binary::default()
        });
        let (constants, binaries) = (Specialization::default(), Vec::from_iter(binary));
        let plans = [plan(1024, 128), plan(65_536, 64)];
        let entries = entries(plans.iter(), std::slice::from_ref(&constants), &binaries);
        let binaries = binaries.into_iter().map(|binary| (constants.clone(), binary)).collect();
        CompiledAnswer::new(("kernel", "sm_89"), configuration, entries, binaries, verdict)
    }

    fn columns(width: usize) -> ResourceColumns {
        let cells = |cells: &[&str]| cells.iter().map(ToString::to_string).collect();
        let parameters = [("BLOCK".to_string(), cells(&["32", "64"])), ("mode".to_string(), cells(&["xor"]))];
        ResourceColumns::fitted(parameters.into_iter(), cells(&["k"]), DeviceKind::Cuda, width)
    }

    #[test]
    fn the_table_fits_the_terminal() {
        let variant = variant(None, None);
        let text = |width| {
            let columns = columns(width);
            format!("{}{}{}", columns.header(), columns.rows(&variant), columns.footer)
        };
        insta::assert_snapshot!(text(80) + &text(40));
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
        insta::assert_snapshot!(text);
    }
}
