//! A block's dynamic shared memory: it ends at an unmapped page, so that an overrun faults.

use std::ffi::c_void;
use std::io;

use super::mapping::{Mapping, page_bytes, round_up};

/// Most dynamic shared memory, bytes: what an sm_90 GPU allows after opting in.
pub const SHARED_MAX: usize = 227 * 1024;

/// Unmapped space before and behind it, bytes.
const GUARD: usize = 1 << 20;

/// The memory of one processor thread.
#[derive(Debug)]
pub struct SharedArena {
    mapping: Mapping,
    end: usize,
    bytes: usize,
}

impl SharedArena {
    /// Reserves the most that a launch may ask for.
    pub fn new() -> io::Result<SharedArena> {
        let bytes = round_up(SHARED_MAX, page_bytes());
        let mapping = Mapping::reserve(bytes + 2 * GUARD)?;
        let start = mapping.start() + GUARD;
        mapping.open(start, bytes)?;
        Ok(SharedArena { mapping, end: start + bytes, bytes: 0 })
    }

    /// Gives the next blocks `bytes`, 16-byte aligned and flush with the unmapped page.
    pub fn resize(&mut self, bytes: usize) {
        assert!(bytes <= SHARED_MAX, "the launch was checked against the limit");
        self.bytes = round_up(bytes, 16);
    }

    /// Where it begins.
    pub fn start(&self) -> *mut c_void {
        (self.end - self.bytes) as *mut c_void
    }

    /// All ones: a NaN of every floating type, -1 of every integer.
    pub fn poison(&mut self) {
        // SAFETY: the last `bytes` before `end` are open and belong to this arena.
        unsafe { std::ptr::write_bytes(self.start().cast::<u8>(), 0xff, self.bytes) };
    }

    /// First address and size of the launch's part.
    pub fn inner(&self) -> (usize, usize) {
        (self.end - self.bytes, self.bytes)
    }

    /// The whole range, guards included.
    pub fn range(&self) -> (usize, usize) {
        (self.mapping.start(), self.mapping.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_at_the_guard_and_is_poisoned() {
        let mut arena = SharedArena::new().unwrap();
        arena.resize(100);
        assert_eq!(arena.start() as usize + 112, arena.range().1 - GUARD);
        assert_eq!(arena.start() as usize % 16, 0);
        arena.poison();
        // SAFETY: 112 bytes from the start are open.
        let bytes = unsafe { std::slice::from_raw_parts(arena.start().cast::<u8>(), 112) };
        assert!(bytes.iter().all(|&byte| byte == 0xff));
    }
}
