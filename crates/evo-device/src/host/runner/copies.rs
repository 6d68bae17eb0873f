//! Copies in the background: what a thread has asked for and what has not landed yet.
//!
//! A GPU may carry out a `cp.async` at any moment up to the wait for its group. Here each lands at that wait and no
//! earlier, so that a kernel which reads too soon is wrong every time. The bytes are read when the copy is issued:
//! a bad address is then a fault of the line that gave it.
//!
//! A bulk copy (`cp.async.bulk`, TMA) to shared memory lands when the phase of its barrier is waited for (`mbarrier.rs`).
//! A bulk store reads shared memory when it is issued, and again when its thread waits until it may be overwritten: both
//! must agree. It reaches global memory at that wait, or when the thread returns.

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PendingCopy {
    to: usize,
    bytes: u32,
    group: u32,
    data: [u8; 16],
}

#[derive(Clone, Debug, Default)]
pub struct CopyQueue {
    pending: Vec<PendingCopy>,
    group: u32,
}

impl CopyQueue {
    /// Copies that the thread before never waited for are nobody's.
    pub fn clear(&mut self) {
        self.pending.clear();
        self.group = 0;
    }

    pub fn issue(&mut self, to: usize, data: [u8; 16], bytes: u32) {
        self.pending.push(PendingCopy { to, bytes, group: self.group, data });
    }

    pub fn commit(&mut self) {
        self.group += 1;
    }

    pub fn due(&self, left: u32) -> &[PendingCopy] {
        let end = self.group.saturating_sub(left);
        let count = self.pending.iter().take_while(|copy| copy.group < end).count();
        &self.pending[..count]
    }

    pub fn landed(&mut self, count: usize) {
        self.pending.drain(..count);
    }
}

#[derive(Clone, Debug)]
pub struct BulkLoad {
    pub to: usize,
    /// What its target holds at last, in the target's layout.
    pub data: Box<[u8]>,
    pub line: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreRun {
    pub to: usize,
    pub from: usize,
    pub bytes: usize,
}

#[derive(Clone, Debug)]
pub struct BulkStore {
    pub from: usize,
    pub data: Box<[u8]>,
    pub line: i32,
    pub runs: Vec<StoreRun>,
    group: u32,
    read: bool,
}

#[derive(Clone, Debug, Default)]
pub struct BulkQueue {
    /// Where the thread puts together what a load brings.
    pub staging: Vec<u8>,
    stores: Vec<BulkStore>,
    group: u32,
    /// How often the thread has called one half of its cluster's barrier.
    pub cluster_halves: u32,
}

impl BulkQueue {
    pub fn clear(&mut self) {
        self.stores.clear();
        (self.group, self.cluster_halves) = (0, 0);
    }

    pub fn store(&mut self, from: usize, data: Box<[u8]>, line: i32) {
        let (runs, group) = (Vec::new(), self.group);
        self.stores.push(BulkStore { from, data, line, runs, group, read: false });
    }

    pub fn add_run(&mut self, run: StoreRun) {
        if let Some(store) = self.stores.last_mut() {
            store.runs.push(run);
        }
    }

    pub fn commit(&mut self) {
        self.group += 1;
    }

    pub fn is_open(&self) -> bool {
        self.stores.last().is_some_and(|store| store.group == self.group)
    }

    pub fn is_reading(&self) -> Option<i32> {
        self.stores.iter().find(|store| !store.read).map(|store| store.line)
    }

    /// Stores of closed groups but the latest `left`.
    fn due(&mut self, left: u32) -> &mut [BulkStore] {
        let end = self.group.saturating_sub(left);
        let count = self.stores.iter().take_while(|store| store.group < end).count();
        &mut self.stores[..count]
    }

    /// The line of a store whose source was overwritten before; `holds` tells what shared memory holds.
    pub fn finish_reading(&mut self, left: u32, holds: impl Fn(usize, &[u8]) -> bool) -> Option<i32> {
        let mut changed = None;
        for store in self.due(left).iter_mut().filter(|store| !store.read) {
            store.read = true;
            changed = changed.or((!holds(store.from, &store.data)).then_some(store.line));
        }
        changed
    }

    pub fn due_run(&mut self, left: u32, index: usize) -> Option<(usize, &[u8])> {
        let mut all = self.due(left).iter().flat_map(|store| store.runs.iter().map(move |run| (store, run)));
        let (store, run) = all.nth(index)?;
        Some((run.to, &store.data[run.from..run.from + run.bytes]))
    }

    pub fn landed(&mut self, left: u32) {
        let count = self.due(left).len();
        self.stores.drain(..count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_land_in_order_and_open_ones_never() {
        let mut queue = CopyQueue::default();
        for group in 0..3u8 {
            for copy in 0..2 {
                queue.issue(usize::from(10 * group + copy), [group; 16], 4);
            }
            queue.commit();
        }
        queue.issue(99, [9; 16], 4);
        let due =
            |queue: &CopyQueue, left| -> Vec<usize> { queue.due(left).iter().map(|copy| copy.to).collect() };
        let nothing: [usize; 0] = [];
        assert_eq!(due(&queue, 3), nothing);
        assert_eq!(due(&queue, 2), [0, 1]);
        queue.landed(2);
        assert_eq!(due(&queue, 0), [10, 11, 20, 21]);
        queue.landed(4);
        assert_eq!(due(&queue, 0), nothing);
        queue.commit();
        assert_eq!(due(&queue, 0), [99]);
        // Empty groups count.
        queue.commit();
        assert_eq!(due(&queue, 1), [99]);
        queue.clear();
        assert_eq!(due(&queue, 0), nothing);
    }

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
