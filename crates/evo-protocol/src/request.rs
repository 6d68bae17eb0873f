//! What other programs send to evo: the requests that `evo serve` takes, and the arguments of the tools that it is over
//! the Model Context Protocol. Their JSON Schemas are derived from these types and are what a request is held to, so a
//! comment here is a description there, and a hint in a message.

use schemars::{JsonSchema, Schema, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::schema;
use crate::words::words;

/// Bytes of feedback where a request does not say.
const FEEDBACK_BYTES: usize = 8192;

/// Parts of the form that this evo does not serve, by their last names, and what to do instead.
pub const UNSERVED: [(&str, &str); 10] = [
    ("tune", "`evo sweep` tunes a template; ask here for one configuration of it"),
    ("definition", "name a space file as `task.space`"),
    ("workloads", "name a space file as `task.space`"),
    ("dir", "name a space file as `task.space`"),
    ("flags", "the space's own file says it for all candidates"),
    ("parameters", "the space's own file says it for all candidates"),
    ("constraints", "the space's own file says it for all candidates"),
    ("cluster", "the space's own file declares clusters"),
    ("memory_mb", "the machine's own limit on compilers holds"),
    ("sass", "`evo compile` keeps the binary, `cuobjdump` reads it"),
];

/// One request. Null counts as absent.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EvaluationRequest {
    #[schemars(extend("enum" = ["evo.evaluate.request", null]))]
    pub schema: Option<String>,
    #[schemars(extend("enum" = [1, null]))]
    pub version: Option<u32>,
    /// What the answer is told apart by
    #[schemars(extend("type" = ["string", "integer", "null"]))]
    pub id: Value,
    pub task: Option<RequestedTask>,
    /// For the task in place of a verdict
    pub ask: Option<RequestedAnswer>,
    pub candidate: Option<RequestedCandidate>,
    /// How far it goes
    pub level: Option<EvaluationLevel>,
    /// `default`, `incumbent`, or the first digits of a hash (6 at least)
    #[schemars(with = "Option<String>")]
    pub baseline: Option<RequestedBaseline>,
    pub limits: Option<RequestLimits>,
    pub feedback: Option<FeedbackWanted>,
    /// Who reads the answer
    pub visibility: Option<Visibility>,
    /// What the candidate was meant to do, for the line that `confirm` writes
    pub hypothesis: Option<String>,
    /// Handed back as it came
    pub tag: Option<Value>,
}

/// Absent where the command line names it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RequestedTask {
    /// By name, or by its path below the folder in which evo runs
    pub space: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestedAnswer {
    Task,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestedCandidate {
    /// one of: configuration, cuda, template
    pub kind: CandidateKind,
    /// One, of the kinds `cuda` and `template`
    #[serde(default)]
    pub sources: Option<Vec<RequestedSource>>,
    /// An entry that the task has to launch
    pub entry: Option<String>,
    /// Parameters and values; what is left out takes its default
    #[schemars(with = "Option<Map<String, Value>>")]
    pub configuration: Option<Box<RawValue>>,
    pub launches: Option<Vec<RequestedLaunch>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CandidateKind {
    #[default]
    Configuration,
    Cuda,
    Template,
}

/// The text of a source. Its path decides nothing.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestedSource {
    pub path: Option<String>,
    /// the text of the source
    pub content: String,
}

/// How an entry is launched, over sizes and parameters.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestedLaunch {
    /// which entry it launches
    pub entry: String,
    #[schemars(with = "Option<Value>", extend("type" = ["array", "string", "integer", "null"]))]
    pub grid: Option<Box<RawValue>>,
    #[schemars(with = "Option<Value>", extend("type" = ["array", "string", "integer", "null"]))]
    pub block: Option<Box<RawValue>>,
    #[schemars(with = "Option<Value>", extend("type" = ["string", "integer", "null"]))]
    pub shared: Option<Box<RawValue>>,
}

words! {
    /// How far an evaluation goes. It stops at the first failure or at this level.
    #[derive(PartialOrd, Ord, JsonSchema)]
    EvaluationLevel {
        // Limits and the compiler.
        Compile = "compile",
        // Also small shapes.
        Tiny = "tiny",
        // Every gate on correctness, and the time of a screening.
        Quick = "quick",
        // Every gate at full depth, and the full measurement.
        Full = "full",
        // Also the paired comparison in fresh processes.
        Confirm = "confirm",
    }
}

/// What a speed-up is relative to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum RequestedBaseline {
    // The default configuration.
    Default,
    // The best that was accepted so far, else the champion, else the default.
    Incumbent,
    // An evaluation of a study, by the first digits of a hash.
    Hash(String),
}

/// What one request may take, seconds; the command's own limits stay the upper ends.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RequestLimits {
    #[schemars(range(min = 0.1, max = 86_400))]
    pub compile_s: Option<f64>,
    /// For one step on the device, such as a launch
    #[schemars(range(min = 0.1, max = 86_400))]
    pub run_s: Option<f64>,
    #[schemars(range(min = 0.1, max = 86_400))]
    pub total_s: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FeedbackWanted {
    /// Of its text, at most
    #[schemars(range(min = 0, max = 65_536))]
    pub bytes: Option<usize>,
    /// Whether a profiler is asked
    pub profile: Option<bool>,
}

/// Who reads an answer: the candidate's author, who must learn neither seeds nor values nor shapes that are only checked,
/// or the task's owner, who may know everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    Agent,
    Owner,
}

impl EvaluationRequest {
    pub fn asks_task(&self) -> bool {
        self.ask.is_some()
    }

    pub fn feedback_bytes(&self) -> usize {
        self.feedback.and_then(|feedback| feedback.bytes).unwrap_or(FEEDBACK_BYTES)
    }

