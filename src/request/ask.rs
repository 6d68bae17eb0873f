//! The types of a request.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

/// The schema's name in a request.
pub const REQUEST_SCHEMA: &str = "evo.evaluate.request";
/// The version that is understood.
pub const REQUEST_VERSION: i64 = 1;
/// Bytes of feedback where a request does not say.
pub const FEEDBACK_BYTES: usize = 8192;

/// One request, read and understood as far as that is possible without its task.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluationRequest {
    /// A text, an integer or null: what the answer is told apart by.
    pub id: Value,
    /// The space by name or path; absent where the command line names it.
    pub space: Option<String>,
    /// Whether the task is asked for, and no verdict.
    pub asks_task: bool,
    pub candidate: RequestedCandidate,
    pub level: Option<EvaluationLevel>,
    pub baseline: Option<RequestedBaseline>,
    pub limits: RequestLimits,
    pub feedback: FeedbackWanted,
    pub visibility: Option<Visibility>,
    /// What the candidate was meant to do, for the line that `confirm` writes.
    pub hypothesis: Option<String>,
    /// Handed back as it came.
    pub tag: Option<Value>,
}

/// What is to be judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestedCandidate {
    /// A source of its own, and whether that is a template.
    pub source: Option<String>,
    pub is_template: bool,
    /// The entry point that it has to have.
    pub entry: Option<String>,
    /// The text of a JSON object of parameters.
    pub configuration: Option<String>,
    /// The text of a JSON object of launches, as `--launch` takes it.
    pub launches: Option<String>,
}

/// How far an evaluation goes. It stops at the first failure or at this level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EvaluationLevel {
    /// Limits and the compiler.
    Compile,
    /// Also small shapes.
    Tiny,
    /// Every gate on correctness, and the time of a screening.
    Quick,
    /// Every gate at full depth, and the full measurement.
    Full,
    /// Also the paired comparison in fresh processes.
    Confirm,
}

impl EvaluationLevel {
    /// Every level, in order.
    pub const ALL: [EvaluationLevel; 5] = [
        EvaluationLevel::Compile,
        EvaluationLevel::Tiny,
        EvaluationLevel::Quick,
        EvaluationLevel::Full,
        EvaluationLevel::Confirm,
    ];

    /// The name in requests and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            EvaluationLevel::Compile => "compile",
            EvaluationLevel::Tiny => "tiny",
            EvaluationLevel::Quick => "quick",
            EvaluationLevel::Full => "full",
            EvaluationLevel::Confirm => "confirm",
        }
    }

    /// Whether it takes a time.
    pub fn is_timed(self) -> bool {
        self >= EvaluationLevel::Quick
    }
}

/// What a speed-up is relative to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedBaseline {
    /// The default configuration.
    Default,
    /// The best that was accepted so far, else the champion, else the default.
    Incumbent,
    /// An evaluation of a study, by the first digits of a hash.
    Hash(String),
}

/// What one request may take; absent where the command's own limits are enough.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RequestLimits {
    pub compile: Option<Duration>,
    /// For one step on the device, such as a launch.
    pub run: Option<Duration>,
    pub total: Option<Duration>,
}

/// What is told beside the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedbackWanted {
    /// Of its text, at most.
    pub bytes: usize,
    /// Whether a profiler is asked.
    pub profile: bool,
}

impl Default for FeedbackWanted {
    fn default() -> FeedbackWanted {
        FeedbackWanted { bytes: FEEDBACK_BYTES, profile: false }
    }
}

/// Who reads the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Visibility {
    /// The candidate's author, who must learn neither seeds nor values nor shapes that are only checked
    Agent,
    /// The task's owner, who may know everything
    Owner,
}

/// Why a request cannot be answered with a verdict: its author has to mend it.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestError {
    /// Null where it could not be read.
    pub id: Value,
    pub message: String,
    pub hint: Option<String>,
    /// Line and column in the request, from 1.
    pub place: Option<(u32, u32)>,
    /// The request's own, where it could be read.
    pub visibility: Option<Visibility>,
}
