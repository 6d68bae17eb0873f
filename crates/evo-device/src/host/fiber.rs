//! Fibers of a block's threads: their stacks, and the record that C++ code finds from its stack pointer.
//!
//! Each fiber owns an aligned region: an unmapped page (an overflow faults there), the stack, and near the
//! top the thread's record. Records and stack tops of neighboring fibers would all fall into the same
//! cache sets if they lay at one offset of their regions; so the offset depends on the region's
//! number (its *color*), which the C++ side computes from the stack pointer as well.

use std::ffi::{c_char, c_void};
use std::io;
use std::num::NonZeroUsize;

use corosensei::stack::{Stack, StackPointer};

use super::mapping::{Mapping, page_bytes};

/// This and the next three are `EVO_…` in `evo_base.h`.
pub const REGION: usize = 131_072;
pub const COLOR_START: usize = 114_688;
pub const COLOR_SHIFT: u32 = 10;
/// Mask of a color's offset: 128 colors, 128 bytes apart.
pub const COLOR_MASK: usize = 16_256;
/// Version of the layout below, checked when a module is loaded.
pub const ABI: u32 = 6;

/// Mirror of `evo_thread`.
#[repr(C)]
#[derive(Debug)]
pub struct ThreadRecord {
    pub thread: [u32; 3],
    pub linear: u32,
    pub block: [u32; 3],
    pub clock: u32,
    pub block_dim: [u32; 3],
    pub threads: u32,
    pub grid_dim: [u32; 3],
    /// Whether the thread has bulk stores that have not reached global memory.
    pub bulk_stores: u32,
    pub shared: *mut c_void,
    pub runtime: *const Runtime,
    pub runner: *mut c_void,
    pub yielder: *const c_void,
    pub fiber: u64,
    pub clock_start: u64,
    /// When that was; kept by the C++ side.
    pub clock_began: u64,
    /// Readings so far.
    pub clock_readings: u64,
}

/// Mirror of `evo_runtime`.
#[repr(C)]
#[derive(Debug)]
pub struct Runtime {
    pub barrier: extern "C" fn(*mut ThreadRecord, i32, i32, i32) -> u64,
    pub warp: extern "C" fn(*mut ThreadRecord, i32, i32, u32, u64, u32) -> u64,
    pub stop: extern "C" fn(*mut ThreadRecord, i32, i32, *const c_char),
    pub print: extern "C" fn(*mut ThreadRecord, *const c_char, usize),
    pub relax: extern "C" fn(*mut ThreadRecord),
    pub operation: extern "C" fn(*mut ThreadRecord, i32, i32, usize, usize, u64) -> u64,
}

pub fn record_address(address: usize) -> usize {
    (address & !(REGION - 1)) + COLOR_START + ((address >> COLOR_SHIFT) & COLOR_MASK)
}

#[derive(Debug)]
pub struct Stacks {
    mapping: Mapping,
    first: usize,
    count: usize,
    opened: usize,
}

impl Stacks {
    pub fn reserve(count: usize) -> io::Result<Stacks> {
        // One region more than asked for leaves room to align the first. Records are found by masking
        // addresses.
        let mapping = Mapping::reserve((count + 1) * REGION)?;
        let first = super::mapping::round_up(mapping.start(), REGION);
        Ok(Stacks { mapping, first, count, opened: 0 })
    }

    pub fn range(&self) -> (usize, usize) {
        (self.first, self.first + self.count * REGION)
    }

    pub fn open_next(&mut self) -> io::Result<FiberStack> {
        assert!(self.opened < self.count, "a block has at most as many fibers as threads");
        let region = self.first + self.opened * REGION;
        self.mapping.open(region + page_bytes(), REGION - page_bytes())?;
        self.opened += 1;
        Ok(FiberStack { region })
    }
}

#[derive(Clone, Copy, Debug)]
pub struct FiberStack {
    region: usize,
}

impl FiberStack {
    pub fn record(self) -> *mut ThreadRecord {
        record_address(self.region) as *mut ThreadRecord
    }
}

// SAFETY: the lowest page of the region is unmapped, and more than `MIN_STACK_SIZE` bytes lie between it and
// the record. The runner that owns the mapping outlives its coroutines.
unsafe impl Stack for FiberStack {
    fn base(&self) -> StackPointer {
        NonZeroUsize::new(record_address(self.region)).expect("a mapped region does not lie at zero")
    }

    fn limit(&self) -> StackPointer {
        NonZeroUsize::new(self.region).expect("a mapped region does not lie at zero")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::headers::HEADER;

    fn header_number(name: &str) -> usize {
        let line = HEADER.lines().find(|line| line.starts_with(&format!("#define {name} "))).unwrap();
        line.rsplit(' ').next().unwrap().trim_end_matches('u').parse().unwrap()
    }

    #[test]
    fn numbers_agree_with_the_header() {
        assert_eq!(header_number("EVO_REGION"), REGION);
        assert_eq!(header_number("EVO_COLOR_START"), COLOR_START);
        assert_eq!(header_number("EVO_COLOR_SHIFT"), COLOR_SHIFT as usize);
        assert_eq!(header_number("EVO_COLOR_MASK"), COLOR_MASK);
        assert_eq!(header_number("EVO_ABI"), ABI as usize);
        assert_eq!(size_of::<ThreadRecord>(), 128);
    }

    #[test]
    fn records_of_neighbors_lie_in_different_lines_and_inside_their_regions() {
        let mut stacks = Stacks::reserve(130).unwrap();
        let mut offsets = std::collections::BTreeSet::new();
        for _ in 0..128 {
            let stack = stacks.open_next().unwrap();
            let offset = stack.record() as usize - stack.region;
            assert!(offset + size_of::<ThreadRecord>() <= REGION);
            offsets.insert(offset);
        }
        assert_eq!(offsets.len(), 128);
    }
}
