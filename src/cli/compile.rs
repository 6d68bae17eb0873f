//! `evo compile`: variants through the compiler without a device, with what each would use.
//!
//! This is how one sees from a laptop that a variant overflows an L4's shared memory or spills.
//! Results are printed in the order of the space while others are still compiling; a bad variant is a
//! line like any other.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use evo_device::host;
use evo_protocol::binary::CompileOutcome;
use evo_protocol::device::{DeviceKind, DeviceLimits};
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Gate, Verdict, VerdictKind};
use evo_space::genome::{Configuration, Genome};
use evo_space::rng;

use super::args::CompileArgs;
use super::compile_columns::ResourceColumns;
use super::compile_table::{CompileCounts, CompiledVariant};
use super::error::CliError;
use super::exit_code::ExitCode;
use super::{candidate, output, session};
use crate::compile::{CompileFarm, FULL_CACHE_HINT, FarmOptions, full_cache};
use crate::engine::recipe::{KernelDraft, KernelRecipe, problems_on};
use crate::kernel::spec::{KernelSpec, SpaceFile};
use crate::report::width::stdout_width;

/// Variants handed to the farm ahead of the one that is printed next, per worker.
const AHEAD: usize = 8;

/// Runs the command.
pub fn run(arguments: &CompileArgs) -> Result<ExitCode, CliError> {
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
    let problems = problems_on(kernel, target.kind);
    // What judges answers plays no part here: neither the reference kernel nor a seed.
    let recipe = KernelRecipe::new(kernel, target.limits.clone(), &problems, None, 0);
    let only = (!many).then(|| file.space.configuration(&genome));
    let columns = ResourceColumns::of(&file.space, kernel, target.kind, only.as_ref(), stdout_width());
    let compile_run = CompileRun { file, kernel, target: &target, recipe, columns, json: arguments.json };
    let start = Instant::now();
    let mut options = FarmOptions::new(target.kind, &target.arch);
    if let Some(jobs) = arguments.jobs {
        options.jobs = jobs;
    } else if !many {
        options.jobs = 1;
    }
    let (sender, done) = mpsc::channel();
    let on_done = Box::new(move |ticket, outcome| drop(sender.send((ticket, outcome))));
    let farm = CompileFarm::start(options, on_done)?;
    let genomes: Box<dyn Iterator<Item = Genome> + '_> = match arguments.sample {
        _ if arguments.all => file.space.iter(),
        Some(count) => {
            Box::new(file.space.sample_distinct(count, &mut rng::seeded(arguments.seed)).into_iter())
        }
        None => Box::new(std::iter::once(genome)),
    };
    let counts = match compile_run.compile_all(genomes, &farm, &done) {
        Ok(counts) => counts,
        // A reader that has seen enough (`| head`) is not an error.
        Err(EarlyEnd::Stdout(error)) => return output::written(Err(error)).map(|()| ExitCode::Done),
        Err(EarlyEnd::CacheFull(message)) => {
            return Err(CliError::harness(message).with_hint(FULL_CACHE_HINT));
        }
    };
    eprint!("{}", counts.text(&target.arch, farm.toolchain(), farm.jobs(), start.elapsed()));
    let failed = !many && counts.failures() > 0;
    Ok(if failed { ExitCode::Failed } else { ExitCode::Done })
}

/// Why compiling ends early.
enum EarlyEnd {
    Stdout(io::Error),
    CacheFull(String),
}

impl From<io::Error> for EarlyEnd {
    fn from(error: io::Error) -> EarlyEnd {
        EarlyEnd::Stdout(error)
    }
}

/// The architecture that is compiled for.
struct CompileTarget {
    kind: DeviceKind,
    arch: String,
    limits: DeviceLimits,
}

