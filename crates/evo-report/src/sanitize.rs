//! What compute-sanitizer found in one candidate, as text and as JSON.

use evo_protocol::known::{Known, because, told};
use evo_protocol::verdict::{GateReport, GateState, SanitizerCheck, Verdict, VerdictClass};
use minijinja::context;
use minijinja::value::Serde;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::judged::Setting;
use super::templates;
use evo_inspect::sanitize::{SanitizerFinding, SanitizerLook, SanitizerOutcome, StandIn};
use evo_inspect::tool::{FoundTool, ToolFailure, ToolState};
use evo_inspect::twin::TwinAnswer;

const SHOWN: usize = 100;
/// Findings of one check in the text.
const SHOWN_IN_TEXT: usize = 10;

#[derive(Debug)]
pub struct Sanitized<'a> {
    pub setting: &'a Setting,
    /// The tool, or why there is none.
    pub tool: Result<&'a FoundTool, &'a ToolFailure>,
    pub look: &'a SanitizerLook,
}

/// The `result` of `evo sanitize`. A candidate that does not compile has the first four fields.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SanitizeResult {
    pub state: GateState,
    /// With its cause behind a colon.
    pub verdict: Known<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[schemars(with = "Vec<SanitizerFinding>")]
    pub findings: Value,
    #[serde(flatten)]
    pub look: Option<SanitizeLook>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SanitizeLook {
    class: Known<VerdictClass>,
    cause: Known<String>,
    gate: GateReport,
    checks: Vec<CheckRow>,
    shapes: Vec<String>,
    tool: ToolRow,
    stand_ins: Vec<StandIn>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CheckRow {
    tool: SanitizerCheck,
    state: GateState,
    tool_state: ToolState,
    message: String,
    errors: u64,
    warnings: u64,
    launches: u64,
    notes: Vec<String>,
    elapsed_ms: f64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ToolRow {
    name: &'static str,
    state: ToolState,
    version: Known<String>,
    path: Known<String>,
}

impl Sanitized<'_> {
    /// The verdict: of the check that found something first, or of evo's own checks; none without an answer.
    pub fn verdict(&self) -> Option<Verdict> {
        let passed = self.look.state() == GateState::Pass;
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

pub fn result(sanitized: &Sanitized<'_>) -> SanitizeResult {
    let look = sanitized.look;
    let findings: Vec<&SanitizerFinding> = look.findings().take(SHOWN).collect();
    let silent = |path: &str| match path.rsplit('.').next() {
        Some("argument") => "the address is not known, or not near a buffer of evo's".to_string(),
        _ => "the tool does not say".to_string(),
    };
    let verdict = sanitized.verdict();
    let no_answer = "there is no answer";
    let cause = verdict.as_ref().and_then(|verdict| verdict.cause.clone());
    let check = |outcome: &SanitizerOutcome| CheckRow {
        tool: outcome.check,
        state: outcome.state,
        tool_state: outcome.failure.as_ref().map_or(ToolState::Ok, |failure| failure.state),
        message: outcome.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default(),
        errors: outcome.errors,
        warnings: outcome.warnings,
        launches: outcome.launches,
        notes: outcome.notes.clone(),
        elapsed_ms: outcome.elapsed.as_secs_f64() * 1e3,
    };
    let of_tool = |text: fn(&FoundTool) -> String| {
        Known::from(sanitized.tool.map(text).map_err(|failure| failure.message.clone()))
    };
    SanitizeResult {
        state: look.state(),
        verdict: Known::of(verdict.as_ref().map(Verdict::label), no_answer),
        message: None,
        findings: because(json!(findings), &silent),
        look: Some(SanitizeLook {
            class: Known::of(verdict.as_ref().map(|verdict| verdict.kind.class()), no_answer),
            cause: Known::of(cause, "no check of the tool found anything"),
            gate: look.report(),
            checks: look.outcomes.iter().map(check).collect(),
            shapes: look.shapes.clone(),
            tool: ToolRow {
                name: "compute-sanitizer",
                state: sanitized.tool.map_or_else(|failure| failure.state, |_| ToolState::Ok),
                version: of_tool(|tool| tool.version.to_string()),
                path: of_tool(|tool| tool.path.display().to_string()),
            },
            stand_ins: sanitized.stand_ins(),
        }),
    }
}

pub fn text(sanitized: &Sanitized<'_>) -> String {
    let look = sanitized.look;
    let first =
        |outcome: &SanitizerOutcome| outcome.findings.iter().take(SHOWN_IN_TEXT).cloned().collect::<Vec<_>>();
    let values = context! {
        setting => Serde(sanitized.setting),
        result => Serde(told(&result(sanitized)).0),
        findings => Serde(look.outcomes.iter().map(first).collect::<Vec<_>>()),
        own => Serde(&look.own),
        shown => SHOWN_IN_TEXT,
        message => sanitized.verdict().map(|verdict| verdict.message),
    };
    templates::lines("sanitize.txt.j2", values)
}
