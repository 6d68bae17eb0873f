//! Valid points as packed rows, for programs that need a whole range in memory or on disk.
//!
//! Threads fill blocks of an index range: the index gives a block's first point, an odometer the rest. Each parameter
//! takes the bits that its effective values need, so that ten parameters usually fit 4 bytes. Earlier parameters take
//! higher bits, so that the words of rows are ordered as their points are.

mod walk;

use std::fmt;
use std::ops::{BitOr, Range};
use std::sync::Arc;

use rayon::prelude::*;

use crate::genome::Genome;
use crate::index::Index;
use crate::list::walk::{ListPlan, RowWriter};
use crate::space::SearchSpace;
use crate::subspace::Subspace;

/// Rows that a thread fills before it takes the next block: large enough to pay for finding the first.
const BLOCK_ROWS: usize = 1 << 15;

impl SearchSpace {
    /// In canonical order, made by all threads; a range that ends beyond the last point ends there. The rows take
    /// `Rows::bytes_per_row()` each and must fit memory. If the space is not exact, holes of the range have no row.
    pub fn rows(&self, range: Range<u128>) -> Rows {
        rows(&self.index, range)
    }

    pub fn row_blocks(&self, range: Range<u128>, block_rows: usize) -> RowBlocks<'_> {
        row_blocks(&self.index, range, block_rows)
    }
}

impl Subspace<'_> {
    /// As for a whole space; the range is one of this part's own indices.
    pub fn rows(&self, range: Range<u128>) -> Rows {
        rows(&self.index, range)
    }

    pub fn row_blocks(&self, range: Range<u128>, block_rows: usize) -> RowBlocks<'_> {
        row_blocks(&self.index, range, block_rows)
    }
}

fn rows(index: &Index, range: Range<u128>) -> Rows {
    Lister::new(index).rows(inside(index, range))
}

fn row_blocks(index: &Index, range: Range<u128>, block_rows: usize) -> RowBlocks<'_> {
    let Range { start, end } = inside(index, range);
    RowBlocks { lister: Lister::new(index), next: start, end, block_rows: block_rows.max(1) }
}

fn inside(index: &Index, range: Range<u128>) -> Range<u128> {
    let count = u128::try_from(index.total()).unwrap_or(u128::MAX);
    let end = range.end.min(count);
    range.start.min(end)..end
}

pub struct Rows {
    layout: Arc<Layout>,
    words: Box<dyn Words>,
    len: usize,
}

impl Rows {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn bytes_per_row(&self) -> usize {
        self.layout.bytes()
    }

    /// As with a slice, a row that is not there panics.
    pub fn get(&self, row: usize) -> Genome {
        self.words.genome(row, &self.layout)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = Genome> + '_ {
        (0..self.len).map(|row| self.get(row))
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rows({} of {} bytes)", self.len, self.bytes_per_row())
    }
}

pub struct RowBlocks<'a> {
    lister: Lister<'a>,
    next: u128,
    end: u128,
    block_rows: usize,
}

impl Iterator for RowBlocks<'_> {
    type Item = Rows;

    fn next(&mut self) -> Option<Rows> {
        let start = self.next;
        self.next = self.end.min(start.saturating_add(self.block_rows as u128));
        (start < self.end).then(|| self.lister.rows(start..self.next))
    }
}

struct Lister<'a> {
    index: &'a Index,
    layout: Arc<Layout>,
    plan: Box<dyn FillRows>,
}

