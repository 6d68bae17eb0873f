//! The answer to a request. Merit (`verdict`, `performance`, `scores`), what ran (`gates`) and where it ran
//! (`provenance`) are kept apart: a program that looks at one of them must not be misled by another. What is not known is
//! null, with its reason in `reasons`, and a failure has no number.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use evo_protocol::device::DeviceKind;
use evo_protocol::envelope::{EnvelopeError, ErrorCode, ErrorPlace};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::known::{because, told};
use evo_protocol::leaderboard::PairedProblem;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::request::{CandidateKind, EvaluationLevel, EvaluationRequest, Visibility};
use evo_protocol::verdict::{Gate, GateReport, GateState, VerdictClass, VerdictKind};
use evo_space::genome::ContentHash;
use serde_json::{Map, Value, json};

use crate::cli::judge::{AskedCandidate, Judged};
use crate::cli::rival::ChosenRival;
use crate::compile::instructions::{InstructionUse, instruction_use};
use crate::report::judged::{self, EvaluatedProblem, geometric_mean};
use crate::request::read::RequestError;
use crate::request::visible::{self, CompilerHint};

const HIDDEN: &str = "the candidate's author does not learn it";

static REASONS: LazyLock<BTreeMap<String, String>> =
    LazyLock::new(|| toml::from_str(include_str!("reasons.toml")).expect("a table of reasons"));

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerHead {
    pub id: Value,
    /// The request's line in a stream, from 1.
    pub line: Option<u64>,
    pub tag: Option<Value>,
}

/// A baseline's time, and what tells its code from others.
#[derive(Clone)]
pub struct MeasuredBaseline {
    /// As messages name it.
    pub name: String,
    pub objective_ns: f64,
    pub code: Option<ContentHash>,
    pub plans: Vec<ProblemPlan>,
}

/// A candidate that was judged, as far as it was asked.
pub struct JudgedRequest<'a> {
    pub request: &'a EvaluationRequest,
    pub asked: &'a AskedCandidate,
    pub level: EvaluationLevel,
    pub visibility: Visibility,
    pub judged: &'a Judged,
    pub problems: Vec<EvaluatedProblem<'a>>,
    pub rival: Option<&'a ChosenRival>,
    /// What was measured by itself and not side by side, or why there is none.
    pub baseline: Result<MeasuredBaseline, String>,
    /// What was decided about a rival; null below the level `confirm`.
    pub acceptance: Value,
    /// What a profiler said, or why nothing is known of it.
    pub profile: Result<Value, String>,
    pub wall_ms: f64,
}

impl JudgedRequest<'_> {
    fn is_template(&self) -> bool {
        self.request.candidate.as_ref().is_some_and(|candidate| candidate.kind == CandidateKind::Template)
    }

    fn is_owner(&self) -> bool {
        self.visibility == Visibility::Owner
    }

    fn is_screening(&self) -> bool {
        self.level == EvaluationLevel::Quick
    }

    fn is_paired(&self) -> bool {
        self.judged.pairs.iter().any(Result::is_ok)
    }

    fn is_same_code(&self) -> bool {
        let has_code = |other: &MeasuredBaseline| self.judged.has_code_of(other.code.as_ref(), &other.plans);
        self.judged.findings.is_same_code || self.baseline.as_ref().is_ok_and(has_code)
    }

    fn against(&self) -> Option<&str> {
        let rival = self.rival.filter(|_| self.is_paired() || self.is_same_code());
        rival.map(|rival| rival.name.as_str())
    }

    fn why_not_compared(&self) -> String {
        match &self.baseline {
            Err(why) if !why.is_empty() => why.clone(),
            _ => self.judged.why_not_compared(),
        }
    }

    /// Which units the machine code of its first build uses, where that can be read.
    fn instructions(&self) -> Option<InstructionUse> {
        let binary = &self.judged.job.as_ref()?.candidate.builds.first()?.binary;
        let bytes = std::fs::read(binary.path.as_ref()?).ok()?;
        instruction_use(&self.judged.device.as_ref()?.arch, &bytes)
    }
}

