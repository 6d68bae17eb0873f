//! Sets of a slot's remaining values as runs of 64-bit words, a bit for each value.

/// Words for a set of values out of `size`.
pub fn words_for(size: usize) -> usize {
    size.div_ceil(64)
}

/// Adds to `words` the set of all `size` values.
pub fn push_full(words: &mut Vec<u64>, size: usize) {
    words.extend(std::iter::repeat_n(u64::MAX, size / 64));
    // Bits beyond the last value stay clear, because sets are compared and tested for emptiness by whole
    // words.
    if !size.is_multiple_of(64) {
        words.push((1 << (size % 64)) - 1);
    }
}

/// Whether nothing is in the set.
pub fn is_empty(words: &[u64]) -> bool {
    words.iter().all(|word| *word == 0)
}

/// The members, ascending.
pub fn members(words: &[u64]) -> impl Iterator<Item = usize> + '_ {
    words.iter().enumerate().flat_map(|(number, word)| {
        let mut left = *word;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(number * 64 + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_any_size() {
        for size in [0, 1, 63, 64, 65, 128, 1000] {
            let mut words = Vec::new();
            push_full(&mut words, size);
            assert_eq!(words.len(), words_for(size));
            assert!(members(&words).eq(0..size), "{size}");
            assert_eq!(is_empty(&words), size == 0);
        }
        assert!(members(&[0b1010, 0, 1]).eq([1, 3, 128]));
    }
}
