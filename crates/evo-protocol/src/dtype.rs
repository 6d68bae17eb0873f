//! Element types of buffers and scalars.

use crate::words::words;

words! {
    #[derive(Hash)]
    DType {
        F16 = "f16",
        Bf16 = "bf16",
        F32 = "f32",
        F64 = "f64",
        I8 = "i8",
        I16 = "i16",
        I32 = "i32",
        I64 = "i64",
        U8 = "u8",
        U16 = "u16",
        U32 = "u32",
        U64 = "u64",
    }
}

impl DType {
    pub fn bytes(self) -> u64 {
        match self {
            DType::I8 | DType::U8 => 1,
            DType::F16 | DType::Bf16 | DType::I16 | DType::U16 => 2,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F64 | DType::I64 | DType::U64 => 8,
        }
    }

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
}
