//! A configuration on its way through the engine, and what is known of its twins.
//!
//! The steps from a configuration to a job exist once, here: [`Variant::prepare`], then a compiler
//! (synchronous or not), then [`Variant::job`]. A refusal on the way becomes the variant's evaluation,
//! so callers hold either a job or a finished evaluation.

use std::collections::HashMap;

use evo_protocol::evaluation::{Evaluation, Expectation, TakenOver};
use evo_protocol::verdict::{Gate, GateReport, GateState, Verdict, VerdictKind};
use evo_space::genome::{Configuration, ContentHash, Genome};

use super::ports::{BuildRecord, CompileAnswer, DeepOrder, Identity, JobOrder, Recipe, Refused};
use evo_supervise::job::Judgement;

#[derive(Debug)]
pub(crate) struct Variant<P> {
    pub number: u64,
    pub genome: Genome,
    pub configuration: Configuration,
    pub origin: String,
    pub expected: Option<Expectation>,
    pub aimed_at: Option<String>,
    pub prepared: Option<(P, Identity)>,
    /// What the compiler reports. Set by `job`.
    pub build: BuildRecord,
    pub code: Option<ContentHash>,
    /// Whether it was in flight at a crash; it then runs alone.
    pub struck: bool,
    /// What the first try ended with, if it was no verdict; the second try runs alone.
    pub trouble: Option<Box<Verdict>>,
}

#[derive(Debug)]
pub(crate) enum Twin<T> {
    Pending { owner: u64, waiting: Vec<u64> },
    Known { owner: u64, answer: T },
}

/// Which variants share work, by the hashes of [`Identity`]: those with one source the compiler's answer and the hash
/// that is compiled in, those with one machine code and plan the result.
pub(crate) struct Twins<B> {
    pub sources: HashMap<ContentHash, Twin<(CompileAnswer<B>, ContentHash)>>,
    pub codes: HashMap<ContentHash, Twin<()>>,
}

impl<T> Twin<T> {
    pub(crate) fn into_waiting(self) -> Vec<u64> {
        match self {
            Twin::Pending { waiting, .. } => waiting,
            Twin::Known { .. } => Vec::new(),
        }
    }

    /// Takes the variants that wait for `owner`, leaving the answer.
    pub(crate) fn resolve(entry: Option<&mut Twin<T>>, answer: T) -> Vec<u64> {
        let Some(twin) = entry else { return Vec::new() };
        let (owner, waiting) = match twin {
            Twin::Pending { owner, waiting } => (*owner, std::mem::take(waiting)),
            // A variant that arrives after the answer uses it at once and never waits.
            Twin::Known { owner, .. } => (*owner, Vec::new()),
        };
        *twin = Twin::Known { owner, answer };
        waiting
    }
}

/// The hash of machine code and launches together: equal for variants that share one result.
pub(crate) fn code_and_plan(code: &ContentHash, plan: &ContentHash) -> ContentHash {
    ContentHash::of_parts([code.as_str().as_bytes(), plan.as_str().as_bytes()])
}

impl<P> Variant<P> {
    pub(crate) fn new(
        number: u64,
        genome: Genome,
        configuration: Configuration,
        origin: &str,
        struck: bool,
    ) -> Variant<P> {
        let origin = origin.to_string();
        Variant {
            number,
            genome,
            configuration,
            origin,
            expected: None,
            aimed_at: None,
            prepared: None,
            build: BuildRecord::default(),
            code: None,
            struck,
            trouble: None,
        }
    }

    /// The same variant before its first stage; what its first try ended with is kept.
    pub(crate) fn restarted(self) -> Variant<P> {
        Variant { prepared: None, build: BuildRecord::default(), code: None, ..self }
    }

    pub(crate) fn runs_alone(&self) -> bool {
        self.struck || self.trouble.is_some()
    }

    pub(crate) fn prepare(&mut self, recipe: &impl Recipe<Prepared = P>) -> Result<&P, Box<Evaluation>> {
        let prepared = recipe.prepare(&self.configuration).map_err(|refused| self.refused(refused))?;
        let identity = recipe.identity(&prepared);
        Ok(&self.prepared.insert((prepared, identity)).0)
    }

    /// The error is its evaluation. `variant_hash` is compiled into the binary.
    pub(crate) fn job<R: Recipe<Prepared = P>>(
        &mut self,
        recipe: &R,
        answer: &CompileAnswer<R::Binary>,
        variant_hash: &ContentHash,
        deep: Option<DeepOrder>,
    ) -> Result<R::Job, Box<Evaluation>> {
        let binary = answer
            .as_ref()
            .map_err(|verdict| self.refused(Refused { gate: Gate::Compile, verdict: verdict.clone() }))?;
        let Some((prepared, _)) = &self.prepared else {
            let message = "a variant was compiled before it was prepared";
            let verdict = Verdict::new(VerdictKind::HarnessError, message);
            return Err(Box::new(self.evaluation(verdict, Vec::new())));
        };
        self.build = recipe.record(prepared, binary);
        let order = JobOrder {
            number: self.number,
            label: self.configuration.to_string(),
            variant_hash: variant_hash.clone(),
            deep,
        };
        recipe.job(prepared, binary, order).map_err(|refused| self.refused(refused))
    }

