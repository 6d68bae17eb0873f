//! The CUDA device: a stream, the buffers and the loaded modules of one GPU.

use std::collections::HashMap;
use std::path::Path;

use cudarc::driver::sys;
use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::{DeviceError, DeviceInfo, Telemetry};
use evo_protocol::measurement::TimingMode;
use evo_protocol::verdict::VerdictKind;

use super::launch::CudaModule;
use super::memory::GuardedMemory;
use super::persistence::{CachePersistence, DriverCache};
use super::support::Support;
use super::tensor_map::EncodedMaps;
use super::{driver, info, timing};
use crate::device::{
    BoundLaunch, BufferId, Device, Executor, Memory, ModuleAnswer, ModuleId, ModuleRequest, RunConditions,
    SampleOrder,
};
use crate::telemetry::TelemetrySource;

pub struct CudaDevice {
    info: DeviceInfo,
    pub(super) stream: sys::CUstream,
    pub(super) memory: GuardedMemory,
    pub(super) support: Support,
    /// Written between cold samples so that the L2 cache holds nothing of the kernel's.
    pub(super) flush: Option<BufferId>,
    pub(super) persistence: CachePersistence<DriverCache>,
    maps: EncodedMaps,
    modules: HashMap<ModuleId, CudaModule>,
    module_next: u32,
    telemetry: Option<TelemetrySource>,
    conditions: RunConditions,
    pub(super) checks: CheckSet,
    /// Where kernels run that disturb the launches of checked runs.
    beside: sys::CUstream,
}

impl CudaDevice {
    /// Opens GPU `index` and loads the helper kernels from `support_cubin`; `DeviceLost` when there is no driver or
    /// no such GPU.
    pub fn open(index: u32, support_cubin: &Path) -> Result<CudaDevice, DeviceError> {
        let device = driver::open(index)?;
        let stream = driver::create_stream()?;
        let info = info::read(device)?;
        let image = std::fs::read(support_cubin).map_err(|error| {
            let text = format!("cannot read helper kernels `{}`: {error}", support_cubin.display());
            DeviceError::plain(VerdictKind::HarnessError, text)
        })?;
        Ok(CudaDevice {
            support: Support::load(&image, stream)?,
            telemetry: TelemetrySource::of_uuid(&info.uuid),
            memory: GuardedMemory::new(stream),
            persistence: CachePersistence::new(info::windows(device)?, DriverCache),
            beside: driver::create_stream()?,
            info,
            stream,
            flush: None,
            maps: EncodedMaps::default(),
            modules: HashMap::new(),
            module_next: 0,
            conditions: RunConditions::default(),
            checks: CheckSet::default(),
        })
    }

    fn module(&mut self, id: ModuleId) -> Result<&mut CudaModule, DeviceError> {
        self.modules.get_mut(&id).ok_or_else(|| no_module(id))
    }

    /// A part of the cache is set aside if launches ask for it, and given back if others had it, after waiting for
    /// the stream.
    fn prepare_cache<'a>(
        &mut self,
        mut launches: impl Iterator<Item = &'a BoundLaunch>,
    ) -> Result<(), DeviceError> {
        match launches.any(|launch| self.persistence.is_asked_for(launch)) {
            true => self.persistence.begin(),
            false => self.clear_cache(),
        }
    }

    fn clear_cache(&mut self) -> Result<(), DeviceError> {
        if !self.persistence.is_open() {
            return Ok(());
        }
        driver::synchronize(self.stream)?;
        self.persistence.end()
    }

    /// Without anything around them, as they are timed.
    pub(super) fn enqueue(&mut self, module: ModuleId, launches: &[BoundLaunch]) -> Result<(), DeviceError> {
        let loaded = self.modules.get_mut(&module).ok_or_else(|| no_module(module))?;
        let windows = self.persistence.limits;
        launches.iter().try_for_each(|launch| {
            loaded.launch(launch, &self.memory, &mut self.maps, (windows, self.stream))
        })
    }

    fn run_checked(&mut self, module: ModuleId, launches: &[BoundLaunch]) -> Result<(), DeviceError> {
        let multiprocessors = self.info.multiprocessors;
        let residue = self.conditions.residue.filter(|_| self.checks.include(GateCheck::SharedResidue));
        if let Some(pattern) = residue {
            self.support.smear(pattern, multiprocessors, self.info.limits.shared_optin_bytes)?;
        }
        if let Some(seed) = self.conditions.order {
            self.support.delay(seed, multiprocessors, self.beside)?;
        }
        self.prepare_cache(launches.iter())?;
        self.enqueue(module, launches)
    }
}

