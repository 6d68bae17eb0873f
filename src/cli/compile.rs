//! `evo compile`: variants through the compiler without a device, with what each would use.
//!
//! This is how one sees from a laptop that a variant overflows an L4's shared memory or spills.
//! Results are printed in the order of the space while others are still compiling; a bad variant is a
//! line like any other.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use evo_protocol::envelope::LimitName;
use evo_protocol::verdict::VerdictKind;
use evo_space::genome::Genome;
use evo_space::sample;
use serde_json::json;

use super::answer::Answer;
use super::args::CompileArgs;
use super::call::Call;
use super::compile_columns::ResourceColumns;
use super::compile_run::{CompileRun, CompiledAll, EarlyEnd};
use super::compile_table::CompiledVariant;
use super::compile_target::CompileTarget;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::{candidate, described, output, session};
use crate::compile::{FULL_CACHE_HINT, FarmOptions, VariantFarm};
use crate::engine::recipe::{KernelRecipe, problems_on};
use crate::kernel::spec::SpaceFile;
use crate::kernel::specialize;
use crate::report::width::stdout_width;

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
        described::candidate(call, &resolved);
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
