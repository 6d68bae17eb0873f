//! Work over whole buffers, on all cores where they are large.

use evo_protocol::dtype::DType;
use half::{bf16, f16};
use rayon::prelude::*;

use crate::device::{BlockError, Comparison, Tolerance};

/// Elements of a task; sums are formed task by task in order, so they do not depend on the core count.
const CHUNK: usize = 1 << 16;

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
            return count_words(words, pattern.to_le());
        }
        let first = chunk_index * CHUNK;
        chunk.chunks_exact(size).enumerate().filter(|(at, element)| holds(first + at, element)).count() as u64
    };
    bytes.par_chunks(CHUNK * size).enumerate().map(count_chunk).sum()
}

/// The usual case, kept plain: outputs have millions of elements, and unoptimized builds run it too.
fn count_words(words: &[u32], pattern: u32) -> u64 {
    let mut count = 0;
    for word in words {
        if *word == pattern {
            count += 1;
        }
    }
    count
}

pub fn compare(actual: &[u8], dtype: DType, expected: &[u8], tolerance: Tolerance) -> Comparison {
    let size = dtype.bytes() as usize;
    let parts: Vec<Comparison> = actual
        .par_chunks(CHUNK * size)
        .zip(expected.par_chunks(CHUNK * 8))
        .enumerate()
        .map(|(index, (actual, expected))| {
            compare_chunk(actual, dtype, expected, tolerance, (index * CHUNK) as u64)
        })
        .collect();
    parts.into_iter().fold(Comparison::default(), merge)
}

fn compare_chunk(
    actual: &[u8],
    dtype: DType,
    expected: &[u8],
    tolerance: Tolerance,
    first: u64,
) -> Comparison {
    let mut result = Comparison::default();
    let elements = actual.chunks_exact(dtype.bytes() as usize).zip(expected.chunks_exact(8));
    for (at, (actual, expected)) in elements.enumerate() {
        let index = first + at as u64;
        let actual = element(actual, dtype);
        let expected = f64::from_le_bytes(expected.try_into().expect("eight bytes"));
        result.elements += 1;
        // Equal infinities have no difference that could be summed, but they are equal.
        if Comparison::is_same(actual, expected) {
            result.expected_square_sum += if expected.is_finite() { expected * expected } else { 0.0 };
            continue;
        }
        let error = actual - expected;
        if !error.is_finite() {
            result.non_finite += u64::from(expected.is_finite());
            result.special += u64::from(!expected.is_finite());
            note_bad(&mut result, index, actual, expected);
            continue;
        }
        result.error_square_sum += error * error;
        result.expected_square_sum += expected * expected;
        result.error_sum += error;
        result.error_dot_sum += error * expected;
        if error.abs() > result.abs_error_max {
            (result.abs_error_max, result.abs_error_max_index) = (error.abs(), index);
        }
        if error.abs() > tolerance.atol + tolerance.rtol * expected.abs() {
            note_bad(&mut result, index, actual, expected);
        }
    }
    result
}

/// See [`BlockError`].
pub fn compare_blocks(actual: &[u8], dtype: DType, expected: &[u8], block: u64, floor: f64) -> BlockError {
    let (size, block) = (dtype.bytes() as usize, block.max(1) as usize);
    // Several blocks a task: a row of eight elements is not worth handing out.
    let each = CHUNK.div_ceil(block);
    let worst = |(first, (actual, expected)): (usize, (&[u8], &[u8]))| {
        let blocks = actual.chunks(block * size).zip(expected.chunks(block * 8)).enumerate();
        let ratios = blocks.map(|(at, (actual, expected))| BlockError {
            ratio: block_ratio(actual, dtype, expected, floor),
            index: (first * each + at) as u64,
        });
        ratios.fold(BlockError::default(), larger)
    };
    let parts = actual.par_chunks(each * block * size).zip(expected.par_chunks(each * block * 8));
    let parts: Vec<BlockError> = parts.enumerate().map(worst).collect();
    parts.into_iter().fold(BlockError::default(), larger)
}

