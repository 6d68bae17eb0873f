//! Ranges of rows, in one piece or in blocks.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::layout::{Layout, Word};
use super::walk::{ListPlan, RowWriter};
use crate::genome::Genome;
use crate::index::Index;
use crate::space::SearchSpace;
use crate::subspace::Subspace;

/// Rows that a thread fills before it takes the next block: large enough to pay for finding the first.
pub(super) const BLOCK_ROWS: usize = 1 << 15;

impl SearchSpace {
    /// The valid points of an index range in canonical order, made by all threads; a range that ends
    /// beyond the last point ends there. The rows take `Rows::bytes_per_row()` each and must fit memory.
    /// If the space is not exact, holes of the range have no row.
    pub fn rows(&self, range: Range<u128>) -> Rows {
        rows(&self.index, range)
    }

    /// The valid points of an index range in canonical order, lazily: some rows at a time.
    pub fn row_blocks(&self, range: Range<u128>, block_rows: usize) -> RowBlocks<'_> {
        row_blocks(&self.index, range, block_rows)
    }
}

impl Subspace<'_> {
    /// As for a whole space; the range is one of this part's own indices.
    pub fn rows(&self, range: Range<u128>) -> Rows {
        rows(&self.index, range)
    }

    /// As for a whole space; the range is one of this part's own indices.
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

/// The part of a range that an index has.
fn inside(index: &Index, range: Range<u128>) -> Range<u128> {
    let count = u128::try_from(index.total()).unwrap_or(u128::MAX);
    let end = range.end.min(count);
    range.start.min(end)..end
}

/// Valid points in canonical order, packed.
pub struct Rows {
    layout: Arc<Layout>,
    words: Box<dyn Words>,
    len: usize,
}

impl Rows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that a row takes.
    pub fn bytes_per_row(&self) -> usize {
        self.layout.bytes()
    }

    /// The point of a row. As with a slice, a row that is not there is a mistake of the caller's and
    /// panics.
    pub fn get(&self, row: usize) -> Genome {
        self.words.genome(row, &self.layout)
    }

    /// The points of all rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Genome> + '_ {
        (0..self.len).map(|row| self.get(row))
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rows({} of {} bytes)", self.len, self.bytes_per_row())
    }
}

/// Blocks of rows, one after the other.
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

/// What lists a space, whatever its rows are made of.
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

    /// The rows of a range that lies inside the index.
    fn rows(&self, range: Range<u128>) -> Rows {
        let mut len = (range.end - range.start) as usize;
        let mut words = self.plan.fill(self.index, &self.layout, range.start, len);
        if !self.index.is_exact() {
            len = words.retain(&self.layout, &|genome| self.index.admits(genome.positions()));
        }
        Rows { layout: Arc::clone(&self.layout), words, len }
    }
}

/// The words of rows.
trait Words: Send + Sync {
    fn genome(&self, row: usize, layout: &Layout) -> Genome;

    /// Removes other rows than those to keep; says how many are left.
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

/// A plan that makes rows.
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
