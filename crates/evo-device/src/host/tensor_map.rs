//! Tensor maps as this device has them: what a driver hides in 128 bytes stands here in the open.
//!
//! The header that kernels include reads the same layout (`evo/ptx.cuh`), little-endian:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | `"evo_map\0"` |
//! | 8 | 8 | address of element 0 |
//! | 16 | 5 × 4 | elements of each dimension; 1 behind the last |
//! | 36 | 4 | zero |
//! | 40 | 4 × 8 | bytes from one element to the next, of dimensions 1 to 4; 0 behind the last |
//! | 72 | 5 × 4 | elements of the box in each dimension; 1 behind the last |
//! | 92 | 1 | dimensions |
//! | 93 | 1 | bytes of an element |
//! | 94 | 1 | swizzle: 0 none, 1 within 32 bytes, 2 within 64, 3 within 128 |
//! | 95 | 1 | elements outside: 0 zero, 1 NaN |
//! | 96 | 32 | zero |

use evo_protocol::tensor_map::{OutsideFill, RANK_MAX, Swizzle, TENSOR_MAP_BYTES, TensorMap};

use crate::tensor_maps::ArgumentSlot;

/// What an encoded map begins with, so that a kernel that was given something else finds out.
const MAGIC: [u8; 8] = *b"evo_map\0";

pub fn encode(map: &TensorMap, address: u64) -> ArgumentSlot {
    let mut bytes = Vec::with_capacity(TENSOR_MAP_BYTES);
    bytes.extend(MAGIC);
    bytes.extend(address.to_le_bytes());
    bytes.extend(padded(&map.dims));
    bytes.extend([0; 4]);
    let strides = map.strides.iter().copied().chain(std::iter::repeat(0));
    bytes.extend(strides.take(RANK_MAX - 1).flat_map(i64::to_le_bytes));
    bytes.extend(padded(&map.extents));
    let swizzle = Swizzle::ALL.iter().position(|own| *own == map.swizzle).unwrap_or_default();
    let fill = u8::from(map.fill == OutsideFill::Nan);
    bytes.extend([map.dims.len() as u8, map.dtype.bytes() as u8, swizzle as u8, fill]);
    bytes.resize(TENSOR_MAP_BYTES, 0);
    let mut slot = ArgumentSlot::word(0);
    for (word, eight) in slot.0.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|index| eight[index]));
    }
    slot
}

fn padded(list: &[i64]) -> Vec<u8> {
    let all = list.iter().copied().chain(std::iter::repeat(1)).take(RANK_MAX);
    all.flat_map(|value| (value as u32).to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use evo_protocol::dtype::DType;

    use super::*;

    #[test]
    fn the_layout_is_the_one_that_the_header_reads() {
        let map = TensorMap {
            dtype: DType::F16,
            dims: vec![64, 100, 3],
            strides: vec![128, 12_800],
            extents: vec![64, 32, 1],
            swizzle: Swizzle::Span128,
            fill: OutsideFill::Nan,
        };
        let slot = encode(&map, 0x1122_3344_5566_7780);
        let words = slot.0.map(u64::to_le);
        assert_eq!(words[0], 0x0070_616d_5f6f_7665, "the number that the header compares with");
        assert_eq!(words[1..5], [0x1122_3344_5566_7780, 64 | 100 << 32, 3 | 1 << 32, 1], "dims");
        assert_eq!(words[5..9], [128, 12_800, 0, 0], "strides");
        assert_eq!(words[9..11], [64 | 32 << 32, 1 | 1 << 32], "extents");
        assert_eq!(words[11], 1 | (3 | 2 << 8 | 3 << 16 | 1 << 24) << 32, "rank, bytes, swizzle, fill");
        assert_eq!(words[12..], [0; 4]);
        assert_eq!(align_of_val(&slot), 128);
    }
}
