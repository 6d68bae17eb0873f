//! What a journal line says. Files outlive programs, so these types carry a format version and
//! change only by addition.

use std::collections::BTreeMap;

use evo_protocol::device::{DeviceInfo, EntryAttributes, Telemetry};
use evo_protocol::dtype::DType;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::{Environment, PairedProblem, Throughput};
use evo_protocol::measurement::RankingMode;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{GateReport, Verdict};
use evo_space::genome::{Configuration, ContentHash};
use serde::{Deserialize, Serialize};

use super::definition::{Conditions, StudyDefinition};
use crate::budget::StopReason;

/// The newest format that this evo reads. Raised by any change that an older evo would misread.
pub const FORMAT: u32 = 2;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum JournalRecord {
    /// A run begins; the first line, and again at every resume.
    Study(Box<StudyHeader>),
    /// A configuration goes to the device. Without an evaluation of the same number after it, it was
    /// in flight at a crash.
    ///
    /// With several lanes it stands twice: before any lane has it, and with the lane as soon as one takes it. A variant
    /// that goes to another lane has one more line.
    Started {
        number: u64,
        configuration: Configuration,
        /// The lane that has it, where there are several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lane: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_ms: Option<u64>,
    },
    Evaluation(Box<Evaluation>),
    /// A variant without a verdict: what its two tries met was not its doing. Its number is free for the
    /// verdict that a later run finds.
    NotFinal(Box<Evaluation>),
    Confirmation(Box<Confirmation>),
    /// A variant that a sanitizer looked at, finalist or not.
    Sanitized(Box<SanitizedVariant>),
    /// Evaluations of before the header above that hold under it too. Without it none of them does.
    Kept {
        numbers: Vec<u64>,
    },
    Note {
        at: String,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_ms: Option<u64>,
    },
    End(Box<RunEnd>),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StudyHeader {
    pub format: u32,
    /// Version of the verdict list.
    pub verdict_version: u32,
    pub evo: String,
    pub study: String,
    pub kernel: String,
    pub space: String,
    /// Hash of `inputs`: what must not change between resumes.
    pub space_hash: ContentHash,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<StudyInput>,
    /// What all variants share and what decides their verdicts beside them; none for a replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Conditions>,
    /// What a person edits, so that a change can be named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<StudyDefinition>,
    pub valid: String,
    pub problems: Vec<String>,
    pub checked: Vec<String>,
    pub seed: u64,
    pub strategy: String,
    /// The limits that the user gave the run, `500` or `90s`, and generations: a run that continues it keeps them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generations: Option<u32>,
    pub population: u32,
    pub ranking: RankingMode,
    /// Whether a variant that is slower than the baseline on one problem may rank first by its mean.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_trade: bool,
    /// Whether the search looks for the best configuration of each problem, and not for the least mean.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub per_problem: bool,
    /// Whether a variant may rank only where a sanitizer found nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub demands_sanitizer: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    pub device: DeviceInfo,
    pub environment: Environment,
    pub started_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
}

impl JournalRecord {
    /// Milliseconds of the study's running time when the record was written. They count from the start of the command and never fall. A resumed study goes on from its last
    /// stamp, so that the time between two runs, and what a killed run did after its last record, are left out.
    pub fn at_ms(&self) -> Option<u64> {
        match self {
            JournalRecord::Study(header) => header.at_ms,
            JournalRecord::Started { at_ms, .. } | JournalRecord::Note { at_ms, .. } => *at_ms,
            JournalRecord::Evaluation(one) | JournalRecord::NotFinal(one) => one.at_ms,
            JournalRecord::Confirmation(one) => one.at_ms,
            JournalRecord::Sanitized(one) => one.at_ms,
            JournalRecord::End(end) => end.at_ms,
            JournalRecord::Kept { .. } => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyInput {
    pub role: InputRole,
    /// A path as the space file or the command line says it, or the compiler's name and version.
    pub name: String,
    pub hash: ContentHash,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputRole {
    Space,
    Kernel,
    Reference,
    Data,
    Include,
    Compiler,
}

impl StudyInput {
    /// For messages: `` `inc/op.h` ``, `the compiler`.
    pub fn shown(&self) -> String {
        match self.role {
            InputRole::Compiler => "the compiler".to_string(),
            _ => format!("`{}`", self.name),
        }
    }
}

impl StudyHeader {
    pub fn is_edited(&self, earlier: &StudyHeader) -> bool {
        self.space_hash != earlier.space_hash
            || self.problems != earlier.problems
            || self.conditions != earlier.conditions
    }
}

/// The names of included files count, since they decide which file is found; the other names do not, since a space
/// file may be named in several ways.
pub fn space_hash(inputs: &[StudyInput]) -> ContentHash {
    let mut parts: Vec<String> = Vec::new();
    for input in inputs {
        let name = if input.role == InputRole::Include { input.name.as_str() } else { "" };
        parts.extend([format!("{:?}", input.role), name.to_string(), input.hash.to_string()]);
    }
    ContentHash::of_parts(parts.iter().map(String::as_bytes))
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProblemWork {
    pub problem: String,
    pub sizes: BTreeMap<String, i64>,
    pub weight: f64,
    pub flops: Option<f64>,
    pub bytes: Option<f64>,
    /// Whether inputs are 16-bit floats: decides which peak the roofline takes.
    pub half: bool,
    /// Per launch: entry, blocks, threads per block, dynamic shared bytes.
    pub launches: Vec<LaunchWork>,
}

impl ProblemWork {
    pub fn of(plan: &ProblemPlan) -> ProblemWork {
        let launches = plan.launches.iter().map(|launch| LaunchWork {
            entry: launch.entry.clone(),
            blocks: launch.grid.iter().product(),
            threads: launch.block.iter().product(),
            shared_bytes: launch.shared_bytes,
        });
        ProblemWork {
            problem: plan.name.clone(),
            sizes: plan.sizes.clone(),
            weight: plan.weight,
            flops: plan.flops,
            bytes: plan.bytes,
            half: plan.buffers.iter().any(|buffer| matches!(buffer.dtype, DType::F16 | DType::Bf16)),
            launches: launches.collect(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchWork {
    pub entry: String,
    pub blocks: i64,
    pub threads: i64,
    pub shared_bytes: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    /// The evaluation that made it a finalist.
    pub number: u64,
    pub baseline: u64,
    pub evaluation: Evaluation,
    pub pairs: Vec<PairedProblem>,
    pub work: Vec<ProblemWork>,
    /// Attributes of each launch of the first problem, read back from the device.
    pub attributes: Vec<EntryAttributes>,
    pub toolchain: String,
    /// Relative difference below which two times are a tie, by A against A.
    pub noise_floor: Option<f64>,
    /// The same comparison on another device; none where the run had one, or no time for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<RepeatedComparison>,
    /// Objective found by the screening, nanoseconds, for comparison with the confirmed one.
    pub screened_ns: Option<f64>,
    pub at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RepeatedComparison {
    pub lane: u32,
    pub device_uuid: String,
    pub pairs: Vec<PairedProblem>,
}

/// What a sanitizer said of an evaluated variant, and of those that share its code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SanitizedVariant {
    pub number: u64,
    pub configuration_hash: ContentHash,
    /// The machine code that was looked at: the answer holds for no other.
    pub code_hash: Option<ContentHash>,
    /// The gate's, with tool, version and findings as evidence.
    pub report: GateReport,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    pub at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SanitizeTally {
    pub variants: u64,
    pub findings: u64,
    pub unanswered: u64,
    pub seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    pub at: String,
    pub reason: StopReason,
    /// Evaluations in the study so far, and in this run.
    pub evaluations: u64,
    pub evaluations_this_run: u64,
    /// Variants of the study that were compiled and not run; they do not count as evaluations.
    #[serde(default)]
    pub passed_over: u64,
    /// Results that the study took over from others; they do not count as evaluations.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub taken_over: u64,
    /// Variants of the study that have no verdict; `--resume` tries them again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_final: u64,
    /// Finalists that were not confirmed because the wall time was used up.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub finalists_left: u64,
    /// None where nothing was asked of a sanitizer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sanitized: Option<SanitizeTally>,
    pub throughput: Throughput,
    pub device_at_start: Option<Telemetry>,
    pub device_at_end: Option<Telemetry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<LaneAccount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneAccount {
    pub lane: u32,
    /// `cuda:1`, `ssh node7`.
    pub name: String,
    /// The machine of its last worker; empty where nobody said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    pub device_uuid: String,
    pub evaluations: u64,
    /// Until the search was over.
    pub busy_seconds: f64,
    pub restarts: u64,
    /// Variants whose worker died on them, and which another lane took.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub given_back: u64,
    /// Without a worker, until the search was over.
    pub absent_seconds: f64,
    /// How many times as long as the first lane it took.
    pub ratio: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
}

impl LaneAccount {
    /// Where it works: `cuda:1 on node7`, and for a command, which names no device, `ray on node7, GPU-5f3a1c2e`.
    pub fn place(&self) -> String {
        let name = &self.name;
        let host = if self.host.is_empty() { String::new() } else { format!(" on {}", self.host) };
        let uuid = &self.device_uuid;
        if name.contains(':') || !uuid.starts_with("GPU-") {
            return format!("{name}{host}");
        }
        let end = uuid.match_indices('-').nth(1).map_or(uuid.len(), |(at, _)| at);
        format!("{name}{host}, {}", &uuid[..end])
    }
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