impl<'a> Lister<'a> {
    fn new(index: &'a Index) -> Lister<'a> {
        let layout = Arc::new(Layout::new(index.domains().to_vec()));
        // Dispatched once per range: the inner loops are compiled for each type of word.
        let plan: Box<dyn FillRows> = match layout.word_bits {
            8 => Box::new(ListPlan::<u8>::new(index, &layout)),
            16 => Box::new(ListPlan::<u16>::new(index, &layout)),
            32 => Box::new(ListPlan::<u32>::new(index, &layout)),
            64 => Box::new(ListPlan::<u64>::new(index, &layout)),
            _ => Box::new(ListPlan::<u128>::new(index, &layout)),
        };
        Lister { index, layout, plan }
    }

    fn rows(&self, range: Range<u128>) -> Rows {
        let mut len = (range.end - range.start) as usize;
        let mut words = self.plan.fill(self.index, &self.layout, range.start, len);
        if !self.index.is_exact() {
            len = words.retain(&self.layout, &|genome| self.index.admits(genome.positions()));
        }
        Rows { layout: Arc::clone(&self.layout), words, len }
    }
}

trait Words: Send + Sync {
    fn genome(&self, row: usize, layout: &Layout) -> Genome;

    fn retain(&mut self, layout: &Layout, keep: &dyn Fn(&Genome) -> bool) -> usize;
}

impl<W: Word> Words for Vec<W> {
    fn genome(&self, row: usize, layout: &Layout) -> Genome {
        layout.genome(&self[row * layout.stride..(row + 1) * layout.stride])
    }

