//! A device buffer's place: its allocation with a guard zone on each side.

use cudarc::driver::sys;

pub const GUARD_BYTES: u64 = 64 << 10;

/// Laid out as the kernel's `Zone`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Zone {
    pub start: u64,
    pub bytes: u64,
}

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
