//! `HostDevice`: the device trait on this machine.

use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evo_protocol::check::GateCheck;
use evo_protocol::device::{DeviceError, DeviceInfo, EntryAttributes};
use evo_protocol::measurement::TimingMode;

use super::flush::CacheFlush;
use super::instrument::{AccessChecker, CheckerHandle, Region, RegionKind, Regions, WatchTable};
use super::module::HostModule;
use super::pool::ProcessorPool;
use super::runner::{SharedLaunch, Work};
use super::store::{BufferStore, Stored};
use super::variables::ModuleMemory;
use super::{launch, machine, tensor_map};
use crate::device::{
    BlockTurns, BoundArgument, BoundLaunch, Executor, ModuleAnswer, ModuleId, ModuleRequest, RunConditions,
    SampleOrder, Watch, WatchReport, no_module, trouble,
};
use crate::tensor_maps::{self, ArgumentSlot};
use crate::variables::{find, restore, states};

/// What shared memory holds in checked runs that do not say it: a NaN of every floating type, -1 of every integer.
const PATTERN: u32 = u32::MAX;
/// In turn, for timed launches: what it holds in checked runs too, so that nothing there tells a kernel that nobody
/// looks.
const RESIDUES: [u32; 4] = [PATTERN, 0x7FA1_7FA1, 0x7A35_7A35, 0xFA35_FA35];

/// For how long a thread that others of its block wait for may keep a processor thread.
pub(super) const SLICE: Duration = Duration::from_millis(10);

pub struct HostDevice {
    info: DeviceInfo,
    pool: ProcessorPool,
    modules: HashMap<ModuleId, HostModule>,
    store: BufferStore,
    flush: CacheFlush,
    launches: usize,
    watched: Option<(BlockTurns, CheckerHandle)>,
}

impl HostDevice {
    pub fn open() -> Result<HostDevice, DeviceError> {
        HostDevice::with_threads(machine::cores().min(machine::blocks_max()))
    }

    pub fn with_threads(threads: usize) -> Result<HostDevice, DeviceError> {
        HostDevice::described(machine::describe(), threads, SLICE)
    }

    /// A thread that others of its block wait for gives way after `slice`.
    pub(super) fn described(
        info: DeviceInfo,
        threads: usize,
        slice: Duration,
    ) -> Result<HostDevice, DeviceError> {
        let pool = ProcessorPool::new(threads, slice)
            .map_err(|error| trouble(format!("the host device does not open: {error}")))?;
        Ok(HostDevice {
            info,
            pool,
            modules: HashMap::new(),
            store: BufferStore::default(),
            flush: CacheFlush::default(),
            launches: RandomState::new().hash_one(0) as usize,
            watched: None,
        })
    }

    #[cfg(test)]
    pub(super) fn interruptions(&self) -> u64 {
        self.pool.interruptions()
    }

    fn module(&self, id: ModuleId) -> Result<&HostModule, DeviceError> {
        self.modules.get(&id).ok_or_else(|| no_module(id))
    }

