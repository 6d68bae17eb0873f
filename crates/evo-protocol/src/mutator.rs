//! What evo and a mutator say to each other: JSON objects, one a line, each with `v`, `type` and `id`.
//!
//! A mutator is an outside program that proposes sources. It learns what a candidate's author may learn: never a seed,
//! an expected output, a tolerance or a path. Fields that a reader does not know are ignored; a message of an unknown
//! type is answered by `error`.

use std::collections::BTreeMap;

use evo_space::genome::Configuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::device::DeviceInfo;

/// The version of the protocol.
pub const MUTATOR_VERSION: u32 = 1;
/// Bytes of one line of a mutator's, without its end.
pub const MUTATOR_LINE_MAX: usize = 4 << 20;
/// Bytes of one proposed source.
pub const MUTATOR_SOURCE_MAX: usize = 1 << 20;
/// Proposals of one answer.
pub const MUTATOR_PROPOSALS_MAX: usize = 32;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MutatorMessage<B> {
    /// [`MUTATOR_VERSION`] of the sender.
    pub v: u32,
    /// Number of the message that evo sent, from 1; an answer repeats it.
    pub id: u64,
    /// The message itself.
    #[serde(flatten)]
    pub body: B,
}

/// What evo says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MutatorRequest {
    /// The task, once after each start. Answered by `ready`.
    Hello(Box<MutatorTask>),
    /// Asks for proposals. Answered by `proposals`.
    Propose(Box<MutatorOrder>),
    /// What became of a proposal. Not answered.
    Result(Box<MutatorResult>),
    /// What was wrong with a line of the mutator's. Not answered.
    Error {
        /// For people.
        message: String,
    },
    /// The end. The mutator ends by itself, or is killed soon after.
    Shutdown,
}

/// What a mutator says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MutatorAnswer {
    /// It has read the task.
    Ready {
        /// What it calls itself.
        #[serde(default)]
        name: Option<String>,
    },
    /// What it proposes; none says that it has nothing more.
    Proposals {
        /// No more than were asked for.
        proposals: Vec<MutatorProposal>,
    },
    /// It cannot do what the message of this number asks.
    Error {
        /// For people.
        message: String,
    },
}

/// What is to be made faster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MutatorTask {
    /// The kernel's name.
    pub kernel: String,
    /// `cuda`: parameters arrive as macros; `template`: minijinja fills them in.
    pub source_kind: String,
    /// The space's own source.
    pub source: String,
    /// Names of the regions that may be edited; none where all of the source may be.
    pub regions: Vec<String>,
    /// What each entry takes, in order.
    pub arguments: Vec<MutatorArgument>,
    /// Launches of one call, in order: expressions over sizes and parameters.
    pub launches: Vec<MutatorLaunch>,
    /// Parameters of the space with their values.
    pub parameters: Vec<MutatorParameter>,
    /// Timed problems with their sizes.
    pub problems: Vec<MutatorSizes>,
    /// The device, without its serial number.
    pub device: DeviceInfo,
    /// What an answer may hold.
    pub caps: MutatorCaps,
}

/// One argument of the entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MutatorArgument {
    /// Its name.
    pub name: String,
    /// `buffer`, `scalar` or `tensor_map`.
    pub kind: String,
    /// Type of an element, or of the number.
    pub dtype: Option<String>,
    /// `input`, `output` or another role of a buffer.
    pub role: Option<String>,
    /// Extents of a buffer, outermost first, as expressions.
    pub shape: Vec<String>,
}

/// One launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MutatorLaunch {
    /// The function's name.
    pub entry: String,
    /// Blocks in x, y, z.
    pub grid: Vec<String>,
    /// Threads in x, y, z.
    pub block: Vec<String>,
    /// Dynamic shared memory, bytes.
    pub shared_bytes: Option<String>,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MutatorParameter {
    /// Its name.
    pub name: String,
    /// Its values, in order.
    pub values: Vec<Value>,
    /// Its default.
    pub default: Value,
}

/// A problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MutatorSizes {
    /// Its name.
    pub name: String,
    /// Sizes by name.
    pub sizes: BTreeMap<String, Value>,
}

/// Upper ends of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MutatorCaps {
    /// Bytes of a line.
    pub line_bytes: usize,
    /// Bytes of a source.
    pub source_bytes: usize,
    /// Proposals of an answer.
    pub proposals: usize,
    /// Time for an answer, seconds.
    pub deadline_s: f64,
}

/// A question for proposals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MutatorOrder {
    /// How many at most.
    pub n: usize,
    /// A later answer does not count, seconds.
    pub deadline_s: f64,
    /// What is left of the mutator's budget, seconds.
    pub budget_left_s: f64,
    /// What is wanted.
    pub operator: MutatorOperator,
    /// What to begin with, the best first.
    pub parents: Vec<MutatorParent>,
    /// Proposals that failed since the last question.
    pub failures: Vec<MutatorFailure>,
    /// The fastest source of each kind that passed so far, the fastest first.
    #[serde(default)]
    pub archive: Vec<MutatorElite>,
    /// What the search over parameters has learned; null where there was none.
    #[serde(default)]
    pub knows: Option<MutatorKnowledge>,
}

/// The fastest source of its kind. Each can be named as a `parent`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MutatorElite {
    /// Its kind.
    pub cell: MutatorCell,
    /// `space`, or a proposal.
    pub id: String,
    /// Its best configuration.
    #[schemars(with = "BTreeMap<String, Value>")]
    pub configuration: Configuration,
    /// Of a screening, nanoseconds.
    pub objective_ns: f64,
    /// Sources of this kind that passed.
    pub passed: usize,
}