    pub fn wants_profile(&self) -> bool {
        self.feedback.and_then(|feedback| feedback.profile).unwrap_or(false)
    }
}

impl RequestedCandidate {
    pub fn source(&self) -> Option<&str> {
        self.sources.as_ref()?.first().map(|source| source.content.as_str())
    }

    /// Launches as a file of `--launch` has them.
    pub fn launch_text(&self) -> Option<String> {
        let launches = self.launches.as_ref().filter(|launches| !launches.is_empty())?;
        let of = |launch: &RequestedLaunch| {
            let fields = [("grid", &launch.grid), ("block", &launch.block), ("shared_bytes", &launch.shared)];
            let given = fields.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
            let fields: Vec<String> = given.map(|(name, value)| format!("\"{name}\":{value}")).collect();
            format!("{}:{{{}}}", Value::from(launch.entry.as_str()), fields.join(","))
        };
        Some(format!("{{{}}}", launches.iter().map(of).collect::<Vec<_>>().join(",")))
    }
}

impl EvaluationLevel {
    pub fn is_timed(self) -> bool {
        self >= EvaluationLevel::Quick
    }
}

impl TryFrom<String> for RequestedBaseline {
    type Error = &'static str;

    fn try_from(word: String) -> Result<RequestedBaseline, &'static str> {
        let hash = word.trim_start_matches('@');
        match word.as_str() {
            "default" => Ok(RequestedBaseline::Default),
            "incumbent" => Ok(RequestedBaseline::Incumbent),
            _ if (6..=32).contains(&hash.len()) && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                Ok(RequestedBaseline::Hash(hash.to_ascii_lowercase()))
            }
            _ => Err("neither `default` nor `incumbent`, nor the first digits of a hash (6 at least)"),
        }
    }
}

/// What the tools of `evo serve --mcp` take; each takes some of it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolArguments {
    /// an embedded space such as gemm, or a space file below the folder in which the server runs
    pub space: Option<String>,
    /// values of parameters; what is left out takes its default
    #[schemars(extend("additionalProperties" = { "type": ["string", "number", "boolean"] }))]
    pub configuration: Option<Map<String, Value>>,
    /// a candidate in evo's notation, in place of `configuration`: @champion, @baseline, @17, or BLOCK=64 VEC=4
    pub candidate: Option<String>,
    /// the text of a CUDA source in place of the space's own; same entries and arguments
    pub source: Option<String>,
    /// `source` is a template that the configuration renders, not plain CUDA
    pub template: Option<bool>,
    /// sm_80, sm_89, sm_90a, … or host; this machine's device where it is left out
    pub arch: Option<String>,
    /// how far it goes; default quick
    pub level: Option<EvaluationLevel>,
    /// name the bottleneck of a candidate that passes
    pub profile: Option<bool>,
    /// @champion, @baseline, @17 or BLOCK=64; default: the best so far
    pub against: Option<String>,
    /// what the change was meant to do; kept
    pub hypothesis: Option<String>,
    /// wall time (90s, 10m) or a number of evaluations (200); default 60s
    pub budget: Option<String>,
    /// evolve, exhaustive, random, …; default: evo chooses
    pub strategy: Option<String>,
    /// of the search and the inputs; default random
    pub seed: Option<u64>,
    /// one of the space's problems
    pub problem: Option<String>,
    /// which counters; default light
    #[schemars(extend("enum" = ["light", "wide"]))]
    pub set: Option<String>,
    /// a kernel's name; default: the one tried last
    pub kernel: Option<String>,
    /// wrong_answer, static_reject:smem, …
    pub verdict: Option<String>,
}

pub fn tool_arguments() -> Schema {
    schema::of_read::<ToolArguments>("evo.tool-arguments.v1", "what tools take")
}

pub fn request() -> Schema {
    let title = "A request to `evo serve` and `evo evaluate --request`, `--serve` and `--stdin`";
    schema::of_read::<EvaluationRequest>("evo.evaluate.request.v1", title)
}

/// The schema of an answer. What is not known is null, with its reason in `reasons`.
pub fn answer() -> Schema {
    let text = json!({ "type": "string" });
    let level = json!({ "type": "string", "enum": ["compile", "tiny", "quick", "full", "confirm"] });
    let gate = json!({ "type": "string", "enum": ["pass", "fail", "not_run"] });
    let mut properties = json!({
        "schema": { "type": "string", "const": "evo.evaluate.answer" },
        "version": { "type": "integer", "const": 1 },
        "id": { "type": ["string", "integer", "null"] },
        "status": { "type": "string", "enum": ["done", "rejected", "harness_error"] },
        "message": text,
        "evidence": { "type": "object" },
        "gates": { "type": "object", "additionalProperties": gate },
        "not_run": { "type": "array", "items": text },
        "accepted": { "type": "boolean" },
        "best": { "type": "null" },
        "reasons": { "type": "object", "additionalProperties": text },
    });
    let parts = "error correctness performance scores acceptance features feedback provenance cost hashes";
    for (kind, names) in [("object", parts), ("string", "verdict class cause level_reached repro")] {
        names.split(' ').for_each(|name| properties[name] = json!({ "type": [kind, "null"] }));
    }
    let required: Vec<String> =
        properties.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    properties["line"] = json!({ "type": "integer", "minimum": 1 });
    properties["tag"] = true.into();
    properties["level"] = level;
    json_schema!({
        "$id": "evo.evaluate.answer.v1",
        "title": "An answer of `evo serve` and `evo evaluate --request`, `--serve` and `--stdin`",
        "type": "object",
        "required": required,
        "additionalProperties": false,
        "properties": properties,
    })
}
