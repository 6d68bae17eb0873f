//! What happened to each element of a range of memory: its last writes, two of its reads, and whether anything
//! was ever written to it.
//!
//! An element is four bytes until a narrower access shows that the range holds smaller ones; the range is then
//! divided further. Two reads suffice: when two different threads have read an element, a writer differs from
//! at least one of them.

/// Elements of a chunk; chunks exist from the first access on.
const CHUNK: usize = 512;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessKind {
    /// A load or store that the compiler may move.
    #[default]
    Plain,
    /// Through a volatile pointer: a flag, as a rule.
    Volatile,
    Atomic,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessRecord {
    /// Number of the launch (global memory) or of the block (shared memory); 0 for none.
    pub stamp: u32,
    pub block: u32,
    /// The thread's linear number in its block; [`ANYBODY`] after several threads wrote the same value.
    pub thread: u16,
    pub fences: u16,
    pub epoch: u32,
    pub tick: u32,
    pub number: u32,
    /// Address of the instruction, from the module's start.
    pub from: u32,
    pub kind: AccessKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadPlace {
    /// The processor thread's runner: one block at a time runs there.
    pub runner: usize,
    pub block: u32,
    pub thread: u16,
    pub threads: u32,
    pub shared: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenAccess {
    pub address: usize,
    pub bytes: usize,
    /// An atomic operation may do both.
    pub read: bool,
    pub write: bool,
    pub kind: AccessKind,
    /// Address of the instruction behind the call.
    pub from: usize,
}

impl AccessKind {
    /// The place of such a write in [`ShadowCell::writes`].
    pub fn slot(self) -> usize {
        usize::from(self != AccessKind::Plain)
    }
}

/// The thread of a write in which several threads stored one value.
pub const ANYBODY: u16 = u16::MAX;

#[derive(Clone, Copy, Debug, Default)]
pub struct ShadowCell {
    pub defined: u32,
    /// The last plain write and the last volatile or atomic one: one of either kind does not hide the other.
    pub writes: [AccessRecord; 2],
    pub reads: [AccessRecord; 2],
}

#[derive(Debug)]
pub struct Shadow {
    bytes: usize,
    shift: u32,
    chunks: Vec<Option<Box<[ShadowCell]>>>,
}

impl Shadow {
    pub fn new(bytes: usize) -> Shadow {
        let mut own = Shadow { bytes, shift: 2, chunks: Vec::new() };
        own.chunks.resize_with(own.chunk_count(), || None);
        own
    }

    fn chunk_count(&self) -> usize {
        self.bytes.div_ceil(1 << self.shift).div_ceil(CHUNK)
    }

    pub fn elements(&mut self, offset: usize, bytes: usize) -> std::ops::Range<usize> {
        let wanted = (offset | bytes).trailing_zeros().min(2);
        if wanted < self.shift {
            self.divide(wanted);
        }
        offset >> self.shift..(offset + bytes).div_ceil(1 << self.shift)
    }

    pub fn cell(&mut self, element: usize) -> &mut ShadowCell {
        let chunk = &mut self.chunks[element / CHUNK];
        // Never built on the stack: this runs on a fiber's, which has 112 KiB.
        let chunk = chunk.get_or_insert_with(|| vec![ShadowCell::default(); CHUNK].into());
        &mut chunk[element % CHUNK]
    }

    /// Each part inherits what happened to the whole.
    fn divide(&mut self, shift: u32) {
        let parts = 1usize << (self.shift - shift);
        let old = std::mem::take(&mut self.chunks);
        self.shift = shift;
        self.chunks.resize_with(self.chunk_count(), || None);
        for (number, chunk) in old.into_iter().enumerate() {
            let Some(chunk) = chunk else { continue };
            for (at, cell) in chunk.iter().enumerate() {
                for part in 0..parts {
                    let element = (number * CHUNK + at) * parts + part;
                    if element / CHUNK < self.chunks.len() {
                        *self.cell(element) = *cell;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_get_smaller_and_keep_their_past() {
        let mut shadow = Shadow::new(100_000);
        assert_eq!(shadow.elements(8, 16), 2..6);
        shadow.cell(3).defined = 7;
        assert_eq!(shadow.elements(14, 2), 7..8);
        assert_eq!((shadow.cell(5).defined, shadow.cell(6).defined, shadow.cell(7).defined), (0, 7, 7));
        assert_eq!(shadow.elements(99_999, 1), 99_999..100_000);
        assert_eq!((shadow.cell(11).defined, shadow.cell(12).defined, shadow.cell(15).defined), (0, 7, 7));
        // Coarse accesses stay possible afterwards.
        assert_eq!(shadow.elements(8, 4), 8..12);
    }
}
