//! What compute-sanitizer found in one candidate, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use evo_protocol::verdict::Verdict;
use serde_json::{Value, json};

use super::single::Setting;
use evo_inspect::sanitize::{SanitizerFinding, SanitizerLook, SanitizerOutcome, SanitizerState, StandIn};
use evo_inspect::tool::{FoundTool, ToolFailure, ToolState};
use evo_inspect::twin::TwinAnswer;

/// Findings that are shown and written.
const SHOWN: usize = 100;
/// Findings of one check in the text.
const SHOWN_IN_TEXT: usize = 10;

/// Everything that is known after the checks.
#[derive(Debug)]
pub struct Sanitized<'a> {
    pub setting: &'a Setting,
    /// The tool, or why there is none.
    pub tool: Result<&'a FoundTool, &'a ToolFailure>,
    pub look: &'a SanitizerLook,
}

/// The `result` of a command's object, and why fields are null.
pub struct SanitizedFields {
    pub result: Value,
    pub reasons: BTreeMap<String, String>,
}

impl Sanitized<'_> {
    /// The verdict: of the check that found something first, or of evo's own checks; none without an answer.
    pub fn verdict(&self) -> Option<Verdict> {
        let passed = self.look.state() == SanitizerState::Pass;
        self.look.verdict().or_else(|| passed.then(Verdict::pass))
    }

    /// Why there is no answer: the first check without one.
    pub fn failure(&self) -> Option<&ToolFailure> {
        self.look.failure().or_else(|| self.tool.err())
    }

    /// evo's own checks, and the host device beside a GPU.
    fn stand_ins(&self) -> Vec<StandIn> {
        let twin = self.look.twin.as_ref();
        let twin = twin.map(|twin| StandIn { name: TwinAnswer::NAME, ran: twin.ran(), message: twin.said() });
        self.look.stand_ins.iter().cloned().chain(twin).collect()
    }
}

pub fn fields(sanitized: &Sanitized<'_>) -> SanitizedFields {
    let mut reasons = BTreeMap::new();
    let findings: Vec<&SanitizerFinding> = sanitized.look.findings().take(SHOWN).collect();
    let findings = json!(findings);
    for (number, finding) in findings.as_array().into_iter().flatten().enumerate() {
        let absent = SanitizerFinding::OPTIONAL.iter().filter(|name| finding[**name].is_null());
        reasons.extend(absent.map(|name| {
            let why = match *name {
                "argument" => "the address is not known, or not near a buffer of evo's",
                _ => "the tool does not say",
            };
            (format!("result.findings.{number}.{name}"), why.to_string())
        }));
    }
    let checks: Vec<Value> = sanitized.look.outcomes.iter().map(check).collect();
    let verdict = sanitized.verdict();
    let absent = [
        ("verdict", verdict.is_none(), "there is no answer"),
        ("class", verdict.is_none(), "there is no answer"),
        (
            "cause",
            verdict.as_ref().is_none_or(|own| own.cause.is_none()),
            "no check of the tool found anything",
        ),
    ];
    let absent = absent.into_iter().filter(|(_, is_absent, _)| *is_absent);
    reasons.extend(absent.map(|(name, _, why)| (format!("result.{name}"), why.to_string())));
    let (version, path) = match sanitized.tool {
        Ok(tool) => (Some(tool.version.to_string()), Some(tool.path.display().to_string())),
        Err(failure) => {
            for name in ["version", "path"] {
                reasons.insert(format!("result.tool.{name}"), failure.message.clone());
            }
            (None, None)
        }
    };
    let tool_state = sanitized.tool.map_or_else(|failure| failure.state, |_| ToolState::Ok);
    let stand_ins = sanitized.stand_ins();
    let stand_ins: Vec<Value> = stand_ins
        .iter()
        .map(|own| json!({ "name": own.name, "ran": own.ran, "message": own.message }))
        .collect();
    let result = json!({
        "state": sanitized.look.state(),
        "verdict": verdict.as_ref().map(Verdict::label),
        "class": verdict.as_ref().map(|own| own.kind.class()),
        "cause": verdict.as_ref().and_then(|own| own.cause.clone()),
        "gate": sanitized.look.report(),
        "findings": findings,
        "checks": checks,
        "shapes": sanitized.look.shapes,
        "tool": { "name": "compute-sanitizer", "state": tool_state, "version": version, "path": path },
        "stand_ins": stand_ins,
    });
    SanitizedFields { result, reasons }
}

