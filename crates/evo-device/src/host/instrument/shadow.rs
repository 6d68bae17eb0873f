//! What lies where (buffers, shared variables and the module's own variables), and what happened to each element: its last
//! writes, two of its reads, and whether anything was ever written to it; and which of that is not in order with a new
//! access.
//!
//! An element is four bytes until a narrower access shows that the range holds smaller ones; the range is then
//! divided further. Two reads suffice: when two different threads have read an element, a writer differs from
//! at least one of them.

use super::order::{AccessKind, AccessRecord, LaunchOrder, ThreadId};
use crate::device::WatchedContents;

/// Elements of a chunk; chunks exist from the first access on.
const CHUNK: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadPlace {
    /// The processor thread's runner: one block at a time runs there.
    pub runner: usize,
    pub block: u32,
    pub thread: u16,
    pub threads: u32,
    pub shared: usize,
}

impl ThreadPlace {
    pub fn id(&self) -> ThreadId {
        (self.block, self.thread)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenAccess {
    pub place: ThreadPlace,
    pub address: usize,
    pub bytes: usize,
    /// An atomic operation may do both.
    pub read: bool,
    pub write: bool,
    pub kind: AccessKind,
    /// Address of the instruction behind the call.
    pub from: usize,
}

pub struct Conflict {
    pub other: AccessRecord,
    pub other_writes: bool,
    /// Global memory that one side updates atomically: a read before an atomic minimum is usual.
    pub maybe_honest: bool,
}

/// A read of what other blocks write by volatile accesses. A flag is written by one block and read by another with
/// nothing in between, and that is its purpose. Data is read only after something else said that it is there, and then
/// its writer needs a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolatileRead {
    InOrder,
    Flag,
    /// It is in order with this write except that a fence is missing.
    Data(AccessRecord),
}

#[derive(Clone, Copy, Debug, Default)]
pub struct ShadowCell {
    pub defined: u32,
    /// The last plain write and the last volatile or atomic one: one of either kind does not hide the other.
    pub writes: [AccessRecord; 2],
    reads: [AccessRecord; 2],
}

impl AccessKind {
    /// The place of such a write in [`ShadowCell::writes`].
    pub fn slot(self) -> usize {
        usize::from(self != AccessKind::Plain)
    }
}

impl ShadowCell {
    /// Which of the accesses that the cell remembers is not in order with a new one.
    pub fn conflict(
        &self,
        order: &mut LaunchOrder,
        record: &AccessRecord,
        access: &SeenAccess,
        shared: bool,
    ) -> Option<Conflict> {
        let plain = access.kind == AccessKind::Plain;
        let open = |order: &LaunchOrder, other: &AccessRecord| {
            other.stamp == record.stamp && !order.is_after(record.thread(), other)
        };
        for other in self.writes {
            // A value that several threads stored may be read by each of them.
            let common = other.by_several && !access.write;
            if !open(order, &other) || common {
                continue;
            }
            let other_plain = other.kind == AccessKind::Plain;
            let flag = access.read && !plain && other_plain;
            let honest = !plain && !other_plain || flag && order.acquire_plain(record.thread(), &other);
            if !honest {
                let maybe_honest = !shared && plain && !other_plain && !access.write;
                return Some(Conflict { other, other_writes: true, maybe_honest });
            }
        }
        let reads = if access.write { self.reads.as_slice() } else { &[] };
        for &other in reads {
            let other_plain = other.kind == AccessKind::Plain;
            // A flag is polled before it is set.
            let polled = !other_plain && plain && record.fenced;
            if open(order, &other) && !polled && (plain || other_plain) {
                let maybe_honest = !shared && !plain && other_plain;
                return Some(Conflict { other, other_writes: false, maybe_honest });
            }
        }
        None
    }

    pub fn volatile_read(&self, order: &LaunchOrder, read: &AccessRecord) -> VolatileRead {
        let plain = read.kind == AccessKind::Plain;
        if !plain && self.writes.iter().all(|other| other.stamp != read.stamp) {
            // Another block may write it at any time.
            return VolatileRead::Flag;
        }
        let volatile = |other: &&AccessRecord| match other.kind {
            AccessKind::Volatile => true,
            AccessKind::Plain => !plain,
            AccessKind::Atomic => false,
        };
        let apart = |other: &&AccessRecord| {
            other.stamp == read.stamp && other.block != read.block && !other.by_several
        };
        let open = |other: &&AccessRecord| !order.is_after(read.thread(), other);
        match self.writes.iter().filter(volatile).filter(apart).find(open) {
            None => VolatileRead::InOrder,
            Some(other) if order.is_after_unfenced(read.thread(), other) => VolatileRead::Data(*other),
            Some(_) => VolatileRead::Flag,
        }
    }

