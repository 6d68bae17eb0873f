//! The answer to a request. Merit (`verdict`, `performance`, `scores`), what ran (`gates`) and where it ran
//! (`provenance`) are kept apart: a program that looks at one of them must not be misled by another. What is not known is
//! null, with its reason in `reasons`.

use std::collections::BTreeMap;

use crate::compile::instructions::InstructionUse;
use evo_protocol::device::{DeviceInfo, DeviceKind};
use evo_protocol::envelope::{EnvelopeError, ErrorCode, ErrorPlace};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::known::told;
use evo_protocol::verdict::{Gate, GateReport, GateState, VerdictClass, VerdictKind};
use serde_json::{Map, Value, json};

use super::ask::{EvaluationLevel, RequestError, Visibility};
use super::own_lines::{self, CandidateText, CompilerHint};
use super::performance::{self, KnownTimes};
use super::visible;
use crate::report::parity;

/// The schema's name in an answer.
pub const ANSWER_SCHEMA: &str = "evo.evaluate.answer";
/// Raised by any change that an older reader would misread.
pub const ANSWER_VERSION: u32 = 1;
const HIDDEN: &str = "the candidate's author does not learn it";
const NOT_PASSED: &str = "the candidate did not pass, and a failure has no number";

/// Whose answer it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerHead {
    pub id: Value,
    /// The request's line in a stream, from 1.
    pub line: Option<u64>,
    pub tag: Option<Value>,
}

/// What a decision for or against a rival says; only of the level `confirm`.
#[derive(Clone, Debug, PartialEq)]
pub struct AnsweredDecision {
    pub accepted: bool,
    /// `keep`, `reject` or `revert`.
    pub decision: String,
    pub why: String,
    /// Of the evaluation's line.
    pub number: u64,
}

/// A candidate that was judged, as far as it was asked.
#[derive(Debug)]
pub struct JudgedRequest<'a> {
    pub level: EvaluationLevel,
    pub visibility: Visibility,
    pub evaluation: &'a Evaluation,
    /// Gates that were demanded and did not run.
    pub missing: &'a [String],
    pub text: Option<CandidateText<'a>>,
    pub times: KnownTimes<'a>,
    pub decision: Option<AnsweredDecision>,
    /// Bytes of feedback, at most.
    pub feedback_bytes: usize,
    /// What a profiler said, or why nothing is known of it.
    pub profile: Result<Value, String>,
    pub device: Option<&'a DeviceInfo>,
    /// Which units its machine code uses, where that can be read.
    pub instructions: Option<InstructionUse>,
    pub seed: u64,
    /// A command line that does the same again.
    pub repro: Option<String>,
    pub wall_ms: f64,
}

#[derive(Default)]
struct AnswerReasons(BTreeMap<String, String>);

impl AnswerReasons {
    /// The value, or null with a reason.
    fn tell<T: Into<Value>>(&mut self, path: &str, value: Option<T>, why: &str) -> Value {
        match value {
            Some(value) => value.into(),
            None => {
                self.0.insert(path.to_string(), why.to_string());
                Value::Null
            }
        }
    }
}

