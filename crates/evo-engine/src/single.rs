//! One configuration through the whole chain, without a search: `evo test-one`, `evo test`, `evo benchmark`.

use evo_protocol::device::EntryAttributes;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_space::genome::{Configuration, Genome};
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;

use super::ports::{CompileAnswer, DeepOrder, Evaluate, PairAnswer, Recipe, Rivals};
use super::variant::Variant;
use evo_supervise::job::Judgement;

#[derive(Debug)]
pub struct Single {
    pub evaluation: Evaluation,
    pub attributes: Vec<EntryAttributes>,
    pub lost: bool,
    /// The compiler that built it; empty where nothing was compiled.
    pub toolchain: String,
}

impl Single {
    pub fn refused(evaluation: Evaluation) -> Single {
        Single { evaluation, attributes: Vec::new(), lost: false, toolchain: String::new() }
    }
}

pub fn constraint_verdict(space: &SearchSpace, configuration: &Configuration) -> Option<Evaluation> {
    let genome = space.genome(configuration)?;
    let violations = space.violations(&genome);
    let first = violations.first()?;
    let reason =
        |because: &Option<String>| because.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
    let texts: Vec<String> = violations
        .iter()
        .map(|constraint| format!("`{}`{}", constraint.expr.text(), reason(&constraint.because)))
        .collect();
    let names = first.parameters.iter().map(|at| space.parameters()[*at].name.to_string());
    let verdict = Verdict::new(VerdictKind::RejectedConstraint, format!("violates {}", texts.join("; ")))
        .with("constraint", first.expr.text())
        .with("parameters", names.collect::<Vec<_>>());
    // The seed breaks ties alone, so that the same mistake gets the same answer.
    let verdict = match space.repair(&genome, &mut seeded(0)) {
        Some(near) => verdict.with("nearest_valid", space.configuration(&near).to_string()),
        None => verdict,
    };
    let variant: Variant<()> = Variant::new(0, genome, configuration.clone(), "user", false);
    Some(variant.evaluation(verdict, Vec::new()))
}

/// A job with the variant that takes its judgement, or the evaluation of a configuration that was refused.
pub type SingleJob<R> = Result<(Begun<<R as Recipe>::Prepared>, <R as Recipe>::Job), Box<Evaluation>>;

#[derive(Debug)]
pub struct Begun<P>(Variant<P>);

impl<P> Begun<P> {
    pub fn judged(self, judgement: Judgement) -> Single {
        let (attributes, lost) = (judgement.attributes.clone(), judgement.lost);
        let toolchain = self.0.build.toolchain.clone();
        Single { evaluation: self.0.judged(judgement), attributes, lost, toolchain }
    }
}

/// Outside any study. The outer error is that of `compile` itself; a refusal that the variant is to blame for is the
/// inner one.
pub fn job<R: Recipe, E>(
    recipe: &R,
    genome: Genome,
    configuration: Configuration,
    deep: bool,
    mut compile: impl FnMut(&R::Prepared) -> Result<CompileAnswer<R::Binary>, E>,
) -> Result<SingleJob<R>, E> {
    let mut variant = Variant::new(0, genome, configuration, "user", false);
    let prepared = match variant.prepare(recipe) {
        Ok(prepared) => prepared,
        Err(evaluation) => return Ok(Err(evaluation)),
    };
    let answer = compile(prepared)?;
    let variant_hash = variant.configuration.hash();
    let mut job = match variant.job(recipe, &answer, &variant_hash, deep.then_some(DeepOrder::ALONE)) {
        Ok(job) => job,
        Err(evaluation) => return Ok(Err(evaluation)),
    };
    if let Some(instrumented) = variant.instrumented(recipe).filter(|_| deep) {
        recipe.add_instrumented(&mut job, &compile(&instrumented)?);
    }
    Ok(Ok((Begun(variant), job)))
}

#[derive(Debug)]
pub struct AgainstBaseline {
    pub problems: Vec<PairAnswer>,
    /// The largest relative difference between the baseline and itself; absent where it could not be measured.
    pub noise_floor: Option<f64>,
}

/// Compares a candidate with a baseline on the first so many timed problems: A B B A in fresh processes, as a
/// confirmation does. Both have passed their gates.
pub fn compare<J: Clone>(
    device: &mut dyn Evaluate<J>,
    baseline: &J,
    candidate: &J,
    problems: usize,
) -> AgainstBaseline {
    device.expect_pairs();
    let noise_floor = device.noise_floor(baseline, problems).ok();
    let rivals = Rivals {
        baseline: baseline.clone(),
        finalist: candidate.clone(),
        problems: (0..problems).collect(),
        // A comparison without a floor still has its interval.
        noise_floor: noise_floor.unwrap_or(0.0),
        within: None,
    };
    AgainstBaseline { problems: device.pair(&rivals), noise_floor }
}
