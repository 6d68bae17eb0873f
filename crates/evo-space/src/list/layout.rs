//! How a row is packed: the bits of each parameter, and the words they lie in.
//!
//! A parameter with one value that valid points have takes no bits. Earlier parameters take higher
//! bits, so that the words of rows are ordered as their points are.

use std::ops::BitOr;

use crate::genome::Genome;

/// Bits of the widest single word; longer rows are several 64-bit words.
const SINGLE_BITS: u32 = 128;

/// An unsigned integer that rows are made of.
pub trait Word: Copy + Default + Ord + BitOr<Output = Self> + Send + Sync + 'static {
    /// A code at its place.
    fn place(code: u16, shift: u32) -> Self;
    /// The code at a place.
    fn code(self, shift: u32, mask: u16) -> u16;
}

macro_rules! words {
    ($($word:ty)*) => {$(
        impl Word for $word {
            fn place(code: u16, shift: u32) -> $word {
                // An 8-bit word has no 16-bit codes: the layout chose it because all bits fit.
                (code as $word) << shift
            }

            fn code(self, shift: u32, mask: u16) -> u16 {
                ((self >> shift) as u16) & mask
            }
        }
    )*};
}

words!(u8 u16 u32 u64 u128);

/// Where a live parameter lies in a row.
#[derive(Debug, PartialEq)]
pub struct Field {
    pub slot: usize,
    /// Which of the row's words.
    pub word: usize,
    pub shift: u32,
    mask: u16,
    /// The value position that each code stands for, ascending.
    positions: Vec<u16>,
}

/// How rows are packed.
#[derive(Debug, PartialEq)]
pub struct Layout {
    /// Positions of parameters with one value; the others' are overwritten.
    constants: Vec<u16>,
    /// Parameters with several values, in declared order.
    pub fields: Vec<Field>,
    /// Bits of a word: 8, 16, 32, 64 or 128.
    pub word_bits: u32,
    /// Words of a row.
    pub stride: usize,
}

impl Layout {
    /// For the positions that valid points have, ascending, for each parameter.
    pub fn new(domains: Vec<Vec<u16>>) -> Layout {
        let constants = domains.iter().map(|domain| domain.first().copied().unwrap_or(0)).collect();
        let live = domains.into_iter().enumerate().filter(|(_, domain)| domain.len() > 1);
        let mut fields: Vec<Field> = live
            .map(|(slot, positions)| {
                let bits = (positions.len() - 1).ilog2() + 1;
                Field { slot, word: 0, shift: 0, mask: u16::MAX >> (16 - bits), positions }
            })
            .collect();
        let all: u32 = fields.iter().map(Field::bits).sum();
        let word_bits = if all <= SINGLE_BITS { all.next_power_of_two().max(8) } else { 64 };
        let (mut word, mut used) = (0, 0);
        for field in &mut fields {
            // A field never straddles two words, so that reading it is one shift and one mask.
            if used + field.bits() > word_bits {
                (word, used) = (word + 1, 0);
            }
            used += field.bits();
            field.word = word;
            field.shift = word_bits - used;
        }
        Layout { constants, fields, word_bits, stride: word + 1 }
    }

    /// Bytes of a row.
    pub fn bytes(&self) -> usize {
        self.stride * self.word_bits as usize / 8
    }

    /// The words of a point that is valid.
    pub fn row<W: Word>(&self, positions: &[u16]) -> Vec<W> {
        let mut row = vec![W::default(); self.stride];
        for field in &self.fields {
            row[field.word] = row[field.word] | W::place(field.code(positions[field.slot]), field.shift);
        }
        row
    }

    /// The point that a row's words stand for.
    pub fn genome<W: Word>(&self, row: &[W]) -> Genome {
        let mut positions = self.constants.clone();
        for field in &self.fields {
            let code = row[field.word].code(field.shift, field.mask);
            positions[field.slot] = field.positions[usize::from(code)];
        }
        Genome::from(positions)
    }
}

impl Field {
    fn bits(&self) -> u32 {
        self.mask.count_ones()
    }

    /// The code of a value position that some valid point has.
    pub fn code(&self, position: u16) -> u16 {
        self.positions.partition_point(|other| *other < position) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sizes: &[u16], word_bits: u32, stride: usize) -> Layout {
        let layout = Layout::new(sizes.iter().map(|size| (0..*size).collect()).collect());
        assert_eq!((layout.word_bits, layout.stride), (word_bits, stride), "{sizes:?}");
        layout
    }

    #[test]
    fn rows_take_the_narrowest_words() {
        check(&[], 8, 1);
        check(&[1, 1], 8, 1);
        check(&[16, 16], 8, 1);
        check(&[16, 17], 16, 1);
        check(&[u16::MAX, 1, 2], 32, 1);
        check(&[1024; 10], 128, 1);
        check(&[u16::MAX; 8], 128, 1);
        assert_eq!(check(&[u16::MAX; 9], 64, 3).bytes(), 24);
        assert_eq!(check(&[300; 15], 64, 3).bytes(), 24);
    }

    #[test]
    fn codes_stand_for_the_positions_that_occur() {
        let layout = Layout::new(vec![vec![3, 7, 9], vec![5], vec![0, 8]]);
        let word = |a: u16, b: u16| layout.row::<u8>(&[a, 5, b])[0];
        for (a, b) in [(3, 0), (3, 8), (7, 0), (9, 8)] {
            assert_eq!(layout.genome(&[word(a, b)]).positions(), [a, 5, b]);
        }
        assert!(word(3, 8) < word(7, 0), "words are ordered as points are");
    }
}
