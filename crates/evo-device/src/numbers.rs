//! Numbers of whole buffers: patterns, hashes, and outputs compared with answers in fp64; on all cores where they are large.

use evo_protocol::dtype::DType;
use half::{bf16, f16};
use rayon::prelude::*;

/// Elements of a task; sums are formed task by task in order, so they do not depend on the core count.
const CHUNK: usize = 1 << 16;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    pub atol: f64,
    pub rtol: f64,
}

/// Elementwise comparison of a buffer with expected values in fp64, laid out as the `Comparison` of the helper kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Comparison {
    pub elements: u64,
    /// Elements that are NaN or infinite where the expected value is finite.
    pub non_finite: u64,
    /// Mismatches where the expected value is NaN or infinite. NaN matches NaN, an infinity only itself.
    pub special: u64,
    /// Elements with |actual − expected| > atol + rtol·|expected| (or non-finite).
    pub mismatches: u64,
    /// Of the first mismatch, if there is one.
    pub first_bad_index: u64,
    pub first_bad_actual: f64,
    pub first_bad_expected: f64,
    pub abs_error_max: f64,
    pub abs_error_max_index: u64,
    /// Σ (actual − expected)².
    pub error_square_sum: f64,
    pub expected_square_sum: f64,
    /// Σ (actual − expected): an offset shows here.
    pub error_sum: f64,
    /// Σ (actual − expected)·expected: a wrong scale shows here.
    pub error_dot_sum: f64,
}

impl Comparison {
    /// The bits, but for the sign, of an expected value that stands for an infinity of that sign or NaN: they come
    /// from no arithmetic.
    pub const INFINITY_OR_NAN: u64 = 0x7ff8_6576_6f00_0001;

    /// The bits of an expected value that stands for NaN and both infinities.
    pub const NOT_FINITE: u64 = 0x7ff8_6576_6f00_0002;
    /// The bits of an expected value that stands for every value, because rounding decides what it is.
    pub const ANYTHING: u64 = 0x7ff8_6576_6f00_0003;

    pub fn infinity_or_nan(infinity: f64) -> f64 {
        f64::from_bits(Self::INFINITY_OR_NAN | infinity.to_bits() & 1 << 63)
    }

    pub fn is_same(actual: f64, expected: f64) -> bool {
        let as_good = match expected.to_bits() & !(1 << 63) {
            Self::INFINITY_OR_NAN => {
                actual.is_infinite() && actual.is_sign_negative() == expected.is_sign_negative()
            }
            Self::NOT_FINITE => actual.is_infinite(),
            Self::ANYTHING => true,
            _ => false,
        };
        actual == expected || as_good || (actual.is_nan() && expected.is_nan())
    }

    /// One more element, of that index.
    fn add(&mut self, index: u64, actual: f64, expected: f64, tolerance: Tolerance) {
        self.elements += 1;
        // Equal infinities have no difference that could be summed, but they are equal.
        if Comparison::is_same(actual, expected) {
            self.expected_square_sum += if expected.is_finite() { expected * expected } else { 0.0 };
            return;
        }
        let error = actual - expected;
        let is_bad = if error.is_finite() {
            self.error_square_sum += error * error;
            self.expected_square_sum += expected * expected;
            self.error_sum += error;
            self.error_dot_sum += error * expected;
            if error.abs() > self.abs_error_max {
                (self.abs_error_max, self.abs_error_max_index) = (error.abs(), index);
            }
            error.abs() > tolerance.atol + tolerance.rtol * expected.abs()
        } else {
            self.non_finite += u64::from(expected.is_finite());
            self.special += u64::from(!expected.is_finite());
            true
        };
        self.mismatches += u64::from(is_bad);
        if is_bad && self.mismatches == 1 {
            self.first_bad_index = index;
            (self.first_bad_actual, self.first_bad_expected) = (actual, expected);
        }
    }

    pub fn first_bad(&self) -> Option<u64> {
        (self.mismatches > 0).then_some(self.first_bad_index)
    }

    /// Both together, whichever elements they are of. The lower index is named where two are equally far off.
    pub(crate) fn and(mut self, other: &Comparison) -> Comparison {
        let first = |own: &Comparison| (own.mismatches == 0, own.first_bad_index);
        if first(other) < first(&self) {
            self.first_bad_index = other.first_bad_index;
            (self.first_bad_actual, self.first_bad_expected) =
                (other.first_bad_actual, other.first_bad_expected);
        }
        self.elements += other.elements;
        self.non_finite += other.non_finite;
        self.special += other.special;
        self.mismatches += other.mismatches;
        self.error_square_sum += other.error_square_sum;
        self.expected_square_sum += other.expected_square_sum;
        self.error_sum += other.error_sum;
        self.error_dot_sum += other.error_dot_sum;
        let farthest = |own: &Comparison| (own.abs_error_max, std::cmp::Reverse(own.abs_error_max_index));
        if farthest(other) > farthest(&self) {
            (self.abs_error_max, self.abs_error_max_index) = (other.abs_error_max, other.abs_error_max_index);
        }
        self
    }

