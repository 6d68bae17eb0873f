//! Buffers that end at an unmapped page and begin behind one.
//!
//! The end of a buffer touches the page behind it, to the last 32 bytes: a start must stay 32-byte aligned for
//! vectors and structs. The few bytes of slack there, and the rest of the first page before the start, hold a
//! pattern that is checked: what does not fault there is found afterwards. Placed the other way round, the
//! start touches the page before it to the byte, and the slack lies behind the end.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};

use super::fault::{Range, RangeKind, Registered};
use super::mapping::{Mapping, memory_file, page_bytes, round_up};
use super::pattern;
use crate::device::{GuardDamage, Placement};

/// Unmapped space on each side, bytes: wide enough for a wrong row, not only for a wrong element.
const GUARD: usize = 16 << 20;

/// Starts are this well aligned, as far as vectors and structs ask for on a GPU: 32 bytes are its widest access.
const ALIGNMENT: usize = 32;

/// Pattern of the slack until `arm` sets another.
const PATTERN: u32 = 0x7ff7_a5a5;

#[derive(Debug)]
pub struct GuardedBuffer {
    name: String,
    mapping: Mapping,
    start: usize,
    bytes: usize,
    pattern: u32,
    placement: Placement,
    read_only: bool,
    /// Open bytes before and behind the open pages that nobody looks at.
    margin: usize,
    /// Once another process maps it too.
    file: Option<SharedFile>,
    /// Whether the contents belong to another process, which places them.
    mirror: bool,
    registered: Registered,
}

#[derive(Debug)]
struct SharedFile {
    writable: OwnedFd,
    /// Opened for reading: no mapping of it can ever be written.
    readable: OwnedFd,
}

impl GuardedBuffer {
    /// `margin` bytes of the pages before and behind it, a multiple of a page, are open and not looked at: none
    /// unless a self-test leaves these pages out.
    pub fn with_margin(name: &str, bytes: u64, margin: usize) -> io::Result<GuardedBuffer> {
        let mut buffer = GuardedBuffer::closed(name, bytes, margin)?;
        let (open, open_bytes) = buffer.pages();
        buffer.mapping.open(open - margin, open_bytes + 2 * margin)?;
        buffer.arm(PATTERN)?;
        Ok(buffer)
    }

    /// Takes the place of a buffer that is gone and that no other process has seen, if it had as many pages: mapping
    /// the few pages of small shapes took a fifth of a worker's time.
    pub fn in_place_of(self, name: &str, bytes: u64) -> io::Result<GuardedBuffer> {
        assert!(!self.is_shared() && !self.mirror && self.fits(bytes, self.margin), "checked by the caller");
        let GuardedBuffer { mapping, margin, read_only, .. } = self;
        let mut buffer = GuardedBuffer::inside(mapping, name, bytes as usize, margin);
        buffer.read_only = read_only;
        buffer.protect(false)?;
        buffer.change(|contents| contents.fill(0))?;
        buffer.arm(PATTERN)?;
        Ok(buffer)
    }

    pub fn fits(&self, bytes: u64, margin: usize) -> bool {
        let asked = usize::try_from(bytes).map(open_bytes_of);
        asked == Ok(self.pages().1) && margin == self.margin
    }

    pub fn open_bytes(&self) -> usize {
        self.pages().1
    }

    /// Maps memory that another process has made with `share`, under the same name and with the same sizes.
    pub fn mirror(
        name: &str,
        bytes: u64,
        margin: usize,
        file: BorrowedFd<'_>,
        read_only: bool,
    ) -> io::Result<GuardedBuffer> {
        let mut buffer = GuardedBuffer::closed(name, bytes, margin)?;
        buffer.mirror = true;
        buffer.map_file(file, read_only)?;
        Ok(buffer)
    }

    /// Addresses stay.
    pub fn map_file(&mut self, file: BorrowedFd<'_>, read_only: bool) -> io::Result<()> {
        let (open, open_bytes) = self.pages();
        self.mapping.map_file(open - self.margin, open_bytes + 2 * self.margin, file, !read_only)?;
        self.read_only = read_only;
        Ok(())
    }