    fn run(&mut self, module: ModuleId, bound: &BoundLaunch, checked: bool) -> Result<(), DeviceError> {
        let conditions = if checked { self.store.conditions } else { RunConditions::default() };
        let module = self.module(module)?;
        let entry = module.entry(&bound.entry)?;
        launch::check(bound, entry, &self.info.limits, self.pool.threads())?;
        entry.check_arguments(&bound.arguments)?;
        let mut values = Vec::with_capacity(bound.arguments.len());
        for argument in &bound.arguments {
            values.push(match argument {
                BoundArgument::Buffer(id) => ArgumentSlot::word(self.store.get(*id)?.address() as u64),
                BoundArgument::Scalar(bytes) => {
                    let mut value = [0; 8];
                    value[..bytes.len()].copy_from_slice(bytes);
                    ArgumentSlot::word(u64::from_ne_bytes(value))
                }
                BoundArgument::TensorMap { buffer, map } => {
                    let buffer = self.store.get(*buffer)?;
                    let address = buffer.address() as u64;
                    tensor_maps::check(map, buffer.bytes().len() as u64, address)?;
                    tensor_map::encode(map, address)
                }
            });
        }
        // Only now: the values must not move once there are pointers to them.
        let mut pointers: Vec<*mut c_void> =
            values.iter_mut().map(|value| std::ptr::from_mut(value).cast()).collect();
        let mut work = Work {
            run: entry.run,
            arguments: pointers.as_mut_ptr(),
            grid: bound.grid,
            cluster: bound.cluster.unwrap_or([1; 3]),
            block: bound.block,
            shared_bytes: bound.shared_bytes,
            shared_alignment: module.shared_alignment,
            order: conditions.order,
            residue: conditions.residue.filter(|_| self.store.checks.include(GateCheck::StackResidue)),
            waits_when_stuck: !self.store.checks.include(GateCheck::BarrierDivergence),
            clock: conditions.clock,
            untouched: None,
        };
        let blocks = usize::try_from(bound.blocks()).unwrap_or(usize::MAX);
        // The blocks of a cooperative launch wait for each other.
        let alone = matches!(self.watched, Some((BlockTurns::OneByOne, _))) && !bound.cooperative;
        // Each block of a cluster takes stacks of its own.
        let together = work.cluster.iter().product::<u32>() as usize;
        let room = if together > 1 { (machine::blocks_max() / together).max(1) } else { blocks };
        let seats = if alone { 1 } else { blocks.min(room) };
        let filled = self.store.checks.include(GateCheck::SharedResidue);
        let residue = conditions.residue.filter(|_| filled);
        let pattern = match checked {
            true => Some(residue.unwrap_or(PATTERN)),
            // What a block of this call or of an earlier one has left would save work that a GPU does not save.
            false => filled.then(|| RESIDUES[self.launches % RESIDUES.len()]),
        };
        // A watched block fills its memory itself, as it begins.
        work.untouched = pattern.filter(|_| self.watched.is_none());
        let job = SharedLaunch {
            work,
            pattern,
            statics: module.statics,
            shared: Arc::clone(&module.shared),
            seats,
            looks_beside: checked && self.store.checks.include(GateCheck::SharedZones),
            // Where few blocks run at a time, a block that waits for an earlier one would wait for ever behind it.
            ascends: seats == 1 || (self.watched.is_some() && !bound.cooperative),
            checker: self.watched.map(|(_, checker)| checker),
            closely: !checked,
            next: AtomicU64::default(),
            stop: AtomicBool::default(),
            error: Mutex::default(),
        };
        self.pool.run(job).map_err(|error| launch::with_entry(error, &bound.entry))
    }

    fn watched(
        &mut self,
        module: ModuleId,
        launches: &[BoundLaunch],
        watch: &Watch,
    ) -> Result<Option<WatchReport>, DeviceError> {
        let Some(image) = &self.module(module)?.image else { return Ok(None) };
        // SAFETY: the slot is a variable of the module, which stays loaded.
        let slot = unsafe { &*image.slot };
        let mut regions = Regions::default();
        for watched in &watch.buffers {
            let (buffer, kind) = (self.store.get(watched.buffer)?, RegionKind::Buffer(watched.contents));
            let region = Region::new(kind, buffer.name(), buffer.address(), buffer.bytes().len());
            regions.list.push(region);
        }
        for own in &image.globals {
            let start = image.start + own.address as usize;
            regions.list.push(Region::new(RegionKind::Variable, &own.name, start, own.bytes as usize));
        }
        let checker = Mutex::new(AccessChecker::new(watch, self.store.checks, regions));
        let handle = CheckerHandle::of(&checker);
        for bound in launches {
            let own = self.module(module)?;
            handle.lock().begin_launch(bound, own.statics, Arc::clone(&own.shared));
            let mut table = WatchTable::of(handle);
            slot.store(std::ptr::from_mut(&mut table).cast(), Ordering::Release);
            self.watched = Some((watch.turns, handle));
            let ran = self.run(module, bound, true);
            self.watched = None;
            slot.store(std::ptr::null_mut(), Ordering::Release);
            let image = self.module(module)?.image.as_ref();
            let found = image.map_or(Ok(()), |image| handle.lock().end_launch(image));
            // A finding ends the launch as a trap would; the finding says more.
            found.map_err(|error| launch::with_entry(error, &bound.entry)).and(ran)?;
        }
        Ok(Some(checker.into_inner().unwrap_or_else(PoisonError::into_inner).report()))
    }

