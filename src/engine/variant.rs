//! A configuration on its way through the engine, and what is known of its twins.

use std::collections::HashMap;

use evo_protocol::binary::{Binary, CompileOutcome};
use evo_protocol::evaluation::{Evaluation, Expectation};
use evo_protocol::facts::Facts;
use evo_protocol::verdict::{Gate, GateReport, GateState, Verdict, VerdictKind};
use evo_space::genome::{Configuration, ContentHash, Genome};

use super::ports::{Prepared, Refused};
use crate::supervise::lane::LaneResult;

/// A configuration between proposal and verdict.
#[derive(Debug)]
pub(crate) struct Variant {
    pub number: u64,
    pub genome: Genome,
    pub configuration: Configuration,
    pub origin: String,
    pub expected: Option<Expectation>,
    pub prepared: Option<Prepared>,
    pub binary: Option<Binary>,
    /// What is known of the binary.
    pub facts: Option<Facts>,
    pub compile_ms: f64,
    /// Its machine code and plan, if it is the first with them.
    pub code: Option<ContentHash>,
    /// It was in flight at a crash: it runs alone.
    pub struck: bool,
}

/// Who answers for a source or for machine code.
#[derive(Debug)]
pub(crate) enum Twin<T> {
    /// The first is under way; the others wait for it.
    Pending {
        owner: u64,
        waiting: Vec<u64>,
    },
    Known {
        owner: u64,
        answer: T,
    },
}

/// Sources by `KernelSource::code_hash`: the outcome and the hash compiled into the binary.
pub(crate) type Sources = HashMap<ContentHash, Twin<(CompileOutcome, ContentHash)>>;

/// Machine code together with its launch plans.
pub(crate) type Codes = HashMap<ContentHash, Twin<()>>;

impl<T> Twin<T> {
    /// Takes those who wait for `owner`, leaving the answer.
    pub(crate) fn resolve(entry: Option<&mut Twin<T>>, answer: T) -> Vec<u64> {
        let Some(twin) = entry else { return Vec::new() };
        let (owner, waiting) = match twin {
            Twin::Pending { owner, waiting } => (*owner, std::mem::take(waiting)),
            Twin::Known { owner, .. } => (*owner, Vec::new()),
        };
        *twin = Twin::Known { owner, answer };
        waiting
    }
}

impl Variant {
    /// A variant at its beginning.
    pub(crate) fn new(
        number: u64,
        genome: Genome,
        configuration: Configuration,
        origin: &str,
        struck: bool,
    ) -> Variant {
        let origin = origin.to_string();
        Variant {
            number,
            genome,
            configuration,
            origin,
            expected: None,
            prepared: None,
            binary: None,
            facts: None,
            compile_ms: 0.0,
            code: None,
            struck,
        }
    }

    /// An evaluation with nothing but a verdict and the reports of the gates before it.
    pub(crate) fn evaluation(&self, verdict: Verdict, reports: Vec<GateReport>) -> Evaluation {
        Evaluation {
            number: self.number,
            generation: 0,
            configuration: self.configuration.clone(),
            configuration_hash: self.configuration.hash(),
            origin: self.origin.clone(),
            expected: self.expected,
            verdict,
            gates: complete(reports),
            measurements: Vec::new(),
            objective_ns: None,
            resources: self.binary.as_ref().map(|binary| binary.resources.clone()).unwrap_or_default(),
            source_hash: self.prepared.as_ref().map(|own| ContentHash::of(own.source.text.as_bytes())),
            binary_hash: self.binary.as_ref().map(|binary| binary.hash.clone()),
            code_hash: self.binary.as_ref().map(|binary| binary.code_hash.clone()),
            facts: self.facts,
            duplicate_of: None,
            compile_ms: self.compile_ms,
            device_ms: 0.0,
            recovery: None,
        }
    }

    /// Refused at a gate before the device.
    pub(crate) fn refused(&self, refused: Refused) -> Evaluation {
        let mut reports = before(refused.gate);
        let mut report = GateReport::not_run(refused.gate, refused.verdict.message.clone());
        report.state = GateState::Fail;
        report.cases = 1;
        report.evidence = refused.verdict.evidence.clone();
        reports.push(report);
        self.evaluation(*refused.verdict, reports)
    }

    /// Compiled and not run, because the strategy expects too little of it.
    pub(crate) fn passed_over(&self) -> Evaluation {
        let message = "not run: the search expects too little of it, given what the compiler reports";
        let mut reports = before(Gate::Launch);
        if let Some(report) = reports.iter_mut().find(|report| report.gate == Gate::Compile) {
            report.elapsed_ms = self.compile_ms;
        }
        self.evaluation(Verdict::new(VerdictKind::PassedOver, message), reports)
    }

    /// Judged by the lane.
    pub(crate) fn judged(&self, result: LaneResult) -> Evaluation {
        let mut reports = before(Gate::Launch);
        if let Some(report) = reports.iter_mut().find(|report| report.gate == Gate::Compile) {
            report.elapsed_ms = self.compile_ms;
        }
        // A replay says of these gates too that they did not run; then there is no binary either.
        reports.retain(|report| !result.gates.iter().any(|told| told.gate == report.gate));
        reports.extend(result.gates);
        let mut evaluation = self.evaluation(result.verdict, reports);
        if evaluation.gate(Gate::Compile).is_some_and(|report| report.state == GateState::NotRun) {
            evaluation.source_hash = None;
            evaluation.binary_hash = None;
            evaluation.code_hash = None;
        }
        evaluation.measurements = result.measurements;
        evaluation.objective_ns = result.objective_ns;
        evaluation.device_ms = result.device_ms;
        evaluation.recovery = result.recovery;
        evaluation
    }

    /// Another variant's result, because the code is the same.
    pub(crate) fn twin_of(&self, original: &Evaluation) -> Evaluation {
        let mut evaluation = self.evaluation(original.verdict.clone(), original.gates.clone());
        evaluation.measurements = original.measurements.clone();
        evaluation.measurements.iter_mut().for_each(|one| one.raw_ns.clear());
        evaluation.objective_ns = original.objective_ns;
        evaluation.duplicate_of = Some(original.duplicate_of.unwrap_or(original.number));
        evaluation.compile_ms = 0.0;
        evaluation
    }
}

/// Passing reports of the gates before `gate` that need no device.
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

/// One report a gate, in order; those not reached say so.
fn complete(mut reports: Vec<GateReport>) -> Vec<GateReport> {
    for gate in Gate::ALL {
        if !reports.iter().any(|report| report.gate == *gate) {
            reports.push(GateReport::not_run(*gate, "not reached"));
        }
    }
    reports.sort_by_key(|report| report.gate);
    reports
}
