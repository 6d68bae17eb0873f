//! Element types as the gates need them: widening to fp64, rounding, spacing, poison patterns.
//!
//! References read inputs in their rounded type, so everything that crosses between bytes and numbers
//! goes through here and nowhere else.

use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::dtype::DType;
use evo_protocol::plan::BufferPlan;
use half::{bf16, f16};
use rayon::prelude::*;

/// Elements handled by one task; large enough to hide the cost of handing it out.
const CHUNK: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// Largest relative error of rounding to nearest: half the spacing at 1.
    pub unit: f64,
    pub largest: f64,
    pub smallest: f64,
}

/// Precision of `dtype`; `None` for integers.
pub fn precision(dtype: DType) -> Option<Precision> {
    let of = |unit: f64, largest: f64, smallest: f64| Some(Precision { unit, largest, smallest });
    match dtype {
        DType::F16 => of(2f64.powi(-11), 65504.0, 2f64.powi(-24)),
        DType::Bf16 => of(2f64.powi(-8), bf16::MAX.to_f64(), 2f64.powi(-133)),
        DType::F32 => of(2f64.powi(-24), f64::from(f32::MAX), 2f64.powi(-149)),
        DType::F64 => of(2f64.powi(-53), f64::MAX, f64::from_bits(1)),
        _ => None,
    }
}

/// An f32 value rounded to `dtype`, kept as f32: what a register holds after a store and a load.
pub fn round_f32(value: f32, dtype: DType) -> f32 {
    match dtype {
        DType::F16 => f16::from_f32(value).to_f32(),
        DType::Bf16 => bf16::from_f32(value).to_f32(),
        _ => value,
    }
}

macro_rules! by_type {
    ($dtype:expr, $action:ident) => {
        match $dtype {
            // By way of f32, as devices convert: what rounds directly differs from processor to processor.
            DType::F16 => $action!(f16, |v: f16| v.to_f64(), |v: f64| f16::from_f32(v as f32)),
            DType::Bf16 => $action!(bf16, |v: bf16| v.to_f64(), |v: f64| bf16::from_f32(v as f32)),
            DType::F32 => $action!(f32, |v: f32| f64::from(v), |v: f64| v as f32),
            DType::F64 => $action!(f64, |v: f64| v, |v: f64| v),
            DType::I8 => $action!(i8, |v: i8| f64::from(v), |v: f64| v as i8),
            DType::I16 => $action!(i16, |v: i16| f64::from(v), |v: f64| v as i16),
            DType::I32 => $action!(i32, |v: i32| f64::from(v), |v: f64| v as i32),
            DType::I64 => $action!(i64, |v: i64| v as f64, |v: f64| v as i64),
            DType::U8 => $action!(u8, |v: u8| f64::from(v), |v: f64| v as u8),
            DType::U16 => $action!(u16, |v: u16| f64::from(v), |v: f64| v as u16),
            DType::U32 => $action!(u32, |v: u32| f64::from(v), |v: f64| v as u32),
            DType::U64 => $action!(u64, |v: u64| v as f64, |v: f64| v as u64),
        }
    };
}

/// The elements of a buffer as fp64. A trailing part of an element is ignored.
pub fn widen(bytes: &[u8], dtype: DType) -> Vec<f64> {
    let size = dtype.bytes() as usize;
    let mut values = vec![0.0f64; bytes.len() / size];
    macro_rules! go {
        ($type:ty, $widen:expr, $narrow:expr) => {
            |to, from| {
                let read = |raw: &[u8]| raw.try_into().map(<$type>::from_le_bytes).map($widen);
                for (value, raw) in to.iter_mut().zip(from.chunks_exact(size_of::<$type>())) {
                    *value = read(raw).unwrap_or(f64::NAN);
                }
            }
        };
    }
    let read: fn(&mut [f64], &[u8]) = by_type!(dtype, go);
    values.par_chunks_mut(CHUNK).zip(bytes.par_chunks(CHUNK * size)).for_each(|(to, from)| read(to, from));
    values
}

/// fp64 values rounded to `dtype`, little-endian.
pub fn narrow(values: &[f64], dtype: DType) -> Vec<u8> {
    let size = dtype.bytes() as usize;
    let mut bytes = vec![0u8; values.len() * size];
    macro_rules! go {
        ($type:ty, $widen:expr, $narrow:expr) => {
            |to, from| {
                let narrow = $narrow;
                for (raw, value) in to.chunks_exact_mut(size_of::<$type>()).zip(from) {
                    raw.copy_from_slice(&narrow(*value).to_le_bytes());
                }
            }
        };
    }
    let write: fn(&mut [u8], &[f64]) = by_type!(dtype, go);
    bytes.par_chunks_mut(CHUNK * size).zip(values.par_chunks(CHUNK)).for_each(|(to, from)| write(to, from));
    bytes
}

