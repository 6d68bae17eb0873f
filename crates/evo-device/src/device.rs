//! The one trait behind which CUDA and the host stand, and the words both use.
//!
//! A device loads binaries, owns guarded buffers, runs launch plans and times them. It knows
//! nothing of verdicts' policy: it reports what happened (`DeviceError`), gates decide what it means.

use evo_protocol::device::{DeviceError, DeviceInfo, EntryAttributes, Telemetry};
use evo_protocol::dtype::DType;
use evo_protocol::measurement::TimingMode;

/// A loaded binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModuleId(pub u32);

/// A guarded buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub u32);

/// One launch with its arguments bound.
#[derive(Clone, Debug)]
pub struct BoundLaunch {
    /// Name of the entry point.
    pub entry: String,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory per block, bytes.
    pub shared_bytes: u32,
    /// Cluster extents in blocks.
    pub cluster: Option<[u32; 3]>,
    /// Whether all blocks must be resident at once.
    pub cooperative: bool,
    /// Whether it may start before its predecessor ends.
    pub programmatic: bool,
    /// What the entry point receives, in order.
    pub arguments: Vec<BoundArgument>,
}

/// An argument value.
#[derive(Clone, Debug)]
pub enum BoundArgument {
    /// Address of a buffer.
    Buffer(BufferId),
    /// Little-endian bytes of a scalar, `DType::bytes` long.
    Scalar(Vec<u8>),
}

/// Elementwise comparison of a buffer with expected values in fp64.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Elements compared.
    pub elements: u64,
    /// Elements that are NaN or infinite where the expected value is finite.
    pub non_finite: u64,
    /// Elements with |actual − expected| > atol + rtol·|expected| (or non-finite).
    pub mismatches: u64,
    /// Index of the first mismatch.
    pub first_bad: Option<u64>,
    /// What the kernel wrote there.
    pub first_bad_actual: f64,
    /// What was expected there.
    pub first_bad_expected: f64,
    /// Largest |actual − expected|.
    pub abs_error_max: f64,
    /// Where that is.
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Absolute part.
    pub atol: f64,
    /// Part relative to the expected value.
    pub rtol: f64,
}

/// A guard zone that no longer holds its pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardDamage {
    /// Name of the buffer whose zone it is.
    pub buffer: String,
    /// Offset in bytes from the buffer's start: negative before it, ≥ its size behind it.
    pub offset: i64,
    /// How many bytes changed.
    pub bytes_changed: u64,
}

/// What surrounds the launches of a checked run. An honest kernel gives the same output under all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunConditions {
    /// Seed of the order in which threads, warps and blocks take turns; ascending where there is none.
    /// On the host, seeds `2k` and `2k + 1` give opposite orders: a pair shows what one of them hides.
    pub order: Option<u64>,
    /// 4-byte pattern that shared memory and stacks hold before a block begins; whatever is there if none.
    pub residue: Option<u32>,
    /// Which end of a buffer touches its guard.
    pub placement: Placement,
}

/// Which end of a buffer touches its guard to the byte, as far as alignment allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// The last element, so that an access behind the buffer shows.
    #[default]
    End,
    /// The first element, so that an access before the buffer shows.
    Start,
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

    /// Sets the conditions of every later `launch`; `sample` runs under the default ones. A device applies
    /// the conditions that it has and ignores the others.
    ///
    /// # Errors
    /// Buffers cannot be moved to another placement.
    fn set_conditions(&mut self, _conditions: RunConditions) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Lets kernels only read a buffer, or write it again; a kernel that writes a protected buffer gets
    /// `input_mutated`. Returns whether the device can do it.
    ///
    /// # Errors
    /// The buffer does not exist, or its protection cannot be changed.
    fn protect(&mut self, _buffer: BufferId, _read_only: bool) -> Result<bool, DeviceError> {
        Ok(false)
    }

    /// What launches since the last call did that is allowed and worth a remark, such as threads that return before a
    /// barrier at which others wait.
    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }

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