    /// Whatever the other process does, the memory keeps its size, so that nothing here faults.
    pub fn share(&mut self) -> io::Result<()> {
        if self.file.is_some() {
            return Ok(());
        }
        let (open, open_bytes) = self.pages();
        let (start, bytes) = (open - self.margin, open_bytes + 2 * self.margin);
        // SAFETY: the range is open, and launches are over whenever safe code holds the buffer.
        let contents = unsafe { std::slice::from_raw_parts(start as *const u8, bytes) };
        let writable = OwnedFd::from(memory_file("evo-buffer", MemfdFlags::ALLOW_SEALING, contents)?);
        rustix::fs::fcntl_add_seals(&writable, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let readable = File::open(format!("/proc/self/fd/{}", writable.as_raw_fd()))?.into();
        self.mapping.map_file(start, bytes, writable.as_fd(), true)?;
        self.file = Some(SharedFile { writable, readable });
        Ok(())
    }

    pub fn is_shared(&self) -> bool {
        self.file.is_some()
    }

    pub fn shared(&self, read_only: bool) -> Option<BorrowedFd<'_>> {
        let file = self.file.as_ref()?;
        Some(if read_only { file.readable.as_fd() } else { file.writable.as_fd() })
    }

    pub fn margin(&self) -> usize {
        self.margin
    }

    fn closed(name: &str, bytes: u64, margin: usize) -> io::Result<GuardedBuffer> {
        let bytes = usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let mapping = Mapping::reserve(open_bytes_of(bytes) + 2 * GUARD)?;
        Ok(GuardedBuffer::inside(mapping, name, bytes, margin))
    }

    fn inside(mapping: Mapping, name: &str, bytes: usize, margin: usize) -> GuardedBuffer {
        let start = mapping.end() - GUARD - round_up(bytes, ALIGNMENT);
        let range = Range {
            kind: RangeKind::Buffer,
            whole: (mapping.start(), mapping.end()),
            inner: (start, bytes),
            name,
        };
        let registered = Registered::new(range);
        GuardedBuffer {
            name: name.to_string(),
            mapping,
            start,
            bytes,
            pattern: PATTERN,
            placement: Placement::End,
            read_only: false,
            margin,
            file: None,
            mirror: false,
            registered,
        }
    }

    pub fn place(&mut self, placement: Placement) -> io::Result<()> {
        if self.placement == placement {
            return Ok(());
        }
        let (open, open_bytes) = self.pages();
        let start = match placement {
            Placement::Start => open,
            Placement::End => open + open_bytes - round_up(self.bytes, ALIGNMENT),
        };
        if self.mirror {
            // The contents have moved already.
            (self.start, self.placement) = (start, placement);
            self.registered.set_inner(start, self.bytes);
            return Ok(());
        }
        self.while_writable(|buffer| {
            // SAFETY: both ranges lie in the open pages; `copy` allows that they overlap.
            unsafe { std::ptr::copy(buffer.start as *const u8, start as *mut u8, buffer.bytes) };
            (buffer.start, buffer.placement) = (start, placement);
            buffer.registered.set_inner(start, buffer.bytes);
            buffer.write_slack();
        })
    }

    /// The slack in the same pages goes with it.
    pub fn protect(&mut self, read_only: bool) -> io::Result<()> {
        if self.read_only == read_only {
            return Ok(());
        }
        let (open, open_bytes) = self.pages();
        self.mapping.allow(open, open_bytes, !read_only)?;
        self.read_only = read_only;
        Ok(())
    }

    pub fn address(&self) -> usize {
        self.start
    }

    /// Address and size.
    pub fn span(&self) -> (u64, u64) {
        (self.start as u64, self.bytes as u64)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the range is open, initialized by the kernel with zeros, and launches are over whenever
        // safe code holds the device. A hostile executor may go on writing shared memory; then these bytes are any
        // bytes, which is all that their readers assume.
        unsafe { std::slice::from_raw_parts(self.start as *const u8, self.bytes) }
    }

    /// Works also while kernels may only read the contents.
    pub fn change<R>(&mut self, edit: impl FnOnce(&mut [u8]) -> R) -> io::Result<R> {
        self.while_writable(|buffer| {
            // SAFETY: the range is open and writable now, and `&mut self` makes this the only access.
            edit(unsafe { std::slice::from_raw_parts_mut(buffer.start as *mut u8, buffer.bytes) })
        })
    }

    /// The same with what lies round the contents, which begin at the number given: for devices whose kernels are written
    /// in Rust.
    pub fn change_around<R>(&mut self, edit: impl FnOnce(&mut [u8], usize) -> R) -> io::Result<R> {
        let (open, open_bytes) = self.pages();
        self.while_writable(|buffer| {
            // SAFETY: the pages are open and writable now, and `&mut self` makes this the only access.
            edit(unsafe { std::slice::from_raw_parts_mut(open as *mut u8, open_bytes) }, buffer.start - open)
        })
    }

    pub fn arm(&mut self, pattern: u32) -> io::Result<()> {
        self.pattern = pattern;
        self.while_writable(GuardedBuffer::write_slack)
    }

    fn write_slack(&mut self) {
        for (start, bytes) in self.slack() {
            // SAFETY: the callers have made the open pages writable; the slack lies outside `bytes`.
            unsafe { pattern::fill(start, bytes, self.pattern) };
        }
    }

