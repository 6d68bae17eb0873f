//! The hasher of our own small keys: positions, node numbers, indices.

use std::hash::{BuildHasherDefault, Hasher};

/// Makes tables with it.
pub type FastHash = BuildHasherDefault<FastHasher>;

/// Multiplies and rotates: keys are short runs of small integers that our own search makes, so nobody can
/// aim for collisions, and the standard hasher took a third of the time.
#[derive(Debug, Default)]
pub struct FastHasher(u64);

impl Hasher for FastHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u16(&mut self, word: u16) {
        self.write_u64(u64::from(word));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u128(&mut self, word: u128) {
        self.write_u64(word as u64);
        self.write_u64((word >> 64) as u64);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn short_runs_of_small_integers_do_not_collide() {
        let hash = FastHash::default();
        let keys = (0..64u16).flat_map(|a| (0..64u16).map(move |b| [a, b, a ^ b, 0]));
        let hashes: HashSet<u64> = keys.map(|key| hash.hash_one(key)).collect();
        assert_eq!(hashes.len(), 4096);
    }
}
