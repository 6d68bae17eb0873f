//! The CUDA device behind the traits: each call goes to the part that does it.

use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::{DeviceError, DeviceInfo, Telemetry};
use evo_protocol::dtype::DType;
use evo_protocol::measurement::TimingMode;
use evo_protocol::verdict::VerdictKind;

use super::buffer::Buffer;
use super::context::{CudaDevice, no_module};
use super::launch::CudaModule;
use super::{driver, timing};
use crate::device::{
    BlockError, BufferId, Comparison, CopiedPart, Device, Executor, GuardDamage, Memory, ModuleAnswer,
    ModuleId, ModuleRequest, PlainErrors, RunConditions, SampleOrder, Tolerance,
};
use crate::telemetry::TelemetrySource;

impl Device for CudaDevice {
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

impl Memory for CudaDevice {
    fn allocate(&mut self, name: &str, bytes: u64) -> Result<BufferId, DeviceError> {
        self.memory.allocate(name, bytes)
    }

    fn set_guarded(&mut self, guarded: bool) {
        self.memory.set_guarded(guarded);
    }

    fn address(&mut self, buffer: BufferId) -> Option<u64> {
        self.memory.get(buffer).ok().map(Buffer::pointer)
    }

    fn free(&mut self, id: BufferId) -> Result<(), DeviceError> {
        // A launch in flight may still use the buffer.
        self.synchronize()?;
        self.memory.free(id)
    }

    fn write_at(&mut self, id: BufferId, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let buffer = self.memory.get(id)?;
        let length = bytes.len() as u64;
        if offset.checked_add(length).is_none_or(|end| end > buffer.bytes) {
            let text =
                format!("{length} bytes at {offset} do not fit `{}` ({} bytes)", buffer.name, buffer.bytes);
            return Err(DeviceError::plain(VerdictKind::HarnessError, text));
        }
        // SAFETY: the length was checked against the allocation.
        unsafe { driver::upload(buffer.pointer() + offset, bytes, self.stream) }
    }

    /// After all work enqueued before.
    fn read(&mut self, id: BufferId) -> Result<Vec<u8>, DeviceError> {
        let buffer = self.memory.get(id)?;
        let mut bytes = vec![0u8; buffer.bytes as usize];
        // SAFETY: the vector is as long as the buffer.
        unsafe { driver::download(&mut bytes, buffer.pointer(), self.stream)? };
        Ok(bytes)
    }

    fn copy(&mut self, from: BufferId, to: BufferId) -> Result<(), DeviceError> {
        let (from, to) = (self.memory.get(from)?, self.memory.get(to)?);
        // SAFETY: both allocations are at least so long.
        unsafe { driver::copy(from.pointer(), to.pointer(), from.bytes.min(to.bytes), self.stream) }
    }

    fn copy_part(&mut self, from: BufferId, to: BufferId, part: CopiedPart) -> Result<(), DeviceError> {
        let (from, to) = (self.memory.get(from)?, self.memory.get(to)?);
        if !part.fits(from.bytes, to.bytes) {
            let (from, to) = (&from.name, &to.name);
            let text = format!("{part:?} reaches behind the end of `{from}` or `{to}`");
            return Err(DeviceError::plain(VerdictKind::HarnessError, text));
        }
        if part.bytes == 0 {
            return Ok(());
        }
        let (source, target) = (from.pointer() + part.source, to.pointer() + part.target);
        // SAFETY: both ranges lie inside their allocations.
        unsafe { driver::copy(source, target, part.bytes, self.stream) }
    }

    fn fill(&mut self, buffer: BufferId, pattern: u32) -> Result<(), DeviceError> {
        self.memory.fill(buffer, pattern)
    }

    fn hash(&mut self, buffer: BufferId) -> Result<u64, DeviceError> {
        let (start, bytes) = self.memory.get(buffer)?.span();
        self.support.hash(start, bytes)
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
        self.support.compare(self.memory.get(actual)?, dtype, self.memory.get(expected)?, tolerance)
    }

    fn compare_blocks(
        &mut self,
        actual: BufferId,
        dtype: DType,
        expected: BufferId,
        block: u64,
        floor: f64,
    ) -> Result<BlockError, DeviceError> {
        self.support.compare_blocks(self.memory.get(actual)?, dtype, self.memory.get(expected)?, block, floor)
    }

    fn plain_errors(
        &mut self,
        actual: BufferId,
        dtype: DType,
        expected: BufferId,
        tolerances: [Tolerance; 3],
    ) -> Result<Option<PlainErrors>, DeviceError> {
        let (actual, expected) = (self.memory.get(actual)?, self.memory.get(expected)?);
        self.support.plain_errors(actual, dtype, expected, tolerances).map(Some)
    }

    fn check_guards(&mut self) -> Result<Vec<GuardDamage>, DeviceError> {
        let damage = self.memory.check(&self.support)?;
        Ok(if self.checks.include(GateCheck::GuardZones) { damage } else { Vec::new() })
    }

    fn arm_guards(&mut self, pattern: u32) -> Result<(), DeviceError> {
        self.memory.arm(&self.support, pattern)
    }

    /// Pages of an allocation cannot be closed; `show_read_only` takes its place.
    fn protect(&mut self, _buffer: BufferId, _read_only: bool) -> Result<(), DeviceError> {
        Ok(())
    }

    fn show_read_only(&mut self, buffers: &[BufferId]) -> Result<bool, DeviceError> {
        self.memory.show_read_only(buffers)
    }
}

impl Executor for CudaDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

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
