//! The one trait behind which CUDA and the host stand, and the words both use.
//!
//! A device loads binaries, owns guarded buffers, runs launch plans and times them. It knows
//! nothing of verdicts' policy: it reports what happened (`DeviceError`), gates decide what it means.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::kernel::spec::DType;
use crate::verdict::VerdictKind;

/// Which kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// This machine's processor.
    Host,
    /// An NVIDIA GPU.
    Cuda,
    /// A recording that answers in a device's place; nothing is compiled, run or measured.
    Replay,
}

impl DeviceKind {
    /// The name in files and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            DeviceKind::Host => "host",
            DeviceKind::Cuda => "cuda",
            DeviceKind::Replay => "replay",
        }
    }
}

/// What a device is and what it allows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceInfo {
    pub kind: DeviceKind,
    /// `NVIDIA H200`, or the processor's model.
    pub name: String,
    /// Compilation target: `sm_90a`, or `host`.
    pub arch: String,
    /// GPU UUID, or a name of the host's own.
    pub uuid: String,
    /// Driver version, or the C++ compiler's for the host.
    pub driver: String,
    /// Multiprocessors, or cores.
    pub multiprocessors: u32,
    pub limits: DeviceLimits,
    /// Bytes of L2 (host: last-level) cache.
    pub l2_bytes: u64,
    /// Bytes of device memory.
    pub memory_bytes: u64,
    /// Peak device memory bandwidth in bytes per second, if known.
    pub bandwidth: Option<f64>,
    /// Peak fp32 operations per second outside matrix units, if known.
    pub flops_f32: Option<f64>,
    /// Peak dense fp16 operations per second in matrix units, if known.
    pub flops_f16: Option<f64>,
}

/// Launch limits, checked before compiling and again at launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceLimits {
    pub threads_per_block: u32,
    pub block: [u32; 3],
    pub grid: [u32; 3],
    /// Static shared memory per block, bytes.
    pub shared_static_bytes: u64,
    /// Shared memory per block after opting in, bytes.
    pub shared_optin_bytes: u64,
    pub registers_per_block: u32,
    /// Largest cluster in blocks; 1 where clusters do not exist.
    pub cluster: u32,
    pub cooperative: bool,
}

impl DeviceLimits {
    /// Limits of a compute capability, for work without the device: `sm_89`, `sm_90a`, … as the
    /// CUDA programming guide's table of technical specifications gives them.
    pub fn of_arch(arch: &str) -> Option<DeviceLimits> {
        let digits: u32 = arch.strip_prefix("sm_")?.trim_end_matches(['a', 'f']).parse().ok()?;
        let optin_kib = match digits {
            75 => 64,
            80 | 87 => 163,
            86 | 89 | 120 | 121 => 99,
            90 | 100 | 103 | 110 => 227,
            _ => return None,
        };
        Some(DeviceLimits {
            threads_per_block: 1024,
            block: [1024, 1024, 64],
            grid: [i32::MAX as u32, 65_535, 65_535],
            shared_static_bytes: static_limit(digits / 10, optin_kib * 1024),
            shared_optin_bytes: optin_kib * 1024,
            registers_per_block: 65_536,
            cluster: if digits >= 90 { 8 } else { 1 },
            cooperative: true,
        })
    }
}

/// Static shared memory that a block may declare, bytes. From compute capability 9.0 on the assembler
/// accepts, and the device launches, as much as dynamic memory may have (seen on an H200 with 64 KiB).
pub fn static_limit(capability_major: u32, optin_bytes: u64) -> u64 {
    if capability_major >= 9 { optin_bytes } else { 48 * 1024 }
}

/// A loaded binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModuleId(pub u32);

/// A guarded buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub u32);