pub fn f64_bytes(values: &[f64]) -> Vec<u8> {
    narrow(values, DType::F64)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poison {
    /// NaN in every floating-point type.
    A,
    /// Finite and large.
    B,
    /// Finite, large and negative: a maximum that starts from what is there hides the others.
    C,
    /// Like any value that a kernel computes: one that looks at what is there and takes the others for rubbish does not
    /// see through it. For workspace, shared memory and stacks.
    D,
}

impl Poison {
    /// The poison in its place where these checks leave it out.
    pub fn under(self, checks: CheckSet) -> Poison {
        let third = if checks.include(GateCheck::ThirdPoison) { Poison::C } else { Poison::B };
        let own = match self {
            Poison::C => third,
            Poison::D if third == Poison::B => Poison::B,
            own => own,
        };
        if own == Poison::B && !checks.include(GateCheck::SecondPoison) { Poison::A } else { own }
    }
}

/// The 4-byte fill pattern of a poison. Both halves are equal, and for integers all four bytes, so
/// that the pattern means the same in elements of any size.
pub fn poison(dtype: DType, poison: Poison) -> u32 {
    match (poison, dtype) {
        // Signaling in bf16 and f32, and a NaN in f16 too, whose quiet bit lies elsewhere.
        (Poison::A, DType::F16 | DType::Bf16 | DType::F32) => 0x7FA1_7FA1,
        // f64 has the longer exponent: the same word would be finite.
        (Poison::A, DType::F64) => 0x7FF4_7FF4,
        (Poison::A, _) => 0xA5A5_A5A5,
        // Finite and large in f16, bf16, f32 and f64: the exponent bits come first in each of them.
        (Poison::B, dtype) if dtype.is_float() => 0x7A35_7A35,
        (Poison::B, _) => 0x5A5A_5A5A,
        (Poison::C, dtype) if dtype.is_float() => 0xFA35_FA35,
        (Poison::C, _) => 0xC3C3_C3C3,
        // 1.2 in bf16 and f32, 1.9 in f16, 0.03 in f64.
        (Poison::D, dtype) if dtype.is_float() => 0x3F9D_3F9D,
        (Poison::D, _) => 0x0101_0101,
    }
}

/// Elements of a buffer's contents that hold a pattern, among those that are compared.
pub fn pattern_elements(bytes: &[u8], plan: &BufferPlan, pattern: u32) -> u64 {
    let (word, size) = (pattern.to_le_bytes(), plan.dtype.bytes() as usize);
    let holds = |place: usize| {
        let at = place * size;
        let element = bytes.get(at..at + size).unwrap_or_default();
        !element.is_empty()
            && element.iter().enumerate().all(|(offset, byte)| *byte == word[(at + offset) % 4])
    };
    match plan.places_compared() {
        Some(places) => places.iter().filter(|place| holds(**place as usize)).count() as u64,
        None => (0..bytes.len() / size).filter(|place| holds(*place)).count() as u64,
    }
}

/// The type in which an output is compared. 64-bit integers do not fit fp64, so they are compared as twice as
/// many 32-bit words, low word first.
pub fn compared_as(dtype: DType) -> DType {
    if matches!(dtype, DType::I64 | DType::U64) { DType::U32 } else { dtype }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(value: f64, dtype: DType) -> f64 {
        widen(&narrow(&[value], dtype), dtype)[0]
    }

    fn pattern_value(dtype: DType, pattern: u32) -> f64 {
        let word = pattern.to_le_bytes();
        let bytes = [word, word].concat();
        widen(&bytes[..dtype.bytes() as usize], dtype)[0]
    }

    #[test]
    fn numbers_survive_bytes() {
        for dtype in DType::ALL.iter().copied() {
            let values = [0.0, 1.0, 2.0, 100.0];
            assert_eq!(widen(&narrow(&values, dtype), dtype), values, "{dtype:?}");
        }
        let values: Vec<f64> = (0..200_000).map(|i| f64::from(i % 2048) - 1000.0).collect();
        assert_eq!(widen(&narrow(&values, DType::F16), DType::F16), values);
    }

    #[test]
    fn rounding_stays_within_half_a_spacing() {
        for dtype in [DType::F16, DType::Bf16, DType::F32] {
            let own = precision(dtype).unwrap();
            for value in [1.0 / 3.0, 1.0 + own.unit * 0.9, 1234.567, -0.007] {
                assert!((round(value, dtype) - value).abs() <= own.unit * value.abs());
            }
            assert!(round(1.0 + own.unit * 2.0, dtype) > 1.0);
            assert!(round(own.smallest, dtype) > 0.0);
            assert!(round(own.largest, dtype).is_finite());
        }
    }

    #[test]
    fn poison_a_is_nan_and_poison_b_is_large_and_finite() {
        for dtype in DType::ALL.iter().copied() {
            let (a, b) = (poison(dtype, Poison::A), poison(dtype, Poison::B));
            assert_ne!(a, b);
            if dtype.is_float() {
                assert!(pattern_value(dtype, a).is_nan(), "{dtype:?}");
                let large = pattern_value(dtype, b);
                assert!(large.is_finite() && large > 1e4, "{dtype:?} {large}");
                assert!(pattern_value(dtype, poison(dtype, Poison::C)) < -1e4, "{dtype:?}");
                let ordinary = pattern_value(dtype, poison(dtype, Poison::D));
                assert!((0.01..2.0).contains(&ordinary), "{dtype:?} {ordinary}");
            }
        }
    }
}
