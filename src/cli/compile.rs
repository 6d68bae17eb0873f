//! `evo compile`: variants through the compiler without a device, with what each would use.
//!
//! This is how one sees from a laptop that a variant overflows an L4's shared memory or spills.
//! Results are printed in the order of the space while others are still compiling; a bad variant is a
//! line like any other.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use evo_protocol::envelope::LimitName;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Gate, Verdict, VerdictKind};
use evo_space::genome::{Configuration, Genome};
use evo_space::rng;
use serde_json::json;

use super::answer::Answer;
use super::args::CompileArgs;
use super::call::Call;
use super::compile_columns::ResourceColumns;
use super::compile_table::{CompileCounts, CompiledCode, CompiledVariant};
use super::compile_target::CompileTarget;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::{candidate, described, output, session};
use crate::compile::{FULL_CACHE_HINT, FarmOptions, VariantFarm, VariantOutcome, full_cache};
use crate::engine::built;
use crate::engine::prepared::KernelDraft;
use crate::engine::recipe::{KernelRecipe, problems_on};
use crate::kernel::spec::{KernelSpec, SpaceFile};
use crate::kernel::specialize;
use crate::report::width::stdout_width;

/// Variants handed to the farm ahead of the one that is printed next, per worker.
const AHEAD: usize = 8;

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
            Box::new(file.space.sample_distinct(count, &mut rng::seeded(arguments.seed)).into_iter())
        }
        None => Box::new(std::iter::empty()),
    };
    let genome = (!many).then_some(genome);
    if !many {
        described::candidate(call, &resolved);
    }
    // One variant has as many sources as it has sets of constants.
    let sources = specialize::of_kernel(kernel).len();
    let jobs = arguments.jobs.or((!many).then_some(sources));
    let deadline = arguments.limits.limit_compile;
    carry_out(CompileTask { file, target, genome, genomes, jobs, deadline }, call)
}

/// What to compile, and for what.
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
        None => Answer::object(ExitCode::Done, &counts.json(&kernel.name, &target.arch)),
    })
}

/// The answer about the only variant.
fn answer(variant: &CompiledVariant, kernel: &str, arch: &str, call: &Call) -> Answer {
    let kind = variant.verdict.as_ref().map(|verdict| verdict.kind);
    if kind == Some(VerdictKind::CompileTimeout) {
        call.hit(LimitName::Compile);
    }
    let exit = if kind.is_none() { ExitCode::Done } else { ExitCode::Failed };
    let brief = json!({ "fits": kind.is_none(), "outcome": variant.outcome() });
    let answer = Answer::object(exit, &variant.json(kernel, arch)).in_brief(brief);
    match variant.verdict.as_ref().filter(|verdict| verdict.is_trouble()) {
        Some(verdict) => answer.despite(session::trouble("the variant could not be compiled", verdict)),
        None => answer,
    }
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

/// One run of the command.
struct CompileRun<'a> {
    file: &'a SpaceFile,
    kernel: &'a KernelSpec,
    target: &'a CompileTarget,
    recipe: KernelRecipe<'a>,
    columns: ResourceColumns,
    call: &'a Call,
    /// There is one variant, so its object is the command's.
    is_alone: bool,
}

/// What came of it all.
struct CompiledAll {
    counts: CompileCounts,
    /// The only variant, where there is only one.
    only: Option<CompiledVariant>,
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
        farm: &VariantFarm,
        done: &mpsc::Receiver<(u64, VariantOutcome)>,
    ) -> Result<CompiledAll, EarlyEnd> {
        let mut genomes = genomes.enumerate();
        // By position, so that the first is the next to print.
        let mut open: BTreeMap<u64, (Uncompiled, Option<VariantOutcome>)> = BTreeMap::new();
        let mut printer = Printer::new(self);
        loop {
            for (number, genome) in genomes.by_ref().take(AHEAD * farm.jobs() - open.len()) {
                let mut prepared = self.prepare(&genome);
                let known = match prepared.draft.sources.is_empty() {
                    false => {
                        farm.submit(number as u64, prepared.draft.sources.clone());
                        None
                    }
                    true => Some(Err(prepared.draft.refused.take().map_or_else(nothing, |own| own.verdict))),
                };
                open.insert(number as u64, (prepared, known));
            }
            if open.is_empty() {
                return Ok(printer.finish()?);
            }
            while let Some(first) = open.first_entry().filter(|first| first.get().1.is_some()) {
                if let (prepared, Some(outcome)) = first.remove() {
                    printer.print(self.judge(prepared, outcome))?;
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
    fn judge(&self, prepared: Uncompiled, outcome: VariantOutcome) -> CompiledVariant {
        let Uncompiled { configuration, mut draft } = prepared;
        let (binaries, verdict) = match outcome {
            Err(verdict) => (Vec::new(), Some(verdict)),
            Ok(binaries) => {
                let known = draft.refused.take();
                let code = built::of(&draft.sources, &binaries);
                let together = || self.recipe.check_compiled(draft.plans(), &code).err();
                let refused = known.or_else(together);
                (binaries, refused.map(|own| own.verdict))
            }
        };
        let constants = draft.sources.iter().map(|source| source.constants.clone()).collect();
        let plans: Vec<ProblemPlan> = draft.timed.into_iter().chain(draft.checked).collect();
        CompiledVariant::new(
            configuration,
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
            (true, false) => order.call.line(&variant.json(&order.kernel.name, &order.target.arch))?,
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
