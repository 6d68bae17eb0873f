//! Bulk copies (`cp.async.bulk`, TMA): what is on its way, and groups of stores.
//!
//! A store reads shared memory when it is issued, and again when its thread waits until it may be overwritten: both
//! must agree. It reaches global memory at that wait, or when the thread returns.

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
