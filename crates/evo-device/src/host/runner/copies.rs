//! Copies in the background: what a thread has asked for and what has not landed yet.
//!
//! A GPU may carry out a `cp.async` at any moment up to the wait for its group. Here each lands at that wait and no
//! earlier, so that a kernel which reads too soon is wrong every time. The bytes are read when the copy is issued:
//! a bad address is then a fault of the line that gave it.
//!
//! A bulk copy (`cp.async.bulk`, TMA) to shared memory lands when the phase of its barrier is waited for (`mbarrier.rs`).
//! A bulk store reads shared memory when it is issued, and again when its thread waits until it may be overwritten: both
//! must agree. It reaches global memory at that wait, or when the thread returns.
//!
//! Bulk copies and `wgmma` see shared memory through a view (the asynchronous proxy). What threads write is not in it
//! until one of them passes `fence_proxy_async`. A reader that goes through the view compares both: where they differ, a
//! fence is missing. The view is made when a block first needs it.

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

#[derive(Clone, Debug, Default)]
struct ViewedRange {
    start: usize,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
pub struct AsyncView {
    ranges: [ViewedRange; 2],
    live: bool,
}

impl AsyncView {
    pub fn clear(&mut self) {
        self.live = false;
    }

    pub fn is_new(&self) -> bool {
        !self.live
    }

    /// The view holds what the ranges held when the block began, a pattern, or where that is not known, what they
    /// hold now; `storage` is where they lie now.
    ///
    /// # Safety
    /// The ranges are readable there, and nothing writes them meanwhile.
    pub unsafe fn begin(&mut self, ranges: [(usize, usize); 2], storage: [usize; 2], untouched: Option<u32>) {
        self.live = true;
        for ((own, (start, bytes)), storage) in self.ranges.iter_mut().zip(ranges).zip(storage) {
            // Addresses decide which byte of the pattern belongs where, so the copy keeps them modulo 4.
            own.start = start;
            own.bytes.clear();
            own.bytes.resize(bytes, 0);
            match untouched {
                Some(word) => {
                    let word = word.to_le_bytes();
                    let bytes = own.bytes.iter_mut().enumerate();
                    bytes.for_each(|(at, byte)| *byte = word[(start + at) % 4]);
                }
                // SAFETY: as the caller promises.
                None => unsafe {
                    std::ptr::copy_nonoverlapping(storage as *const u8, own.bytes.as_mut_ptr(), bytes)
                },
            }
        }
    }

    /// # Safety
    /// As for [`AsyncView::begin`].
    pub unsafe fn fence(&mut self) {
        for own in &mut self.ranges {
            // SAFETY: as the caller promises; the copy is as long as the range.
            unsafe {
                std::ptr::copy_nonoverlapping(own.start as *const u8, own.bytes.as_mut_ptr(), own.bytes.len())
            };
        }
    }

    /// The range that holds an address modulo 2^18, as descriptors have it: the address, the range and its view.
    pub fn locate(&self, low: usize) -> Option<(usize, (usize, usize), *const u8)> {
        const WINDOW: usize = 1 << 18;
        self.ranges.iter().find_map(|own| {
            let offset = low.wrapping_sub(own.start) % WINDOW;
            let range = (own.start, own.start + own.bytes.len());
            (offset < own.bytes.len()).then(|| (own.start + offset, range, own.bytes.as_ptr()))
        })
    }

    pub fn at(&mut self, address: usize, bytes: usize) -> Option<&mut [u8]> {
        self.ranges.iter_mut().find_map(|own| {
            let offset = address.wrapping_sub(own.start);
            own.bytes.get_mut(offset..offset.checked_add(bytes)?)
        })
    }
}
