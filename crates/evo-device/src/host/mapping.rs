//! Address space from the kernel: reserved without access, opened where it is needed.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use rustix::fs::MemfdFlags;

pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// `bytes` rounded up to a multiple of `unit`, a power of two.
pub fn round_up(bytes: usize, unit: usize) -> usize {
    (bytes + unit - 1) & !(unit - 1)
}

/// A file without a place on any disk, read from its start.
pub fn memory_file(name: &str, flags: MemfdFlags, bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | flags)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

fn access(writable: bool) -> libc::c_int {
    if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ }
}

#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is plain memory that belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; shared access hands out addresses only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves whole pages without access. Costs address space only.
    pub fn reserve(bytes: usize) -> io::Result<Mapping> {
        let bytes = round_up(bytes.max(1), page_bytes());
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(io::Error::last_os_error)?;
        Ok(Mapping { base, bytes })
    }

    pub fn start(&self) -> usize {
        self.base.as_ptr() as usize
    }

    pub fn end(&self) -> usize {
        self.start() + self.bytes
    }

    /// Page-aligned.
    pub fn open(&self, start: usize, bytes: usize) -> io::Result<()> {
        self.allow(start, bytes, true)
    }

    pub fn map_file(
        &self,
        start: usize,
        bytes: usize,
        file: BorrowedFd<'_>,
        writable: bool,
    ) -> io::Result<()> {
        assert!(start >= self.start() && start + bytes <= self.end(), "the range lies inside the mapping");
        let access = access(writable);
        let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_POPULATE;
        // SAFETY: the range lies inside this mapping, which nobody else manages; what was there is given up.
        let mapped =
            unsafe { libc::mmap(start as *mut libc::c_void, bytes, access, flags, file.as_raw_fd(), 0) };
        if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Reading, and writing too if it is `writable`.
    pub fn allow(&self, start: usize, bytes: usize, writable: bool) -> io::Result<()> {
        assert!(start >= self.start() && start + bytes <= self.end(), "the range lies inside the mapping");
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the range lies inside this mapping, which nobody else manages.
        match unsafe { libc::mprotect(start as *mut libc::c_void, bytes, access(writable)) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and size are those of a mapping that is ours and dies here.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