fn block_ratio(actual: &[u8], dtype: DType, expected: &[u8], floor: f64) -> f64 {
    let (mut error_sum, mut expected_sum, mut count) = (0.0, 0.0, 0u64);
    for (actual, expected) in actual.chunks_exact(dtype.bytes() as usize).zip(expected.chunks_exact(8)) {
        let expected = f64::from_le_bytes(expected.try_into().expect("eight bytes"));
        let error = element(actual, dtype) - expected;
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

fn larger(left: BlockError, right: BlockError) -> BlockError {
    if right.ratio > left.ratio { right } else { left }
}

fn note_bad(result: &mut Comparison, index: u64, actual: f64, expected: f64) {
    result.mismatches += 1;
    if result.first_bad.is_none() {
        result.first_bad = Some(index);
        (result.first_bad_actual, result.first_bad_expected) = (actual, expected);
    }
}

fn merge(left: Comparison, right: Comparison) -> Comparison {
    let mut sum = left.clone();
    sum.elements += right.elements;
    sum.non_finite += right.non_finite;
    sum.special += right.special;
    sum.mismatches += right.mismatches;
    sum.error_square_sum += right.error_square_sum;
    sum.expected_square_sum += right.expected_square_sum;
    sum.error_sum += right.error_sum;
    sum.error_dot_sum += right.error_dot_sum;
    if left.first_bad.is_none() {
        sum.first_bad = right.first_bad;
        (sum.first_bad_actual, sum.first_bad_expected) = (right.first_bad_actual, right.first_bad_expected);
    }
    // Strictly larger, so that the first of equal errors is the one that is named.
    if right.abs_error_max > left.abs_error_max {
        (sum.abs_error_max, sum.abs_error_max_index) = (right.abs_error_max, right.abs_error_max_index);
    }
    sum
}

/// One element in fp64; exact but for 64-bit integers beyond 2^53.
fn element(bytes: &[u8], dtype: DType) -> f64 {
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

    #[test]
    fn a_comparison_finds_the_first_bad_element() {
        let actual = f32_bytes(&[1.0, 2.5, f32::NAN, 4.0]);
        let expected = f64_bytes(&[1.0, 2.0, 3.0, 4.0]);
        let result = compare(&actual, DType::F32, &expected, Tolerance { atol: 0.1, rtol: 0.0 });
        assert_eq!((result.elements, result.mismatches, result.non_finite), (4, 2, 1));
        assert_eq!((result.first_bad, result.first_bad_actual), (Some(1), 2.5));
        assert_eq!((result.abs_error_max, result.abs_error_max_index), (0.5, 1));
        assert_eq!((result.error_sum, result.error_square_sum), (0.5, 0.25));
    }

    #[test]
    fn the_worst_block_is_found_in_any_chunk() {
        let rows = 3 * CHUNK / 16;
        let mut actual = vec![1.0f32; rows * 16];
        for value in &mut actual[(rows - 5) * 16..(rows - 4) * 16] {
            *value = 1.5;
        }
        let expected = f64_bytes(&vec![1.0; rows * 16]);
        let worst = compare_blocks(&f32_bytes(&actual), DType::F32, &expected, 16, 0.0);
        assert_eq!(worst, BlockError { ratio: 0.5, index: rows as u64 - 5 });
        let with_floor = compare_blocks(&f32_bytes(&actual), DType::F32, &expected, 16, 1.0);
        assert_eq!(with_floor.ratio, 0.25);
    }

    #[test]
    fn special_values_match_themselves_only() {
        let own = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0, f32::NAN];
        let expected = f64_bytes(&[f64::NAN, f64::INFINITY, f64::INFINITY, f64::NAN, 2.0]);
        let result = compare(&f32_bytes(&own), DType::F32, &expected, Tolerance { atol: 9.0, rtol: 0.0 });
        assert_eq!((result.mismatches, result.special, result.non_finite), (3, 2, 1));
    }

    #[test]
    fn chunks_join_as_one() {
        let count = CHUNK + 10;
        let mut actual = vec![1.0f32; count];
        actual[CHUNK + 3] = 2.0;
        let result = compare(
            &f32_bytes(&actual),
            DType::F32,
            &f64_bytes(&vec![1.0; count]),
            Tolerance { atol: 0.0, rtol: 0.0 },
        );
        assert_eq!((result.elements, result.first_bad), (count as u64, Some(CHUNK as u64 + 3)));
        assert_eq!(
            (result.abs_error_max_index, result.expected_square_sum),
            (CHUNK as u64 + 3, count as f64)
        );
    }

    #[test]
    fn half_elements_and_infinities_compare() {
        let actual: Vec<u8> =
            [0x3c00u16, 0x7c00, 0xfc00].iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let expected = f64_bytes(&[1.0, f64::INFINITY, f64::INFINITY]);
        let result = compare(&actual, DType::F16, &expected, Tolerance { atol: 0.0, rtol: 0.0 });
        assert_eq!((result.mismatches, result.non_finite, result.first_bad), (1, 0, Some(2)));
    }

    #[test]
    fn patterns_are_counted_by_element() {
        let mut bytes = vec![0u8; 24];
        fill(&mut bytes, 0x7ff7_a5a5);
        for (dtype, expected) in [(DType::F16, 12), (DType::F32, 6), (DType::F64, 3), (DType::U8, 24)] {
            assert_eq!(count_pattern(&bytes, dtype, 0x7ff7_a5a5), expected);
        }
        bytes[5] = 0;
        for (dtype, expected) in [(DType::F16, 11), (DType::F32, 5), (DType::F64, 2), (DType::U8, 23)] {
            assert_eq!(count_pattern(&bytes, dtype, 0x7ff7_a5a5), expected);
        }
    }
}
