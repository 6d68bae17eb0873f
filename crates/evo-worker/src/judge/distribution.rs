//! The values that a space file asks for, before a family changes them, and the ends of data types.

use evo_protocol::dtype::DType;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

#[derive(Clone, Copy)]
pub(super) enum Distribution {
    Bell {
        scale: f64,
    },
    /// `closed`: a floating-point range holds its upper end.
    Flat {
        low: f64,
        high: f64,
        closed: bool,
    },
}

impl Distribution {
    pub(super) fn size(self) -> f64 {
        match self {
            Distribution::Bell { scale } => scale,
            Distribution::Flat { low, high, .. } => high.abs().max(low.abs()),
        }
    }

    /// What the end of the range is: an integer range excludes its upper end, a float range nearly does.
    pub(super) fn ends(self, dtype: DType) -> (f64, f64) {
        match self {
            Distribution::Bell { scale } => (-4.0 * scale, 4.0 * scale),
            Distribution::Flat { low, high, closed: true } if dtype.is_float() => (low, high),
            Distribution::Flat { low, high, .. } if dtype.is_float() => (low, low + (high - low) * 0.999),
            Distribution::Flat { low, high, .. } => (low, high - 1.0),
        }
    }

    pub(super) fn signed(self) -> bool {
        match self {
            Distribution::Bell { .. } => true,
            Distribution::Flat { low, .. } => low < 0.0,
        }
    }
}

pub(super) fn smallest_normal(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-14),
        DType::F64 => f64::MIN_POSITIVE,
        _ => 2f64.powi(-126),
    }
}

/// The ends of an integer type, as far as fp64 holds them.
pub(super) fn integer_range(dtype: DType) -> (f64, f64) {
    let bits = 8 * dtype.bytes() as i32;
    match dtype {
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => (0.0, 2f64.powi(bits) - 1.0),
        _ => (-2f64.powi(bits - 1), 2f64.powi(bits - 1) - 1.0),
    }
}

pub(super) fn base(source: &mut ChaCha8Rng, shape: Distribution, dtype: DType, length: usize) -> Vec<f64> {
    match shape {
        Distribution::Bell { scale } => {
            let mut bytes = vec![0u8; length * 16];
            source.fill_bytes(&mut bytes);
            bytes.chunks_exact(16).map(|raw| bell(raw) * scale).collect()
        }
        Distribution::Flat { low, high, .. } => {
            let mut bytes = vec![0u8; length * 8];
            source.fill_bytes(&mut bytes);
            let draw = |raw: &[u8]| {
                let word = raw.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
                let part = (word >> 11) as f64 * 2f64.powi(-53);
                let value = low + (high - low) * part;
                if dtype.is_float() { value } else { value.floor() }
            };
            bytes.chunks_exact(8).map(draw).collect()
        }
    }
}

/// √1.5 / 65536.
pub(super) const BELL_UNIT: f64 = 1.224_744_871_391_589 / 65536.0;

/// A standard bell-shaped variable: the sum of eight 16-bit uniforms (Irwin–Hall), tails to ±4.9.
/// Integer sums need no logarithm or cosine, whose last bits differ between C libraries.
fn bell(raw: &[u8]) -> f64 {
    let sum: u32 = raw.chunks_exact(2).map(|pair| u32::from(u16::from_le_bytes([pair[0], pair[1]]))).sum();
    // Mean 4 × 65535; the variance of one is (65536² − 1)/12, of eight together 8/12 of 65536².
    (f64::from(sum) - 4.0 * 65535.0) * BELL_UNIT
}

pub(super) fn unit(word: u32) -> f64 {
    f64::from(word) * 2f64.powi(-32)
}
