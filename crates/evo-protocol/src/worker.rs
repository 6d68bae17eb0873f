//! The worker protocol: one versioned JSON object a line on a child's stdin and stdout.
//!
//! A device worker is any command whose stdio speaks this: `evo worker`, `srun --gpus=1 evo worker`,
//! `ssh host evo worker`. The parent sends one request at a time and holds the deadline; while it
//! works the child says which phase it has reached, so that a death or a missed deadline has a place.

use std::collections::BTreeMap;
use std::path::PathBuf;

use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

pub use crate::candidate::{
    BinaryRef, Candidate, CandidateBuild, CheckPlan, CommandReference, InstrumentedBuild, ReferencePlan,
    SERIES_MS, SpecialValues, TaskTolerance,
};
use crate::device::{DeviceError, DeviceInfo, EntryAttributes, Telemetry};
use crate::measurement::{Measurement, TimingMode};
use crate::plan::ProblemPlan;
use crate::verdict::{Gate, GateReport, GateState, Verdict};

/// Raised by any change that an older peer would misread.
pub const PROTOCOL_VERSION: u32 = 5;

/// One line: version, request number, body. A response repeats its request's number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame<T> {
    pub v: u32,
    pub id: u64,
    /// The nonce of the lease under which a worker answers; none where it has no lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    pub body: T,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReferenceKernels {
    pub name: String,
    pub path: PathBuf,
}

/// For a worker that may be on another machine: how it is known to be alive, and what it may ask for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerLease {
    /// In every frame that the worker sends from now on.
    pub nonce: String,
    /// Milliseconds between two signs of life.
    pub beat_ms: u64,
    /// The helper kernels of the greeting by content, where the worker cannot read their file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub support: Option<ContentHash>,
    /// The reference's kernels likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub references: Option<ContentHash>,
}

/// Parent to child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// Opens the device; the first request.
    Hello {
        /// `host` or `cuda:0`.
        device: String,
        /// Folder in which fp64 references are kept.
        expected_cache: PathBuf,
        /// The CUDA device's own helper kernels (fill, compare, hash), compiled.
        support_cubin: Option<PathBuf>,
        /// A built-in reference as kernels of the device; the processor computes it where this is absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reference_kernels: Option<ReferenceKernels>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease: Option<WorkerLease>,
    },
    /// Lists the GPUs of the worker's machine without opening one; before any greeting.
    Describe,
    /// Computes answers of the first case of each problem, before any candidate is there; answered by `Prepared`.
    Prepare {
        check: Box<CheckPlan>,
        plans: Vec<ProblemPlan>,
    },
    Load {
        /// 0 or 1.
        slot: u8,
        candidate: Box<Candidate>,
    },
    Provide {
        hash: ContentHash,
        data: String,
        /// Whether they are compressed; only under a lease.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        gzip: bool,
    },
    Gate {
        slot: u8,
        gate: Gate,
        depth: Depth,
        plans: Vec<ProblemPlan>,
    },
    Measure {
        slot: u8,
        plan: Box<ProblemPlan>,
        mode: TimingMode,
        policy: SamplePolicy,
    },
    Pair {
        /// The problem as each slot's configuration resolves it.
        plans: Box<[ProblemPlan; 2]>,
        mode: TimingMode,
        blocks: u32,
        block_ms: f64,
    },
    /// Launches a candidate on one problem, for a tool that watches: these launches and no gate. Nothing is compared.
    Run {
        slot: u8,
        plan: Box<ProblemPlan>,
        /// How often all launches of the plan are made, after the warm-up.
        calls: u32,
        warmup: u32,
        /// Whether buffers are allocated without guard zones, so that a tool sees where they end.
        unguarded: bool,
    },
    /// Times one block of one problem; blocks of several implementations take turns, each in a process of its own.
    Block {
        slot: u8,
        plan: Box<ProblemPlan>,
        mode: TimingMode,
        block_ms: f64,
        /// Whether the outputs of its last calls are checked.
        check: bool,
    },
    /// Writes the inputs of a case as `.npy` files, `inputs/NAME.npy` in a folder: a peer computes the same.
    HandOut {
        /// Where a candidate was loaded; its task says what the inputs are.
        slot: u8,
        plan: Box<ProblemPlan>,
        seed_index: u32,
        folder: PathBuf,
        /// Whether the answers are written too, as `expected/NAME.npy`. Only programs that check by themselves need them: who
        /// computes could copy them.
        expected: bool,
    },
    /// Compares `outputs/NAME.npy` in a folder with the answers to a case, as a candidate's outputs are compared;
    /// answered by `GateDone` for the gate of full shapes.
    JudgeForeign {
        slot: u8,
        plan: Box<ProblemPlan>,
        seed_index: u32,
        folder: PathBuf,
    },
    /// The health check: known work with a known answer, and how much device memory is free.
    Canary,
    Telemetry,
    Shutdown,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribedGpu {
    pub name: String,
    pub uuid: String,
    pub capability: (u32, u32),
}