/// The answer on a candidate.
pub fn judged(head: &AnswerHead, own: &JudgedRequest<'_>) -> Value {
    let evaluation = own.evaluation;
    let verdict = &evaluation.verdict;
    let log = verdict.evidence.get("log").and_then(Value::as_str).unwrap_or(&verdict.message);
    let is_compile = verdict.kind.class() == VerdictClass::Compile;
    let errors = if is_compile { own_lines::errors(log, own.text) } else { Vec::new() };
    let seen = visible::verdict(evaluation, &errors, own.visibility);
    let passed = verdict.is_pass() && own.missing.is_empty();
    let mut reasons = AnswerReasons::default();
    let is_ours = verdict.kind.class() == VerdictClass::Harness;
    let cause = reasons.tell("cause", seen.cause.as_deref(), "the verdict has no cause that is told");
    let (correctness, performance, scores) = merit(own, passed, seen.cause.as_deref(), &mut reasons);
    let provenance = provenance(own, &mut reasons);
    let features = features(own, &mut reasons);
    let feedback = feedback(own, &errors, &seen.message, &mut reasons);
    let visible_repro = own.repro.as_ref().filter(|_| own.visibility == Visibility::Owner);
    let repro = reasons.tell("repro", visible_repro.map(String::as_str), HIDDEN);
    let decision = own.decision.as_ref();
    let decided = decision.map(
        |one| json!({ "decision": one.decision, "why": one.why, "number": one.number, "accepted": one.accepted }),
    );
    let acceptance = reasons.tell("acceptance", decided, "only the level `confirm` decides about a rival");
    reasons.0.insert("best".into(), "one configuration was asked for, and nothing was tuned".into());
    let source = reasons.tell("hashes.source", hash(&evaluation.source_hash), "it was not rendered");
    let code = reasons.tell("hashes.code", hash(&evaluation.code_hash), "it was not compiled");
    let mut answer = json!({
        "schema": ANSWER_SCHEMA,
        "version": ANSWER_VERSION,
        "id": head.id,
        "status": if is_ours { "harness_error" } else { "done" },
        "error": null,
        "verdict": verdict.kind,
        "class": verdict.kind.class(),
        "cause": cause,
        "message": seen.message,
        "level": own.level,
        "level_reached": reached(evaluation, own.level, &own.times),
        "evidence": seen.evidence,
        "gates": gates(evaluation, own),
        "not_run": own.missing,
        "correctness": correctness,
        "performance": performance,
        "scores": scores,
        "accepted": decision.is_some_and(|one| one.accepted),
        "acceptance": acceptance,
        "features": features,
        "feedback": feedback,
        "best": null,
        "provenance": provenance,
        "cost": { "compile_ms": evaluation.compile_ms, "device_ms": evaluation.device_ms, "wall_ms": own.wall_ms },
        "hashes": { "source": source, "code": code },
        "repro": repro,
    });
    finish(&mut answer, head, reasons);
    answer
}

fn hash(own: &Option<evo_space::genome::ContentHash>) -> Option<String> {
    own.as_ref().map(ToString::to_string)
}

fn finish(answer: &mut Value, head: &AnswerHead, reasons: AnswerReasons) {
    if let Some(line) = head.line {
        answer["line"] = line.into();
    }
    if let Some(tag) = &head.tag {
        answer["tag"] = tag.clone();
    }
    answer["reasons"] = json!(reasons.0);
}

/// The answer on a request that names no candidate that could be judged, or whose judging failed.
pub fn without_verdict(
    head: &AnswerHead,
    status: &str,
    verdict: Option<VerdictKind>,
    error: &EnvelopeError,
) -> Value {
    let mut reasons = AnswerReasons::default();
    let why = "nothing was judged: see `error`";
    let nothing = [
        "level_reached",
        "cause",
        "correctness",
        "performance",
        "scores",
        "features",
        "feedback",
        "best",
        "provenance",
        "cost",
        "hashes",
        "repro",
        "acceptance",
    ];
    let mut answer = json!({
        "schema": ANSWER_SCHEMA,
        "version": ANSWER_VERSION,
        "id": head.id,
        "status": status,
        "error": error,
        "verdict": reasons.tell("verdict", verdict.map(VerdictKind::as_str), why),
        "class": reasons.tell("class", verdict.map(|own| json!(own.class())), why),
        "message": error.message,
        "evidence": {},
        "gates": {},
        "not_run": [],
        "accepted": false,
    });
    for name in nothing {
        answer[name] = reasons.tell(name, None::<Value>, why);
    }
    finish(&mut answer, head, reasons);
    answer
}

/// The answer on a request with a mistake.
pub fn refused(error: &RequestError, line: Option<u64>) -> Value {
    let place = error.place.map(|(line, column)| ErrorPlace {
        file: "request".into(),
        line: Some(line),
        column: Some(column),
    });
    let told = EnvelopeError {
        code: ErrorCode::Usage,
        message: error.message.clone(),
        hint: error.hint.clone(),
        place,
    };
    without_verdict(&AnswerHead { id: error.id.clone(), line, tag: None }, "rejected", None, &told)
}

/// How far it came: the level of the gate that failed, or the one that was asked for.
fn reached(evaluation: &Evaluation, asked: EvaluationLevel, times: &KnownTimes<'_>) -> EvaluationLevel {
    let level = |gate: Gate| match gate {
        Gate::StaticLimits | Gate::Compile => EvaluationLevel::Compile,
        Gate::Launch | Gate::TinyShapes => EvaluationLevel::Tiny,
        _ if asked == EvaluationLevel::Quick => EvaluationLevel::Quick,
        _ => EvaluationLevel::Full,
    };
    let with = |state: GateState| evaluation.gates.iter().filter(move |own| own.state == state);
    if let Some(failed) = with(GateState::Fail).next() {
        return level(failed.gate).min(asked);
    }
    let last = with(GateState::Pass).map(|own| level(own.gate)).max().unwrap_or(EvaluationLevel::Compile);
    let is_compared = times.against.is_some();
    match asked {
        EvaluationLevel::Confirm if evaluation.verdict.is_pass() && is_compared => EvaluationLevel::Confirm,
        _ => last.min(asked),
    }
}

