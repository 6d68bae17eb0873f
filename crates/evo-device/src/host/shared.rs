//! A block's dynamic shared memory: it ends at an unmapped page, so that an overrun faults.

use std::io;

use super::fault::{Range, RangeKind, Registered};
use super::mapping::{Mapping, page_bytes, round_up};
use super::pattern;

/// Most dynamic shared memory, bytes: what an sm_90 GPU allows after opting in.
pub const SHARED_MAX: usize = 227 * 1024;

const GUARD: usize = 1 << 20;

const MARGIN: usize = 256;

#[derive(Debug)]
pub struct SharedArena {
    _mapping: Mapping,
    registered: Registered,
    end: usize,
    bytes: usize,
    alignment: usize,
}

impl SharedArena {
    pub fn new() -> io::Result<SharedArena> {
        let bytes = round_up(SHARED_MAX + MARGIN, page_bytes());
        let mapping = Mapping::reserve(bytes + 2 * GUARD)?;
        let start = mapping.start() + GUARD;
        mapping.open(start, bytes)?;
        let registered = Registered::new(Range {
            kind: RangeKind::Shared,
            whole: (mapping.start(), mapping.end()),
            inner: (start + bytes, 0),
            name: "dynamic shared memory",
        });
        Ok(SharedArena { _mapping: mapping, registered, end: start + bytes, bytes: 0, alignment: 16 })
    }

    /// Begins 16-byte aligned and ends within 15 bytes of the unmapped page. A larger `alignment`, up to 1024, moves
    /// it farther from that page.
    pub fn resize(&mut self, bytes: usize, alignment: usize) {
        assert!(bytes <= SHARED_MAX, "the launch was checked against the limit");
        self.bytes = bytes;
        let alignment = alignment.clamp(16, 1024);
        self.alignment = if alignment.is_power_of_two() { alignment } else { 16 };
        let (start, bytes) = self.inner();
        self.registered.set_inner(start, bytes);
    }

    /// Fills it with a pattern, and so much before and behind it as is open there.
    pub fn fill(&mut self, pattern: u32) {
        if self.bytes != 0 {
            let start = self.inner().0 - MARGIN;
            // SAFETY: all from a margin before the start to `end` is open and belongs to this arena.
            unsafe { pattern::fill(start, self.end - start, pattern) };
        }
    }

    /// The first byte's offset from the start, and how many were changed.
    pub fn damage(&self, pattern: u32) -> Option<(i64, u64)> {
        if self.bytes == 0 {
            return None;
        }
        let (start, bytes) = self.inner();
        let behind = start + bytes;
        // SAFETY: both ranges are open, and no block runs while the arena is looked at.
        let (before, behind) = unsafe {
            (
                pattern::changed(start - MARGIN, MARGIN, pattern),
                pattern::changed(behind, self.end - behind, pattern),
            )
        };
        let (first, count) = before.or(behind)?;
        Some((first as i64 - start as i64, count))
    }

    pub fn inner(&self) -> (usize, usize) {
        (self.end - round_up(self.bytes, self.alignment), self.bytes)
    }
}
