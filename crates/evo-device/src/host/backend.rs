//! `HostDevice`: the device trait on this machine.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::{DeviceError, DeviceInfo, EntryAttributes, Telemetry};
use evo_protocol::dtype::DType;
use evo_protocol::measurement::TimingMode;
use evo_protocol::verdict::VerdictKind;
use rayon::prelude::*;

use super::instrument::{
    AccessChecker, CheckerOptions, LaunchShape, ModuleImage, Region, RegionKind, WatchTable,
};
use super::memory::GuardedBuffer;
use super::module::HostModule;
use super::pool::{ProcessorPool, SharedLaunch};
use super::runner::Work;
use super::{launch, machine, numbers, stop};
use crate::device::{
    BlockError, BoundArgument, BoundLaunch, BufferId, Comparison, Device, GuardDamage, ModuleId,
    RunConditions, SampleOrder, Tolerance, VariableState, Watch, WatchReport, WatchedContents,
};

/// Most bytes that a flush of the last-level cache writes; twice the cache where that is less.
const FLUSH_MAX: u64 = 256 << 20;

/// What shared memory holds in checked runs that do not say it: a NaN of every floating type, -1 of every integer.
const PATTERN: u32 = u32::MAX;

/// Bytes on each side of a buffer that kernels may use where pages do not guard it.
const UNGUARDED: usize = 64 << 10;

/// For how long a thread that others of its block wait for may keep a processor thread.
const SLICE: Duration = Duration::from_millis(10);

/// This machine's processor as a device.
pub struct HostDevice {
    info: DeviceInfo,
    pool: ProcessorPool,
    modules: HashMap<ModuleId, HostModule>,
    buffers: HashMap<BufferId, GuardedBuffer>,
    next: u32,
    flush: Vec<u8>,
    /// Whether one processor thread runs all blocks, so that what a check finds is the same each time.
    alone: bool,
    conditions: RunConditions,
    checks: CheckSet,
    /// What launches had to say since `notes` was called.
    notes: Vec<String>,
}

impl HostDevice {
    /// Opens it with a processor thread for each core that this process may use.
    ///
    /// # Errors
    /// The operating system refuses address space or threads.
    pub fn open() -> Result<HostDevice, DeviceError> {
        HostDevice::with_threads(machine::cores().min(machine::blocks_max()))
    }

    /// Opens it with so many processor threads.
    pub fn with_threads(threads: usize) -> Result<HostDevice, DeviceError> {
        HostDevice::with_slice(threads, SLICE)
    }

    /// The same; a thread that others of its block wait for gives way after `slice`.
    pub(super) fn with_slice(threads: usize, slice: Duration) -> Result<HostDevice, DeviceError> {
        let pool = ProcessorPool::new(threads, slice).map_err(|error| {
            DeviceError::plain(VerdictKind::HarnessError, format!("the host device does not open: {error}"))
        })?;
        Ok(HostDevice {
            info: machine::describe(),
            pool,
            modules: HashMap::new(),
            buffers: HashMap::new(),
            next: 0,
            flush: Vec::new(),
            alone: false,
            conditions: RunConditions::default(),
            checks: CheckSet::default(),
            notes: Vec::new(),
        })
    }

    /// How often fibers of the calling thread were interrupted.
    #[cfg(test)]
    pub(super) fn interruptions(&self) -> u64 {
        self.pool.interruptions()
    }

    fn module(&self, id: ModuleId) -> Result<&HostModule, DeviceError> {
        self.modules.get(&id).ok_or_else(|| misuse(format!("there is no module {}", id.0)))
    }

    fn buffer(&self, id: BufferId) -> Result<&GuardedBuffer, DeviceError> {
        self.buffers.get(&id).ok_or_else(|| misuse(format!("there is no buffer {}", id.0)))
    }

    fn buffer_mut(&mut self, id: BufferId) -> Result<&mut GuardedBuffer, DeviceError> {
        self.buffers.get_mut(&id).ok_or_else(|| misuse(format!("there is no buffer {}", id.0)))
    }

