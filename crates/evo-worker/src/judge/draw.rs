//! A draw: which of many possible contents the inputs of a case have, and the random streams that follow from it.

use evo_protocol::plan::{BufferPlan, Fill, ProblemPlan};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::family::Family;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// The study's secret seed.
    pub seed: u64,
    pub index: u32,
    pub family: Family,
    /// One of `Family::magnitudes`.
    pub magnitude: f64,
}

impl Draw {
    /// Several families have two kinds, which find different faults; a case's next seed has the other. The study's seed
    /// decides which one comes first, except where the second kind is for finalists only.
    pub fn is_second(self) -> bool {
        if matches!(self.family, Family::Large | Family::Subnormal) {
            return self.index & 1 == 1;
        }
        let mut dice = ChaCha8Rng::seed_from_u64(self.seed);
        // A stream of its own: others start from the same seed.
        dice.set_stream(2);
        (dice.next_u32() ^ self.index) & 1 == 1
    }
}

pub fn varies(buffer: &BufferPlan) -> bool {
    buffer.role.is_read()
        && matches!(buffer.fill, Fill::Unrestricted | Fill::Normal { .. } | Fill::Uniform { .. })
}

/// Whether a family changes this buffer. A declared range is hard, so only families that stay inside it do.
pub fn varies_in(buffer: &BufferPlan, family: Family) -> bool {
    use Family::{
        Constant, Extremes, Huge, Large, Low, Lowest, Mixed, Normal, Offset, Ramp, Round, Small, Special,
    };
    use Family::{Spikes, Spread, Subnormal, Wide, Zero};
    if !varies(buffer) {
        return false;
    }
    match (&buffer.fill, buffer.dtype.is_float(), family) {
        (_, _, Normal | Constant | Ramp | Mixed) => true,
        // A range that holds a few round numbers.
        (Fill::Uniform { low, high, .. }, _, Round) => high - low >= 4.0,
        (_, _, Round) => true,
        (Fill::Uniform { .. }, _, Spread) => false,
        (_, _, Spread) => true,
        (Fill::Uniform { low, high, .. }, _, Zero) => *low <= 0.0 && *high > 0.0,
        (Fill::Uniform { .. }, _, Extremes) => true,
        (Fill::Uniform { .. }, _, _) => false,
        (_, _, Zero) => true,
        (_, true, Large | Small | Spikes | Offset | Huge | Subnormal | Special | Low | Lowest) => true,
        (_, false, Wide | Extremes) => true,
        _ => false,
    }
}

/// A number that looks random for every place.
pub(super) fn mixed(index: usize, bits: u64) -> u64 {
    (index as u64 ^ bits).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

pub(super) fn stream(seed: &[u8; 32], number: u64) -> ChaCha8Rng {
    let mut source = ChaCha8Rng::from_seed(*seed);
    source.set_stream(number);
    source
}

pub(super) fn stream_seed(plan: &ProblemPlan, buffer: &BufferPlan, draw: Draw) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"evo input 2");
    hasher.update(&draw.seed.to_le_bytes());
    hasher.update(&draw.index.to_le_bytes());
    for part in [plan.name.as_str(), buffer.name.as_str(), draw.family.as_str()] {
        // The length keeps names apart that would be equal when joined.
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    *hasher.finalize().as_bytes()
}