impl AnswerHead {
    pub fn put_on(&self, answer: &mut Value) {
        answer["id"] = self.id.clone();
        for (name, value) in [("line", self.line.map(Value::from)), ("tag", self.tag.clone())] {
            value.into_iter().for_each(|value| answer[name] = value);
        }
    }
}

pub fn judged(head: &AnswerHead, request: &JudgedRequest<'_>) -> Value {
    let evaluation = request.judged.evaluation();
    let missing = &request.judged.findings.missing;
    let level = request.level;
    let verdict = &evaluation.verdict;
    let class = verdict.kind.class();
    let log = verdict.evidence.get("log").and_then(Value::as_str).unwrap_or(&verdict.message);
    let is_compile = class == VerdictClass::Compile;
    let errors = if is_compile { visible::errors(log, request.is_template()) } else { Vec::new() };
    let visible = visible::verdict(evaluation, &errors, request.visibility);
    let passed = verdict.is_pass() && missing.is_empty();
    let is_owner = request.is_owner();
    let is_timed = passed && level.is_timed() && evaluation.objective_ns.is_some();
    let speedup = speedup(evaluation, request);
    let not_compared = request.why_not_compared();
    let scores = json!({
        "combined_score": speedup.map(|speedup| speedup.0),
        "speedup": speedup.map(|speedup| speedup.0),
        "sol_score": roofline_share(request),
        "fast_p": speedup.map(|speedup| u8::from(speedup.0 > 1.0)),
    });
    let answer = json!({
        "schema": "evo.evaluate.answer",
        "version": 1,
        "status": if class == VerdictClass::Harness { "harness_error" } else { "done" },
        "error": null,
        "verdict": verdict.kind,
        "class": class,
        "cause": visible.cause,
        "message": visible.message,
        "level": level,
        "level_reached": reached(evaluation, level, request.against().is_some()),
        "evidence": visible.evidence,
        "gates": gates(evaluation, request),
        "not_run": missing,
        "correctness": correctness(request, visible.cause.as_deref()),
        "performance": is_timed.then(|| performance(evaluation, request, speedup)),
        "scores": is_timed.then_some(scores),
        "accepted": request.acceptance["accepted"] == true,
        "acceptance": request.acceptance,
        "features": features(request),
        "feedback": feedback(request, &errors, &visible.message),
        "best": null,
        "provenance": provenance(request),
        "cost": {
            "compile_ms": evaluation.compile_ms, "device_ms": evaluation.device_ms, "wall_ms": request.wall_ms,
        },
        "hashes": {
            "source": evaluation.source_hash.as_ref().map(ToString::to_string),
            "code": evaluation.code_hash.as_ref().map(ToString::to_string),
        },
        "repro": is_owner.then_some(&request.asked.setting.repro),
    });
    let unseen = |why: &'static str| if is_owner { why } else { HIDDEN };
    let not_told = |path: &str| match path {
        "correctness.worst_case" if class != VerdictClass::Wrong => "none failed",
        "performance" | "scores" if passed => "this level takes no time",
        "performance" | "scores" => "the candidate did not pass, and a failure has no number",
        "feedback.ptxas" => unseen("the compiler said nothing"),
        "feedback.profile" => request.profile.as_ref().map_or_else(String::as_str, |_| ""),
        path => match REASONS.get(path) {
            Some(reason) => reason.as_str(),
            None if path.starts_with("performance.") || path.starts_with("scores.") => &not_compared,
            None if path.starts_with("correctness.") => unseen("the worker does not say"),
            None if path.starts_with("feedback.hints.") => "no line of the source is known for it",
            None => "the compiler does not say",
        },
    };
    let mut answer = explained(answer, not_told);
    head.put_on(&mut answer);
    answer
}

