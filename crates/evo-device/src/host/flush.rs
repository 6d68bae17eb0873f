//! Pushing everything else out of the processor's caches, before a cold sample.

use rayon::prelude::*;

/// Most bytes that a flush of the last-level cache writes; twice the cache where that is less.
const FLUSH_MAX: u64 = 256 << 20;

/// Memory to be written in the way of everything else.
#[derive(Debug, Default)]
pub struct CacheFlush(Vec<u8>);

impl CacheFlush {
    /// Writes twice as much as the last-level cache of `cache_bytes` holds.
    pub fn run(&mut self, cache_bytes: u64) {
        // The size is 0 where the operating system does not tell it, hence the lower bound.
        let bytes = (2 * cache_bytes).clamp(16 << 20, FLUSH_MAX) as usize;
        if self.0.len() != bytes {
            // Zeros as the system gives them: writing them as well would touch all of it twice.
            self.0 = vec![0; bytes];
        }
        self.0.par_chunks_mut(1 << 16).for_each(|chunk| {
            // One write per cache line evicts as much as writing every byte.
            for byte in chunk.iter_mut().step_by(64) {
                *byte = byte.wrapping_add(1);
            }
        });
    }
}