    /// ‖actual − expected‖ / ‖expected‖ (Frobenius); the plain norm where the expected norm is 0.
    pub fn relative_norm(&self) -> f64 {
        let error = self.error_square_sum.sqrt();
        if self.expected_square_sum > 0.0 { error / self.expected_square_sum.sqrt() } else { error }
    }
}

/// Laid out as the `BlockPartial` of the helper kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockError {
    /// ‖actual − expected‖ / (‖expected‖ + floor·√elements) of the block.
    pub ratio: f64,
    pub index: u64,
}

impl BlockError {
    /// The larger one, the first of equal ones.
    pub(crate) fn or(self, later: &BlockError) -> BlockError {
        if later.ratio > self.ratio { *later } else { self }
    }
}

pub fn fill(bytes: &mut [u8], pattern: u32) {
    // Chunks and pieces are multiples of four bytes, so the pattern keeps its phase from one to the next.
    let block = pattern.to_le_bytes().repeat(1024);
    bytes.par_chunks_mut(4 * CHUNK).for_each(|chunk| {
        for piece in chunk.chunks_mut(block.len()) {
            piece.copy_from_slice(&block[..piece.len()]);
        }
    });
}

pub fn hash(bytes: &[u8]) -> u64 {
    // Chunks of a fixed size are hashed in parallel, so the result does not depend on the number of cores.
    let parts: Vec<[u8; 32]> =
        bytes.par_chunks(1 << 20).map(|chunk| *blake3::hash(chunk).as_bytes()).collect();
    let whole = blake3::hash(parts.as_flattened());
    u64::from_le_bytes(whole.as_bytes()[..8].try_into().expect("a hash has more than eight bytes"))
}

pub fn count_pattern(bytes: &[u8], dtype: DType, pattern: u32) -> u64 {
    let word = pattern.to_le_bytes();
    let size = dtype.bytes() as usize;
    // An element of 2 bytes sees the pattern's low or high half by its place.
    let holds = |index: usize, element: &[u8]| {
        let offset = index * size % 4;
        element.iter().enumerate().all(|(at, byte)| *byte == word[(offset + at) % 4])
    };
    let count_chunk = |(chunk_index, chunk): (usize, &[u8])| {
        // SAFETY: every bit pattern is a `u32`.
        let (before, words, behind) = unsafe { chunk.align_to::<u32>() };
        if size == 4 && before.is_empty() && behind.is_empty() {
            // The usual case: outputs have millions of elements.
            return words.iter().filter(|word| **word == pattern.to_le()).count() as u64;
        }
        let first = chunk_index * CHUNK;
        chunk.chunks_exact(size).enumerate().filter(|(at, element)| holds(first + at, element)).count() as u64
    };
    bytes.par_chunks(CHUNK * size).enumerate().map(count_chunk).sum()
}

/// Tasks of `each` elements, joined in their order.
fn in_tasks<R: Default + Send>(
    (actual, dtype): (&[u8], DType),
    expected: &[u8],
    each: usize,
    task: impl Fn(usize, &[u8], &[u8]) -> R + Sync,
    join: impl Fn(R, &R) -> R,
) -> R {
    let tasks = actual.par_chunks(each * dtype.bytes() as usize).zip(expected.par_chunks(each * 8));
    let parts: Vec<R> =
        tasks.enumerate().map(|(number, (actual, expected))| task(number, actual, expected)).collect();
    parts.iter().fold(R::default(), join)
}

fn pairs<'a>(actual: &'a [u8], dtype: DType, expected: &'a [u8]) -> impl Iterator<Item = (f64, f64)> + 'a {
    let expected = expected.chunks_exact(8).map(|value| element(value, DType::F64));
    actual.chunks_exact(dtype.bytes() as usize).map(move |value| element(value, dtype)).zip(expected)
}

pub fn compare(actual: &[u8], dtype: DType, expected: &[u8], tolerance: Tolerance) -> Comparison {
    let task = |number: usize, actual: &[u8], expected: &[u8]| {
        let mut result = Comparison::default();
        for (index, (actual, expected)) in pairs(actual, dtype, expected).enumerate() {
            result.add((number * CHUNK + index) as u64, actual, expected, tolerance);
        }
        result
    };
    in_tasks((actual, dtype), expected, CHUNK, task, Comparison::and)
}

