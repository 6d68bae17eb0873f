//! Buffers that end at an unmapped page and begin behind one.
//!
//! The end of a buffer touches the page behind it, to the last 16 bytes: a start must stay 16-byte aligned for
//! vector accesses. The few bytes of slack there, and the rest of the first page before the start, hold a
//! pattern that is checked: what does not fault there is found afterwards.

use std::io;

use super::fault::{Range, RangeKind, Registered};
use super::mapping::{Mapping, page_bytes, round_up};
use crate::device::GuardDamage;

/// Unmapped space on each side, bytes: wide enough for a wrong row, not only for a wrong element.
const GUARD: usize = 16 << 20;

/// Pattern of the slack until `arm` sets another.
const PATTERN: u32 = 0x7ff7_a5a5;

/// One guarded buffer.
#[derive(Debug)]
pub struct GuardedBuffer {
    name: String,
    mapping: Mapping,
    start: usize,
    bytes: usize,
    pattern: u32,
    _registered: Registered,
}

impl GuardedBuffer {
    /// Maps a buffer of zeros.
    pub fn new(name: &str, bytes: u64) -> io::Result<GuardedBuffer> {
        let bytes = usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // An empty buffer gets a page too, so that it has an address of its own.
        let open_bytes = round_up(bytes.max(1), page_bytes());
        let mapping = Mapping::reserve(open_bytes + 2 * GUARD)?;
        let open = mapping.start() + GUARD;
        mapping.open(open, open_bytes)?;
        let start = open + open_bytes - round_up(bytes, 16);
        let range = Range {
            kind: RangeKind::Buffer,
            whole: (mapping.start(), mapping.end()),
            inner: (start, bytes),
            name,
        };
        let registered = Registered::new(range);
        let mut buffer = GuardedBuffer {
            name: name.to_string(),
            mapping,
            start,
            bytes,
            pattern: PATTERN,
            _registered: registered,
        };
        buffer.arm(PATTERN);
        Ok(buffer)
    }

    /// Address that kernels get.
    pub fn address(&self) -> usize {
        self.start
    }

    /// The name it was allocated with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its contents.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the range is open, initialized by the kernel with zeros, and launches are over whenever
        // safe code holds the device.
        unsafe { std::slice::from_raw_parts(self.start as *const u8, self.bytes) }
    }

    /// Its contents, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes it the only access.
        unsafe { std::slice::from_raw_parts_mut(self.start as *mut u8, self.bytes) }
    }

    /// Writes the pattern into the slack.
    pub fn arm(&mut self, pattern: u32) {
        self.pattern = pattern;
        for (slack, offset) in self.slack() {
            for (at, byte) in slack.iter_mut().enumerate() {
                *byte = expected_byte(pattern, offset + at as i64);
            }
        }
    }

    /// What of the slack no longer holds the pattern, first byte of each side.
    pub fn damage(&mut self) -> Vec<GuardDamage> {
        let (pattern, name) = (self.pattern, self.name.clone());
        let mut damages = Vec::new();
        for (slack, offset) in self.slack() {
            let changed = |(at, byte): (usize, &u8)| {
                let place = offset + at as i64;
                (*byte != expected_byte(pattern, place)).then_some(place)
            };
            let mut places = slack.iter().enumerate().filter_map(changed);
            if let Some(first) = places.next() {
                let bytes_changed = 1 + places.count() as u64;
                damages.push(GuardDamage { buffer: name.clone(), offset: first, bytes_changed });
            }
        }
        damages
    }

    /// The mapped bytes before and behind the buffer, with their offsets from its start.
    fn slack(&mut self) -> [(&mut [u8], i64); 2] {
        let first = self.mapping.start() + GUARD;
        let (before, end) = (self.start - first, self.start + self.bytes);
        let behind = self.mapping.end() - GUARD - end;
        // SAFETY: both ranges are open, lie outside `bytes`, and do not overlap.
        unsafe {
            [
                (std::slice::from_raw_parts_mut(first as *mut u8, before), -(before as i64)),
                (std::slice::from_raw_parts_mut(end as *mut u8, behind), self.bytes as i64),
            ]
        }
    }
}

/// The pattern's byte at an offset from the buffer's start, so that words of the slack are the pattern.
fn expected_byte(pattern: u32, offset: i64) -> u8 {
    // Offsets before the start are negative.
    pattern.to_le_bytes()[offset.rem_euclid(4) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: u64) {
        let mut buffer = GuardedBuffer::new("x", bytes).unwrap();
        assert_eq!(buffer.address() % 16, 0);
        let end = buffer.address() + bytes as usize;
        assert!(buffer.mapping.end() - GUARD - end < 16);
        buffer.bytes_mut().fill(7);
        assert_eq!(buffer.damage(), []);
        let [(before, _), (behind, _)] = buffer.slack();
        if let Some(byte) = before.last_mut() {
            *byte = !*byte;
        }
        if let Some(byte) = behind.first_mut() {
            *byte = !*byte;
        }
        let offsets: Vec<i64> = buffer.damage().iter().map(|damage| damage.offset).collect();
        let mut expected = Vec::new();
        if !(bytes as usize).next_multiple_of(16).is_multiple_of(page_bytes()) {
            expected.push(-1);
        }
        if !bytes.is_multiple_of(16) {
            expected.push(bytes as i64);
        }
        assert_eq!(offsets, expected, "of {bytes} bytes");
        buffer.arm(0x1234_5678);
        assert_eq!(buffer.damage(), []);
    }

    #[test]
    fn slack_is_checked_on_both_sides() {
        for bytes in [1, 4, 16, 100, 4080, 4095, 4096, 4097, 1 << 20] {
            check(bytes);
        }
    }
}
