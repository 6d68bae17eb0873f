//! The worker protocol: one versioned JSON object a line on a child's stdin and stdout.
//!
//! A device worker is any command whose stdio speaks this: `evo worker`, `srun --gpus=1 evo worker`,
//! `ssh host evo worker`. The parent sends one request at a time and holds the deadline; while it
//! works the child says which phase it has reached, so that a death or a missed deadline has a place.

use std::collections::BTreeMap;
use std::path::PathBuf;

use evo_space::genome::ContentHash;
use evo_space::text::quoted;
use serde::{Deserialize, Serialize};

use crate::binary::{Binary, Specialization};
use crate::check::CheckSet;
use crate::device::{DeviceError, DeviceInfo, EntryAttributes, Telemetry};
use crate::measurement::{Measurement, TimingMode};
use crate::plan::{Dictionary, ProblemPlan};
use crate::verdict::{Gate, GateReport, GateState, Verdict, VerdictKind};

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

/// What a worker is handed to judge: compiled code, and how its answers are judged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// `BLOCK_M=32 NUM_WARPS=8 …`, for messages.
    pub label: String,
    /// The compiled variant: one build for every problem, or one for each set of constants. Never empty.
    pub builds: Vec<CandidateBuild>,
    /// The user's naive kernel and its entry points, if that is the reference.
    pub reference: Option<(BinaryRef, Vec<String>)>,
    /// The same kernel in single precision, where `reference` computes in fp64.
    pub reference_single: Option<BinaryRef>,
    /// The task's kernels that derive inputs from inputs, and their entry points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<(BinaryRef, Vec<String>)>,
    pub check: CheckPlan,
}

impl Candidate {
    pub fn build_for(&self, plan: &ProblemPlan) -> Result<usize, DeviceError> {
        let found = self.builds.iter().position(|build| build.constants.serves(&plan.sizes));
        found.ok_or_else(|| {
            let kinds = quoted(self.builds.iter().map(|build| &build.constants));
            let message = format!("no binary was compiled for `{}`, only for {kinds}", plan.name);
            DeviceError::plain(VerdictKind::HarnessError, message)
        })
    }

    /// Entry points that launches of any problem use, each once.
    pub fn entries(&self) -> Vec<String> {
        let mut entries: Vec<String> = Vec::new();
        for entry in self.builds.iter().flat_map(|build| &build.entries) {
            if !entries.contains(entry) {
                entries.push(entry.clone());
            }
        }
        entries
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CandidateBuild {
    #[serde(default, skip_serializing_if = "Specialization::is_empty")]
    pub constants: Specialization,
    /// Must be echoed by the module.
    pub variant_hash: ContentHash,
    pub binary: BinaryRef,
    pub entries: Vec<String>,
    /// A second build in which the device sees every access, for variants that could enter the leaderboard.
    pub instrumented: Option<InstrumentedBuild>,
}

impl CandidateBuild {
    pub fn for_all(variant_hash: ContentHash, binary: BinaryRef, entries: Vec<String>) -> CandidateBuild {
        CandidateBuild { variant_hash, binary, entries, ..CandidateBuild::default() }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstrumentedBuild {
    Binary(BinaryRef),
    /// It did not compile, which is not the variant's fault: the variant itself did.
    Failed {
        why: String,
    },
}

/// A binary by hash, with the path under which a local worker finds it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BinaryRef {
    pub hash: ContentHash,
    pub path: Option<PathBuf>,
}

impl BinaryRef {
    pub fn of(binary: &Binary) -> BinaryRef {
        BinaryRef { hash: binary.hash.clone(), path: Some(binary.path.clone()) }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckPlan {
    pub reference: ReferencePlan,
    /// The file's own absolute tolerance; it replaces the one derived from the answer's size.
    pub atol: Option<f64>,
    pub rtol: Option<f64>,
    /// How many times a trusted computation's error is allowed; 0 allows any.
    pub trusted_factor: f64,
    /// The study's secret seed; case seeds are derived from it.
    pub seed: u64,
    pub seeds: u32,
    /// Input families by name; all where empty.
    pub families: Vec<String>,
    #[serde(default)]
    pub dictionary: Dictionary,
    pub deterministic: bool,
    pub repeats: u32,
    pub allow_state: bool,
    pub special_values: SpecialValues,
    /// Whether the kernel is compiled to assume that there are no NaN and no infinities.
    pub fast_math: bool,
    pub flushes_subnormals: bool,
    /// Whether the reference kernel computes in fp64 and takes fp64 buffers for floating-point arguments.
    pub reference_f64: bool,
    /// How long each series of further questions to a finalist may take (more shapes, more seeds, more calls),
    /// milliseconds.
    pub series_ms: u32,
    /// Which checks judge: all, except in the self-test of the gates.
    #[serde(default, skip_serializing_if = "CheckSet::are_all")]
    pub checks: CheckSet,
    /// The rule of the benchmark from which the kernel comes; it is reported and decides nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskTolerance>,
}

/// When a benchmark that states a task takes an output for correct: this share of its elements is within
/// `atol + rtol * |expected|`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskTolerance {
    pub atol: f64,
    pub rtol: f64,
    /// Of the elements, from 0 to 1.
    pub matched: f64,
}

/// [`CheckPlan::series_ms`] of a variant that is judged alone.
pub const SERIES_MS: u32 = 300;

/// How outputs for inputs with NaN, infinities, subnormal and huge numbers are judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpecialValues {
    /// The reference decides, and declared compiler options may relax it.
    #[default]
    Reference,
    /// Like the default configuration. Its answers are not taken yet, so such inputs are not tried either.
    AsDefault,
    /// Such inputs are not tried.
    Ignore,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferencePlan {
    Builtin {
        name: String,
    },
    /// `ProblemPlan::reference_launches` in the reference binary.
    #[default]
    Kernel,
    Command(CommandReference),
    /// Files, for problems with fixed inputs.
    Npy {
        outputs: Vec<(String, PathBuf)>,
    },
}

impl ReferencePlan {
    /// Whether it is the user's own and answers for any inputs, so that its error can be seen from outside.
    pub fn is_own(&self) -> bool {
        matches!(self, ReferencePlan::Kernel | ReferencePlan::Command(_))
    }
}

/// A command that computes expected outputs: trusted code of the task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandReference {
    pub command: Vec<String>,
    /// Where it runs: the space file's folder.
    pub folder: PathBuf,
    pub single: bool,
    pub serve: bool,
    pub timeout_ms: u64,
    pub files: Vec<PathBuf>,
}