/// Child to parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Response {
    Ready {
        protocol: u32,
        pid: u32,
        info: Box<DeviceInfo>,
        /// Which gates and which timing this worker has.
        judge: String,
        /// How the device is set up, as far as that changes its times; only under a lease.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        settings: BTreeMap<String, String>,
        /// The name of its machine; only under a lease.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        host: String,
    },
    Described {
        gpus: Vec<DescribedGpu>,
    },
    /// A sign of life; not an answer, and no progress either.
    Beat,
    /// Where the child is inside the current request; not an answer. It starts that phase's deadline.
    Phase {
        phase: Phase,
        /// What it is about: shape, seed, iteration.
        detail: String,
    },
    /// The child lacks a binary; answered by `Provide`, then the request goes on.
    Need {
        hash: ContentHash,
    },
    Prepared,
    Loaded {
        load_ms: f64,
    },
    GateDone(Box<GateAnswer>),
    Measured(Box<MeasureAnswer>),
    Paired(PairedTimes),
    Ran {
        /// Kernels of the candidate that were launched, warm-up included.
        launches: u64,
        /// Where the arguments' buffers lie, on devices whose kernels take addresses that a tool can report.
        buffers: Vec<BufferSpan>,
    },
    Sampled(Box<BlockAnswer>),
    HandedOut,
    Alive {
        canary_ns: f64,
        memory_free: Option<u64>,
    },
    Clocks {
        telemetry: Telemetry,
    },
    /// Last words of a dying worker, written from its fault handler.
    Fault {
        error: Box<DeviceError>,
    },
    Failed {
        error: Box<DeviceError>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferSpan {
    pub name: String,
    pub address: u64,
    pub bytes: u64,
}

/// What a gate found. The same value travels from the judge in the child to the cascade in the parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateAnswer {
    pub report: GateReport,
    /// Set exactly when the gate failed.
    pub verdict: Option<Box<Verdict>>,
    /// Attributes of each launch of every plan, in order; filled by the launch gate only.
    #[serde(default, with = "crate::listed_once")]
    pub attributes: Vec<EntryAttributes>,
    /// The process has seen an error that no later call recovers from: it must not measure again.
    pub sticky: bool,
}

impl GateAnswer {
    /// A gate that passes unless something is found.
    pub fn begin(gate: Gate) -> GateAnswer {
        let report = GateReport { state: GateState::Pass, ..GateReport::not_run(gate, "") };
        GateAnswer { report, verdict: None, attributes: Vec::new(), sticky: false }
    }

    pub fn not_run(gate: Gate, why: impl Into<String>) -> GateAnswer {
        GateAnswer { report: GateReport::not_run(gate, why), ..GateAnswer::begin(gate) }
    }

    pub fn refuse(&mut self, verdict: Verdict) {
        self.report.state = GateState::Fail;
        self.report.message.clone_from(&verdict.message);
        self.verdict = Some(Box::new(verdict));
    }

    pub fn failed(gate: Gate, error: &DeviceError) -> GateAnswer {
        let mut answer = GateAnswer { sticky: error.sticky, ..GateAnswer::begin(gate) };
        answer.refuse(error.verdict());
        answer
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasureAnswer {
    /// Absent only where a verdict prevented it.
    pub measurement: Option<Box<Measurement>>,
    /// What was checked between samples; absent in a screening, which checks nothing.
    pub honesty: Option<GateReport>,
    /// Set where the variant is refused, here or by the honesty gate.
    pub verdict: Option<Box<Verdict>>,
    pub sticky: bool,
}

impl MeasureAnswer {
    pub fn failed(error: &DeviceError) -> MeasureAnswer {
        let verdict = Some(Box::new(error.verdict()));
        MeasureAnswer { verdict, sticky: error.sticky, ..MeasureAnswer::default() }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockAnswer {
    /// Nanoseconds a call, in the order in which they were taken.
    pub samples_ns: Vec<f64>,
    /// The plain parity of one more call (see `GateReport::PARITY_NUMBERS`), where outputs were checked.
    pub parity: Option<serde_json::Value>,
    /// Set where the candidate cannot be timed, or where its outputs were wrong.
    pub verdict: Option<Box<Verdict>>,
    pub sticky: bool,
}

/// What the blocks of one process gave, A B B A.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairedTimes {
    /// Per block A B B A: two values of ln(time B / time A).
    pub log_ratios: Vec<f64>,
    pub a_ns: Vec<f64>,
    pub b_ns: Vec<f64>,
    #[serde(default)]
    pub telemetry: Telemetry,
}

impl PairedTimes {
    /// The same comparison seen from B: what a run with swapped slots means for its caller.
    pub fn swapped(self) -> PairedTimes {
        // Ratios are logarithms, so exchanging the sides only changes the sign.
        let log_ratios = self.log_ratios.iter().map(|ratio| -ratio).collect();
        PairedTimes { log_ratios, a_ns: self.b_ns, b_ns: self.a_ns, telemetry: self.telemetry }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Opening,
    Loading,
    /// Generating inputs and fp64 references: our own work, not held against the variant.
    Preparing,
    /// A launch has been enqueued and has not come back.
    Launched,
    /// Device work done; comparing.
    Checking,
    Timing,
}

/// How deep a gate looks: every variant gets `Quick`, contenders get `Full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// One seed, the normal family, two poisons.
    Quick,
    /// All seeds and families.
    Full,
    /// The same, with many more repetitions, seeds and shapes, as time allows: finalists, and variants judged alone.
    Deep,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplePolicy {
    /// Whether this is a screening, which takes few samples and keeps no raw data.
    pub screen: bool,
    /// Samples before any rule but `abandon_above_ns` may stop.
    pub samples_min: u32,
    pub samples_max: u32,
    /// Relative half-width of the median's 95 % interval at which sampling stops.
    pub interval: f64,
    /// Warm-up, milliseconds of the same kernel.
    pub warmup_ms: f64,
    pub limit_ms: f64,
    /// Abandon (with what was seen) once the fastest sample so far is above this.
    pub abandon_above_ns: Option<f64>,
    /// A race: how a screening goes on for a variant that is close to those to beat.
    pub race: Option<RacePolicy>,
}

/// When a race on one problem is over before the interval is as tight as was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RacePolicy {
    /// The time to beat, nanoseconds: the race ends once the median's interval lies to one side of it. `None` where
    /// one problem alone does not decide.
    pub rival_ns: Option<f64>,
}
