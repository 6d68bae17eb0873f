//! Correct answers: built-in fp64 functions, each with a trusted computation of the same data type.
//!
//! A reference reads the inputs as they were rounded and computes in fp64. The trusted computation
//! does what a decent kernel does (f32 accumulation in plain order, output rounded); its error against
//! fp64 says how large an honest kernel's error may be on exactly these inputs.

mod numbers;
mod plain;
#[cfg(test)]
pub(super) mod testing;
mod work;

pub use numbers::{Noise, ReferenceAnswer, UNIT_F32, finite_sums, max_abs, pair_sums, rms};
pub use work::{
    Measured, NAMES, ReferenceWork, Size, WorkBuffers, blocks, double, int, launch, long, type_number,
};