/// The answer on a request that names no candidate that could be judged, or whose judging failed.
pub fn without_verdict(
    head: &AnswerHead,
    status: &str,
    verdict: Option<VerdictKind>,
    error: &EnvelopeError,
) -> Value {
    let mut answer = json!({
        "schema": "evo.evaluate.answer",
        "version": 1,
        "status": status,
        "error": error,
        "verdict": verdict,
        "class": verdict.map(VerdictKind::class),
        "message": error.message,
        "evidence": {},
        "gates": {},
        "not_run": [],
        "accepted": false,
    });
    let absent = "level_reached cause correctness performance scores features feedback best provenance cost hashes \
                  repro acceptance";
    absent.split_whitespace().for_each(|name| answer[name] = Value::Null);
    let mut answer = explained(answer, |_| "nothing was judged: see `error`");
    head.put_on(&mut answer);
    answer
}

fn explained<'r>(answer: Value, reason: impl Fn(&str) -> &'r str) -> Value {
    // These are as they came, and what is in them has no reason of ours.
    let is_ours = |path: &str| {
        let others = ["error.", "evidence.", "feedback.profile."];
        path != "error" && !others.iter().any(|lead| path.starts_with(lead))
    };
    let why = |path: &str| is_ours(path).then(|| reason(path).to_string());
    let (mut answer, reasons) = told(&because(answer, &why));
    answer["reasons"] = json!(reasons);
    answer
}

pub fn refused(error: &RequestError, head: AnswerHead) -> Value {
    let place = error.place.map(|(line, column)| ErrorPlace {
        file: "request".into(),
        line: Some(line),
        column: Some(column),
    });
    let (message, hint) = (error.message.clone(), error.hint.clone());
    without_verdict(&head, "rejected", None, &EnvelopeError { code: ErrorCode::Usage, message, hint, place })
}

/// How far it came: the level of the gate that failed, or the one that was asked for.
fn reached(evaluation: &Evaluation, asked: EvaluationLevel, is_compared: bool) -> EvaluationLevel {
    let level = |gate: Gate| match gate {
        Gate::StaticLimits | Gate::Compile => EvaluationLevel::Compile,
        Gate::Launch | Gate::TinyShapes => EvaluationLevel::Tiny,
        _ if asked == EvaluationLevel::Quick => EvaluationLevel::Quick,
        _ => EvaluationLevel::Full,
    };
    let with = |state: GateState| evaluation.gates.iter().filter(move |report| report.state == state);
    if let Some(failed) = with(GateState::Fail).next() {
        return level(failed.gate).min(asked);
    }
    let last = with(GateState::Pass).map(|report| level(report.gate)).max();
    match asked {
        EvaluationLevel::Confirm if evaluation.verdict.is_pass() && is_compared => EvaluationLevel::Confirm,
        _ => last.unwrap_or(EvaluationLevel::Compile).min(asked),
    }
}

fn gates(evaluation: &Evaluation, request: &JudgedRequest<'_>) -> Value {
    let state = |gate: &Gate| match evaluation.gate(*gate) {
        _ if *gate == Gate::Confirmation && request.is_paired() => GateState::Pass,
        Some(report) => report.state,
        None => GateState::NotRun,
    };
    Gate::ALL.iter().map(|gate| (gate.as_str().to_string(), json!(state(gate)))).collect::<Map<_, _>>().into()
}