    pub fn note_read(&mut self, order: &LaunchOrder, record: &AccessRecord) {
        let [first, second] = &mut self.reads;
        let past = first.stamp != record.stamp || order.is_after(record.thread(), first);
        *if past { first } else { second } = *record;
    }
}

#[derive(Debug)]
pub struct Shadow {
    bytes: usize,
    shift: u32,
    chunks: Vec<Option<Box<[ShadowCell]>>>,
    /// How many chunks there are.
    made: usize,
}

impl Shadow {
    pub fn new(bytes: usize) -> Shadow {
        let mut own = Shadow { bytes, shift: 2, chunks: Vec::new(), made: 0 };
        own.chunks.resize_with(own.chunk_count(), || None);
        own
    }

    fn chunk_count(&self) -> usize {
        self.bytes.div_ceil(1 << self.shift).div_ceil(CHUNK)
    }

    pub fn record_bytes(&self) -> usize {
        self.made * CHUNK * size_of::<ShadowCell>()
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
        self.made += usize::from(chunk.is_none());
        // Never built on the stack: this runs on a fiber's, which has 112 KiB.
        let chunk = chunk.get_or_insert_with(|| vec![ShadowCell::default(); CHUNK].into());
        &mut chunk[element % CHUNK]
    }

    /// Each part inherits what happened to the whole.
    fn divide(&mut self, shift: u32) {
        let parts = 1usize << (self.shift - shift);
        let old = std::mem::take(&mut self.chunks);
        self.made = 0;
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    Buffer(WatchedContents),
    /// Shared memory; begins anew with each block.
    Shared,
    Variable,
    Heap,
    /// What the compiler keeps beside a variable to initialize it once: no source reads or writes it.
    Guard,
}

#[derive(Debug)]
pub struct Region {
    pub kind: RegionKind,
    pub name: String,
    pub start: usize,
    pub bytes: usize,
    /// The processor thread whose block owns it, for shared memory.
    pub owner: usize,
    pub shadow: Shadow,
}

impl Region {
    pub fn new(kind: RegionKind, name: &str, start: usize, bytes: usize) -> Region {
        Region { kind, name: name.to_string(), start, bytes, owner: 0, shadow: Shadow::new(bytes) }
    }

    pub fn is_shared(&self) -> bool {
        matches!(self.kind, RegionKind::Shared | RegionKind::Guard)
    }

    pub fn end(&self) -> usize {
        self.start + self.bytes
    }
}

/// Further away than this nobody meant the region.
const NEAR: usize = 16 << 20;

#[derive(Debug, Default)]
pub struct Regions {
    pub list: Vec<Region>,
    /// Where the last access fell: the next one often falls there too.
    last: usize,
}

impl Regions {
    pub fn record_bytes(&self) -> usize {
        self.list.iter().map(|region| region.shadow.record_bytes()).sum()
    }

    pub fn remove(&mut self, which: impl Fn(&Region) -> bool) {
        self.list.retain(|region| !which(region));
        self.last = 0;
    }

    /// Static shared memory of a block changes places, because another of its cluster has its turn.
    pub fn moves(&mut self, owner: usize, (from, to, bytes): (usize, usize, usize)) {
        for region in self.list.iter_mut().filter(|region| region.is_shared() && region.owner == owner) {
            let offset = region.start.wrapping_sub(from);
            if offset < bytes {
                region.start = to + offset;
            }
        }
        self.last = 0;
    }

    pub fn find(&mut self, address: usize) -> Option<usize> {
        let holds = |region: &Region| address.wrapping_sub(region.start) < region.bytes;
        if self.list.get(self.last).is_some_and(holds) {
            return Some(self.last);
        }
        self.last = self.list.iter().position(holds)?;
        Some(self.last)
    }

    pub fn nearest(&self, address: usize) -> Option<&Region> {
        let distance = |region: &&Region| match address < region.start {
            true => region.start - address,
            false => (address + 1).saturating_sub(region.end()),
        };
        self.list.iter().min_by_key(distance).filter(|region| distance(region) <= NEAR)
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

    #[test]
    fn an_address_belongs_to_one_range_or_is_near_one() {
        let mut regions = Regions::default();
        regions.list.push(Region::new(RegionKind::Buffer(WatchedContents::Input), "x", 1000, 100));
        regions.list.push(Region::new(RegionKind::Variable, "y", 2000, 100));
        let found = [999, 1000, 1099, 1100, 2050].map(|address| regions.find(address));
        assert_eq!(found, [None, Some(0), Some(0), None, Some(1)]);
        assert_eq!(regions.nearest(1100).unwrap().name, "x");
        assert_eq!(regions.nearest(1900).unwrap().name, "y");
        assert!(regions.nearest(1 << 40).is_none());
    }
}