fn no_module(id: ModuleId) -> DeviceError {
    DeviceError::plain(VerdictKind::HarnessError, format!("there is no module {}", id.0))
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        for (_, module) in self.modules.drain() {
            // Nobody is left to tell, and the end of the process frees modules in any case.
            let _ = module.unload();
        }
    }
}

impl Device for CudaDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn set_checks(&mut self, checks: CheckSet) {
        self.checks = checks;
    }

    /// Placement has no meaning here: both ends of a buffer have a guard zone.
    fn set_conditions(&mut self, conditions: RunConditions) -> Result<(), DeviceError> {
        self.conditions = conditions.under(self.checks);
        Ok(())
    }

    fn telemetry(&mut self) -> Telemetry {
        self.telemetry.as_ref().map(TelemetrySource::read).unwrap_or_default()
    }

    fn memory_free(&mut self) -> Option<u64> {
        driver::memory_free().ok()
    }
}

impl Executor for CudaDevice {
    fn load(&mut self, binary: &[u8], entries: &[String]) -> Result<ModuleId, DeviceError> {
        self.module_next += 1;
        self.reload(ModuleId(self.module_next), binary, entries)?;
        Ok(ModuleId(self.module_next))
    }

    fn reload(&mut self, module: ModuleId, binary: &[u8], entries: &[String]) -> Result<(), DeviceError> {
        self.unload(module)?;
        let mut loaded = CudaModule::load(binary, entries)?;
        let noted = loaded.variables.note_heap(binary, &self.support);
        match noted {
            Ok(()) => drop(self.modules.insert(module, loaded)),
            Err(_) => drop(loaded.unload()),
        }
        noted
    }

    /// One that is gone already is not an error.
    fn unload(&mut self, module: ModuleId) -> Result<(), DeviceError> {
        self.modules.remove(&module).map_or(Ok(()), CudaModule::unload)
    }

    fn park(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn echo(&mut self, module: ModuleId) -> Result<Option<String>, DeviceError> {
        self.module(module)?.echo()
    }

    fn execute(&mut self, module: ModuleId, request: ModuleRequest) -> Result<ModuleAnswer, DeviceError> {
        if let ModuleRequest::Launch { launches, calls } = &request {
            for call in calls {
                call.run(self, |device| device.run_checked(module, launches))?;
            }
            return Ok(ModuleAnswer::Done);
        }
        let CudaDevice { modules, memory, support, stream, .. } = self;
        let module = modules.get_mut(&module).ok_or_else(|| no_module(module))?;
        let variables = &mut module.variables;
        Ok(match request {
            ModuleRequest::Attributes { launch } => ModuleAnswer::Attributes(module.attributes(&launch)?),
            // No instruction of a cubin can be watched.
            ModuleRequest::Watch { .. } => ModuleAnswer::Watched(None),
            ModuleRequest::Variables => ModuleAnswer::Variables(variables.states(support)?),
            ModuleRequest::HeapKept => ModuleAnswer::HeapKept { bytes: variables.heap_kept(support)? },
            ModuleRequest::WriteVariable { name, buffer } => {
                variables.write(&name, memory.get(buffer)?.span(), *stream)?;
                ModuleAnswer::Done
            }
            ModuleRequest::ReadVariable { name, buffer } => {
                let intact = variables.read(&name, memory.get(buffer)?.span(), *stream)?;
                ModuleAnswer::Read { intact }
            }
            ModuleRequest::RestoreVariables => {
                variables.restore(*stream)?;
                ModuleAnswer::Done
            }
            ModuleRequest::Launch { .. } => ModuleAnswer::Done,
        })
    }

    fn sample(&mut self, module: ModuleId, order: SampleOrder<'_>) -> Result<Vec<f64>, DeviceError> {
        if order.mode == TimingMode::Cold && self.flush.is_none() {
            // Two L2 sizes: one pass of writes leaves part of the old lines resident (`docs/design/gates.md`).
            let bytes = (2 * self.info.l2_bytes).max(8 << 20);
            self.flush = Some(self.allocate("(cache flush)", bytes)?);
        }
        self.prepare_cache(order.rotation.iter().flatten())?;
        let times = timing::sample(self, module, order);
        // Before anything else is timed, and after a failure as well.
        self.clear_cache().and(times)
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        driver::synchronize(self.stream)?;
        self.clear_cache()
    }
}