    fn retain(&mut self, layout: &Layout, keep: &dyn Fn(&Genome) -> bool) -> usize {
        let stride = layout.stride;
        let mut kept = 0;
        for row in 0..self.len() / stride {
            if keep(&self.genome(row, layout)) {
                self.copy_within(row * stride..(row + 1) * stride, kept * stride);
                kept += 1;
            }
        }
        self.truncate(kept * stride);
        kept
    }
}

trait FillRows {
    fn fill(&self, index: &Index, layout: &Layout, start: u128, len: usize) -> Box<dyn Words>;
}

impl<W: Word> FillRows for ListPlan<W> {
    fn fill(&self, index: &Index, layout: &Layout, start: u128, len: usize) -> Box<dyn Words> {
        let mut words = vec![W::default(); len * layout.stride];
        let blocks = words.par_chunks_mut(BLOCK_ROWS * layout.stride).enumerate();
        blocks.for_each_init(
            || RowWriter::new(self),
            |writer, (block, out)| {
                // Not `point`, which has none for a hole. Holes are filled like other rows and removed
                // afterwards, so that every block knows its place beforehand.
                let first = index.candidate(start + (block * BLOCK_ROWS) as u128);
                let first = first.expect("the range lies inside the index");
                writer.fill(&layout.row(&first), out);
            },
        );
        Box::new(words)
    }
}

/// Bits of the widest single word; longer rows are several 64-bit words.
const SINGLE_BITS: u32 = 128;

pub(crate) trait Word: Copy + Default + Ord + BitOr<Output = Self> + Send + Sync + 'static {
    fn place(code: u16, shift: u32) -> Self;
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

#[derive(Debug, PartialEq)]
pub(crate) struct Field {
    pub slot: usize,
    pub word: usize,
    pub shift: u32,
    mask: u16,
    positions: Vec<u16>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Layout {
    /// Positions of parameters with one value; the others' are overwritten.
    constants: Vec<u16>,
    pub fields: Vec<Field>,
    /// Bits of a word: 8, 16, 32, 64 or 128.
    pub word_bits: u32,
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

    pub fn bytes(&self) -> usize {
        self.stride * self.word_bits as usize / 8
    }

    pub fn row<W: Word>(&self, positions: &[u16]) -> Vec<W> {
        let mut row = vec![W::default(); self.stride];
        for field in &self.fields {
            row[field.word] = row[field.word] | W::place(field.code(positions[field.slot]), field.shift);
        }
        row
    }

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

    pub fn code(&self, position: u16) -> u16 {
        self.positions.partition_point(|other| *other < position) as u16
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use proptest::prelude::*;

    use super::*;
    use crate::genome::Genome;
    use crate::space::SearchSpace;
    use crate::testing::space;

    #[track_caller]
    fn check_layout(sizes: &[u16], word_bits: u32, stride: usize) -> Layout {
        let layout = Layout::new(sizes.iter().map(|size| (0..*size).collect()).collect());
        assert_eq!((layout.word_bits, layout.stride), (word_bits, stride), "{sizes:?}");
        layout
    }

    #[test]
    fn rows_take_the_narrowest_words() {
        check_layout(&[], 8, 1);
        check_layout(&[1, 1], 8, 1);
        check_layout(&[16, 16], 8, 1);
        check_layout(&[16, 17], 16, 1);
        check_layout(&[u16::MAX, 1, 2], 32, 1);
        check_layout(&[1024; 10], 128, 1);
        check_layout(&[u16::MAX; 8], 128, 1);
        assert_eq!(check_layout(&[u16::MAX; 9], 64, 3).bytes(), 24);
        assert_eq!(check_layout(&[300; 15], 64, 3).bytes(), 24);
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

    #[track_caller]
    fn check_range(space: &SearchSpace, range: Range<u128>, block_rows: usize) {
        let expected: Vec<Genome> = range.clone().map_while(|index| space.genome_at(index)).collect();
        let rows = space.rows(range.clone());
        assert_eq!((rows.len(), rows.is_empty()), (expected.len(), expected.is_empty()), "{range:?}");
        assert!(rows.iter().eq(expected.iter().cloned()), "{range:?}");
        let blocks: Vec<Rows> = space.row_blocks(range.clone(), block_rows).collect();
        assert!(blocks.iter().all(|block| !block.is_empty() && block.len() <= block_rows));
        assert!(blocks.iter().flat_map(Rows::iter).eq(expected), "{range:?} by {block_rows}");
    }

    fn check(space: &SearchSpace, bytes_per_row: usize) {
        let count = space.count();
        assert_eq!(space.rows(0..0).bytes_per_row(), bytes_per_row);
        check_range(space, 0..count + 7, 1 + count as usize / 3);
        let step = (count / 11).max(1);
        for number in 0..12u128 {
            let start = (number * step + number % 3).min(count);
            check_range(space, start..(start + number * number * step / 7 + 1), 1 + number as usize * 5);
        }
        check_range(space, count..count + 1, 1);
        check_range(space, count + 5..u128::MAX, 1);
    }

    #[test]
    fn interleaved_groups_are_listed_in_declared_order() {
        check(&space("parameters = { A = [1, 2, 3] }"), 1);
        check(&space("parameters = { A = [1], B = ['x'] }"), 1);
        check(
            &space(
                "parameters = { A = [1, 2, 3], B = [3, 1, 2], C = [1, 2, 3, 4], D = [2, 1], E = ['x'] }\n\
             constraints = ['A <= C', 'B != D', \"E == 'x'\"]",
            ),
            1,
        );
    }

    #[test]
    fn parameters_with_one_valid_value_take_no_bits() {
        let text = "parameters = { A = [1, 2, 3, 4], B = [4, 1], C = [1, 2, 3, 4], D = [7, 8, 9] }\n\
                constraints = ['A * B == 4 * B', 'C + B <= 3']";
        let space = space(text);
        assert_eq!(space.count(), 2 * 3);
        check(&space, 1);
        check(&SearchSpace::new(space.parameters().to_vec(), Vec::new()), 1);
    }

    /// A sum over many parameters has nodes that many rows share; its list is longer than tails and than
    /// the blocks of threads.
    #[test]
    fn long_lists_have_no_seams() {
        let names: Vec<String> = (0..8).map(|at| format!("P{at}")).collect();
        let values: Vec<String> = names.iter().map(|name| format!("{name} = [0, 1, 2, 3, 4, 5]")).collect();
        let text = format!(
            "parameters = {{ {} }}\nconstraints = ['{} <= 13']",
            values.join(", "),
            names.join(" + ")
        );
        let space = space(&text);
        assert!(space.count() > 4 * BLOCK_ROWS as u128, "{}", space.count());
        let rows = space.rows(0..u128::MAX);
        assert_eq!(rows.bytes_per_row(), 4);
        assert!(rows.iter().eq(space.iter()));
        check_range(&space, 99_990..170_000, 33_333);
    }

    /// Fifteen parameters of 300 values each need three 64-bit words; the range lies far inside.
    #[test]
    fn wide_rows_take_several_words() {
        let values: Vec<String> = (0..300).map(|value| value.to_string()).collect();
        let text = |count: usize| {
            let parameters: Vec<String> =
                (0..count).map(|at| format!("P{at} = [{}]", values.join(","))).collect();
            format!(
                "parameters = {{ {} }}\nconstraints = ['P0 + P{} <= 150']",
                parameters.join(", "),
                count - 1
            )
        };
        for (count, bytes) in [(14, 16), (15, 24)] {
            let space = space(&text(count));
            assert_eq!(space.rows(0..0).bytes_per_row(), bytes);
            for start in [0, 12_345, 300u128.pow(9) + 17, space.count() - 7_000] {
                check_range(&space, start..start.saturating_add(6_000), 2_500);
            }
        }
    }

    #[test]
    fn a_part_of_a_space_lists_its_own_points() {
        let space = space(
            "parameters = { A = [1, 2, 3], B = [3, 1, 2], C = [1, 2, 3, 4], D = [2, 1], E = ['x', 'y'] }\n\
         constraints = ['A <= C', 'B != D']",
        );
        let check = |fixed: &[(usize, u16)], bytes: usize| {
            let part = space.fixed(fixed);
            let holds = |genome: &Genome| fixed.iter().all(|(slot, at)| genome.positions()[*slot] == *at);
            let expected: Vec<Genome> = space.iter().filter(holds).collect();
            let rows = part.rows(0..u128::MAX);
            assert!(rows.iter().eq(expected.iter().cloned()) && rows.bytes_per_row() == bytes, "{fixed:?}");
            let blocks = part.row_blocks(1..7, 4).flat_map(|block| block.iter().collect::<Vec<_>>());
            assert!(blocks.eq(expected.into_iter().take(7).skip(1)), "{fixed:?}");
        };
        check(&[], 1);
        check(&[(1, 2)], 1);
        check(&[(0, 1), (3, 0), (4, 1)], 1);
        check(&[(1, 1), (3, 1)], 1);
    }

    #[test]
    fn an_empty_space_lists_nothing() {
        let read = space("parameters = { A = [1, 2], B = [1, 2] }");
        for text in ["A + B > 9", "False"] {
            let constraint = crate::space::Constraint {
                expr: crate::expr::Expr::parse(text).unwrap(),
                because: None,
                parameters: vec![0, 1],
                span: None,
            };
            let space = SearchSpace::new(read.parameters().to_vec(), vec![constraint]);
            assert_eq!((space.rows(0..9).len(), space.row_blocks(0..9, 2).count()), (0, 0), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn random_spaces_are_listed_as_they_are_indexed(
            sizes in prop::collection::vec(1usize..6, 1..8),
            links in prop::collection::vec((0usize..8, 0usize..8, 0u8..4), 0..5),
        ) {
            let parameters: Vec<String> = sizes.iter().enumerate().map(|(at, size)| {
                let values: Vec<String> = (0..*size).map(|value| (value * (at + 2) % 7).to_string()).collect();
                format!("P{at} = [{}]", { let mut seen = values; seen.sort(); seen.dedup(); seen.join(", ") })
            }).collect();
            let constraints: Vec<String> = links.iter().map(|(a, b, kind)| {
                let (a, b) = (a % sizes.len(), b % sizes.len());
                match kind {
                    0 => format!("'P{a} <= P{b} + 3'"),
                    1 => format!("'P{a} != P{b} or P{a} == P{b}'"),
                    2 => format!("'(P{a} + P{b}) % 3 != 2'"),
                    _ => format!("'P{a} * P{b} < 20'"),
                }
            }).collect();
            let text =
                format!("parameters = {{ {} }}\nconstraints = [{}]", parameters.join(", "), constraints.join(", "));
            if let Ok(space) = SearchSpace::parse(&text) {
                let rows = space.rows(0..u128::MAX);
                prop_assert!(rows.iter().eq(space.iter()));
                prop_assert!(rows.bytes_per_row() <= 4);
                let third = space.count() / 3;
                check_range(&space, third..third * 2, 7);
            }
        }
    }
}
