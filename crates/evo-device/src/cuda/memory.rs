//! Buffers as separate allocations with a guard zone on each side.
//!
//! A stray write lands in a zone and is found by `check_guards`; a stray read shows when zones are
//! rewritten with another pattern and the output changes.

use std::collections::BTreeMap;

use cudarc::driver::sys;
use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::verdict::VerdictKind;

use super::backend::CudaDevice;
use super::driver::{self, check};
use super::read_only::ReadOnlyCopy;
use super::support::Support;
use super::zone_table::{Zone, ZoneTable};
use crate::device::{
    BlockError, BufferId, Comparison, CopiedPart, Executor, GuardDamage, Memory, PlainErrors, Tolerance,
};

const GUARD_BYTES: u64 = 64 << 10;

/// What zones hold until they are armed otherwise: NaN in every float format.
const GUARD_PATTERN: u32 = 0x7fff_7fff;

/// Its allocation has a guard zone on each side.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub name: String,
    /// Start of the allocation: of the zone before the buffer.
    pub base: sys::CUdeviceptr,
    pub bytes: u64,
    /// Bytes of each of its guard zones: [`GUARD_BYTES`], or 0 for a buffer without.
    pub guard_bytes: u64,
}

impl Buffer {
    pub fn pointer(&self) -> sys::CUdeviceptr {
        self.base + self.guard_bytes
    }

    pub fn span(&self) -> (sys::CUdeviceptr, u64) {
        (self.pointer(), self.bytes)
    }

    pub fn zones(&self) -> [Zone; 2] {
        [self.base, self.pointer() + self.bytes].map(|start| Zone { start, bytes: self.guard_bytes })
    }
}

pub struct GuardedMemory {
    stream: sys::CUstream,
    buffers: BTreeMap<BufferId, Buffer>,
    next: u32,
    pattern: u32,
    table: ZoneTable,
    /// What kernels get in place of a buffer.
    shown: BTreeMap<BufferId, ReadOnlyCopy>,
    guard_bytes: u64,
    stale: bool,
}

impl GuardedMemory {
    pub fn new(stream: sys::CUstream) -> GuardedMemory {
        let table = ZoneTable::new(stream);
        GuardedMemory {
            stream,
            buffers: BTreeMap::new(),
            next: 0,
            pattern: GUARD_PATTERN,
            table,
            shown: BTreeMap::new(),
            guard_bytes: GUARD_BYTES,
            stale: true,
        }
    }

    pub fn get(&self, id: BufferId) -> Result<&Buffer, DeviceError> {
        self.buffers
            .get(&id)
            .ok_or_else(|| DeviceError::plain(VerdictKind::HarnessError, format!("no buffer {}", id.0)))
    }

    pub fn kernel_pointer(&self, id: BufferId) -> Result<sys::CUdeviceptr, DeviceError> {
        let own = self.get(id)?.pointer();
        Ok(self.shown.get(&id).map_or(own, ReadOnlyCopy::address))
    }

    pub fn fill(&self, id: BufferId, pattern: u32) -> Result<(), DeviceError> {
        let buffer = self.get(id)?;
        fill_range(buffer.pointer(), buffer.bytes, pattern, self.stream)
    }

    fn guarded(&self) -> impl Iterator<Item = &Buffer> {
        self.buffers.values().filter(|buffer| buffer.guard_bytes > 0)
    }

    fn arm(&mut self, support: &Support, pattern: u32) -> Result<(), DeviceError> {
        self.pattern = pattern;
        self.refresh()?;
        support.fill_zones(&self.table, pattern)
    }

    fn refresh(&mut self) -> Result<(), DeviceError> {
        if self.stale {
            let zones: Vec<Zone> = self.guarded().flat_map(Buffer::zones).collect();
            self.table.set(&zones)?;
            self.stale = false;
        }
        Ok(())
    }