/// What kind of kernel a source is, by what its machine code does. Null is what cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct MutatorCell {
    /// `wgmma`, `mma`, `fma` or `none`.
    pub arithmetic: Option<String>,
    /// `tma`, `cp.async`, `ld` or `none`.
    pub loads: Option<String>,
    /// The parameter `STAGES` of its best configuration.
    pub stages: Option<i64>,
}

/// What a search over parameters has learned about the space's own source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MutatorKnowledge {
    /// Evaluations that it rests on.
    pub evaluations: usize,
    /// Share of the variance of log time that the parameters explain on points that were held out; null where there is
    /// too little to learn from. At 0 or below `importance` means nothing.
    pub explained: Option<f64>,
    /// Parameters with their share of the importance, 0 to 1, the most important first.
    pub importance: Vec<MutatorImportance>,
    /// Values that some valid point has and no evaluation had.
    pub untried: Vec<MutatorValues>,
    /// Values that were tried and never passed.
    pub never_passed: Vec<MutatorValues>,
    /// Parameters that change neither machine code nor launches.
    pub dead: Vec<String>,
    /// Points of the space that were never tried and that a model of the evaluations expects to be fastest, the fastest
    /// first; empty where there is too little to learn from.
    #[serde(default)]
    pub expected: Vec<MutatorExpected>,
}

/// What is expected of a point that was never tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MutatorExpected {
    /// The point.
    #[schemars(with = "BTreeMap<String, Value>")]
    pub configuration: Configuration,
    /// Expected time, nanoseconds.
    pub objective_ns: f64,
    /// One standard deviation below, nanoseconds.
    pub low_ns: f64,
    /// One standard deviation above.
    pub high_ns: f64,
}

/// How much a parameter matters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MutatorImportance {
    /// Its name.
    pub parameter: String,
    /// Its share, 0 to 1.
    pub share: f64,
}

/// Values of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MutatorValues {
    /// Its name.
    pub parameter: String,
    /// In the order of the space.
    pub values: Vec<Value>,
}

/// What a question asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MutatorOperator {
    /// First ideas.
    Init,
    /// Changes of the first parent.
    Mutate,
    /// What the parents do well, in one source.
    Crossover,
    /// Parents that failed, mended.
    Repair,
}

/// A source to begin with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MutatorParent {
    /// What `parent` of a proposal names: `space`, or a proposal.
    pub id: String,
    /// Its text.
    pub source: String,
    /// Its best configuration.
    #[schemars(with = "BTreeMap<String, Value>")]
    pub configuration: Configuration,
    /// What became of it.
    pub verdict: String,
    /// Weighted geometric mean over the timed problems of a screening, nanoseconds.
    pub objective_ns: Option<f64>,
    /// Registers, shared memory, occupancy, spills.
    pub resources: Value,
    /// Null: a profiler is not asked.
    pub bottleneck: Option<String>,
    /// The end of what the compiler or evo said of it, at most 8 KiB.
    pub log_tail: String,
}

/// A proposal that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MutatorFailure {
    /// The proposal.
    pub id: String,
    /// What it was called.
    pub name: String,
    /// What became of it; `refused` where it was not judged.
    pub verdict: String,
    /// Why, and what usually helps.
    pub lesson: String,
}

/// One proposal: exactly one of `source`, `edits` and `genome`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MutatorProposal {
    /// What it is called.
    #[serde(default)]
    pub name: String,
    /// What the edits change: a parent's `id`; the first parent where it is left out.
    #[serde(default)]
    pub parent: Option<String>,
    /// A whole source.
    #[serde(default)]
    pub source: Option<String>,
    /// Edits of the parent, one after the other.
    #[serde(default)]
    pub edits: Option<Vec<MutatorEdit>>,
    /// Parameters of the space's own source.
    #[serde(default)]
    pub genome: Option<BTreeMap<String, Value>>,
    /// Launches by entry: `grid`, `block`, `shared_bytes` as expressions over sizes and parameters.
    #[serde(default)]
    pub launch: Option<BTreeMap<String, Value>>,
    /// Why it should be faster.
    #[serde(default)]
    pub thought: Option<String>,
    /// The speed-up that it is expected to have; kept, and decides nothing.
    #[serde(default)]
    pub expected: Option<f64>,
    /// What it took to find it: tokens, dollars; kept, and decides nothing.
    #[serde(default)]
    pub cost: Option<Value>,
}

/// A text that takes the place of another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MutatorEdit {
    /// Occurs exactly once.
    pub search: String,
    /// What stands there afterwards.
    pub replace: String,
}

/// What became of a proposal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MutatorResult {
    /// The proposal: the `id` of its question, a dot, its position from 1.
    pub proposal: String,
    /// What it was called.
    pub name: String,
    /// What became of its best configuration; `refused` where it was not judged, `harness_error` where that is not its
    /// doing.
    pub verdict: String,
    /// Why, in words that its author may read.
    pub message: String,
    /// Its best configuration.
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    pub configuration: Option<Configuration>,
    /// Configurations that were tried.
    pub tried: usize,
    /// Of a screening, nanoseconds; null where none passed.
    pub objective_ns: Option<f64>,
    /// Paired with the best before it; null where it was not compared.
    pub speedup: Option<f64>,
    /// Whether it is the best from now on.
    pub accepted: bool,
    /// Registers, shared memory, occupancy, spills.
    pub resources: Value,
    /// The end of what the compiler or evo said of it, at most 8 KiB.
    pub log_tail: String,
}