/// The state of every gate.
fn gates(evaluation: &Evaluation, own: &JudgedRequest<'_>) -> Value {
    let state = |gate: &Gate| match evaluation.gate(*gate) {
        _ if *gate == Gate::Confirmation && own.times.is_paired => GateState::Pass,
        Some(report) => report.state,
        None => GateState::NotRun,
    };
    Gate::ALL.iter().map(|gate| (gate.as_str().to_string(), json!(state(gate)))).collect::<Map<_, _>>().into()
}

/// What a pass is worth. Nothing of it where the candidate did not pass.
fn merit(
    own: &JudgedRequest<'_>,
    passed: bool,
    cause: Option<&str>,
    reasons: &mut AnswerReasons,
) -> (Value, Value, Value) {
    let correctness = correctness(own, cause, reasons);
    let is_timed = own.level.is_timed() && own.evaluation.objective_ns.is_some();
    if !passed || !is_timed {
        let why = if passed { "this level takes no time" } else { NOT_PASSED };
        let none = |name: &str, reasons: &mut AnswerReasons| reasons.tell(name, None::<Value>, why);
        return (correctness, none("performance", reasons), none("scores", reasons));
    }
    let (told, more) = performance::performance(own.evaluation, &own.times);
    reasons.0.extend(more);
    let speedup = performance::speedup(own.evaluation, &own.times).map(|own| own.value);
    let no_speedup = own.times.not_compared.clone();
    let share = performance::roofline_share(&own.times);
    let fast = speedup.map(|value| u8::from(value > 1.0));
    let scores = json!({
        "combined_score": reasons.tell("scores.combined_score", speedup, &no_speedup),
        "speedup": reasons.tell("scores.speedup", speedup, &no_speedup),
        "sol_score": reasons.tell("scores.sol_score", share, "the work or the device's peaks are not known"),
        "fast_p": reasons.tell("scores.fast_p", fast, &no_speedup),
    });
    (correctness, told, scores)
}

fn correctness(own: &JudgedRequest<'_>, cause: Option<&str>, reasons: &mut AnswerReasons) -> Value {
    let evaluation = own.evaluation;
    let (parity, _) = told(&parity::of(evaluation));
    let rows = parity.as_array();
    let wrong = evaluation.verdict.kind.class() == VerdictClass::Wrong;
    if rows.is_none() && !wrong {
        return reasons.tell("correctness", None::<Value>, "no answer was compared");
    }
    let is_owner = own.visibility == Visibility::Owner;
    let largest = |name: &str| {
        let numbers = rows?.iter().filter_map(|row| row[name].as_f64());
        numbers.reduce(f64::max).filter(|_| is_owner)
    };
    let evidence = |name: &str| evaluation.verdict.evidence.get(name)?.as_f64().filter(|_| is_owner && wrong);
    let why = if is_owner { "the worker does not say" } else { HIDDEN };
    let abs = evidence("abs_error_max").or_else(|| largest("max_abs_error"));
    let case = evaluation.verdict.evidence.get("case").and_then(Value::as_str).filter(|_| is_owner && wrong);
    let case = case.map(String::from);
    // A hidden failure says its axis.
    let axis = cause.filter(|_| wrong && !is_owner).map(String::from);
    let mut told = json!({
        "max_abs": reasons.tell("correctness.max_abs", abs, why),
        "max_rel": reasons.tell("correctness.max_rel", largest("max_rel_error").filter(|_| !wrong), why),
        "norm": reasons.tell("correctness.norm", evidence("relative_norm"), why),
        "worst_case": reasons.tell("correctness.worst_case", case.or(axis), if wrong { why } else { "none failed" }),
    });
    if let Some(task) = by_the_task(rows, is_owner) {
        told["task"] = task;
    }
    told
}

/// What the rule of the task's own benchmark says, over all problems that were compared. How much matches is a value of the
/// outputs, which an agent is not told.
fn by_the_task(rows: Option<&Vec<Value>>, is_owner: bool) -> Option<Value> {
    let told = rows?.iter().filter_map(|row| {
        let own = &row[GateReport::PARITY_TASK];
        own["matched_ratio"].as_f64().zip(own["within"].as_bool())
    });
    let (matched_ratio, within) =
        told.reduce(|(ratio, within), (other, also)| (ratio.min(other), within && also))?;
    Some(match is_owner {
        true => json!({ "matched_ratio": matched_ratio, "within": within }),
        false => json!({ "within": within }),
    })
}

