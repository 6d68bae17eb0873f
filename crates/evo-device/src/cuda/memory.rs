//! Buffers as separate allocations with a guard zone on each side.
//!
//! A stray write lands in a zone and is found by `check_guards`; a stray read shows when zones are
//! rewritten with another pattern and the output changes.

use std::collections::BTreeMap;

use cudarc::driver::sys;
use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;

use super::buffer::{Buffer, GUARD_BYTES, Zone, ZoneTable};
use super::driver::check;
use super::read_only::ReadOnlyCopy;
use super::support::Support;
use crate::device::{BufferId, GuardDamage, no_buffer};

/// What zones hold until they are armed otherwise: NaN in every float format.
const GUARD_PATTERN: u32 = 0x7fff_7fff;

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
        self.buffers.get(&id).ok_or_else(|| no_buffer(id))
    }

    pub fn kernel_pointer(&self, id: BufferId) -> Result<sys::CUdeviceptr, DeviceError> {
        let own = self.get(id)?.pointer();
        Ok(self.shown.get(&id).map_or(own, ReadOnlyCopy::address))
    }

    pub fn allocate(&mut self, name: &str, bytes: u64) -> Result<BufferId, DeviceError> {
        let guard_bytes = self.guard_bytes;
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
            fill_range(zone.start, zone.bytes, self.pattern, self.stream)?;
        }
        let id = BufferId(self.next);
        self.next += 1;
        self.buffers.insert(id, buffer);
        self.stale = true;
        Ok(id)
    }

    /// Nothing may use it any more.
    pub fn free(&mut self, id: BufferId) -> Result<(), DeviceError> {
        self.stale = true;
        match self.buffers.remove(&id) {
            // SAFETY: the base came from cuMemAlloc and is freed once, since it left the map.
            Some(buffer) => unsafe { check(sys::cuMemFree_v2(buffer.base), "cannot free a buffer") },
            None => Ok(()),
        }
    }

    pub fn set_guarded(&mut self, guarded: bool) {
        self.guard_bytes = if guarded { GUARD_BYTES } else { 0 };
    }

    /// Copies are made of the buffers as they are now; all others are shown themselves. False where the device cannot
    /// do it.
    pub fn show_read_only(&mut self, ids: &[BufferId]) -> Result<bool, DeviceError> {
        self.shown.clear();
        for id in ids {
            let (source, bytes) = self.get(*id)?.span();
            let Some(copy) = ReadOnlyCopy::of(source, bytes, self.stream)? else {
                self.shown.clear();
                return Ok(false);
            };
            self.shown.insert(*id, copy);
        }
        Ok(true)
    }

    pub fn fill(&self, id: BufferId, pattern: u32) -> Result<(), DeviceError> {
        let buffer = self.get(id)?;
        fill_range(buffer.pointer(), buffer.bytes, pattern, self.stream)
    }

    fn guarded(&self) -> impl Iterator<Item = &Buffer> {
        self.buffers.values().filter(|buffer| buffer.guard_bytes > 0)
    }

    pub fn arm(&mut self, support: &Support, pattern: u32) -> Result<(), DeviceError> {
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
    pub fn check(&mut self, support: &Support) -> Result<Vec<GuardDamage>, DeviceError> {
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