    fn next_number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn run(&mut self, module: ModuleId, launches: &[BoundLaunch], checked: bool) -> Result<(), DeviceError> {
        for bound in launches {
            if let Some(line) = self.run_one(module, bound, checked)? {
                let note = format!(
                    "`{}`: threads returned before a barrier that others waited at (line {line})",
                    bound.entry
                );
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
            }
        }
        Ok(())
    }

    /// Gives the line of a barrier at which threads waited that others had left before, if there was one.
    fn run_one(
        &mut self,
        module: ModuleId,
        bound: &BoundLaunch,
        checked: bool,
    ) -> Result<Option<i32>, DeviceError> {
        let conditions = if checked { self.conditions } else { RunConditions::default() };
        let module = self.module(module)?;
        let entry = module.entry(&bound.entry)?;
        launch::check(bound, entry, &self.info.limits, self.pool.threads())?;
        entry.check_arguments(&bound.arguments)?;
        let mut values = Vec::with_capacity(bound.arguments.len());
        for argument in &bound.arguments {
            values.push(match argument {
                BoundArgument::Buffer(id) => self.buffer(*id)?.address() as u64,
                BoundArgument::Scalar(bytes) => {
                    let mut value = [0; 8];
                    value[..bytes.len()].copy_from_slice(bytes);
                    u64::from_ne_bytes(value)
                }
            });
        }
        // Only now: the values must not move once there are pointers to them.
        let mut pointers: Vec<*mut c_void> =
            values.iter_mut().map(|value| std::ptr::from_mut(value).cast()).collect();
        let work = Work {
            run: entry.run,
            arguments: pointers.as_mut_ptr(),
            grid: bound.grid,
            block: bound.block,
            shared_bytes: bound.shared_bytes,
            order: conditions.order,
            residue: conditions.residue.filter(|_| self.checks.include(GateCheck::StackResidue)),
            waits_when_stuck: !self.checks.include(GateCheck::BarrierDivergence),
            clock: conditions.clock,
        };
        let blocks = bound.grid.iter().fold(1usize, |all, &extent| all.saturating_mul(extent as usize));
        // The blocks of a cooperative launch wait for each other.
        let seats = if self.alone && !bound.cooperative { 1 } else { blocks };
        let residue = conditions.residue.filter(|_| self.checks.include(GateCheck::SharedResidue));
        let pattern = checked.then(|| residue.unwrap_or(PATTERN));
        let mut job = SharedLaunch::new(work, module, pattern, seats);
        job.looks_beside = self.checks.include(GateCheck::SharedZones);
        self.pool.run(job).map_err(|error| launch::with_entry(error, &bound.entry))
    }

    /// Runs one launch with a checker at the module's slot.
    fn run_watched(
        &mut self,
        module: ModuleId,
        bound: &BoundLaunch,
        checker: &Mutex<AccessChecker>,
    ) -> Result<(), DeviceError> {
        let own = self.module(module)?;
        let Some(image) = &own.image else {
            return Err(misuse(format!("module {} is not watched", module.0)));
        };
        let lock = || checker.lock().unwrap_or_else(PoisonError::into_inner);
        lock().begin_launch(LaunchShape {
            grid: bound.grid,
            block: bound.block,
            shared_bytes: bound.shared_bytes as usize,
            statics: own.statics,
            shared: image.shared.clone(),
            module: image.range,
        });
        let mut table = WatchTable::of(checker);
        // SAFETY: the slot is a variable of the module, which stays loaded.
        let slot = unsafe { &*image.slot };
        slot.store(std::ptr::from_mut(&mut table).cast(), Ordering::Release);
        self.alone = true;
        let ran = self.run_one(module, bound, true).map(|_| ());
        self.alone = false;
        slot.store(std::ptr::null_mut(), Ordering::Release);
        let own = self.module(module)?;
        let found = own.image.as_ref().map_or(Ok(()), |image| lock().end_launch(image));
        // A finding ends the launch as a trap would; the finding says more.
        found.map_err(|error| launch::with_entry(error, &bound.entry)).and(ran)
    }