fn correctness(request: &JudgedRequest<'_>, cause: Option<&str>) -> Value {
    let verdict = &request.judged.evaluation().verdict;
    let (parity, _) = told(&judged::parity(request.judged.evaluation()));
    let rows = parity.as_array();
    let is_wrong = verdict.kind.class() == VerdictClass::Wrong;
    if rows.is_none() && !is_wrong {
        return Value::Null;
    }
    let is_owner = request.is_owner();
    let largest = |name: &str| {
        let numbers = rows?.iter().filter_map(|row| row[name].as_f64());
        numbers.reduce(f64::max).filter(|_| is_owner)
    };
    let evidence = |name: &str| verdict.evidence.get(name).filter(|_| is_owner && is_wrong);
    let number = |name: &str| evidence(name).and_then(Value::as_f64);
    let case = evidence("case").and_then(Value::as_str);
    // A hidden failure says its axis.
    let axis = cause.filter(|_| is_wrong && !is_owner);
    let mut answer = json!({
        "max_abs": number("abs_error_max").or_else(|| largest("max_abs_error")),
        "max_rel": largest("max_rel_error").filter(|_| !is_wrong),
        "norm": number("relative_norm"),
        "worst_case": case.or(axis),
    });
    // What the rule of the task's own benchmark says, over all problems that were compared. How much matches is a value
    // of the outputs, which an agent is not told.
    let by_the_task = rows.into_iter().flatten().filter_map(|row| {
        let rule = &row[GateReport::PARITY_TASK];
        rule["matched_ratio"].as_f64().zip(rule["within"].as_bool())
    });
    match by_the_task.reduce(|(ratio, within), (other, also)| (ratio.min(other), within && also)) {
        Some((matched_ratio, within)) if is_owner => {
            answer["task"] = json!({ "matched_ratio": matched_ratio, "within": within });
        }
        Some((_, within)) => answer["task"] = json!({ "within": within }),
        None => {}
    }
    answer
}

fn features(request: &JudgedRequest<'_>) -> Value {
    let evaluation = request.judged.evaluation();
    let (facts, used) = (evaluation.facts.unwrap_or_default(), request.instructions());
    json!({
        "registers": facts.registers,
        "shared_bytes": facts.shared_bytes,
        "occupancy": facts.occupancy,
        "spills": facts.spill_bytes,
        "arithmetic": used.map(|used| used.arithmetic.as_str()),
        "loads": used.map(|used| used.loads.as_str()),
        "stages": evaluation.configuration.get("STAGES").and_then(|stages| stages.as_int()),
    })
}

fn provenance(request: &JudgedRequest<'_>) -> Value {
    let is_owner = request.is_owner();
    let device = request.judged.device.as_ref();
    json!({
        "device": device.map(|device| &device.name),
        "driver": device.map(|device| &device.driver).filter(|driver| !driver.is_empty()),
        "evo": env!("CARGO_PKG_VERSION"),
        "trust": device.map(|device| if device.kind == DeviceKind::Host { "host" } else { "device" }),
        "seed": is_owner.then_some(request.asked.seed),
        "visibility": if is_owner { "owner" } else { "agent" },
    })
}

