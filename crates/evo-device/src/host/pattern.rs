//! Memory that holds a repeated 4-byte pattern: filling it, and finding what changed.
//!
//! Which byte of the pattern belongs to an address follows from the address alone, so ranges that are filled or
//! checked in pieces fit together.

/// Writes the pattern into a range.
///
/// # Safety
/// The `bytes` from `start` are writable, and nothing else uses them now.
pub unsafe fn fill(start: usize, bytes: usize, pattern: u32) {
    let end = start + bytes;
    let first = start.next_multiple_of(4).min(end);
    let words = (end - first) / 4;
    for address in (start..first).chain(first + 4 * words..end) {
        // SAFETY: the address lies in the range.
        unsafe { *(address as *mut u8) = byte_at(pattern, address) };
    }
    if words > 0 {
        // SAFETY: as the caller promises; the start is a multiple of 4.
        unsafe { std::slice::from_raw_parts_mut(first as *mut u32, words) }.fill(pattern.to_le());
    }
}

/// Address of the first byte that does not hold the pattern, and how many do not.
///
/// # Safety
/// The `bytes` from `start` are readable, and nothing writes them now.
pub unsafe fn changed(start: usize, bytes: usize, pattern: u32) -> Option<(usize, u64)> {
    // SAFETY: as the caller promises.
    let range = unsafe { std::slice::from_raw_parts(start as *const u8, bytes) };
    if holds(range, start, pattern) {
        return None;
    }
    let places = range.iter().enumerate().map(|(at, byte)| (start + at, *byte));
    let mut places = places.filter(|&(address, byte)| byte != byte_at(pattern, address));
    let (first, _) = places.next()?;
    Some((first, 1 + places.count() as u64))
}

/// Word by word: byte by byte, the pages beside buffers took a fifth of a worker's time at small shapes.
fn holds(range: &[u8], start: usize, pattern: u32) -> bool {
    // SAFETY: every bit pattern is a `u32`.
    let (before, words, behind) = unsafe { range.align_to::<u32>() };
    let behind_start = start + range.len() - behind.len();
    let bytes = |own: &[u8], start| own.iter().zip(start..).all(|(byte, at)| *byte == byte_at(pattern, at));
    // All of a piece at once rather than up to the first that differs: that is what vectorizes.
    let differing = |piece: &[u32]| piece.iter().fold(0, |all, word| all | (word ^ pattern.to_le()));
    bytes(before, start)
        && bytes(behind, behind_start)
        && words.chunks(256).all(|piece| differing(piece) == 0)
}

fn byte_at(pattern: u32, address: usize) -> u8 {
    pattern.to_le_bytes()[address % 4]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_fit_together_and_one_byte_anywhere_is_found() {
        const PATTERN: u32 = 0x0403_0201;
        for (from, middle, to) in [(0, 9, 5000), (1, 2222, 4999), (3, 3, 4), (5, 6, 7), (2, 2050, 2051)] {
            let mut bytes = vec![0u8; 5000];
            let start = bytes.as_mut_ptr() as usize;
            // SAFETY: inside the vector above.
            unsafe {
                fill(start + from, middle - from, PATTERN);
                fill(start + middle, to - middle, PATTERN);
                assert_eq!(changed(start + from, to - from, PATTERN), None);
                for at in (from..to).step_by(97).chain([to - 1]) {
                    *((start + at) as *mut u8) ^= 0x10;
                    assert_eq!(changed(start + from, to - from, PATTERN), Some((start + at, 1)));
                    assert_eq!(changed(start + from, at - from, PATTERN), None);
                    *((start + to - 1) as *mut u8) ^= 1;
                    let count = 1 + u64::from(at < to - 1);
                    assert_eq!(changed(start + from, to - from, PATTERN), Some((start + at, count)));
                    *((start + to - 1) as *mut u8) ^= 1;
                    *((start + at) as *mut u8) ^= 0x10;
                }
            }
            assert!(bytes[..from].iter().chain(&bytes[to..]).all(|byte| *byte == 0));
        }
    }
}
