//! A device buffer's place with its guard zones, and the list of all zones as it lies on the device, so that one kernel
//! rewrites or checks all of them.
//!
//! A device holds hundreds of buffers, and their zones are checked after every checked run. Two memory operations for
//! each zone would cost milliseconds of calls; one kernel over all zones costs some tens of microseconds.

use cudarc::driver::sys;
use evo_protocol::device::DeviceError;

use super::driver::{self, check};

pub const GUARD_BYTES: u64 = 64 << 10;

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

/// Laid out as the kernel's `Zone`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Zone {
    pub start: u64,
    pub bytes: u64,
}

const CLEAN: [u64; 2] = [u64::MAX, 0];
const CAPACITY_FIRST: usize = 1024;

/// Zones, what each reports, and one count of all changed bytes, in one allocation.
pub struct ZoneTable {
    stream: sys::CUstream,
    base: sys::CUdeviceptr,
    capacity: usize,
    count: usize,
}

impl ZoneTable {
    pub fn new(stream: sys::CUstream) -> ZoneTable {
        ZoneTable { stream, base: 0, capacity: 0, count: 0 }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn zones(&self) -> sys::CUdeviceptr {
        self.base
    }

    pub fn reports(&self) -> sys::CUdeviceptr {
        self.base + (self.capacity * size_of::<Zone>()) as u64
    }

    pub fn total(&self) -> sys::CUdeviceptr {
        self.reports() + (self.capacity * size_of_val(&CLEAN)) as u64
    }

    pub fn set(&mut self, zones: &[Zone]) -> Result<(), DeviceError> {
        if zones.len() > self.capacity || self.capacity == 0 {
            self.grow(zones.len())?;
        }
        self.count = zones.len();
        // SAFETY: the first part of the allocation holds as many zones as its capacity.
        unsafe { driver::upload(self.zones(), zones, self.stream)? };
        self.clear()
    }

    pub fn clear(&self) -> Result<(), DeviceError> {
        // SAFETY: as above, of the other two parts.
        unsafe {
            driver::upload(self.reports(), &vec![CLEAN; self.count], self.stream)?;
            driver::upload(self.total(), &[0u64], self.stream)
        }
    }

    /// As (zone, first changed offset, changed bytes), after the checking kernel.
    pub fn damaged(&self) -> Result<Vec<(usize, u64, u64)>, DeviceError> {
        let mut total = [0u64];
        // SAFETY: as above.
        unsafe { driver::download(&mut total, self.total(), self.stream)? };
        if total[0] == 0 {
            return Ok(Vec::new());
        }
        let mut reports = vec![CLEAN; self.count];
        // SAFETY: as above.
        unsafe { driver::download(&mut reports, self.reports(), self.stream)? };
        self.clear()?;
        let damaged = reports.into_iter().enumerate().filter(|(_, report)| *report != CLEAN);
        Ok(damaged.map(|(zone, [first, changed])| (zone, first, changed)).collect())
    }

    fn grow(&mut self, least: usize) -> Result<(), DeviceError> {
        let capacity = least.next_power_of_two().max(CAPACITY_FIRST);
        let bytes = capacity * (size_of::<Zone>() + size_of_val(&CLEAN)) + size_of::<u64>();
        let mut base = 0;
        // SAFETY: the pointer is to a live local; a context is current. The old table is freed once, after all
        // kernels that read it, because the stream is waited for.
        unsafe {
            check(sys::cuMemAlloc_v2(&mut base, bytes), "cannot allocate the table of guard zones")?;
            if self.capacity > 0 {
                driver::synchronize(self.stream)?;
                check(sys::cuMemFree_v2(self.base), "cannot free the table of guard zones")?;
            }
        }
        (self.base, self.capacity) = (base, capacity);
        Ok(())
    }
}