/// What one entry point needs, read back from the loaded module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EntryAttributes {
    pub registers: u32,
    pub shared_static_bytes: u64,
    /// Local memory per thread: stack and spills, bytes.
    pub local_bytes: u64,
    pub threads_max: u32,
    /// Resident blocks per multiprocessor at the launch's block size and shared memory, if known.
    pub blocks_per_multiprocessor: Option<u32>,
}

/// One launch with its arguments bound.
#[derive(Clone, Debug)]
pub struct BoundLaunch {
    pub entry: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    pub cluster: Option<[u32; 3]>,
    pub cooperative: bool,
    pub programmatic: bool,
    pub arguments: Vec<BoundArgument>,
}

/// An argument value.
#[derive(Clone, Debug)]
pub enum BoundArgument {
    Buffer(BufferId),
    /// Little-endian bytes of a scalar, `DType::bytes` long.
    Scalar(Vec<u8>),
}

/// How samples are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimingMode {
    /// Device time per call, back to back (CUDA: graph replay of a batch).
    Hot,
    /// Device time of one call after the L2 cache was flushed.
    Cold,
    /// Host-visible time of one call, launch included.
    Eager,
}

impl TimingMode {
    /// The name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            TimingMode::Hot => "hot",
            TimingMode::Cold => "cold",
            TimingMode::Eager => "eager",
        }
    }
}

/// Elementwise comparison of a buffer with expected values in fp64.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub elements: u64,
    /// Elements that are NaN or infinite where the expected value is finite.
    pub non_finite: u64,
    /// Elements with |actual − expected| > atol + rtol·|expected| (or non-finite).
    pub mismatches: u64,
    pub first_bad: Option<u64>,
    pub first_bad_actual: f64,
    pub first_bad_expected: f64,
    pub abs_error_max: f64,
    pub abs_error_max_index: u64,
    /// Σ (actual − expected)².
    pub error_square_sum: f64,
    /// Σ expected².
    pub expected_square_sum: f64,
    /// Σ (actual − expected): a bias shows here.
    pub error_sum: f64,
}

impl Comparison {
    /// ‖actual − expected‖ / ‖expected‖ (Frobenius); the plain norm where the expected norm is 0.
    pub fn relative_norm(&self) -> f64 {
        let error = self.error_square_sum.sqrt();
        if self.expected_square_sum > 0.0 { error / self.expected_square_sum.sqrt() } else { error }
    }
}

/// Elementwise tolerance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tolerance {
    pub atol: f64,
    pub rtol: f64,
}

/// A guard zone that no longer holds its pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuardDamage {
    pub buffer: String,
    /// Offset in bytes from the buffer's start: negative before it, ≥ its size behind it.
    pub offset: i64,
    pub bytes_changed: u64,
}

/// Clocks, power and heat at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Telemetry {
    pub clock_sm_mhz: Option<u32>,
    pub clock_memory_mhz: Option<u32>,
    pub temperature_c: Option<u32>,
    pub power_w: Option<f64>,
    /// NVML clock-event reasons, by name.
    #[serde(default)]
    pub throttle_reasons: Vec<String>,
}

/// What a device has to say about trouble.
#[derive(Clone, Debug, Error, PartialEq, Serialize, Deserialize)]
#[error("{kind}: {message}")]
pub struct DeviceError {
    /// The verdict that this error means for the variant at work.
    pub kind: VerdictKind,
    /// A closed word such as `smem`.
    pub cause: Option<String>,
    pub message: String,
    /// The driver's error code, if there was one.
    pub code: Option<i32>,
    /// Whether the process must end before anything can be measured again.
    pub sticky: bool,
    /// Numbers behind it.
    #[serde(default)]
    pub evidence: serde_json::Map<String, serde_json::Value>,
}

impl DeviceError {
    /// An error that leaves the device usable.
    pub fn plain(kind: VerdictKind, message: impl Into<String>) -> DeviceError {
        DeviceError {
            kind,
            cause: None,
            message: message.into(),
            code: None,
            sticky: false,
            evidence: serde_json::Map::new(),
        }
    }