    fn while_writable<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> io::Result<R> {
        let read_only = self.read_only;
        self.protect(false)?;
        let result = work(self);
        self.protect(read_only)?;
        Ok(result)
    }

    fn pages(&self) -> (usize, usize) {
        let open = self.mapping.start() + GUARD;
        (open, self.mapping.end() - GUARD - open)
    }

    /// What of the slack no longer holds the pattern, first byte of each side.
    pub fn damage(&self) -> Vec<GuardDamage> {
        let damage = |(start, bytes): (usize, usize)| {
            // SAFETY: the slack is open, and launches are over whenever safe code holds the device.
            let (first, bytes_changed) = unsafe { pattern::changed(start, bytes, self.pattern) }?;
            let offset = first as i64 - self.start as i64;
            Some(GuardDamage { buffer: self.name.clone(), offset, bytes_changed })
        };
        self.slack().into_iter().filter_map(damage).collect()
    }

    fn slack(&self) -> [(usize, usize); 2] {
        let (open, open_bytes) = self.pages();
        let end = self.start + self.bytes;
        [(open, self.start - open), (end, open + open_bytes - end)]
    }
}

/// An empty buffer gets a page too, so that it has an address of its own.
fn open_bytes_of(bytes: usize) -> usize {
    round_up(bytes.max(1), page_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damaged(buffer: &mut GuardedBuffer) -> Vec<i64> {
        let [(before, before_bytes), (behind, behind_bytes)] = buffer.slack();
        let flip = |open: bool, address: usize| {
            if open {
                // SAFETY: a byte of the slack.
                unsafe { *(address as *mut u8) = !*(address as *const u8) };
            }
        };
        flip(before_bytes > 0, before + before_bytes.max(1) - 1);
        flip(behind_bytes > 0, behind);
        let offsets = buffer.damage().iter().map(|damage| damage.offset).collect();
        buffer.arm(0x1234_5678).unwrap();
        assert_eq!(buffer.damage(), []);
        offsets
    }

    fn check(bytes: u64) {
        let (size, page) = (bytes as usize, page_bytes());
        let rounded = size.next_multiple_of(ALIGNMENT);
        let mut buffer = GuardedBuffer::with_margin("x", bytes, 0).unwrap();
        let (open, open_bytes) = buffer.pages();
        buffer.protect(true).unwrap();
        buffer.change(|contents| contents.fill(7)).unwrap();
        assert_eq!(buffer.damage(), []);
        for placement in [Placement::End, Placement::Start, Placement::End] {
            // The device arms, moves and changes also what kernels may only read.
            buffer.protect(true).unwrap();
            buffer.arm(1).unwrap();
            buffer.place(placement).unwrap();
            assert!(buffer.read_only && buffer.bytes().iter().all(|byte| *byte == 7));
            assert_eq!(buffer.damage(), []);
            buffer.protect(false).unwrap();
            let (start, before, behind) = match placement {
                Placement::Start => (open, false, !size.is_multiple_of(page)),
                Placement::End => (
                    open + open_bytes - rounded,
                    !rounded.is_multiple_of(page),
                    !size.is_multiple_of(ALIGNMENT),
                ),
            };
            assert_eq!(buffer.address(), start);
            let expected: Vec<i64> =
                before.then_some(-1).into_iter().chain(behind.then_some(bytes as i64)).collect();
            assert_eq!(damaged(&mut buffer), expected, "of {bytes} bytes, {placement:?}");
        }
    }

    #[test]
    fn slack_is_checked_on_both_sides_in_both_places() {
        for bytes in [1, 4, 16, 100, 4080, 4095, 4096, 4097, 1 << 20] {
            check(bytes);
        }
    }

    #[test]
    fn a_buffer_in_the_place_of_another_is_as_good_as_new() {
        let mut old = GuardedBuffer::with_margin("old", 4000, 0).unwrap();
        old.change(|contents| contents.fill(9)).unwrap();
        old.place(Placement::Start).unwrap();
        old.protect(true).unwrap();
        assert!(old.fits(1, 0) && old.fits(4096, 0) && !old.fits(4097, 0) && !old.fits(1, 4096));
        let (whole, mut new) = (old.pages(), old.in_place_of("new", 100).unwrap());
        assert_eq!((new.pages(), new.name()), (whole, "new"));
        assert!(new.bytes().len() == 100 && new.bytes().iter().all(|byte| *byte == 0));
        assert_eq!(new.damage(), []);
        assert_eq!(damaged(&mut new), [-1, 100]);
        new.change(|contents| contents.fill(1)).unwrap();
    }
}
