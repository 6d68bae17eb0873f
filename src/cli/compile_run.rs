//! Variants on their way through the compile farm, printed in the order of the space as they come out.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Gate, Verdict, VerdictKind};
use evo_space::genome::{Configuration, Genome};

use super::call::Call;
use super::compile_columns::ResourceColumns;
use super::compile_table::{CompileCounts, CompiledCode, CompiledVariant};
use super::compile_target::CompileTarget;
use crate::compile::{VariantFarm, VariantOutcome, full_cache};
use crate::engine::prepared;
use crate::engine::prepared::KernelDraft;
use crate::engine::recipe::KernelRecipe;
use crate::kernel::spec::{KernelSpec, SpaceFile};

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

/// A variant on its way: what is known before compiling.
struct Uncompiled {
    configuration: Configuration,
    draft: KernelDraft,
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
                let code = prepared::built_codes(&draft.sources, &binaries);
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
