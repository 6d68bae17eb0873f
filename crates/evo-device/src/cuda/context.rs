//! The CUDA device: a stream, the buffers and the loaded modules of one GPU.

use std::collections::HashMap;
use std::path::Path;

use cudarc::driver::sys;
use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::{DeviceError, DeviceInfo};

use super::launch::CudaModule;
use super::memory::GuardedMemory;
use super::persistence::CachePersistence;
use super::support::Support;
use super::tensor_map::EncodedMaps;
use super::{driver, info};
use crate::device::{BoundLaunch, BufferId, ModuleId, RunConditions, no_module, trouble};
use crate::telemetry::TelemetrySource;

pub struct CudaDevice {
    pub(super) info: DeviceInfo,
    pub(super) stream: sys::CUstream,
    pub(super) memory: GuardedMemory,
    pub(super) support: Support,
    /// Written between cold samples so that the L2 cache holds nothing of the kernel's.
    pub(super) flush: Option<BufferId>,
    pub(super) persistence: CachePersistence,
    maps: EncodedMaps,
    pub(super) modules: HashMap<ModuleId, CudaModule>,
    pub(super) telemetry: Option<TelemetrySource>,
    pub(super) conditions: RunConditions,
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
            trouble(format!("cannot read helper kernels `{}`: {error}", support_cubin.display()))
        })?;
        Ok(CudaDevice {
            support: Support::load(&image, stream)?,
            telemetry: TelemetrySource::of_uuid(&info.uuid),
            memory: GuardedMemory::new(stream),
            persistence: CachePersistence { limits: info::windows(device)?, is_open: false },
            beside: driver::create_stream()?,
            info,
            stream,
            flush: None,
            maps: EncodedMaps::default(),
            modules: HashMap::new(),
            conditions: RunConditions::default(),
            checks: CheckSet::default(),
        })
    }

    pub(super) fn module(&mut self, id: ModuleId) -> Result<&mut CudaModule, DeviceError> {
        self.modules.get_mut(&id).ok_or_else(|| no_module(id))
    }

    /// A part of the cache is set aside if launches ask for it, and given back if others had it, after waiting for
    /// the stream.
    pub(super) fn prepare_cache<'a>(
        &mut self,
        mut launches: impl Iterator<Item = &'a BoundLaunch>,
    ) -> Result<(), DeviceError> {
        match launches.any(|launch| self.persistence.is_asked_for(launch)) {
            true => self.persistence.begin(),
            false => self.clear_cache(),
        }
    }

    pub(super) fn clear_cache(&mut self) -> Result<(), DeviceError> {
        if !self.persistence.is_open {
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

    pub(super) fn run_checked(
        &mut self,
        module: ModuleId,
        launches: &[BoundLaunch],
    ) -> Result<(), DeviceError> {
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