    fn time(&mut self, module: ModuleId, order: SampleOrder<'_>) -> Result<Vec<f64>, DeviceError> {
        let SampleOrder { rotation, mode, samples, .. } = order;
        let batch = if mode == TimingMode::Hot { order.batch.max(1) } else { 1 };
        let module_bytes = self.module(module)?.data_bytes;
        let mut times = Vec::with_capacity(samples as usize);
        self.pool.rouse(rotation.iter().flatten().map(BoundLaunch::blocks).max().unwrap_or(0));
        for sample in 0..samples as usize {
            self.launches = self.launches.wrapping_add(1);
            let first = if mode == TimingMode::Hot && batch > 1 { 0 } else { sample };
            if mode == TimingMode::Cold {
                let call = self.store.contents(&rotation[first % rotation.len()]);
                self.flush.run(self.info.l2_bytes, &call, module_bytes);
            }
            let start = Instant::now();
            for call in first..first + batch as usize {
                for bound in &rotation[call % rotation.len()] {
                    self.run(module, bound, false)?;
                }
            }
            times.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(batch));
        }
        Ok(times)
    }
}

impl Stored for HostDevice {
    fn store(&mut self) -> &mut BufferStore {
        &mut self.store
    }
}

impl Executor for HostDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn reload(&mut self, module: ModuleId, binary: &[u8], entries: &[String]) -> Result<(), DeviceError> {
        self.modules.remove(&module);
        self.modules.insert(module, HostModule::load(binary, entries)?);
        Ok(())
    }

    fn unload(&mut self, module: ModuleId) -> Result<(), DeviceError> {
        self.module(module)?;
        self.modules.remove(&module);
        Ok(())
    }

    fn echo(&mut self, module: ModuleId) -> Result<Option<String>, DeviceError> {
        Ok(self.module(module)?.hash().map(str::to_string))
    }

    fn execute(&mut self, module: ModuleId, request: ModuleRequest) -> Result<ModuleAnswer, DeviceError> {
        Ok(match request {
            ModuleRequest::Attributes { launch } => {
                let (entry, limits) = (self.module(module)?.entry(&launch.entry)?, &self.info.limits);
                launch::check(&launch, entry, limits, self.pool.threads())?;
                // Registers and local memory of a kernel on a CPU are not those of a GPU: they are not told.
                ModuleAnswer::Attributes(EntryAttributes {
                    shared_static_bytes: entry.shared_static_bytes,
                    threads_max: entry.threads_max.unwrap_or(limits.threads_per_block),
                    ..EntryAttributes::default()
                })
            }
            ModuleRequest::Launch { launches, calls } => {
                for call in calls {
                    call.run(self, |device| {
                        launches.iter().try_for_each(|bound| device.run(module, bound, true))
                    })?;
                }
                ModuleAnswer::Done
            }
            ModuleRequest::Watch { launches, watch } => {
                ModuleAnswer::Watched(self.watched(module, &launches, &watch)?)
            }
            ModuleRequest::Variables => {
                ModuleAnswer::Variables(states(&self.module(module)?.variables, &ModuleMemory)?)
            }
            // The headers count it in a variable.
            ModuleRequest::HeapKept => ModuleAnswer::HeapKept { bytes: 0 },
            ModuleRequest::RestoreVariables => {
                restore(&self.module(module)?.variables, &ModuleMemory)?;
                ModuleAnswer::Done
            }
            ModuleRequest::WriteVariable { name, buffer } => {
                let span = self.store.get(buffer)?.span();
                find(&self.module(module)?.variables, &name, span.1)?.write(span, &ModuleMemory)?;
                ModuleAnswer::Done
            }
            ModuleRequest::ReadVariable { name, buffer } => {
                let loaded = self.modules.get(&module).ok_or_else(|| no_module(module))?;
                let span = self.store.get(buffer)?.span();
                let variable = find(&loaded.variables, &name, span.1)?;
                let intact = self.store.change(buffer, |_| variable.read(span, &ModuleMemory))??;
                ModuleAnswer::Read { intact }
            }
        })
    }

    /// By the monotonic clock. Filling shared memory before each block takes about a microsecond for 32 KiB, where a
    /// block that uses so much of it computes for a hundred times as long.
    fn sample(&mut self, module: ModuleId, order: SampleOrder<'_>) -> Result<Vec<f64>, DeviceError> {
        let conditions = self.store.conditions;
        self.store.set_conditions(RunConditions::default())?;
        let times = self.time(module, order);
        self.store.set_conditions(conditions)?;
        times
    }
}