    pub(crate) fn instrumented(&self, recipe: &impl Recipe<Prepared = P>) -> Option<P> {
        self.prepared.as_ref().and_then(|(prepared, _)| recipe.instrumented(prepared))
    }

    pub(crate) fn source_key(&self) -> Option<ContentHash> {
        self.prepared.as_ref().map(|(_, identity)| identity.source.clone())
    }

    /// Absent where the code is unknown.
    pub(crate) fn code_key(&self) -> Option<ContentHash> {
        let (_, identity) = self.prepared.as_ref()?;
        Some(code_and_plan(self.build.code_hash.as_ref()?, &identity.plan))
    }

    pub(crate) fn evaluation(&self, verdict: Verdict, reports: Vec<GateReport>) -> Evaluation {
        let build = &self.build;
        let identity = self.prepared.as_ref().map(|(_, identity)| identity);
        Evaluation {
            expected: self.expected,
            aimed_at: self.aimed_at.clone(),
            gates: complete(reports),
            resources: build.resources.clone(),
            source_hash: identity.and_then(|identity| identity.text.clone()),
            binary_hash: build.binary_hash.clone(),
            code_hash: build.code_hash.clone(),
            facts: build.facts,
            key: identity.and_then(Identity::key),
            compile_ms: build.compile_ms,
            ..Evaluation::new(self.number, self.configuration.clone(), &self.origin, verdict)
        }
    }

    pub(crate) fn refused(&self, refused: Refused) -> Box<Evaluation> {
        let mut reports = before(refused.gate);
        let mut report = GateReport::not_run(refused.gate, refused.verdict.message.clone());
        report.state = GateState::Fail;
        report.cases = 1;
        report.evidence = refused.verdict.evidence.clone();
        reports.push(report);
        Box::new(self.evaluation(*refused.verdict, reports))
    }

    pub(crate) fn passed_over(&self) -> Evaluation {
        let message = "not run: the search expects too little of it, given what the compiler reports";
        self.evaluation(Verdict::new(VerdictKind::PassedOver, message), self.compiled_reports())
    }

    pub(crate) fn judged(&self, judgement: Judgement) -> Evaluation {
        let mut reports = self.compiled_reports();
        // A replay also reports the gates before the device, as not run; its reports replace ours.
        reports.retain(|report| !judgement.gates.iter().any(|told| told.gate == report.gate));
        reports.extend(judgement.gates);
        Evaluation {
            measurements: judgement.measurements,
            objective_ns: judgement.objective_ns,
            device_ms: judgement.device_ms,
            recovery: judgement.recovery,
            ..self.evaluation(judgement.verdict, reports)
        }
    }

    fn compiled_reports(&self) -> Vec<GateReport> {
        let mut reports = before(Gate::Launch);
        if let Some(report) = reports.iter_mut().find(|report| report.gate == Gate::Compile) {
            report.elapsed_ms = self.build.compile_ms;
        }
        reports
    }

    pub(crate) fn taken_over(&self, original: &Evaluation, source: TakenOver) -> Evaluation {
        let own = self.evaluation(original.verdict.clone(), Vec::new());
        Evaluation { taken_over_from: Some(source), ..with_result_of(own, original) }
    }

    pub(crate) fn twin_of(&self, original: &Evaluation) -> Evaluation {
        let own = self.evaluation(original.verdict.clone(), Vec::new());
        let mut evaluation = with_result_of(own, original);
        // Raw samples stay with the variant that was measured; each twin would store them again.
        evaluation.measurements.iter_mut().for_each(|one| one.raw_ns.clear());
        // A twin of a twin names the variant that ran, so that readers follow one link at most.
        evaluation.duplicate_of = Some(original.duplicate_of.unwrap_or(original.number));
        evaluation.compile_ms = 0.0;
        evaluation
    }
}

pub(crate) fn with_result_of(own: Evaluation, original: &Evaluation) -> Evaluation {
    Evaluation {
        verdict: original.verdict.clone(),
        gates: original.gates.clone(),
        measurements: original.measurements.clone(),
        objective_ns: original.objective_ns,
        ..own
    }
}

pub(crate) fn without_device(evaluation: Evaluation) -> Evaluation {
    Evaluation {
        generation: 0,
        expected: None,
        aimed_at: None,
        compile_ms: 0.0,
        device_ms: 0.0,
        recovery: None,
        lane: None,
        device_uuid: None,
        lane_ratio: None,
        ..evaluation
    }
}

fn before(gate: Gate) -> Vec<GateReport> {
    let said = |gate: &Gate, message: &str| GateReport {
        state: GateState::Pass,
        cases: 1,
        ..GateReport::not_run(*gate, message)
    };
    let all = [
        (Gate::StaticLimits, "within the limits that are known before compiling"),
        (Gate::Compile, "rendered and compiled"),
    ];
    all.iter().filter(|(own, _)| *own < gate).map(|(own, message)| said(own, message)).collect()
}

fn complete(mut reports: Vec<GateReport>) -> Vec<GateReport> {
    for gate in Gate::ALL {
        if !reports.iter().any(|report| report.gate == *gate) {
            let why = match gate {
                Gate::Sanitize => "nothing asked for it",
                _ => "not reached",
            };
            reports.push(GateReport::not_run(*gate, why));
        }
    }
    reports.sort_by_key(|report| report.gate);
    reports
}