    /// The memory that a watched call may use.
    fn regions(&self, watch: &Watch, image: &ModuleImage) -> Result<Vec<Region>, DeviceError> {
        let mut regions = Vec::new();
        for watched in &watch.buffers {
            let buffer = self.buffer(watched.buffer)?;
            let kind = match watched.contents {
                WatchedContents::Input => RegionKind::Input,
                WatchedContents::Given => RegionKind::Buffer,
                WatchedContents::Output => RegionKind::Output,
                WatchedContents::Scratch => RegionKind::Scratch,
            };
            regions.push(Region::new(kind, buffer.name(), buffer.address(), buffer.bytes().len()));
        }
        for own in &image.globals {
            let start = image.range.0 + own.offset;
            regions.push(Region::new(RegionKind::Variable, &own.name, start, own.bytes));
        }
        Ok(regions)
    }

    fn time(&mut self, module: ModuleId, order: SampleOrder<'_>) -> Result<Vec<f64>, DeviceError> {
        let SampleOrder { rotation, mode, samples, .. } = order;
        let batch = if mode == TimingMode::Hot { order.batch.max(1) } else { 1 };
        let mut times = Vec::with_capacity(samples as usize);
        for sample in 0..samples as usize {
            if mode == TimingMode::Cold {
                self.flush_caches();
            }
            let first = if mode == TimingMode::Hot && batch > 1 { 0 } else { sample };
            let start = Instant::now();
            for call in first..first + batch as usize {
                self.run(module, &rotation[call % rotation.len()], false)?;
            }
            times.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(batch));
        }
        Ok(times)
    }

    /// Pushes everything else out of the caches.
    fn flush_caches(&mut self) {
        // The size is 0 where the operating system does not tell it, hence the lower bound.
        let bytes = (2 * self.info.l2_bytes).clamp(16 << 20, FLUSH_MAX) as usize;
        self.flush.resize(bytes, 0);
        self.flush.par_chunks_mut(1 << 16).for_each(|chunk| {
            // One write per cache line evicts as much as writing every byte.
            for byte in chunk.iter_mut().step_by(64) {
                *byte = byte.wrapping_add(1);
            }
        });
    }
}

/// The pages of a buffer keep their protection.
fn cannot_protect(name: &str, error: &std::io::Error) -> DeviceError {
    DeviceError::plain(
        VerdictKind::HarnessError,
        format!("the protection of `{name}` does not change: {error}"),
    )
}

/// A request that no plan of evo's should make.
fn misuse(message: String) -> DeviceError {
    DeviceError::plain(VerdictKind::HarnessError, message)
}

