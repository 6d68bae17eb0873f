//! What launches run on: a stream, the buffers and the loaded modules of one GPU.

use std::collections::HashMap;

use cudarc::driver::sys;
use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;

use super::driver;
use super::launch::CudaModule;
use super::memory::GuardedMemory;
use super::persistence::{CachePersistence, DriverCache, WindowLimits};
use super::tensor_map::EncodedMaps;
use crate::device::{BoundLaunch, BufferId, ModuleId};

pub struct CudaContext {
    pub stream: sys::CUstream,
    pub memory: GuardedMemory,
    /// Written between cold samples so that the L2 cache holds nothing of the kernel's.
    pub flush: Option<BufferId>,
    pub persistence: CachePersistence<DriverCache>,
    maps: EncodedMaps,
    modules: HashMap<ModuleId, CudaModule>,
    module_next: u32,
}

impl CudaContext {
    pub fn new(stream: sys::CUstream, windows: WindowLimits) -> CudaContext {
        let memory = GuardedMemory::new(stream);
        CudaContext {
            stream,
            memory,
            flush: None,
            persistence: CachePersistence::new(windows, DriverCache),
            maps: EncodedMaps::default(),
            modules: HashMap::new(),
            module_next: 0,
        }
    }

    pub fn next_module(&mut self) -> ModuleId {
        self.module_next += 1;
        ModuleId(self.module_next)
    }

    pub fn load(&mut self, id: ModuleId, binary: &[u8], entries: &[String]) -> Result<(), DeviceError> {
        self.modules.insert(id, CudaModule::load(binary, entries)?);
        Ok(())
    }

    /// Unloads a module; one that is gone already is not an error.
    pub fn unload(&mut self, module: ModuleId) -> Result<(), DeviceError> {
        self.modules.remove(&module).map_or(Ok(()), CudaModule::unload)
    }

    pub fn module(&mut self, id: ModuleId) -> Result<&mut CudaModule, DeviceError> {
        self.modules.get_mut(&id).ok_or_else(|| no_module(id))
    }

    /// A part of the cache is set aside if launches ask for it, and given back if others had it, after waiting for
    /// the stream.
    pub fn prepare_cache(&mut self, launches: &[BoundLaunch]) -> Result<(), DeviceError> {
        match self.persistence.is_asked_for(launches) {
            true => self.persistence.begin(),
            false => self.clear_cache(),
        }
    }

    pub fn clear_cache(&mut self) -> Result<(), DeviceError> {
        if !self.persistence.is_open() {
            return Ok(());
        }
        driver::synchronize(self.stream)?;
        self.persistence.end()
    }

    pub fn launch(&mut self, module: ModuleId, launches: &[BoundLaunch]) -> Result<(), DeviceError> {
        let loaded = self.modules.get_mut(&module).ok_or_else(|| no_module(module))?;
        let (memory, maps, stream) = (&self.memory, &mut self.maps, self.stream);
        let windows = self.persistence.limits;
        launches.iter().try_for_each(|launch| loaded.launch(launch, memory, maps, (windows, stream)))
    }
}

fn no_module(id: ModuleId) -> DeviceError {
    DeviceError::plain(VerdictKind::HarnessError, format!("there is no module {}", id.0))
}

impl Drop for CudaContext {
    fn drop(&mut self) {
        for (_, module) in self.modules.drain() {
            // Nobody is left to tell, and the end of the process frees modules in any case.
            let _ = module.unload();
        }
    }
}
