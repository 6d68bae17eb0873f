//! Copies in the background: what a thread has asked for and what has not landed yet.
//!
//! A GPU may carry out a `cp.async` at any moment up to the wait for its group. Here each lands at that wait and no
//! earlier, so that a kernel which reads too soon is wrong every time. The bytes are read when the copy is issued:
//! a bad address is then a fault of the line that gave it.
//!
//! A bulk copy (`cp.async.bulk`, TMA) to shared memory lands when the phase of its barrier is waited for (`mbarrier.rs`).
//! A bulk store reads shared memory when it is issued, and again when its thread waits until it may be overwritten: both
//! must agree. It reaches global memory at that wait, or when the thread returns.

/// What belongs to a group, which a commit closes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Grouped<T> {
    group: u32,
    pub item: T,
}

#[derive(Clone, Debug)]
pub struct Groups<T> {
    items: Vec<Grouped<T>>,
    group: u32,
}

impl<T> Default for Groups<T> {
    fn default() -> Self {
        Groups { items: Vec::new(), group: 0 }
    }
}

impl<T> Groups<T> {
    pub fn clear(&mut self) {
        self.items.clear();
        self.group = 0;
    }

    pub fn issue(&mut self, item: T) {
        self.items.push(Grouped { group: self.group, item });
    }

    pub fn commit(&mut self) {
        self.group += 1;
    }

    /// Those of closed groups but the latest `left`.
    pub fn due(&mut self, left: u32) -> &mut [Grouped<T>] {
        let end = self.group.saturating_sub(left);
        let count = self.items.iter().take_while(|own| own.group < end).count();
        &mut self.items[..count]
    }

    pub fn landed(&mut self, count: usize) {
        self.items.drain(..count);
    }

    pub fn latest(&mut self) -> Option<&mut T> {
        self.items.last_mut().map(|own| &mut own.item)
    }

    /// Whether something was issued since the last commit.
    pub fn is_open(&self) -> bool {
        self.items.last().is_some_and(|own| own.group == self.group)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().map(|own| &own.item)
    }
}

/// With its group `evo_pending` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PendingCopy {
    pub to: usize,
    pub bytes: u32,
    pub data: [u8; 16],
}

#[derive(Clone, Debug)]
pub struct BulkLoad {
    pub to: usize,
    /// What its target holds at last, in the target's layout.
    pub data: Box<[u8]>,
    pub line: i32,
}

#[derive(Clone, Debug)]
pub struct BulkStore {
    pub from: usize,
    pub data: Box<[u8]>,
    pub line: i32,
    /// Where it goes: target, place in `data` and bytes.
    pub runs: Vec<(usize, usize, usize)>,
    /// Whether its thread has waited until its source may be overwritten.
    pub read: bool,
}