impl Device for HostDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn set_checks(&mut self, checks: CheckSet) {
        self.checks = checks;
    }

    fn load(&mut self, binary: &[u8], entries: &[String]) -> Result<ModuleId, DeviceError> {
        let module = HostModule::load(binary, entries)?;
        let id = ModuleId(self.next_number());
        self.modules.insert(id, module);
        Ok(id)
    }

    fn unload(&mut self, module: ModuleId) -> Result<(), DeviceError> {
        self.module(module)?;
        self.modules.remove(&module);
        Ok(())
    }

    fn echo(&mut self, module: ModuleId) -> Result<Option<String>, DeviceError> {
        Ok(self.module(module)?.hash().map(str::to_string))
    }

    fn variables(&mut self, module: ModuleId) -> Result<Vec<VariableState>, DeviceError> {
        // SAFETY: the module is loaded, and launches have ended when they return.
        Ok(unsafe { self.module(module)?.variables.states() })
    }

    fn restore_variables(&mut self, module: ModuleId) -> Result<(), DeviceError> {
        // SAFETY: as above.
        unsafe { self.module(module)?.variables.restore() };
        Ok(())
    }

    /// Registers and local memory of a kernel on a CPU mean nothing: they are 0.
    fn attributes(&mut self, module: ModuleId, launch: &BoundLaunch) -> Result<EntryAttributes, DeviceError> {
        let entry = self.module(module)?.entry(&launch.entry)?;
        launch::check(launch, entry, &self.info.limits, self.pool.threads())?;
        Ok(EntryAttributes {
            registers: 0,
            shared_static_bytes: entry.shared_static_bytes,
            local_bytes: 0,
            threads_max: entry.threads_max.unwrap_or(self.info.limits.threads_per_block),
            blocks_per_multiprocessor: None,
        })
    }

    fn allocate(&mut self, name: &str, bytes: u64) -> Result<BufferId, DeviceError> {
        let margin = if self.checks.include(GateCheck::GuardPages) { 0 } else { UNGUARDED };
        let mut buffer = GuardedBuffer::with_margin(name, bytes, margin)
            .map_err(|error| stop::no_memory(&format!("the {bytes} bytes of `{name}`"), &error))?;
        buffer.place(self.conditions.placement).map_err(|error| cannot_protect(name, &error))?;
        let id = BufferId(self.next_number());
        self.buffers.insert(id, buffer);
        Ok(id)
    }

    fn free(&mut self, buffer: BufferId) -> Result<(), DeviceError> {
        self.buffer(buffer)?;
        self.buffers.remove(&buffer);
        Ok(())
    }

    fn write(&mut self, buffer: BufferId, bytes: &[u8]) -> Result<(), DeviceError> {
        let target = self.buffer_mut(buffer)?;
        let (size, name) = (target.bytes().len(), target.name().to_string());
        if bytes.len() > size {
            return Err(misuse(format!("{} bytes do not fit `{name}` of {size}", bytes.len())));
        }
        let result = target.change(|room| room[..bytes.len()].copy_from_slice(bytes));
        result.map_err(|error| cannot_protect(&name, &error))
    }

    fn read(&mut self, buffer: BufferId) -> Result<Vec<u8>, DeviceError> {
        Ok(self.buffer(buffer)?.bytes().to_vec())
    }

    fn copy(&mut self, from: BufferId, to: BufferId) -> Result<(), DeviceError> {
        if from == to {
            return self.buffer(from).map(|_| ());
        }
        // Taken out of the map while both are borrowed, one of them to be changed.
        let target = self.buffers.remove(&to);
        let mut target = target.ok_or_else(|| misuse(format!("there is no buffer {}", to.0)))?;
        let result = match self.buffer(from) {
            Ok(source) if source.bytes().len() == target.bytes().len() => {
                let result = target.change(|room| room.copy_from_slice(source.bytes()));
                result.map_err(|error| cannot_protect(target.name(), &error))
            }
            Ok(source) => Err(misuse(format!("`{}` and `{}` differ in size", source.name(), target.name()))),
            Err(error) => Err(error),
        };
        self.buffers.insert(to, target);
        result
    }

    fn fill(&mut self, buffer: BufferId, pattern: u32) -> Result<(), DeviceError> {
        let target = self.buffer_mut(buffer)?;
        let result = target.change(|bytes| numbers::fill(bytes, pattern));
        result.map_err(|error| cannot_protect(target.name(), &error))
    }

    fn hash(&mut self, buffer: BufferId) -> Result<u64, DeviceError> {
        Ok(numbers::hash(self.buffer(buffer)?.bytes()))
    }

    fn count_pattern(&mut self, buffer: BufferId, dtype: DType, pattern: u32) -> Result<u64, DeviceError> {
        Ok(numbers::count_pattern(self.buffer(buffer)?.bytes(), dtype, pattern))
    }

    fn compare(
        &mut self,
        actual: BufferId,
        dtype: DType,
        expected: BufferId,
        tolerance: Tolerance,
    ) -> Result<Comparison, DeviceError> {
        let (actual, expected) = (self.buffer(actual)?, self.buffer(expected)?);
        if actual.bytes().len() as u64 / dtype.bytes() != expected.bytes().len() as u64 / 8 {
            let (actual, expected) = (actual.name(), expected.name());
            return Err(misuse(format!("`{actual}` and `{expected}` differ in their number of elements")));
        }
        Ok(numbers::compare(actual.bytes(), dtype, expected.bytes(), tolerance))
    }

    fn compare_blocks(
        &mut self,
        actual: BufferId,
        dtype: DType,
        expected: BufferId,
        block: u64,
        floor: f64,
    ) -> Result<BlockError, DeviceError> {
        let (actual, expected) = (self.buffer(actual)?, self.buffer(expected)?);
        Ok(numbers::compare_blocks(actual.bytes(), dtype, expected.bytes(), block, floor))
    }

    fn check_guards(&mut self) -> Result<Vec<GuardDamage>, DeviceError> {
        if !self.checks.include(GateCheck::GuardZones) {
            return Ok(Vec::new());
        }
        let mut damages: Vec<GuardDamage> = self.buffers.values().flat_map(GuardedBuffer::damage).collect();
        // Buffers are in a hash map, and what is reported first must not depend on its order.
        damages.sort_by(|a, b| (&a.buffer, a.offset).cmp(&(&b.buffer, b.offset)));
        Ok(damages)
    }

    fn arm_guards(&mut self, pattern: u32) -> Result<(), DeviceError> {
        for buffer in self.buffers.values_mut() {
            buffer.arm(pattern).map_err(|error| cannot_protect(buffer.name(), &error))?;
        }
        Ok(())
    }

    /// Applies all of them. Kernels' addresses change with the placement.
    fn set_conditions(&mut self, conditions: RunConditions) -> Result<(), DeviceError> {
        let conditions = conditions.under(self.checks);
        for buffer in self.buffers.values_mut() {
            buffer.place(conditions.placement).map_err(|error| cannot_protect(buffer.name(), &error))?;
        }
        self.conditions = conditions;
        Ok(())
    }

    fn protect(&mut self, buffer: BufferId, read_only: bool) -> Result<bool, DeviceError> {
        let read_only = read_only && self.checks.include(GateCheck::ReadOnlyInputs);
        let buffer = self.buffer_mut(buffer)?;
        buffer.protect(read_only).map_err(|error| cannot_protect(buffer.name(), &error))?;
        Ok(true)
    }

    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Runs the launches to their end before it returns.
    fn launch(&mut self, module: ModuleId, launches: &[BoundLaunch]) -> Result<(), DeviceError> {
        self.run(module, launches, true)
    }

    fn launch_watched(
        &mut self,
        module: ModuleId,
        launches: &[BoundLaunch],
        watch: &Watch,
    ) -> Result<Option<WatchReport>, DeviceError> {
        let Some(image) = &self.module(module)?.image else { return Ok(None) };
        let regions = self.regions(watch, image)?;
        let options = CheckerOptions {
            order: watch.order,
            residue: watch.residue,
            checks: self.checks,
            accesses_max: watch.accesses_max,
            deadline: Instant::now() + watch.time_max,
        };
        let checker = Mutex::new(AccessChecker::new(options, regions));
        for bound in launches {
            self.run_watched(module, bound, &checker)?;
        }
        let (notes, accesses) = checker.into_inner().unwrap_or_else(PoisonError::into_inner).notes();
        Ok(Some(WatchReport { accesses, notes }))
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// By the monotonic clock. Shared memory is not filled before blocks here: that would be charged to
    /// variants that use much of it.
    fn sample(&mut self, module: ModuleId, order: SampleOrder<'_>) -> Result<Vec<f64>, DeviceError> {
        let conditions = self.conditions;
        self.set_conditions(RunConditions::default())?;
        let times = self.time(module, order);
        self.set_conditions(conditions)?;
        times
    }

    fn telemetry(&mut self) -> Telemetry {
        machine::telemetry()
    }

    /// Unknown: the machine's free memory changes with every other process.
    fn memory_free(&mut self) -> Option<u64> {
        None
    }
}