    /// Damaged zones are armed again.
    fn check(&mut self, support: &Support) -> Result<Vec<GuardDamage>, DeviceError> {
        self.refresh()?;
        let damage: Vec<GuardDamage> = support
            .check_zones(&self.table, self.pattern)?
            .into_iter()
            // The map is ordered, so zones `2n` and `2n + 1` belong to its buffer `n`.
            .map(|(zone, first, changed)| {
                let buffer = self.guarded().nth(zone / 2).expect("two zones a buffer");
                let origin = if zone % 2 == 0 { -(GUARD_BYTES as i64) } else { buffer.bytes as i64 };
                GuardDamage {
                    buffer: buffer.name.clone(),
                    offset: origin + first as i64,
                    bytes_changed: changed,
                }
            })
            .collect();
        // Otherwise the next check would find the same damage and blame it on another launch.
        if !damage.is_empty() {
            self.arm(support, self.pattern)?;
        }
        Ok(damage)
    }
}

impl Memory for CudaDevice {
    fn allocate(&mut self, name: &str, bytes: u64) -> Result<BufferId, DeviceError> {
        let memory = &mut self.memory;
        let guard_bytes = memory.guard_bytes;
        let total = bytes.checked_add(2 * guard_bytes).and_then(|total| usize::try_from(total).ok());
        let total = total.ok_or_else(|| {
            let text = format!("buffer `{name}` of {bytes} bytes is beyond any device");
            DeviceError::plain(VerdictKind::OutOfMemory, text)
        })?;
        let mut base = 0;
        let what = format!("cannot allocate {bytes} bytes for `{name}`");
        // SAFETY: the pointer is to a live local; a context is current.
        unsafe { check(sys::cuMemAlloc_v2(&mut base, total), &what)? };
        let buffer = Buffer { name: name.to_string(), base, bytes, guard_bytes };
        // With the present pattern, or the next check would find the new zones damaged.
        for zone in buffer.zones() {
            fill_range(zone.start, zone.bytes, memory.pattern, memory.stream)?;
        }
        let id = BufferId(memory.next);
        memory.next += 1;
        memory.buffers.insert(id, buffer);
        memory.stale = true;
        Ok(id)
    }

    fn set_guarded(&mut self, guarded: bool) {
        self.memory.guard_bytes = if guarded { GUARD_BYTES } else { 0 };
    }

    fn address(&mut self, buffer: BufferId) -> Option<u64> {
        self.memory.get(buffer).ok().map(Buffer::pointer)
    }

    fn free(&mut self, id: BufferId) -> Result<(), DeviceError> {
        // A launch in flight may still use the buffer.
        self.synchronize()?;
        self.memory.stale = true;
        match self.memory.buffers.remove(&id) {
            // SAFETY: the base came from cuMemAlloc and is freed once, since it left the map.
            Some(buffer) => unsafe { check(sys::cuMemFree_v2(buffer.base), "cannot free a buffer") },
            None => Ok(()),
        }
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
        let memory = &mut self.memory;
        memory.shown.clear();
        for id in buffers {
            let (source, bytes) = memory.get(*id)?.span();
            let Some(copy) = ReadOnlyCopy::of(source, bytes, memory.stream)? else {
                memory.shown.clear();
                return Ok(false);
            };
            memory.shown.insert(*id, copy);
        }
        Ok(true)
    }
}

/// Single bytes up to the first aligned word, words, then single bytes. The pattern's phase is that of the range's
/// start, as the helper kernels assume.
fn fill_range(start: u64, bytes: u64, pattern: u32, stream: sys::CUstream) -> Result<(), DeviceError> {
    let pattern_bytes = pattern.to_le_bytes();
    let head = ((4 - start % 4) % 4).min(bytes);
    let words = (bytes - head) / 4;
    let single = |offset: u64| {
        let value = pattern_bytes[(offset % 4) as usize];
        // SAFETY: the caller's range is inside one allocation.
        unsafe { check(sys::cuMemsetD8Async(start + offset, value, 1, stream), "cannot fill") }
    };
    (0..head).try_for_each(single)?;
    if words > 0 {
        // The first word begins `head` bytes into the pattern.
        let shifted = pattern.rotate_right(8 * head as u32);
        // SAFETY: as above; the start is aligned to four bytes here.
        unsafe {
            check(sys::cuMemsetD32Async(start + head, shifted, words as usize, stream), "cannot fill")?;
        }
    }
    (head + 4 * words..bytes).try_for_each(single)
}
