//! What CUDA and the host have in common: memory that belongs to the judge, an executor of kernels, and the words for both.
//!
//! A device reports what happened (`DeviceError`), gates decide what it means.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::{DeviceError, DeviceInfo, EntryAttributes, Telemetry};
use evo_protocol::dtype::DType;
use evo_protocol::measurement::TimingMode;
use evo_protocol::tensor_map::TensorMap;
use evo_protocol::verdict::VerdictKind;
use serde::{Deserialize, Serialize};

pub use crate::numbers::{BlockError, Comparison, Tolerance};

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

impl SeriesCall {
    /// The work of this call, between its copies.
    pub fn run<M: Memory>(
        &self,
        memory: &mut M,
        work: impl FnOnce(&mut M) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        self.before.iter().try_for_each(|copy| memory.copy_part(copy.from, copy.to, copy.part))?;
        work(memory)?;
        self.after.iter().try_for_each(|copy| memory.copy_part(copy.from, copy.to, copy.part))
    }
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
pub trait Device: Memory + Executor {
    /// All if this is never called. A device leaves out those of its own checks that are not among them.
    fn set_checks(&mut self, checks: CheckSet);

    /// For every later `launch`; `sample` runs under the default ones. A device ignores conditions that it does not
    /// have.
    fn set_conditions(&mut self, conditions: RunConditions) -> Result<(), DeviceError>;

    fn telemetry(&mut self) -> Telemetry;

    /// Bytes; `None` where it changes with every other process.
    fn memory_free(&mut self) -> Option<u64>;
}

/// Buffers with guard zones on both sides (CUDA: patterned, checked on request; host: unmapped pages, so that an access
/// faults and ends the process). They are the judge's: what is asked here, no kernel answers.
pub trait Memory {
    /// `name` appears in messages about it.
    fn allocate(&mut self, name: &str, bytes: u64) -> Result<BufferId, DeviceError>;

    /// For buffers that are allocated from now on: a tool that looks for accesses outside of allocations takes a
    /// guard zone for a part of the buffer. The host's guards are pages outside of the buffer, which no tool takes for a part of it.
    fn set_guarded(&mut self, _guarded: bool) {}

    /// The address as kernels get it and tools report it; `None` where it differs from launch to launch.
    fn address(&mut self, buffer: BufferId) -> Option<u64>;

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

    fn check_guards(&mut self) -> Result<Vec<GuardDamage>, DeviceError>;

    /// Makes a later stray read show in the output.
    fn arm_guards(&mut self, pattern: u32) -> Result<(), DeviceError>;

    /// A kernel that writes a protected buffer gets `input_mutated`. Without effect where buffers cannot be protected in
    /// place.
    fn protect(&mut self, buffer: BufferId, read_only: bool) -> Result<(), DeviceError>;

    /// Kernels get copies of these buffers that they can only read, as they are now, until it is called again; a
    /// write to one is `crash_illegal_address`. For devices that cannot `protect` in place. Returns whether the
    /// device can do it now: it takes as much memory again.
    fn show_read_only(&mut self, _buffers: &[BufferId]) -> Result<bool, DeviceError> {
        Ok(false)
    }
}

/// What runs the kernels of modules. On the host that is another process, which is asked by messages of the same enum
/// ([`ModuleRequest`]).
pub trait Executor {
    fn info(&self) -> &DeviceInfo;

    /// Loads a binary (cubin, or shared object) whose entry points are `entries`.
    fn load(&mut self, binary: &[u8], entries: &[String]) -> Result<ModuleId, DeviceError> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let module = ModuleId(NEXT.fetch_add(1, Ordering::Relaxed));
        self.reload(module, binary, entries)?;
        Ok(module)
    }

    /// Loads a module under its number, which whoever remembers it may go on to use. After an error it is gone.
    fn reload(&mut self, module: ModuleId, binary: &[u8], entries: &[String]) -> Result<(), DeviceError>;

    fn unload(&mut self, module: ModuleId) -> Result<(), DeviceError>;