impl CompileTarget {
    fn parse(arch: &str) -> Result<CompileTarget, CliError> {
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

/// One run of the command.
struct CompileRun<'a> {
    file: &'a SpaceFile,
    kernel: &'a KernelSpec,
    target: &'a CompileTarget,
    recipe: KernelRecipe<'a>,
    columns: ResourceColumns,
    json: bool,
}

/// A variant on its way: what is known before compiling.
struct Uncompiled {
    configuration: Configuration,
    draft: KernelDraft,
}

impl CompileRun<'_> {
    /// Keeps the farm fed, prints in order.
    fn compile_all(
        &self,
        genomes: impl Iterator<Item = Genome>,
        farm: &CompileFarm,
        done: &mpsc::Receiver<(u64, CompileOutcome)>,
    ) -> Result<CompileCounts, EarlyEnd> {
        let mut genomes = genomes.enumerate();
        // By position, so that the first is the next to print.
        let mut open: BTreeMap<u64, (Uncompiled, Option<CompileOutcome>)> = BTreeMap::new();
        let mut printer = Printer::new(self);
        loop {
            for (number, genome) in genomes.by_ref().take(AHEAD * farm.jobs() - open.len()) {
                let mut prepared = self.prepare(&genome);
                let known = match prepared.draft.source.take() {
                    Some(source) => {
                        farm.submit(number as u64, source);
                        None
                    }
                    None => Some(Err(prepared.draft.refused.take().map_or_else(nothing, |own| own.verdict))),
                };
                open.insert(number as u64, (prepared, known));
            }
            if open.is_empty() {
                return Ok(printer.finish()?);
            }
            while let Some(first) = open.first_entry().filter(|first| first.get().1.is_some()) {
                if let (prepared, Some(outcome)) = first.remove() {
                    printer.print(&self.judge(prepared, outcome))?;
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

    fn prepare(&self, genome: &Genome) -> Uncompiled {
        let configuration = self.file.space.configuration(genome);
        let Some(constraint) = self.file.space.violations(genome).first().copied() else {
            let draft = self.recipe.draft(&configuration);
            return Uncompiled { configuration, draft };
        };
        let because = constraint.because.as_ref().map_or(String::new(), |why| format!(" ({why})"));
        let message = format!("it violates `{}`{because}", constraint.expr.text());
        let verdict = Box::new(Verdict::new(VerdictKind::RejectedConstraint, message));
        Uncompiled { configuration, draft: KernelDraft::refused(Gate::StaticLimits, verdict) }
    }

    /// The verdict: what the compiler says, then what was known before, then what both make together.
    fn judge(&self, prepared: Uncompiled, outcome: CompileOutcome) -> CompiledVariant {
        let Uncompiled { configuration, mut draft } = prepared;
        let (binary, verdict) = match outcome {
            Err(verdict) => (None, Some(verdict)),
            Ok(binary) => {
                let known = draft.refused.take();
                let together = || self.recipe.check_compiled(draft.plans(), &binary.resources).err();
                let refused = known.or_else(together);
                (Some(binary), refused.map(|own| own.verdict))
            }
        };
        let plans: Vec<ProblemPlan> = draft.timed.into_iter().chain(draft.checked).collect();
        CompiledVariant::new(configuration, &plans, binary, verdict.map(|verdict| *verdict))
    }
}

fn nothing() -> Box<Verdict> {
    Box::new(Verdict::new(VerdictKind::HarnessError, "there is nothing to compile"))
}

/// Prints each variant as it comes, and counts.
struct Printer<'a> {
    order: &'a CompileRun<'a>,
    out: io::BufWriter<io::Stdout>,
    counts: CompileCounts,
    flushed: Instant,
}

impl<'a> Printer<'a> {
    fn new(order: &'a CompileRun<'a>) -> Printer<'a> {
        Printer {
            order,
            out: io::BufWriter::new(io::stdout()),
            counts: CompileCounts::default(),
            flushed: Instant::now(),
        }
    }

    fn print(&mut self, variant: &CompiledVariant) -> io::Result<()> {
        if self.order.json {
            writeln!(self.out, "{}", variant.json(&self.order.kernel.name, &self.order.target.arch))?;
        } else {
            if self.counts.count() == 0 {
                self.out.write_all(self.order.columns.header().as_bytes())?;
            }
            self.out.write_all(self.order.columns.rows(variant).as_bytes())?;
        }
        self.counts.add(variant);
        // Often enough for a person, seldom enough for a fast farm.
        if self.flushed.elapsed() > Duration::from_millis(100) {
            self.flushed = Instant::now();
            self.out.flush()?;
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<CompileCounts> {
        if !self.order.json && self.counts.count() > 0 {
            self.out.write_all(self.order.columns.footer().as_bytes())?;
        }
        self.out.flush()?;
        Ok(self.counts)
    }
}