fn check(outcome: &SanitizerOutcome) -> Value {
    json!({
        "tool": outcome.check,
        "state": outcome.state,
        "tool_state": outcome.failure.as_ref().map_or(ToolState::Ok, |failure| failure.state),
        "message": outcome.failure.as_ref().map_or("", |failure| &failure.message),
        "errors": outcome.errors,
        "warnings": outcome.warnings,
        "launches": outcome.launches,
        "notes": outcome.notes,
        "elapsed_ms": outcome.elapsed.as_secs_f64() * 1e3,
    })
}

/// The text form.
pub fn text(sanitized: &Sanitized<'_>) -> String {
    let setting = sanitized.setting;
    let tool = sanitized.tool.map_or_else(|_| String::new(), |tool| format!(" {}", tool.version));
    let mut text = format!("{} on {}, compute-sanitizer{tool}\n", setting.kernel, setting.device);
    if !sanitized.look.shapes.is_empty() {
        let _ = writeln!(text, "  shapes: {}", sanitized.look.shapes.join("; "));
    }
    for outcome in &sanitized.look.outcomes {
        let state = match outcome.state {
            SanitizerState::Pass => "pass",
            SanitizerState::Fail => "FAIL",
            SanitizerState::NotRun => "not run",
        };
        let seen = match &outcome.failure {
            Some(failure) => failure.message.clone(),
            None => format!(
                "{} launches, {} errors, {} warnings, {:.1} s",
                outcome.launches,
                outcome.errors,
                outcome.warnings,
                outcome.elapsed.as_secs_f64()
            ),
        };
        let _ = writeln!(text, "  {:<10} {state:<8} {seen}", outcome.check.as_str());
        for finding in outcome.findings.iter().take(SHOWN_IN_TEXT) {
            let _ = writeln!(text, "      {}", line(finding));
        }
        let more = (outcome.errors + outcome.warnings).saturating_sub(SHOWN_IN_TEXT as u64);
        if more > 0 {
            let _ = writeln!(text, "      and {more} more");
        }
        for note in &outcome.notes {
            let _ = writeln!(text, "      note: {note}");
        }
    }
    for own in &sanitized.stand_ins() {
        let _ =
            writeln!(text, "  {:<17} {}  {}", own.name, if own.ran { "ran" } else { "not run" }, own.message);
    }
    for finding in &sanitized.look.own {
        let _ = writeln!(text, "      {}", line(finding));
    }
    let _ = writeln!(text, "sanitize: {}", sanitized.look.state().as_str());
    if let Some(verdict) = sanitized.verdict().filter(|own| !own.is_pass()) {
        let _ = writeln!(text, "verdict: {}: {}", verdict.label(), verdict.message);
        let _ = writeln!(text, "more: `evo explain {}`", verdict.label());
    }
    let _ = writeln!(text, "again: {}", setting.repro);
    text
}

/// `error: Invalid write …, scale at scale.cu:5, thread (3, 0, 0) of block (2, 1, 0), 0x2040 in or near y`.
fn line(finding: &SanitizerFinding) -> String {
    let mut parts = vec![finding.what.clone()];
    let place = finding.file.as_ref().zip(finding.line).map(|(file, line)| format!("{file}:{line}"));
    match (&finding.entry, place) {
        (Some(entry), Some(place)) => parts.push(format!("{entry} at {place}")),
        (one, other) => parts.extend(one.clone().or(other)),
    }
    let three = |[x, y, z]: [u64; 3]| format!("({x}, {y}, {z})");
    if let (Some(thread), Some(block)) = (finding.thread, finding.block) {
        parts.push(format!("thread {} of block {}", three(thread), three(block)));
    }
    match (&finding.address, &finding.argument) {
        (Some(address), Some(argument)) => parts.push(format!("{address} in or near `{argument}`")),
        (Some(address), None) => parts.push(address.clone()),
        (None, _) => {}
    }
    format!("{}: {}", finding.level, parts.join(", "))
}
