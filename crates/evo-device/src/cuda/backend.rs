//! The CUDA device behind the trait: each call goes to the part that does it.

use std::path::Path;

use cudarc::driver::sys;
use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::{DeviceError, DeviceInfo, EntryAttributes, Telemetry};
use evo_protocol::dtype::DType;
use evo_protocol::measurement::TimingMode;
use evo_protocol::verdict::VerdictKind;

use super::context::CudaContext;
use super::memory::Buffer;
use super::support::Support;
use super::{driver, info, timing};
use crate::device::{
    BlockError, BoundLaunch, BufferId, Comparison, CopiedPart, Device, GuardDamage, ModuleId, PlainErrors,
    RunConditions, SampleOrder, Tolerance, VariableState,
};
use crate::telemetry::TelemetrySource;

pub struct CudaDevice {
    info: DeviceInfo,
    context: CudaContext,
    support: Support,
    telemetry: Option<TelemetrySource>,
    conditions: RunConditions,
    checks: CheckSet,
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
        let support = Support::load(&image, stream)?;
        let telemetry = TelemetrySource::of_uuid(&info.uuid);
        let (context, beside) = (CudaContext::new(stream, info::windows(device)?), driver::create_stream()?);
        Ok(CudaDevice {
            info,
            context,
            support,
            telemetry,
            conditions: RunConditions::default(),
            checks: CheckSet::default(),
            beside,
        })
    }
}

