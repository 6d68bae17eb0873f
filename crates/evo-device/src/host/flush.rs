//! Pushing a call's data out of the processor's caches, before a cold sample.

use rayon::prelude::*;

/// Most bytes that a flush of the last-level cache writes; twice the cache where that is less.
const FLUSH_MAX: u64 = 256 << 20;
/// A module with more data of its own is not flushed buffer by buffer: the call might find what it works on in the
/// caches.
const MODULE_MAX: u64 = 64 << 10;
/// Buffers this small beside a flush of the whole cache are flushed line by line, in microseconds instead of
/// milliseconds.
const SHARE_OF_SWEEP: u64 = 8;
const LINE: usize = 64;

#[derive(Debug, Default)]
pub struct CacheFlush(Vec<u8>);

impl CacheFlush {
    /// Puts buffers out by their lines, or by writing twice as much as the last-level cache of `cache_bytes` holds,
    /// where they are large or the module has `module_bytes` of data beside them.
    pub fn run(&mut self, cache_bytes: u64, buffers: &[&[u8]], module_bytes: u64) {
        // The size is 0 where the operating system does not tell it, hence the lower bound.
        let sweep = (2 * cache_bytes).clamp(16 << 20, FLUSH_MAX);
        let bytes: u64 = buffers.iter().map(|own| own.len() as u64).sum();
        let is_small = module_bytes <= MODULE_MAX && bytes <= sweep / SHARE_OF_SWEEP;
        if !is_small || !put_out(buffers) {
            self.sweep(sweep as usize);
        }
    }

    fn sweep(&mut self, bytes: usize) {
        if self.0.len() != bytes {
            // Zeros as the system gives them: writing them as well would touch all of it twice.
            self.0 = vec![0; bytes];
        }
        self.0.par_chunks_mut(1 << 16).for_each(|chunk| {
            // One write per cache line evicts as much as writing every byte.
            for byte in chunk.iter_mut().step_by(LINE) {
                *byte = byte.wrapping_add(1);
            }
        });
    }
}

/// Puts lines out of the caches of all cores, whichever process has them mapped; false where this processor lets no
/// program do it.
#[cfg(target_arch = "x86_64")]
fn put_out(buffers: &[&[u8]]) -> bool {
    use std::arch::x86_64::{_mm_clflush, _mm_mfence};

    // What is written before this is seen to be written, and what is read after it is read from memory.
    // SAFETY: every x86-64 processor has it.
    unsafe { _mm_mfence() };
    for buffer in buffers {
        let lines = buffer.iter().step_by(LINE).chain(buffer.last());
        // SAFETY: the instruction reads nothing and changes no contents; the address lies in a live slice.
        lines.for_each(|byte| unsafe { _mm_clflush(std::ptr::from_ref(byte)) });
    }
    // SAFETY: as above.
    unsafe { _mm_mfence() };
    true
}

#[cfg(not(target_arch = "x86_64"))]
fn put_out(_: &[&[u8]]) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHE: u64 = 8 << 20;

    fn sweeps(sizes: &[usize], module_bytes: u64) -> bool {
        let buffers: Vec<Vec<u8>> = sizes.iter().map(|bytes| vec![0x5a; *bytes]).collect();
        let call: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
        let mut flush = CacheFlush::default();
        flush.run(CACHE, &call, module_bytes);
        assert!(buffers.iter().flatten().all(|byte| *byte == 0x5a));
        !flush.0.is_empty()
    }

    #[test]
    fn small_calls_are_put_out_line_by_line_and_others_swept_out() {
        let mib = 1 << 20;
        let none: &[usize] = &[];
        for small in [(&[4096, 12, 0, 1][..], 20_000), (none, 0), (&[mib, mib], MODULE_MAX)] {
            assert_eq!(sweeps(small.0, small.1), cfg!(not(target_arch = "x86_64")), "{small:?}");
        }
        for (sizes, module_bytes) in
            [(&[mib, mib + 4][..], 0), (&[4096], MODULE_MAX + 1), (&[4096], u64::MAX)]
        {
            assert!(sweeps(sizes, module_bytes), "{sizes:?} {module_bytes}");
        }
    }
}