/// See [`BlockError`].
pub fn compare_blocks(actual: &[u8], dtype: DType, expected: &[u8], block: u64, floor: f64) -> BlockError {
    let (size, block) = (dtype.bytes() as usize, block.max(1) as usize);
    // Several blocks a task: a row of eight elements is not worth handing out.
    let each = CHUNK.div_ceil(block);
    let task = |number: usize, actual: &[u8], expected: &[u8]| {
        let blocks = actual.chunks(block * size).zip(expected.chunks(block * 8)).enumerate();
        let errors = blocks.map(|(at, (actual, expected))| BlockError {
            ratio: block_ratio(actual, dtype, expected, floor),
            index: (number * each + at) as u64,
        });
        errors.fold(BlockError::default(), |worst, error| worst.or(&error))
    };
    in_tasks((actual, dtype), expected, each * block, task, BlockError::or)
}

fn block_ratio(actual: &[u8], dtype: DType, expected: &[u8], floor: f64) -> f64 {
    let (mut error_sum, mut expected_sum, mut count) = (0.0, 0.0, 0u64);
    for (actual, expected) in pairs(actual, dtype, expected) {
        let error = actual - expected;
        if error.is_finite() {
            error_sum += error * error;
            expected_sum += expected * expected;
        }
        count += 1;
    }
    let size = f64::sqrt(expected_sum) + floor * (count as f64).sqrt();
    // An answer of zeros has no size of its own; elements are compared one by one elsewhere.
    if size > 0.0 { f64::sqrt(error_sum) / size } else { 0.0 }
}

/// One element in fp64; exact but for 64-bit integers beyond 2^53.
pub fn element(bytes: &[u8], dtype: DType) -> f64 {
    macro_rules! read {
        ($type:ty) => {
            <$type>::from_le_bytes(bytes.try_into().expect("an element of its type's size"))
        };
    }
    match dtype {
        DType::F16 => f64::from(read!(f16)),
        DType::Bf16 => f64::from(read!(bf16)),
        DType::F32 => f64::from(read!(f32)),
        DType::F64 => read!(f64),
        DType::I8 => f64::from(read!(i8)),
        DType::I16 => f64::from(read!(i16)),
        DType::I32 => f64::from(read!(i32)),
        DType::I64 => read!(i64) as f64,
        DType::U8 => f64::from(read!(u8)),
        DType::U16 => f64::from(read!(u16)),
        DType::U32 => f64::from(read!(u32)),
        DType::U64 => read!(u64) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32_bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn f64_bytes(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn compared(actual: &[f32], expected: &[f64], atol: f64) -> Comparison {
        compare(&f32_bytes(actual), DType::F32, &f64_bytes(expected), Tolerance { atol, rtol: 0.0 })
    }

    #[test]
    fn sums_are_of_finite_elements_and_special_values_match_themselves_only() {
        let result = compared(&[1.0, 2.5, f32::NAN, 4.0], &[1.0, 2.0, 3.0, 4.0], 0.1);
        assert_eq!((result.mismatches, result.special, result.non_finite), (2, 0, 1));
        assert_eq!((result.error_sum, result.error_square_sum), (0.5, 0.25));
        let actual = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0, f32::NAN];
        let result = compared(&actual, &[f64::NAN, f64::INFINITY, f64::INFINITY, f64::NAN, 2.0], 9.0);
        assert_eq!((result.mismatches, result.special, result.non_finite), (3, 2, 1));
        assert_eq!(result.first_bad(), Some(2));
    }

    #[test]
    fn chunks_join_as_one() {
        let (rows, off) = (3 * CHUNK / 16, CHUNK + 3);
        let expected = vec![1.0; rows * 16];
        let mut actual = vec![1.0f32; rows * 16];
        actual[off] = 2.0;
        let result = compared(&actual, &expected, 0.0);
        assert_eq!((result.elements, result.first_bad()), (actual.len() as u64, Some(off as u64)));
        assert_eq!(
            (result.abs_error_max_index, result.expected_square_sum),
            (off as u64, rows as f64 * 16.0)
        );
        actual[off] = 1.0;
        actual[(rows - 5) * 16..(rows - 4) * 16].fill(1.5);
        let worst = |floor| compare_blocks(&f32_bytes(&actual), DType::F32, &f64_bytes(&expected), 16, floor);
        assert_eq!(worst(0.0), BlockError { ratio: 0.5, index: rows as u64 - 5 });
        assert_eq!(worst(1.0).ratio, 0.25);
    }
}
