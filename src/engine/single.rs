//! One configuration through the whole chain, without a search: `evo test-one`.

use evo_protocol::binary::{CompileOutcome, KernelSource};
use evo_protocol::device::EntryAttributes;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::{Gate, Verdict, VerdictKind};
use evo_space::genome::{Configuration, Genome};
use evo_space::space::SearchSpace;

use super::ports::{Build, Recipe, Refused};
use super::variant::Variant;
use crate::supervise::job::Job;
use crate::supervise::lane::LaneResult;

/// Where a configuration's source is compiled and its binary judged. Errors are our own trouble.
pub trait Bench {
    /// What can go wrong.
    type Error;
    /// Compiles.
    fn compile(&mut self, source: KernelSource) -> Result<CompileOutcome, Self::Error>;
    /// Judges and times.
    fn judge(&mut self, job: &Job) -> Result<LaneResult, Self::Error>;
}

/// What became of one configuration.
#[derive(Debug)]
pub struct Single {
    pub evaluation: Evaluation,
    /// Attributes of each launch, read back from the device.
    pub attributes: Vec<EntryAttributes>,
    /// The device is gone.
    pub lost: bool,
}

/// The verdict on a configuration that violates constraints; `None` if it violates none.
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
    let variant = Variant::new(0, genome, configuration.clone(), "user", false);
    Some(variant.evaluation(verdict, Vec::new()))
}

/// Renders, compiles, judges at full depth.
pub fn evaluate<B: Bench>(
    recipe: &dyn Recipe,
    genome: Genome,
    configuration: Configuration,
    bench: &mut B,
) -> Result<Single, B::Error> {
    let mut variant = Variant::new(0, genome, configuration, "user", false);
    let done = |evaluation| Single { evaluation, attributes: Vec::new(), lost: false };
    let prepared = match recipe.prepare(&variant.configuration) {
        Ok(prepared) => prepared,
        Err(refused) => return Ok(done(variant.refused(refused))),
    };
    let source = prepared.source.clone();
    variant.prepared = Some(prepared.clone());
    let binary = match bench.compile(source)? {
        Ok(binary) => binary,
        Err(verdict) => return Ok(done(variant.refused(Refused { gate: Gate::Compile, verdict }))),
    };
    variant.compile_ms = binary.compile_ms;
    variant.binary = Some(binary.clone());
    let build = Build {
        number: 0,
        label: variant.configuration.to_string(),
        binary: &binary,
        variant_hash: prepared.source.variant_hash.clone(),
        deep: true,
    };
    let job = match recipe.job(&prepared, build) {
        Ok(job) => job,
        Err(refused) => return Ok(done(variant.refused(refused))),
    };
    let result = bench.judge(&job)?;
    let (attributes, lost) = (result.attributes.clone(), result.lost);
    Ok(Single { evaluation: variant.judged(result), attributes, lost })
}
