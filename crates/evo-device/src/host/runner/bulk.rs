//! Bulk copies (`cp.async.bulk`, TMA): what is on its way, and groups of stores.
//!
//! A load reads its source when it is issued and lands with its barrier's phase (`mbarrier`). A store reads shared
//! memory when it is issued, and again when its thread waits until it may be overwritten: both must agree. It reaches
//! global memory at the thread's wait, or when the thread returns.

/// A copy to shared memory.
#[derive(Clone, Debug)]
pub struct BulkLoad {
    pub to: usize,
    /// What its target holds at last, in the target's layout.
    pub data: Box<[u8]>,
    /// Source line.
    pub line: i32,
}

/// Bytes of a store that lie together on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreRun {
    pub to: usize,
    /// Offset in the store's source.
    pub from: usize,
    pub bytes: usize,
}

/// A copy from shared memory.
#[derive(Clone, Debug)]
pub struct BulkStore {
    pub from: usize,
    /// What shared memory held when the copy was issued.
    pub data: Box<[u8]>,
    pub line: i32,
    pub runs: Vec<StoreRun>,
    /// Number of the group among those of its thread.
    group: u32,
    /// Its source may have been overwritten since.
    read: bool,
}

/// Bulk copies of one thread.
#[derive(Clone, Debug, Default)]
pub struct BulkQueue {
    /// Where the thread puts together what a load brings.
    pub staging: Vec<u8>,
    stores: Vec<BulkStore>,
    /// Number of the group that is open.
    group: u32,
    /// How often the thread has called one half of its cluster's barrier.
    pub cluster_halves: u32,
}

impl BulkQueue {
    /// A thread begins.
    pub fn clear(&mut self) {
        self.stores.clear();
        (self.group, self.cluster_halves) = (0, 0);
    }

    /// A store joins the open group.
    pub fn store(&mut self, from: usize, data: Box<[u8]>, line: i32) {
        let (runs, group) = (Vec::new(), self.group);
        self.stores.push(BulkStore { from, data, line, runs, group, read: false });
    }

    /// More of the latest store.
    pub fn add_run(&mut self, run: StoreRun) {
        if let Some(store) = self.stores.last_mut() {
            store.runs.push(run);
        }
    }

    /// Closes the open group.
    pub fn commit(&mut self) {
        self.group += 1;
    }

    /// Whether a store belongs to a group that is still open.
    pub fn is_open(&self) -> bool {
        self.stores.last().is_some_and(|store| store.group == self.group)
    }

    /// Whether the source of some store may still be read.
    pub fn is_reading(&self) -> Option<i32> {
        self.stores.iter().find(|store| !store.read).map(|store| store.line)
    }

    /// Stores of closed groups but the latest `left`.
    fn due(&mut self, left: u32) -> &mut [BulkStore] {
        let end = self.group.saturating_sub(left);
        let count = self.stores.iter().take_while(|store| store.group < end).count();
        &mut self.stores[..count]
    }

    /// The sources of the stores that are due may be overwritten from now on. Gives the line of one whose source was
    /// overwritten before; `holds` tells what shared memory holds.
    pub fn finish_reading(&mut self, left: u32, holds: impl Fn(usize, &[u8]) -> bool) -> Option<i32> {
        let mut changed = None;
        for store in self.due(left).iter_mut().filter(|store| !store.read) {
            store.read = true;
            changed = changed.or((!holds(store.from, &store.data)).then_some(store.line));
        }
        changed
    }

    /// A run of the stores that are due, with its bytes.
    pub fn due_run(&mut self, left: u32, index: usize) -> Option<(usize, &[u8])> {
        let all = self.due(left).iter().flat_map(|store| store.runs.iter().map(move |run| (store, run)));
        let (store, run) = all.skip(index).next()?;
        Some((run.to, &store.data[run.from..run.from + run.bytes]))
    }

    /// The stores that are due have reached global memory.
    pub fn landed(&mut self, left: u32) {
        let count = self.due(left).len();
        self.stores.drain(..count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_land_by_group_and_their_sources_are_compared() {
        let mut queue = BulkQueue::default();
        for group in 0..3usize {
            queue.store(100 * group, vec![group as u8; 32].into(), group as i32);
            queue.add_run(StoreRun { to: 1000 + group, from: 0, bytes: 16 });
            queue.add_run(StoreRun { to: 2000 + group, from: 16, bytes: 16 });
            assert!(queue.is_open());
            queue.commit();
        }
        assert_eq!(queue.is_reading(), Some(0));
        let unchanged = |_: usize, data: &[u8]| data[0] != 1;
        assert_eq!(queue.finish_reading(2, unchanged), None);
        assert_eq!(queue.finish_reading(0, unchanged), Some(1));
        assert_eq!(queue.is_reading(), None);
        assert_eq!(queue.due_run(1, 2), Some((1001, [1u8; 16].as_slice())));
        assert_eq!(queue.due_run(1, 4), None);
        queue.landed(1);
        assert_eq!(queue.due_run(0, 1).unwrap().0, 2002);
    }
}