    /// The same with a cause.
    pub fn with_cause(mut self, cause: &str) -> DeviceError {
        self.cause = Some(cause.to_string());
        self
    }

    /// The same, demanding a new process.
    pub fn sticky(mut self) -> DeviceError {
        self.sticky = true;
        self
    }
}

/// A machine that runs launch plans.
///
/// Buffers carry guard zones on both sides (CUDA: patterned, checked on request; host: unmapped
/// pages, so that an access faults and ends the process).
pub trait Device {
    /// What it is.
    fn info(&self) -> &DeviceInfo;

    /// Loads a binary (cubin, or shared object) whose entry points are `entries`.
    fn load(&mut self, binary: &[u8], entries: &[String]) -> Result<ModuleId, DeviceError>;

    /// Unloads a module.
    fn unload(&mut self, module: ModuleId) -> Result<(), DeviceError>;

    /// The hash text compiled into the module (`evo_variant_hash`), if the module has that symbol.
    fn echo(&mut self, module: ModuleId) -> Result<Option<String>, DeviceError>;

    /// Attributes of one launch's entry point, its occupancy included.
    fn attributes(&mut self, module: ModuleId, launch: &BoundLaunch) -> Result<EntryAttributes, DeviceError>;

    /// Allocates a guarded buffer; `name` appears in messages about it.
    fn allocate(&mut self, name: &str, bytes: u64) -> Result<BufferId, DeviceError>;

    /// Frees a buffer.
    fn free(&mut self, buffer: BufferId) -> Result<(), DeviceError>;

    /// Copies from the host to the start of the buffer.
    fn write(&mut self, buffer: BufferId, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Copies the whole buffer to the host.
    fn read(&mut self, buffer: BufferId) -> Result<Vec<u8>, DeviceError>;

    /// Copies one buffer over another of the same size.
    fn copy(&mut self, from: BufferId, to: BufferId) -> Result<(), DeviceError>;

    /// Fills the buffer with a repeated little-endian 4-byte pattern.
    fn fill(&mut self, buffer: BufferId, pattern: u32) -> Result<(), DeviceError>;

    /// A hash of the buffer's contents; equal contents give equal hashes within one process.
    fn hash(&mut self, buffer: BufferId) -> Result<u64, DeviceError>;

    /// Number of 4-byte words (2-byte for 2-byte types, …: the pattern cut to the element size) that
    /// still hold the fill pattern, element by element.
    fn count_pattern(&mut self, buffer: BufferId, dtype: DType, pattern: u32) -> Result<u64, DeviceError>;

    /// Compares with expected fp64 values held in another buffer.
    fn compare(
        &mut self,
        actual: BufferId,
        dtype: DType,
        expected: BufferId,
        tolerance: Tolerance,
    ) -> Result<Comparison, DeviceError>;

    /// Damaged guard zones of all live buffers.
    fn check_guards(&mut self) -> Result<Vec<GuardDamage>, DeviceError>;

    /// Rewrites guard zones (with `pattern`), so that a later read shows in the output.
    fn arm_guards(&mut self, pattern: u32) -> Result<(), DeviceError>;

    /// Enqueues launches in order.
    fn launch(&mut self, module: ModuleId, launches: &[BoundLaunch]) -> Result<(), DeviceError>;

    /// Waits for everything enqueued.
    fn synchronize(&mut self) -> Result<(), DeviceError>;

    /// Takes `samples` samples of one call (all launches), in nanoseconds per call. In hot mode each
    /// sample is the mean over `batch` calls.
    fn sample(
        &mut self,
        module: ModuleId,
        launches: &[BoundLaunch],
        mode: TimingMode,
        samples: u32,
        batch: u32,
    ) -> Result<Vec<f64>, DeviceError>;

    /// Clocks, power, heat.
    fn telemetry(&mut self) -> Telemetry;

    /// Free device memory in bytes, if it can be told.
    fn memory_free(&mut self) -> Option<u64>;
}