impl Device for CudaDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn set_checks(&mut self, checks: CheckSet) {
        self.checks = checks;
    }

    fn load(&mut self, binary: &[u8], entries: &[String]) -> Result<ModuleId, DeviceError> {
        let module = self.context.next_module();
        self.reload(module, binary, entries).map(|()| module)
    }

    fn reload(&mut self, module: ModuleId, binary: &[u8], entries: &[String]) -> Result<(), DeviceError> {
        self.context.unload(module)?;
        self.context.load(module, binary, entries)?;
        let noted = self.context.module(module)?.variables.note_heap(binary, &self.support);
        if noted.is_err() {
            let _ = self.context.unload(module);
        }
        noted
    }

    fn heap_kept(&mut self, module: ModuleId) -> Result<u64, DeviceError> {
        self.context.module(module)?.variables.heap_kept(&self.support)
    }

    fn unload(&mut self, module: ModuleId) -> Result<(), DeviceError> {
        self.context.unload(module)
    }

    fn echo(&mut self, module: ModuleId) -> Result<Option<String>, DeviceError> {
        self.context.module(module)?.echo()
    }

    fn attributes(&mut self, module: ModuleId, launch: &BoundLaunch) -> Result<EntryAttributes, DeviceError> {
        self.context.module(module)?.attributes(launch)
    }

    fn variables(&mut self, module: ModuleId) -> Result<Vec<VariableState>, DeviceError> {
        self.context.module(module)?.variables.states(&self.support)
    }

    fn restore_variables(&mut self, module: ModuleId) -> Result<(), DeviceError> {
        let stream = self.context.stream;
        self.context.module(module)?.variables.restore(stream)
    }

    fn write_variable(&mut self, module: ModuleId, name: &str, buffer: BufferId) -> Result<(), DeviceError> {
        let (stream, own) = (self.context.stream, self.context.memory.get(buffer)?.span());
        self.context.module(module)?.variables.write(name, own, stream)
    }

    fn read_variable(&mut self, module: ModuleId, name: &str, buffer: BufferId) -> Result<bool, DeviceError> {
        let (stream, own) = (self.context.stream, self.context.memory.get(buffer)?.span());
        self.context.module(module)?.variables.read(name, own, stream)
    }

    fn allocate(&mut self, name: &str, bytes: u64) -> Result<BufferId, DeviceError> {
        self.context.memory.allocate(name, bytes)
    }

    fn free(&mut self, buffer: BufferId) -> Result<(), DeviceError> {
        // A launch in flight may still use the buffer.
        self.synchronize()?;
        self.context.memory.free(buffer)
    }

    fn set_guarded(&mut self, guarded: bool) {
        self.context.memory.set_guarded(guarded);
    }

    fn address(&mut self, buffer: BufferId) -> Option<u64> {
        self.context.memory.get(buffer).ok().map(Buffer::pointer)
    }

    fn write_at(&mut self, buffer: BufferId, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.context.memory.write_at(buffer, offset, bytes)
    }

    fn read(&mut self, buffer: BufferId) -> Result<Vec<u8>, DeviceError> {
        self.context.memory.read(buffer)
    }

    fn copy(&mut self, from: BufferId, to: BufferId) -> Result<(), DeviceError> {
        self.context.memory.copy(from, to)
    }

    fn copy_part(&mut self, from: BufferId, to: BufferId, part: CopiedPart) -> Result<(), DeviceError> {
        self.context.memory.copy_part(from, to, part)
    }

    fn fill(&mut self, buffer: BufferId, pattern: u32) -> Result<(), DeviceError> {
        self.context.memory.fill(buffer, pattern)
    }

    fn hash(&mut self, buffer: BufferId) -> Result<u64, DeviceError> {
        self.support.hash(self.context.memory.get(buffer)?)
    }

    fn count_pattern(&mut self, buffer: BufferId, dtype: DType, pattern: u32) -> Result<u64, DeviceError> {
        self.support.count_pattern(self.context.memory.get(buffer)?, dtype, pattern)
    }

    fn compare(
        &mut self,
        actual: BufferId,
        dtype: DType,
        expected: BufferId,
        tolerance: Tolerance,
    ) -> Result<Comparison, DeviceError> {
        let (actual, expected) = (self.context.memory.get(actual)?, self.context.memory.get(expected)?);
        self.support.compare(actual, dtype, expected, tolerance)
    }

    fn compare_blocks(
        &mut self,
        actual: BufferId,
        dtype: DType,
        expected: BufferId,
        block: u64,
        floor: f64,
    ) -> Result<BlockError, DeviceError> {
        let (actual, expected) = (self.context.memory.get(actual)?, self.context.memory.get(expected)?);
        self.support.compare_blocks(actual, dtype, expected, block, floor)
    }

    fn plain_errors(
        &mut self,
        actual: BufferId,
        dtype: DType,
        expected: BufferId,
        tolerances: [Tolerance; 3],
    ) -> Result<Option<PlainErrors>, DeviceError> {
        let (actual, expected) = (self.context.memory.get(actual)?, self.context.memory.get(expected)?);
        self.support.plain_errors(actual, dtype, expected, tolerances).map(Some)
    }

    fn check_guards(&mut self) -> Result<Vec<GuardDamage>, DeviceError> {
        let damage = self.context.memory.check_guards(&self.support)?;
        Ok(if self.checks.include(GateCheck::GuardZones) { damage } else { Vec::new() })
    }

    fn arm_guards(&mut self, pattern: u32) -> Result<(), DeviceError> {
        self.context.memory.arm_guards(&self.support, pattern)
    }

    /// Placement has no meaning here: both ends of a buffer have a guard zone.
    fn set_conditions(&mut self, conditions: RunConditions) -> Result<(), DeviceError> {
        self.conditions = conditions.under(self.checks);
        Ok(())
    }

    fn show_read_only(&mut self, buffers: &[BufferId]) -> Result<bool, DeviceError> {
        self.context.memory.show_read_only(buffers)
    }

    fn launch(&mut self, module: ModuleId, launches: &[BoundLaunch]) -> Result<(), DeviceError> {
        let multiprocessors = self.info.multiprocessors;
        let residue = self.conditions.residue.filter(|_| self.checks.include(GateCheck::SharedResidue));
        if let Some(pattern) = residue {
            self.support.smear(pattern, multiprocessors, self.info.limits.shared_optin_bytes)?;
        }
        if let Some(seed) = self.conditions.order {
            self.support.delay(seed, multiprocessors, self.beside)?;
        }
        self.context.prepare_cache(launches)?;
        self.context.launch(module, launches)
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        driver::synchronize(self.context.stream)?;
        self.context.clear_cache()
    }

    fn sample(&mut self, module: ModuleId, order: SampleOrder<'_>) -> Result<Vec<f64>, DeviceError> {
        if order.mode == TimingMode::Cold {
            self.ensure_flush_buffer()?;
        }
        let launches: Vec<BoundLaunch> = order.rotation.iter().flatten().cloned().collect();
        self.context.prepare_cache(&launches)?;
        let times = timing::sample(&mut self.context, module, order);
        // Before anything else is timed, and after a failure as well.
        self.context.clear_cache().and(times)
    }

    fn telemetry(&mut self) -> Telemetry {
        self.telemetry.as_ref().map(TelemetrySource::read).unwrap_or_default()
    }

    fn memory_free(&mut self) -> Option<u64> {
        driver::memory_free().ok()
    }
}

impl CudaDevice {
    /// Two L2 sizes: one pass of writes leaves part of the old lines resident (`docs/design/gates.md`).
    fn ensure_flush_buffer(&mut self) -> Result<(), DeviceError> {
        if self.context.flush.is_none() {
            let bytes = (2 * self.info.l2_bytes).max(8 << 20);
            self.context.flush = Some(self.context.memory.allocate("(cache flush)", bytes)?);
        }
        Ok(())
    }
}