    /// Modules' processes, where they have them, start anew when they are next asked for something, with their
    /// variables as they were when loaded.
    fn park(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// `evo_variant_hash`, if the module has that symbol.
    fn echo(&mut self, module: ModuleId) -> Result<Option<String>, DeviceError>;

    fn execute(&mut self, module: ModuleId, request: ModuleRequest) -> Result<ModuleAnswer, DeviceError>;

    /// Takes samples, in nanoseconds per call.
    fn sample(&mut self, module: ModuleId, order: SampleOrder<'_>) -> Result<Vec<f64>, DeviceError>;

    /// Waits for launches, where they go on after they return.
    fn synchronize(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Attributes of one launch's entry point, its occupancy included.
    fn attributes(&mut self, module: ModuleId, launch: &BoundLaunch) -> Result<EntryAttributes, DeviceError> {
        match self.execute(module, ModuleRequest::Attributes { launch: launch.clone() })? {
            ModuleAnswer::Attributes(attributes) => Ok(attributes),
            other => Err(other.unexpected()),
        }
    }

    fn launch(&mut self, module: ModuleId, launches: &[BoundLaunch]) -> Result<(), DeviceError> {
        self.launch_series(module, launches, &[SeriesCall::default()])
    }

    /// With copies around each call, for modules of the task's own: the copies are made where the module runs.
    fn launch_series(
        &mut self,
        module: ModuleId,
        launches: &[BoundLaunch],
        calls: &[SeriesCall],
    ) -> Result<(), DeviceError> {
        let request = ModuleRequest::Launch { launches: launches.to_vec(), calls: calls.to_vec() };
        self.execute(module, request).map(drop)
    }

    /// Checks each access. `None` where the device or the module cannot be watched. Fails with the first fault,
    /// before that access has happened, or with `harness_error` with the cause `budget`.
    fn launch_watched(
        &mut self,
        module: ModuleId,
        launches: &[BoundLaunch],
        watch: &Watch,
    ) -> Result<Option<WatchReport>, DeviceError> {
        let request = ModuleRequest::Watch { launches: launches.to_vec(), watch: watch.clone() };
        match self.execute(module, request)? {
            ModuleAnswer::Watched(report) => Ok(report),
            other => Err(other.unexpected()),
        }
    }

    /// What `__device__` variables and static locals hold after everything enqueued. Empty where the device cannot
    /// find them.
    fn variables(&mut self, module: ModuleId) -> Result<Vec<VariableState>, DeviceError> {
        match self.execute(module, ModuleRequest::Variables)? {
            ModuleAnswer::Variables(variables) => Ok(variables),
            other => Err(other.unexpected()),
        }
    }

    /// What a module's kernels have taken of the device heap and not given back; 0 where a variable of the module
    /// tells (`variables`).
    fn heap_kept(&mut self, module: ModuleId) -> Result<u64, DeviceError> {
        match self.execute(module, ModuleRequest::HeapKept)? {
            ModuleAnswer::HeapKept { bytes } => Ok(bytes),
            other => Err(other.unexpected()),
        }
    }

    fn restore_variables(&mut self, module: ModuleId) -> Result<(), DeviceError> {
        self.execute(module, ModuleRequest::RestoreVariables).map(drop)
    }

    /// `__constant__` or `__device__`; what lies behind them becomes what it was when the module was loaded.
    /// `launch_fail`, cause `symbol`: there is no such variable, or it is smaller than the buffer.
    fn write_variable(&mut self, module: ModuleId, name: &str, buffer: BufferId) -> Result<(), DeviceError> {
        self.execute(module, ModuleRequest::WriteVariable { name: name.to_string(), buffer }).map(drop)
    }

    /// After everything enqueued; whether what lies behind is as it was when the module was loaded.
    fn read_variable(&mut self, module: ModuleId, name: &str, buffer: BufferId) -> Result<bool, DeviceError> {
        match self.execute(module, ModuleRequest::ReadVariable { name: name.to_string(), buffer })? {
            ModuleAnswer::Read { intact } => Ok(intact),
            other => Err(other.unexpected()),
        }
    }
}

/// What is asked of a loaded module, be it in this process or in one of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModuleRequest {
    Attributes {
        launch: BoundLaunch,
    },
    /// Once for each call. Many are one request, because at small shapes messages take longer than launches.
    Launch {
        launches: Vec<BoundLaunch>,
        calls: Vec<SeriesCall>,
    },
    Watch {
        launches: Vec<BoundLaunch>,
        watch: Watch,
    },
    Variables,
    HeapKept,
    RestoreVariables,
    WriteVariable {
        name: String,
        buffer: BufferId,
    },
    ReadVariable {
        name: String,
        buffer: BufferId,
    },
}

impl ModuleRequest {
    /// A buffer that is used twice comes twice.
    pub fn buffers(&self) -> Vec<BufferId> {
        let bound = |launches: &[BoundLaunch]| -> Vec<BufferId> {
            launches.iter().flat_map(BoundLaunch::buffers).collect()
        };
        match self {
            ModuleRequest::Launch { launches, calls } => {
                let copies = calls.iter().flat_map(|call| call.before.iter().chain(&call.after));
                bound(launches).into_iter().chain(copies.flat_map(|copy| [copy.from, copy.to])).collect()
            }
            ModuleRequest::Watch { launches, watch } => {
                let watched = watch.buffers.iter().map(|watched| watched.buffer);
                bound(launches).into_iter().chain(watched).collect()
            }
            ModuleRequest::WriteVariable { buffer, .. } | ModuleRequest::ReadVariable { buffer, .. } => {
                vec![*buffer]
            }
            _ => Vec::new(),
        }
    }

    pub fn is_answered_by(&self, answer: &ModuleAnswer) -> bool {
        match self {
            ModuleRequest::Attributes { .. } => matches!(answer, ModuleAnswer::Attributes(_)),
            ModuleRequest::Watch { .. } => matches!(answer, ModuleAnswer::Watched(_)),
            ModuleRequest::Variables => matches!(answer, ModuleAnswer::Variables(_)),
            ModuleRequest::HeapKept => matches!(answer, ModuleAnswer::HeapKept { .. }),
            ModuleRequest::ReadVariable { .. } => matches!(answer, ModuleAnswer::Read { .. }),
            ModuleRequest::Launch { .. }
            | ModuleRequest::RestoreVariables
            | ModuleRequest::WriteVariable { .. } => matches!(answer, ModuleAnswer::Done),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModuleAnswer {
    Done,
    Attributes(EntryAttributes),
    Watched(Option<WatchReport>),
    Variables(Vec<VariableState>),
    HeapKept {
        bytes: u64,
    },
    /// Whether what lies behind a variable's contents is as it was.
    Read {
        intact: bool,
    },
}

impl ModuleAnswer {
    fn unexpected(&self) -> DeviceError {
        trouble(format!("the device answers another question: {self:?}"))
    }
}

/// Trouble of the harness, which says nothing of a variant.
pub fn trouble(message: impl Into<String>) -> DeviceError {
    DeviceError::plain(VerdictKind::HarnessError, message)
}

pub fn no_module(module: ModuleId) -> DeviceError {
    trouble(format!("there is no module {}", module.0))
}

pub fn no_buffer(buffer: BufferId) -> DeviceError {
    trouble(format!("there is no buffer {}", buffer.0))
}
