//! Element types of buffers and scalars.

use serde::{Deserialize, Serialize};

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
}

impl DType {
    /// In the order of space files' messages.
    pub const ALL: [DType; 12] = {
        use DType::*;
        [F16, Bf16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64]
    };

    /// Size of one element in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            DType::I8 | DType::U8 => 1,
            DType::F16 | DType::Bf16 | DType::I16 | DType::U16 => 2,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F64 | DType::I64 | DType::U64 => 8,
        }
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::Bf16 | DType::F32 | DType::F64)
    }

    /// The type in which answers to an output of this type are handed out: rounding to `f32` is far below any tolerance of
    /// a float of 32 bits and less, and everything else is written in `f64`.
    pub fn answered(self) -> DType {
        if matches!(self, DType::F16 | DType::Bf16 | DType::F32) { DType::F32 } else { DType::F64 }
    }

    /// NumPy's name in `.npy` files, little-endian. It has none for bf16, which is written as f32.
    pub fn npy(self) -> &'static str {
        match self {
            DType::F16 => "<f2",
            DType::Bf16 | DType::F32 => "<f4",
            DType::F64 => "<f8",
            DType::I8 => "|i1",
            DType::I16 => "<i2",
            DType::I32 => "<i4",
            DType::I64 => "<i8",
            DType::U8 => "|u1",
            DType::U16 => "<u2",
            DType::U32 => "<u4",
            DType::U64 => "<u8",
        }
    }

    /// The name in space files: `f16`, `bf16`, …
    pub fn as_str(self) -> &'static str {
        match self {
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
        }
    }
}
