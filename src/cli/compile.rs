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
use evo_protocol::binary::{CompileOutcome, EntryResources, KernelSource};
use evo_protocol::device::{DeviceKind, DeviceLimits};
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_space::genome::{Configuration, Genome};
use evo_space::rng;

use super::args::CompileArgs;
use super::compile_table::{self as table, Summary, Variant};
use super::exit_code::{ExitCode, UsageError};
use super::words;
use crate::compile::{CompileFarm, CompileSetupError, FarmOptions, full_cache};
use crate::engine::recipe::problems_on;
use crate::kernel::limits::{launch, resources};
use crate::kernel::spec::{KernelSpec, SpaceFile};
use crate::kernel::{render, resolve};

/// Variants handed to the farm ahead of the one that is printed next, per worker.
const AHEAD: usize = 8;

impl From<CompileSetupError> for UsageError {
    fn from(error: CompileSetupError) -> UsageError {
        UsageError::with_hint(&error, error.hint())
    }
}

/// Runs the command.
pub fn run(arguments: &CompileArgs) -> anyhow::Result<ExitCode> {
    let many = arguments.all || arguments.sample.is_some();
    if many && (arguments.words.len() > 1 || arguments.words.iter().any(|word| word.contains('='))) {
        return Err(UsageError("--all and --sample take a space and no values".to_string()).into());
    }
    let (file, _, genome) = words::parse(&arguments.words)?;
    let kernel = file.kernel.as_ref().ok_or_else(|| {
        let path = file.path.display();
        UsageError(format!("`{path}` describes a space without a kernel: there is nothing to compile"))
    })?;
    let target = Target::parse(&arguments.arch)?;
    let job = Job { file: &file, kernel, target: &target, json: arguments.json };
    let start = Instant::now();
    let mut options = FarmOptions::new(target.kind, &target.arch);
    if let Some(jobs) = arguments.jobs {
        options.jobs = jobs;
    } else if !many {
        options.jobs = 1;
    }
    let (sender, done) = mpsc::channel();
    let on_done = Box::new(move |ticket, outcome| drop(sender.send((ticket, outcome))));
    let farm = CompileFarm::start(options, on_done).map_err(UsageError::from)?;
    let genomes: Box<dyn Iterator<Item = Genome> + '_> = match arguments.sample {
        _ if arguments.all => file.space.iter(),
        Some(count) => {
            Box::new(file.space.sample_distinct(count, &mut rng::seeded(arguments.seed)).into_iter())
        }
        None => Box::new(std::iter::once(genome)),
    };
    let summary = match job.compile_all(genomes, &farm, &done) {
        Ok(summary) => summary,
        // A reader that has seen enough (`| head`) is no error.
        Err(error) => match error.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(io::ErrorKind::BrokenPipe) => return Ok(ExitCode::Done),
            Some(_) => return Err(UsageError(format!("cannot write to stdout: {error}")).into()),
            None => return Err(error),
        },
    };
    eprint!("{}", summary.text(&target.arch, farm.toolchain(), farm.jobs(), start.elapsed()));
    let failed = !many && summary.failures() > 0;
    Ok(if failed { ExitCode::Failed } else { ExitCode::Done })
}

/// What is compiled for.
struct Target {
    kind: DeviceKind,
    arch: String,
    limits: DeviceLimits,
}

impl Target {
    fn parse(arch: &str) -> Result<Target, UsageError> {
        if arch == DeviceKind::Host.as_str() {
            return Ok(Target { kind: DeviceKind::Host, arch: arch.to_string(), limits: host::limits() });
        }
        let limits = DeviceLimits::of_arch(arch).ok_or_else(|| {
            UsageError(format!(
                "unknown target `{arch}`\nhint: sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120, … or host"
            ))
        })?;
        Ok(Target { kind: DeviceKind::Cuda, arch: arch.to_string(), limits })
    }
}

/// One run of the command.
struct Job<'a> {
    file: &'a SpaceFile,
    kernel: &'a KernelSpec,
    target: &'a Target,
    json: bool,
}

/// A variant on its way: what is known before compiling.
struct Prepared {
    configuration: Configuration,
    plans: Vec<ProblemPlan>,
    /// Why it could not be launched, whatever the compiler says.
    refusal: Option<Box<Verdict>>,
    /// Absent where there is nothing to compile.
    source: Option<KernelSource>,
}