fn features(own: &JudgedRequest<'_>, reasons: &mut AnswerReasons) -> Value {
    let facts = own.evaluation.facts.unwrap_or_default();
    let unknown = "the compiler does not say";
    let unread = "its instructions are not read: they are on GPUs from sm_70 to sm_90";
    let (used, stages) = (own.instructions, own.evaluation.configuration.get("STAGES"));
    json!({
        "registers": reasons.tell("features.registers", facts.registers, unknown),
        "shared_bytes": reasons.tell("features.shared_bytes", facts.shared_bytes, unknown),
        "occupancy": reasons.tell("features.occupancy", facts.occupancy, unknown),
        "spills": reasons.tell("features.spills", facts.spill_bytes, unknown),
        "arithmetic": reasons.tell("features.arithmetic", used.map(|used| used.arithmetic.as_str()), unread),
        "loads": reasons.tell("features.loads", used.map(|used| used.loads.as_str()), unread),
        "stages": reasons.tell(
            "features.stages",
            stages.and_then(|own| own.as_int()),
            "the space has no parameter `STAGES`",
        ),
    })
}

fn provenance(own: &JudgedRequest<'_>, reasons: &mut AnswerReasons) -> Value {
    let is_owner = own.visibility == Visibility::Owner;
    let device = own.device;
    let no_device = "no device was opened";
    let trust = device.map(|device| if device.kind == DeviceKind::Host { "host" } else { "device" });
    let driver = device.map(|device| device.driver.clone()).filter(|driver| !driver.is_empty());
    json!({
        "device": reasons.tell("provenance.device", device.map(|own| own.name.clone()), no_device),
        "driver": reasons.tell("provenance.driver", driver, "it has none, or none was opened"),
        "evo": env!("CARGO_PKG_VERSION"),
        "trust": reasons.tell("provenance.trust", trust, no_device),
        "seed": reasons.tell("provenance.seed", is_owner.then_some(own.seed), HIDDEN),
        "visibility": if is_owner { "owner" } else { "agent" },
    })
}

/// What helps to write the next candidate.
fn feedback(
    own: &JudgedRequest<'_>,
    errors: &[CompilerHint],
    message: &str,
    reasons: &mut AnswerReasons,
) -> Value {
    let mut hints: Vec<Value> =
        errors.iter().map(|one| json!({ "code": "compile", "text": one.text, "line": one.line })).collect();
    let spills = own.evaluation.facts.and_then(|facts| facts.spill_bytes).filter(|bytes| *bytes > 0.0);
    hints.extend(
        spills.map(|bytes| json!({ "code": "spill", "text": format!("{bytes} B spilled"), "line": null })),
    );
    for (at, _) in hints.iter().enumerate().filter(|(_, hint)| hint["line"].is_null()) {
        reasons.0.insert(format!("feedback.hints.{at}.line"), "no line of the source is known for it".into());
    }
    let mut text = match (own.missing.is_empty(), message.is_empty()) {
        (false, _) => format!("not run, which does not count as a pass: {}", own.missing.join(", ")),
        (true, true) => "it passes every gate that was asked for".to_string(),
        (true, false) => message.to_string(),
    };
    let mut end = text.len().min(own.feedback_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    let log = own.evaluation.verdict.evidence.get("log").and_then(Value::as_str);
    let is_owner = own.visibility == Visibility::Owner;
    let log = log.filter(|_| is_owner).map(|log| {
        let mut from = log.len().saturating_sub(own.feedback_bytes);
        while !log.is_char_boundary(from) {
            from += 1;
        }
        log[from..].to_string()
    });
    let why = if is_owner { "the compiler said nothing" } else { HIDDEN };
    let (profile, no_profile) = match &own.profile {
        Ok(profile) => (Some(profile.clone()), ""),
        Err(why) => (None, why.as_str()),
    };
    json!({
        "text": text,
        "hints": hints,
        "ptxas": reasons.tell("feedback.ptxas", log, why),
        "profile": reasons.tell("feedback.profile", profile, no_profile),
    })
}

/// A judgement on a level that ends before the device: its gates have not run.
pub fn not_asked(level: EvaluationLevel) -> Vec<GateReport> {
    let why = format!("the level `{}` ends before it", level.as_str());
    let later = |gate: &&Gate| **gate >= Gate::Launch;
    Gate::ALL.iter().filter(later).map(|gate| GateReport::not_run(*gate, &why)).collect()
}
