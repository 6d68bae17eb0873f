//! The CUDA device behind the traits: each call goes to the part that does it.

use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::{DeviceError, DeviceInfo, Telemetry};
use evo_protocol::dtype::DType;
use evo_protocol::measurement::TimingMode;

use super::buffer::Buffer;
use super::context::CudaDevice;
use super::launch::CudaModule;
use super::support::{BLOCKS_MAX, arg, blocks};
use super::variables::InStream;
use super::{driver, timing};
use crate::device::{
    BlockError, BufferId, Comparison, CopiedPart, Device, Executor, GuardDamage, Memory, ModuleAnswer,
    ModuleId, ModuleRequest, RunConditions, SampleOrder, Tolerance, no_module, trouble,
};
use crate::telemetry::TelemetrySource;
use crate::variables::{restore, states};

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
            let (name, size) = (&buffer.name, buffer.bytes);
            return Err(trouble(format!("{length} bytes at {offset} do not fit `{name}` of {size}")));
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
            return Err(trouble(format!("{part:?} reaches behind the end of `{from}` or `{to}`")));
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
        let (data, bytes) = self.memory.get(buffer)?.span();
        let (size, elements) = (dtype.bytes() as u32, bytes / dtype.bytes());
        // An element of eight bytes holds the pattern twice.
        let wide = if size == 8 { u64::from(pattern) << 32 } else { 0 };
        let pattern = wide | u64::from(pattern);
        let arguments = [arg(&data), arg(&elements), arg(&size), arg(&pattern)];
        self.support.count("evo_count", blocks(elements), &arguments)
    }

    fn compare(
        &mut self,
        actual: BufferId,
        dtype: DType,
        expected: BufferId,
        tolerance: Tolerance,
    ) -> Result<Comparison, DeviceError> {
        let (actual, expected) = (self.memory.get(actual)?, self.memory.get(expected)?);
        let (grid, rest) =
            (blocks(actual.bytes / dtype.bytes()), [arg(&tolerance.atol), arg(&tolerance.rtol)]);
        let parts: Vec<Comparison> =
            self.support.parts("evo_compare", grid, (actual, dtype), expected, &rest)?;
        Ok(parts.iter().fold(Comparison::default(), Comparison::and))
    }

    fn compare_blocks(
        &mut self,
        actual: BufferId,
        dtype: DType,
        expected: BufferId,
        block: u64,
        floor: f64,
    ) -> Result<BlockError, DeviceError> {
        let (actual, expected) = (self.memory.get(actual)?, self.memory.get(expected)?);
        let (elements, block) = (actual.bytes / dtype.bytes(), block.max(1));
        let grid = elements.div_ceil(block).div_ceil(8).clamp(1, BLOCKS_MAX) as u32;
        let rest = [arg(&block), arg(&floor)];
        let parts: Vec<BlockError> =
            self.support.parts("evo_blocks", grid, (actual, dtype), expected, &rest)?;
        Ok(parts.iter().fold(BlockError::default(), BlockError::or))
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

    fn reload(&mut self, module: ModuleId, binary: &[u8], entries: &[String]) -> Result<(), DeviceError> {
        self.unload(module)?;
        self.modules.insert(module, CudaModule::load(binary, entries, &self.support)?);
        Ok(())
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
        let (variables, in_stream) = (&mut module.variables, InStream(*stream, support));
        Ok(match request {
            ModuleRequest::Attributes { launch } => ModuleAnswer::Attributes(module.attributes(&launch)?),
            // No instruction of a cubin can be watched.
            ModuleRequest::Watch { .. } => ModuleAnswer::Watched(None),
            ModuleRequest::Variables => ModuleAnswer::Variables(states(&variables.found, &in_stream)?),
            ModuleRequest::HeapKept => ModuleAnswer::HeapKept { bytes: variables.heap_kept(support)? },
            ModuleRequest::WriteVariable { name, buffer } => {
                let span = memory.get(buffer)?.span();
                variables.named(&name, span.1, support)?.write(span, &in_stream)?;
                ModuleAnswer::Done
            }
            ModuleRequest::ReadVariable { name, buffer } => {
                let span = memory.get(buffer)?.span();
                let intact = variables.named(&name, span.1, support)?.read(span, &in_stream)?;
                driver::synchronize(*stream)?;
                ModuleAnswer::Read { intact }
            }
            ModuleRequest::RestoreVariables => {
                restore(&variables.found, &in_stream)?;
                driver::synchronize(*stream)?;
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
