//! The one trait behind which CUDA and the host stand, and the words both use.
//!
//! A device reports what happened (`DeviceError`), gates decide what it means.

use std::time::Duration;

use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::{DeviceError, DeviceInfo, EntryAttributes, Telemetry};
use evo_protocol::dtype::DType;
use evo_protocol::measurement::TimingMode;
use evo_protocol::tensor_map::TensorMap;
use serde::{Deserialize, Serialize};

pub use crate::plain_errors::{PlainErrors, Tolerance};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModuleId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BufferId(pub u32);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BoundLaunch {
    pub entry: String,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory per block, bytes.
    pub shared_bytes: u32,
    pub cluster: Option<[u32; 3]>,
    pub cooperative: bool,
    pub programmatic: bool,
    /// The buffer that the L2 cache is to keep during the launch; without effect where the device has no such cache.
    #[serde(default)]
    pub l2_persist: Option<BoundWindow>,
    pub arguments: Vec<BoundArgument>,
}

impl BoundLaunch {
    pub fn blocks(&self) -> u64 {
        self.grid.iter().map(|&extent| u64::from(extent)).fold(1, u64::saturating_mul)
    }

    /// A buffer that the entry point receives twice comes twice.
    pub fn buffers(&self) -> impl Iterator<Item = BufferId> + '_ {
        self.arguments.iter().filter_map(|argument| match argument {
            BoundArgument::Buffer(buffer) | BoundArgument::TensorMap { buffer, .. } => Some(*buffer),
            BoundArgument::Scalar(_) => None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoundWindow {
    pub buffer: BufferId,
    /// Share of its accesses that are kept, above 0 and at most 1.
    pub ratio: f32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum BoundArgument {
    /// Address of a buffer.
    Buffer(BufferId),
    /// Little-endian bytes of a scalar, `DType::bytes` long.
    Scalar(Vec<u8>),
    /// A tensor map of a buffer, passed by value: 128 bytes, which the device encodes for the address that the buffer
    /// has when the launch begins.
    TensorMap { buffer: BufferId, map: TensorMap },
}

#[derive(Clone, Copy, Debug)]
pub struct SampleOrder<'a> {
    /// Calls that take turns, each with all of its launches and buffers of its own. Call n is number n modulo
    /// their count, where calls are counted from 0 in each hot sample, and over all samples otherwise.
    pub rotation: &'a [Vec<BoundLaunch>],
    pub mode: TimingMode,
    pub samples: u32,
    /// In hot mode each sample is the mean over so many calls.
    pub batch: u32,
    /// Whether nothing may run before the first sample, because calls use up what their buffers hold.
    pub untouched: bool,
}

/// Elementwise comparison of a buffer with expected values in fp64.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    pub elements: u64,
    /// Elements that are NaN or infinite where the expected value is finite.
    pub non_finite: u64,
    /// Mismatches where the expected value is NaN or infinite. NaN matches NaN, an infinity only itself.
    pub special: u64,
    /// Elements with |actual − expected| > atol + rtol·|expected| (or non-finite).
    pub mismatches: u64,
    pub first_bad: Option<u64>,
    pub first_bad_actual: f64,
    pub first_bad_expected: f64,
    pub abs_error_max: f64,
    pub abs_error_max_index: u64,
    /// Σ (actual − expected)².
    pub error_square_sum: f64,
    pub expected_square_sum: f64,
    /// Σ (actual − expected): an offset shows here.
    pub error_sum: f64,
    /// Σ (actual − expected)·expected: a wrong scale shows here.
    pub error_dot_sum: f64,
}

impl Comparison {
    /// The bits, but for the sign, of an expected value that stands for an infinity of that sign or NaN: they come
    /// from no arithmetic.
    pub const INFINITY_OR_NAN: u64 = 0x7ff8_6576_6f00_0001;

    /// The bits of an expected value that stands for NaN and both infinities.
    pub const NOT_FINITE: u64 = 0x7ff8_6576_6f00_0002;
    /// The bits of an expected value that stands for every value, because rounding decides what it is.
    pub const ANYTHING: u64 = 0x7ff8_6576_6f00_0003;

    pub fn infinity_or_nan(infinity: f64) -> f64 {
        f64::from_bits(Self::INFINITY_OR_NAN | infinity.to_bits() & 1 << 63)
    }

    pub fn is_same(actual: f64, expected: f64) -> bool {
        let as_good = match expected.to_bits() & !(1 << 63) {
            Self::INFINITY_OR_NAN => {
                actual.is_infinite() && actual.is_sign_negative() == expected.is_sign_negative()
            }
            Self::NOT_FINITE => actual.is_infinite(),
            Self::ANYTHING => true,
            _ => false,
        };
        actual == expected || as_good || (actual.is_nan() && expected.is_nan())
    }

    /// ‖actual − expected‖ / ‖expected‖ (Frobenius); the plain norm where the expected norm is 0.
    pub fn relative_norm(&self) -> f64 {
        let error = self.error_square_sum.sqrt();
        if self.expected_square_sum > 0.0 { error / self.expected_square_sum.sqrt() } else { error }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockError {
    /// ‖actual − expected‖ / (‖expected‖ + floor·√elements) of the block.
    pub ratio: f64,
    pub index: u64,
}

/// A part of a buffer, and where it goes in another: offsets and length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedPart {
    pub source: u64,
    pub target: u64,
    pub bytes: u64,
}

impl CopiedPart {
    pub fn fits(self, source: u64, target: u64) -> bool {
        let ends = |offset: u64, size: u64| offset.checked_add(self.bytes).is_some_and(|end| end <= size);
        ends(self.source, source) && ends(self.target, target)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedCopy {
    pub from: BufferId,
    pub to: BufferId,
    pub part: CopiedPart,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesCall {
    pub before: Vec<PlacedCopy>,
    pub after: Vec<PlacedCopy>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariableState {
    pub name: String,
    /// A hash of what it holds; equal contents give equal hashes within one process.
    pub hash: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GuardDamage {
    pub buffer: String,
    /// Offset in bytes from the buffer's start: negative before it, ≥ its size behind it.
    pub offset: i64,
    pub bytes_changed: u64,
}

/// What surrounds the launches of a checked run. An honest kernel gives the same output under all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunConditions {
    /// Seed of the order in which threads, warps and blocks take turns; ascending where there is none.
    /// On the host, seeds `2k` and `2k + 1` give opposite orders: a pair shows what one of them hides.
    pub order: Option<u64>,
    /// 4-byte pattern that shared memory and stacks hold before a block begins; whatever is there if none.
    pub residue: Option<u32>,
    /// Which end of a buffer touches its guard.
    pub placement: Placement,
    /// What a thread's clock shows when it is first read; time if none. The next few readings are one apart, and from
    /// then on they differ as time does, so that waiting for a while ends as ever.
    pub clock: Option<u64>,
}

impl RunConditions {
    pub fn under(self, checks: CheckSet) -> RunConditions {
        let placement = if checks.include(GateCheck::Placement) { self.placement } else { Placement::End };
        RunConditions {
            order: self.order.filter(|_| checks.include(GateCheck::ThreadOrder)),
            residue: self.residue,
            placement,
            clock: self.clock.filter(|_| checks.include(GateCheck::ClockStart)),
        }
    }
}

/// Which end of a buffer touches its guard to the byte, as far as alignment allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placement {
    /// The last element, so that an access behind the buffer shows.
    #[default]
    End,
    /// The first element, so that an access before the buffer shows.
    Start,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Watch {
    /// Every buffer that kernels may use; an access of another is out of bounds.
    pub buffers: Vec<WatchedBuffer>,
    pub order: u64,
    pub turns: BlockTurns,
    /// 4-byte pattern that shared memory holds when a block begins.
    pub residue: u32,
    pub accesses_max: u64,
    pub time_max: Duration,
}

/// How many blocks of a watched launch run at a time. Those of a cooperative launch always run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockTurns {
    /// One after the other, ascending: what is found is the same each time.
    OneByOne,
    /// As many as there are processor threads, so that a block meets others that are half-way.
    SideBySide,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedBuffer {
    pub buffer: BufferId,
    pub contents: WatchedContents,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchedContents {
    Input,
    /// Values that may be changed.
    Given,
    Output,
    /// Nothing yet: workspace.
    Scratch,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchReport {
    /// Accesses of buffers, shared memory and module variables.
    pub accesses: u64,
    pub notes: Vec<AccessNote>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccessNote {
    pub what: NoteKind,
    pub count: u64,
    /// The first one, as the error that it would be if it were a fault.
    pub error: DeviceError,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoteKind {
    /// Several threads stored one value without an order.
    SameValue,
    /// A plain access beside atomic ones, in global memory.
    UnorderedAtomic,
    /// A read of shared memory or workspace that nobody wrote: its value may not matter.
    Unwritten,
    /// A read of an output that nobody wrote.
    UnwrittenOutput,
    /// A wide read of which a part was written.
    PartlyWritten,
}

/// A machine that runs launch plans.
///
/// Buffers carry guard zones on both sides (CUDA: patterned, checked on request; host: unmapped
/// pages, so that an access faults and ends the process).
pub trait Device {
    fn info(&self) -> &DeviceInfo;

    /// All if this is never called. A device leaves out those of its own checks that are not among them.
    fn set_checks(&mut self, _checks: CheckSet) {}

    /// Loads a binary (cubin, or shared object) whose entry points are `entries`.
    fn load(&mut self, binary: &[u8], entries: &[String]) -> Result<ModuleId, DeviceError>;

    /// Loads a module anew under its number, which whoever remembers it may go on to use. After an error it is gone.
    fn reload(&mut self, module: ModuleId, binary: &[u8], entries: &[String]) -> Result<(), DeviceError>;

    fn unload(&mut self, module: ModuleId) -> Result<(), DeviceError>;

    /// Modules' processes, where they have them, start anew when they are next asked for something, with their
    /// variables as they were when loaded.
    fn park(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// `evo_variant_hash`, if the module has that symbol.
    fn echo(&mut self, module: ModuleId) -> Result<Option<String>, DeviceError>;

    /// Attributes of one launch's entry point, its occupancy included.
    fn attributes(&mut self, module: ModuleId, launch: &BoundLaunch) -> Result<EntryAttributes, DeviceError>;

    /// `name` appears in messages about it.
    fn allocate(&mut self, name: &str, bytes: u64) -> Result<BufferId, DeviceError>;

    /// For buffers that are allocated from now on: a tool that looks for accesses outside of allocations takes a
    /// guard zone for a part of the buffer.
    fn set_guarded(&mut self, _guarded: bool) {}

    /// The address as kernels get it and tools report it; `None` where it differs from launch to launch.
    fn address(&mut self, _buffer: BufferId) -> Option<u64> {
        None
    }

    fn free(&mut self, buffer: BufferId) -> Result<(), DeviceError>;

    fn write(&mut self, buffer: BufferId, bytes: &[u8]) -> Result<(), DeviceError> {
        self.write_at(buffer, 0, bytes)
    }

    /// `offset` in bytes.
    fn write_at(&mut self, buffer: BufferId, offset: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    fn read(&mut self, buffer: BufferId) -> Result<Vec<u8>, DeviceError>;

    fn copy(&mut self, from: BufferId, to: BufferId) -> Result<(), DeviceError>;

    fn copy_part(&mut self, from: BufferId, to: BufferId, part: CopiedPart) -> Result<(), DeviceError>;

    /// Fills the buffer with a repeated little-endian 4-byte pattern.
    fn fill(&mut self, buffer: BufferId, pattern: u32) -> Result<(), DeviceError>;

    /// A hash of the buffer's contents; equal contents give equal hashes within one process.
    fn hash(&mut self, buffer: BufferId) -> Result<u64, DeviceError>;

    /// Elements that still hold the fill pattern, cut to the element size.
    fn count_pattern(&mut self, buffer: BufferId, dtype: DType, pattern: u32) -> Result<u64, DeviceError>;

    fn compare(
        &mut self,
        actual: BufferId,
        dtype: DType,
        expected: BufferId,
        tolerance: Tolerance,
    ) -> Result<Comparison, DeviceError>;

    /// Blocks of `block` neighboring elements, such as rows: the one that is farthest off. `floor` is what counts as
    /// nothing, per element. Values that are not finite on either side are left out.
    fn compare_blocks(
        &mut self,
        actual: BufferId,
        dtype: DType,
        expected: BufferId,
        block: u64,
        floor: f64,
    ) -> Result<BlockError, DeviceError>;

    /// Each counted at the tolerances given: the arithmetic of a loop in fp64. `None` where the device would only
    /// loop over what it reads back, which the caller can do as well.
    fn plain_errors(
        &mut self,
        _actual: BufferId,
        _dtype: DType,
        _expected: BufferId,
        _tolerances: [Tolerance; 3],
    ) -> Result<Option<PlainErrors>, DeviceError> {
        Ok(None)
    }

    fn check_guards(&mut self) -> Result<Vec<GuardDamage>, DeviceError>;

    /// Makes a later stray read show in the output.
    fn arm_guards(&mut self, pattern: u32) -> Result<(), DeviceError>;

    /// For every later `launch`; `sample` runs under the default ones. A device ignores conditions that it does not
    /// have.
    fn set_conditions(&mut self, _conditions: RunConditions) -> Result<(), DeviceError> {
        Ok(())
    }

    /// A kernel that writes a protected buffer gets `input_mutated`. Returns whether the device can do it.
    fn protect(&mut self, _buffer: BufferId, _read_only: bool) -> Result<bool, DeviceError> {
        Ok(false)
    }

    /// Kernels get copies of these buffers that they can only read, as they are now, until it is called again; a
    /// write to one is `crash_illegal_address`. For devices that cannot `protect` in place. Returns whether the
    /// device can do it now: it takes as much memory again.
    fn show_read_only(&mut self, _buffers: &[BufferId]) -> Result<bool, DeviceError> {
        Ok(false)
    }

    /// What `__device__` variables and static locals hold after everything enqueued. Empty where the device cannot
    /// find them.
    fn variables(&mut self, _module: ModuleId) -> Result<Vec<VariableState>, DeviceError> {
        Ok(Vec::new())
    }

    /// What a module's kernels have taken of the device heap and not given back; 0 where a variable of the module
    /// tells (`variables`).
    fn heap_kept(&mut self, _module: ModuleId) -> Result<u64, DeviceError> {
        Ok(0)
    }

    fn restore_variables(&mut self, _module: ModuleId) -> Result<(), DeviceError> {
        Ok(())
    }

    /// `__constant__` or `__device__`; what lies behind them becomes what it was when the module was loaded.
    /// `launch_fail`, cause `symbol`: there is no such variable, or it is smaller than the buffer.
    fn write_variable(&mut self, module: ModuleId, name: &str, buffer: BufferId) -> Result<(), DeviceError>;

    /// After everything enqueued; whether what lies behind is as it was when the module was loaded.
    fn read_variable(&mut self, module: ModuleId, name: &str, buffer: BufferId) -> Result<bool, DeviceError>;

    /// What launches since the last call did that is allowed and worth a remark.
    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn launch(&mut self, module: ModuleId, launches: &[BoundLaunch]) -> Result<(), DeviceError>;

    /// With copies around each call. For modules of the task's own: a device may leave the copies to the process in
    /// which the module runs.
    fn launch_series(
        &mut self,
        module: ModuleId,
        launches: &[BoundLaunch],
        calls: &[SeriesCall],
    ) -> Result<(), DeviceError> {
        for call in calls {
            call.before.iter().try_for_each(|own| self.copy_part(own.from, own.to, own.part))?;
            self.launch(module, launches)?;
            call.after.iter().try_for_each(|own| self.copy_part(own.from, own.to, own.part))?;
        }
        Ok(())
    }

    /// Checks each access. `None` where the device or the module cannot be watched. Fails with the first fault,
    /// before that access has happened, or with `harness_error` with the cause `budget`.
    fn launch_watched(
        &mut self,
        _module: ModuleId,
        _launches: &[BoundLaunch],
        _watch: &Watch,
    ) -> Result<Option<WatchReport>, DeviceError> {
        Ok(None)
    }

    fn synchronize(&mut self) -> Result<(), DeviceError>;

    /// Takes samples, in nanoseconds per call.
    fn sample(&mut self, module: ModuleId, order: SampleOrder<'_>) -> Result<Vec<f64>, DeviceError>;

    fn telemetry(&mut self) -> Telemetry;

    /// Bytes.
    fn memory_free(&mut self) -> Option<u64>;
}