impl Job<'_> {
    /// Keeps the farm fed, prints in order.
    fn compile_all(
        &self,
        genomes: impl Iterator<Item = Genome>,
        farm: &CompileFarm,
        done: &mpsc::Receiver<(u64, CompileOutcome)>,
    ) -> anyhow::Result<Summary> {
        let mut genomes = genomes.enumerate();
        // By position, so that the first is the next to print.
        let mut open: BTreeMap<u64, (Prepared, Option<CompileOutcome>)> = BTreeMap::new();
        let mut printer = Printer::new(self);
        loop {
            for (number, genome) in genomes.by_ref().take(AHEAD * farm.jobs() - open.len()) {
                let mut prepared = self.prepare(&genome);
                let known = match prepared.source.take() {
                    Some(source) => {
                        farm.submit(number as u64, source);
                        None
                    }
                    None => Some(Err(prepared.refusal.take().unwrap_or_else(|| Box::new(nothing())))),
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
                    return Err(UsageError(message).into());
                }
                if let Some(entry) = open.get_mut(&ticket) {
                    entry.1 = Some(outcome);
                }
            }
        }
    }

    fn prepare(&self, genome: &Genome) -> Prepared {
        let configuration = self.file.space.configuration(genome);
        let mut prepared = Prepared { configuration, plans: Vec::new(), refusal: None, source: None };
        if let Some(constraint) = self.file.space.violations(genome).first() {
            let because = constraint.because.as_ref().map_or(String::new(), |why| format!(" ({why})"));
            let message = format!("it violates `{}`{because}", constraint.expr.text());
            prepared.refusal = Some(Box::new(Verdict::new(VerdictKind::RejectedConstraint, message)));
            return prepared;
        }
        for problem in problems_on(self.kernel, self.target.kind) {
            match resolve::resolve(self.kernel, &prepared.configuration, problem) {
                Ok(plan) => {
                    let refusal = launch::check(&plan, &self.target.limits).err();
                    prepared.refusal = prepared.refusal.or(refusal);
                    prepared.plans.push(plan);
                }
                Err(verdict) => prepared.refusal = prepared.refusal.or(Some(verdict)),
            }
        }
        match render::render(self.kernel, &prepared.configuration) {
            Ok(source) => prepared.source = Some(source),
            Err(verdict) => prepared.refusal = Some(verdict),
        }
        prepared
    }

    /// The verdict: what the compiler says, then what was known before, then what both make together.
    fn judge(&self, prepared: Prepared, outcome: CompileOutcome) -> Variant {
        let Prepared { configuration, plans, refusal, .. } = prepared;
        let (binary, verdict) = match outcome {
            Err(verdict) => (None, Some(verdict)),
            Ok(binary) => {
                let together = || {
                    plans
                        .iter()
                        .find_map(|plan| resources::check(&binary.resources, plan, &self.target.limits).err())
                };
                let verdict = refusal.or_else(together).or_else(|| self.spills(&binary.resources));
                (Some(binary), verdict)
            }
        };
        Variant::new(configuration, &plans, binary, verdict.map(|verdict| *verdict))
    }

    fn spills(&self, resources: &[EntryResources]) -> Option<Box<Verdict>> {
        resources::check_spills(resources, self.kernel.check.spill_bytes_max).err()
    }
}

fn nothing() -> Verdict {
    Verdict::new(VerdictKind::HarnessError, "there is nothing to compile")
}

/// Prints each variant as it comes, and counts.
struct Printer<'a> {
    columns: table::Columns,
    job: &'a Job<'a>,
    out: io::BufWriter<io::Stdout>,
    summary: Summary,
    flushed: Instant,
}

impl<'a> Printer<'a> {
    fn new(job: &'a Job<'a>) -> Printer<'a> {
        Printer {
            columns: table::Columns::of(&job.file.space, job.kernel),
            job,
            out: io::BufWriter::new(io::stdout()),
            summary: Summary::default(),
            flushed: Instant::now(),
        }
    }

    fn print(&mut self, variant: &Variant) -> io::Result<()> {
        if self.job.json {
            writeln!(self.out, "{}", variant.json(&self.job.kernel.name, &self.job.target.arch))?;
        } else {
            if self.summary.count() == 0 {
                self.out.write_all(self.columns.header().as_bytes())?;
            }
            self.out.write_all(self.columns.rows(variant).as_bytes())?;
        }
        self.summary.add(variant);
        // Often enough for a person, seldom enough for a fast farm.
        if self.flushed.elapsed() > Duration::from_millis(100) {
            self.flushed = Instant::now();
            self.out.flush()?;
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<Summary> {
        self.out.flush()?;
        Ok(self.summary)
    }
}