fn feedback(request: &JudgedRequest<'_>, errors: &[CompilerHint], message: &str) -> Value {
    let (evaluation, missing) = (request.judged.evaluation(), &request.judged.findings.missing);
    let compiler =
        errors.iter().map(|hint| json!({ "code": "compile", "text": hint.text, "line": hint.line }));
    let spills = evaluation.facts.and_then(|facts| facts.spill_bytes).filter(|bytes| *bytes > 0.0);
    let spills =
        spills.map(|bytes| json!({ "code": "spill", "text": format!("{bytes} B spilled"), "line": null }));
    let text = match (missing.is_empty(), message.is_empty()) {
        (false, _) => format!("not run, which does not count as a pass: {}", missing.join(", ")),
        (true, true) => "it passes every gate that was asked for".to_string(),
        (true, false) => message.to_string(),
    };
    let log = evaluation.verdict.evidence.get("log").and_then(Value::as_str);
    let log = log.filter(|_| request.is_owner());
    let most = request.request.feedback_bytes();
    let end = (0..=text.len().min(most)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let tail = |log: &str| {
        let start = (log.len().saturating_sub(most)..).find(|at| log.is_char_boundary(*at));
        log[start.unwrap_or(0)..].to_string()
    };
    json!({
        "text": text[..end],
        "hints": compiler.chain(spills).collect::<Vec<_>>(),
        "ptxas": log.map(tail),
        "profile": request.profile.as_ref().ok(),
    })
}

fn performance(
    evaluation: &Evaluation,
    request: &JudgedRequest<'_>,
    speedup: Option<MeasuredSpeedup>,
) -> Value {
    let bound = |end: fn(&EvaluatedProblem<'_>) -> Option<f64>| {
        geometric_mean(request.problems.iter().map(|problem| (problem.plan.weight, end(problem))))
    };
    let interval =
        bound(|problem| Some(problem.time?.ci_low_ns)).zip(bound(|problem| Some(problem.time?.ci_high_ns)));
    let against = request.against().or(request.baseline.as_ref().ok().map(|baseline| &baseline.name[..]));
    let speedup = speedup.map(|(value, bounds, method)| {
        let (low, high) = (bounds.map(|bounds| bounds.0), bounds.map(|bounds| bounds.1));
        json!({ "value": value, "low": low, "high": high, "against": against, "method": method })
    });
    let problems = request.problems.iter().filter_map(|problem| {
        let time = problem.time?;
        Some(json!({
            "problem": problem.plan.name, "p50_ns": time.p50_ns, "p90_ns": time.p90_ns, "mode": time.mode,
            "canonical": problem.canonical,
        }))
    });
    json!({
        "objective_ns": evaluation.objective_ns,
        "low": interval.map(|interval| interval.0),
        "high": interval.map(|interval| interval.1),
        "noise_floor": request.judged.findings.noise_floor,
        "speedup": speedup,
        "decision": decision(request),
        "roofline_share": roofline_share(request),
        "method": if request.is_screening() { "screening" } else { "measurement" },
        "problems": problems.collect::<Vec<_>>(),
    })
}

/// The value, its 95 % bounds where it is that of a paired comparison, and how it was measured.
type MeasuredSpeedup = (f64, Option<(f64, f64)>, &'static str);

fn speedup(evaluation: &Evaluation, request: &JudgedRequest<'_>) -> Option<MeasuredSpeedup> {
    let mean = |ratio: fn(&PairedProblem) -> f64| {
        let canonical = request.problems.iter().filter(|problem| problem.canonical);
        let speedup = |problem: &EvaluatedProblem<'_>| problem.pair.map(|pair| 1.0 / ratio(pair));
        geometric_mean(canonical.map(|problem| (problem.plan.weight, speedup(problem))))
    };
    // A ratio is the candidate's time over the baseline's, so its upper end is the speed-up's lower one.
    if let (Some(value), Some(low), Some(high)) =
        (mean(|pair| pair.ratio), mean(|pair| pair.ratio_high), mean(|pair| pair.ratio_low))
    {
        return Some((value, Some((low, high)), "paired"));
    }
    if request.is_same_code() {
        return Some((1.0, Some((1.0, 1.0)), "same_code"));
    }
    let value = request.baseline.as_ref().ok()?.objective_ns / evaluation.objective_ns?;
    let method = if request.is_screening() { "screening" } else { "unpaired" };
    (value.is_finite() && value > 0.0).then_some((value, None, method))
}

/// `faster`, `slower`, `same` or `ambiguous`; nothing where no comparison was made side by side.
fn decision(request: &JudgedRequest<'_>) -> Option<&'static str> {
    if request.is_same_code() {
        return Some("same");
    }
    let floor = request.judged.findings.noise_floor.unwrap_or(0.0);
    let compared = request.problems.iter().filter(|problem| problem.canonical);
    let pairs: Vec<_> = compared.map(|problem| problem.pair).collect::<Option<Vec<_>>>()?;
    if pairs.is_empty() {
        return None;
    }
    let is_faster = pairs.iter().all(|pair| pair.ratio_high < 1.0 - floor);
    let is_slower = pairs.iter().all(|pair| pair.ratio_low > 1.0 + floor);
    Some(match (is_faster, is_slower) {
        (true, _) => "faster",
        (_, true) => "slower",
        _ => "ambiguous",
    })
}

fn roofline_share(request: &JudgedRequest<'_>) -> Option<f64> {
    geometric_mean(request.problems.iter().map(|problem| (problem.plan.weight, problem.roofline_ratio)))
}
