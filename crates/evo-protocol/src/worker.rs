//! The worker protocol: one versioned JSON object a line on a child's stdin and stdout.
//!
//! A device worker is any command whose stdio speaks this: `evo worker`, `srun --gpus=1 evo worker`,
//! `ssh host evo worker`. The parent sends one request at a time and holds the deadline; while it
//! works the child says which phase it has reached, so that a death or a missed deadline has a place.

use std::path::PathBuf;

use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

use crate::device::{DeviceError, DeviceInfo, EntryAttributes, Telemetry};
use crate::measurement::{Measurement, TimingMode};
use crate::plan::ProblemPlan;
use crate::verdict::{Gate, GateReport, Verdict};

/// Raised by any change that an older peer would misread.
pub const PROTOCOL_VERSION: u32 = 1;

/// One line: version, request number, body. A response repeats its request's number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame<T> {
    pub v: u32,
    pub id: u64,
    pub body: T,
}

/// Parent to child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// Opens the device: `host`, `cuda:0`. `expected_cache` is a folder for fp64 references,
    /// `support_cubin` the CUDA device's own helper kernels (fill, compare, hash).
    Hello { device: String, expected_cache: Option<PathBuf>, support_cubin: Option<PathBuf> },
    /// Loads a candidate into a slot, replacing what was there.
    Load { slot: u8, candidate: Box<Candidate> },
    /// Answers `Need`: the binary's bytes in base64.
    Provide { hash: ContentHash, data: String },
    /// Runs one gate over some problems.
    Gate { slot: u8, gate: Gate, depth: Depth, plans: Vec<ProblemPlan> },
    /// Times one problem.
    Measure { slot: u8, plan: Box<ProblemPlan>, mode: TimingMode, policy: SamplePolicy },
    /// Interleaves slots 0 and 1, A B B A, on the same problem.
    Pair { plans: Box<[ProblemPlan; 2]>, mode: TimingMode, blocks: u32, block_ms: f64 },
    /// Runs the device's own known kernel: right answer, usual time, memory back.
    Canary,
    /// Clocks and power now.
    Telemetry,
    /// Ends the process.
    Shutdown,
}

/// Child to parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Response {
    /// The device is open.
    Ready { protocol: u32, pid: u32, info: Box<DeviceInfo> },
    /// Where the child is inside the current request; not an answer.
    Phase { phase: Phase, detail: String },
    /// The child lacks a binary; answered by `Provide`, then the request goes on.
    Need { hash: ContentHash },
    /// The candidate is loaded. Attributes per launch of the first plan are in the launch gate.
    Loaded { load_ms: f64 },
    /// A gate's answer; `verdict` is set when it failed. `attributes` by the launch gate.
    GateDone {
        report: GateReport,
        verdict: Option<Box<Verdict>>,
        #[serde(default)]
        attributes: Vec<EntryAttributes>,
        /// The process must not measure again.
        sticky: bool,
    },
    /// A measurement, or the verdict that prevented it.
    Measured {
        measurement: Option<Box<Measurement>>,
        honesty: Option<GateReport>,
        verdict: Option<Box<Verdict>>,
        sticky: bool,
    },
    /// Per block pair: ln(time B / time A); and all block medians, nanoseconds.
    Paired { log_ratios: Vec<f64>, a_ns: Vec<f64>, b_ns: Vec<f64>, telemetry: Telemetry },
    /// The canary sang: its time, and free device memory.
    Alive { canary_ns: f64, memory_free: Option<u64> },
    /// Clocks and power.
    Clocks { telemetry: Telemetry },
    /// Last words of a dying worker, written from its fault handler.
    Fault { error: Box<DeviceError> },
    /// The request itself could not be served.
    Failed { error: Box<DeviceError> },
}

/// Where a child is inside a request. Each has its own deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Opening the device.
    Opening,
    /// Loading the binary.
    Loading,
    /// Generating inputs and fp64 expectations, on our own account.
    Preparing,
    /// A launch has been enqueued and has not come back.
    Launched,
    /// Device work done; comparing.
    Checking,
    /// Taking samples.
    Timing,
}

/// How deep a gate looks: everyone gets `Quick`, contenders get `Full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// One seed, the normal family, two poisons.
    Quick,
    /// All seeds and families.
    Full,
}

/// What a worker is handed: a binary and how to judge it; never host code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// `BLOCK_M=32 NUM_WARPS=8 …`, for messages.
    pub label: String,
    /// Must be echoed by the module.
    pub variant_hash: ContentHash,
    pub binary: BinaryRef,
    pub entries: Vec<String>,
    /// The user's naive kernel, if that is the reference.
    pub reference: Option<(BinaryRef, Vec<String>)>,
    pub check: CheckPlan,
}

/// A binary by hash, with the path under which a local worker finds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BinaryRef {
    pub hash: ContentHash,
    pub path: Option<PathBuf>,
}

/// How answers are judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckPlan {
    pub reference: ReferencePlan,
    pub atol: Option<f64>,
    pub rtol: Option<f64>,
    pub trusted_factor: f64,
    /// The study's secret seed; case seeds are derived from it.
    pub seed: u64,
    pub seeds: u32,
    pub families: Vec<String>,
    pub deterministic: bool,
    pub repeats: u32,
}

/// Where expected outputs come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferencePlan {
    Builtin {
        name: String,
    },
    /// `ProblemPlan::reference_launches` in the reference binary.
    Kernel,
    /// Output buffer name and file.
    Npy {
        outputs: Vec<(String, PathBuf)>,
    },
}

/// When sampling stops.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplePolicy {
    /// Screening takes few samples and keeps no raw data.
    pub screen: bool,
    pub samples_min: u32,
    pub samples_max: u32,
    /// Relative half-width of the median's 95 % interval at which sampling stops.
    pub interval: f64,
    /// Warm-up, milliseconds of the same kernel.
    pub warmup_ms: f64,
    /// Cap on sampling, milliseconds.
    pub limit_ms: f64,
    /// Abandon (with what was seen) once the fastest sample so far is above this.
    pub abandon_above_ns: Option<f64>,
}
