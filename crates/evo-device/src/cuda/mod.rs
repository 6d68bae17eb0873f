//! The CUDA device: driver API only, loaded at run time.
//!
//! All `unsafe` of the GPU side lives in this folder. `driver` is a checked skin over the driver
//! calls, `memory` owns guarded buffers, `support` the helper kernels that fill, hash and compare on
//! the device, `launch` turns plans into launches and graphs, `timing` takes samples.

mod driver;
mod info;
mod launch;
mod memory;
mod support;
mod timing;

use std::collections::HashMap;
use std::path::Path;

use cudarc::driver::sys;
use evo_protocol::device::{DeviceError, DeviceInfo, EntryAttributes, Telemetry};
use evo_protocol::dtype::DType;
use evo_protocol::measurement::TimingMode;
use evo_protocol::verdict::VerdictKind;

use self::memory::Memory;
pub use self::support::SUPPORT_SOURCE;
use self::support::Support;
use super::device::{BoundLaunch, BufferId, Comparison, Device, GuardDamage, ModuleId, Tolerance};
use super::telemetry::TelemetrySource;

/// One GPU with its context, stream, modules and buffers.
pub struct CudaDevice {
    info: DeviceInfo,
    stream: sys::CUstream,
    support: Support,
    memory: Memory,
    modules: HashMap<ModuleId, launch::Module>,
    module_next: u32,
    telemetry: Option<TelemetrySource>,
    flush: Option<BufferId>,
}

impl CudaDevice {
    /// Opens GPU `index` and loads the helper kernels from `support_cubin`.
    ///
    /// # Errors
    /// `DeviceLost` when there is no driver or no such GPU; the message says which.
    pub fn open(index: u32, support_cubin: &Path) -> Result<CudaDevice, DeviceError> {
        let device = driver::open(index)?;
        let stream = driver::create_stream()?;
        let info = info::read(device)?;
        let image = std::fs::read(support_cubin).map_err(|error| {
            let text = format!("cannot read helper kernels `{}`: {error}", support_cubin.display());
            DeviceError::plain(VerdictKind::HarnessError, text)
        })?;
        let support = Support::load(&image, stream)?;
        let telemetry = TelemetrySource::of_uuid(&info.uuid);
        Ok(CudaDevice {
            info,
            stream,
            support,
            memory: Memory::new(stream),
            modules: HashMap::new(),
            module_next: 0,
            telemetry,
            flush: None,
        })
    }

    fn module(&mut self, id: ModuleId) -> Result<&mut launch::Module, DeviceError> {
        self.modules
            .get_mut(&id)
            .ok_or_else(|| DeviceError::plain(VerdictKind::HarnessError, format!("no module {}", id.0)))
    }
}

impl Device for CudaDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn load(&mut self, binary: &[u8], entries: &[String]) -> Result<ModuleId, DeviceError> {
        let module = launch::Module::load(binary, entries)?;
        let id = ModuleId(self.module_next);
        self.module_next += 1;
        self.modules.insert(id, module);
        Ok(id)
    }

    fn unload(&mut self, module: ModuleId) -> Result<(), DeviceError> {
        match self.modules.remove(&module) {
            Some(module) => module.unload(),
            None => Ok(()),
        }
    }

    fn echo(&mut self, module: ModuleId) -> Result<Option<String>, DeviceError> {
        self.module(module)?.echo()
    }

    fn attributes(&mut self, module: ModuleId, launch: &BoundLaunch) -> Result<EntryAttributes, DeviceError> {
        self.module(module)?.attributes(launch)
    }

    fn allocate(&mut self, name: &str, bytes: u64) -> Result<BufferId, DeviceError> {
        self.memory.allocate(name, bytes)
    }

    fn free(&mut self, buffer: BufferId) -> Result<(), DeviceError> {
        self.synchronize()?;
        self.memory.free(buffer)
    }

    fn write(&mut self, buffer: BufferId, bytes: &[u8]) -> Result<(), DeviceError> {
        self.memory.write(buffer, bytes)
    }

    fn read(&mut self, buffer: BufferId) -> Result<Vec<u8>, DeviceError> {
        self.memory.read(buffer)
    }

    fn copy(&mut self, from: BufferId, to: BufferId) -> Result<(), DeviceError> {
        self.memory.copy(from, to)
    }

    fn fill(&mut self, buffer: BufferId, pattern: u32) -> Result<(), DeviceError> {
        self.memory.fill(buffer, pattern)
    }

    fn hash(&mut self, buffer: BufferId) -> Result<u64, DeviceError> {
        self.support.hash(self.memory.get(buffer)?)
    }

    fn count_pattern(&mut self, buffer: BufferId, dtype: DType, pattern: u32) -> Result<u64, DeviceError> {
        self.support.count_pattern(self.memory.get(buffer)?, dtype, pattern)
    }

    fn compare(
        &mut self,
        actual: BufferId,
        dtype: DType,
        expected: BufferId,
        tolerance: Tolerance,
    ) -> Result<Comparison, DeviceError> {
        let (actual, expected) = (self.memory.get(actual)?, self.memory.get(expected)?);
        self.support.compare(actual, dtype, expected, tolerance)
    }

    fn check_guards(&mut self) -> Result<Vec<GuardDamage>, DeviceError> {
        self.memory.check_guards(&self.support)
    }

    fn arm_guards(&mut self, pattern: u32) -> Result<(), DeviceError> {
        self.memory.arm_guards(pattern)
    }

    fn launch(&mut self, module: ModuleId, launches: &[BoundLaunch]) -> Result<(), DeviceError> {
        let stream = self.stream;
        let module = self.modules.get_mut(&module).ok_or_else(|| {
            DeviceError::plain(VerdictKind::HarnessError, format!("no module {}", module.0))
        })?;
        for launch in launches {
            module.launch(launch, &self.memory, stream)?;
        }
        Ok(())
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        driver::synchronize(self.stream)
    }

    fn sample(
        &mut self,
        module: ModuleId,
        launches: &[BoundLaunch],
        mode: TimingMode,
        samples: u32,
        batch: u32,
    ) -> Result<Vec<f64>, DeviceError> {
        if mode == TimingMode::Cold {
            self.ensure_flush_buffer()?;
        }
        timing::sample(self, module, launches, timing::Plan { mode, samples, batch })
    }

    fn telemetry(&mut self) -> Telemetry {
        self.telemetry.as_ref().map(TelemetrySource::read).unwrap_or_default()
    }

    fn memory_free(&mut self) -> Option<u64> {
        driver::memory_free().ok()
    }
}

impl CudaDevice {
    /// Two L2 sizes: one pass of writes leaves part of the old lines resident (`gates.md` §4 step 4).
    fn ensure_flush_buffer(&mut self) -> Result<(), DeviceError> {
        if self.flush.is_none() {
            let bytes = (2 * self.info.l2_bytes).max(8 << 20);
            self.flush = Some(self.memory.allocate("(cache flush)", bytes)?);
        }
        Ok(())
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        for (_, module) in self.modules.drain() {
            let _ = module.unload();
        }
    }
}
