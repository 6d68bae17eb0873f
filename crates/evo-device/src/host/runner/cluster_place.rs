//! What a block knows of its cluster: its place there, and who uses its shared memory.

use std::collections::BTreeMap;

/// Most blocks of a cluster. More are not portable: a kernel opts in, and few GPUs have room.
pub const BLOCKS_MAX: usize = 8;

/// A use of a block's shared memory by a thread of another block that has not said yet that it is done.
#[derive(Clone, Copy, Debug)]
pub struct RemoteUse {
    pub line: i32,
    /// For an arrival the barrier and its phase: the block that waits for the phase knows of the use.
    pub arrival: Option<(usize, u32)>,
}

#[derive(Debug)]
pub struct ClusterPlace<R> {
    pub rank: usize,
    /// By rank, this block included.
    pub members: Vec<*mut R>,
    /// The barrier of all threads: the block of rank 0 counts.
    pub arrived: u32,
    pub phase: u32,
    /// Static shared memory while another block has its turn.
    aside: Vec<u8>,
    pub is_away: bool,
    pub has_ended: bool,
    /// Threads that had come to the barrier when nobody could go on, of how many.
    pub seen: (u32, u32),
    /// By rank and thread.
    pub uses: BTreeMap<(usize, u32), RemoteUse>,
}

impl<R> Default for ClusterPlace<R> {
    fn default() -> Self {
        ClusterPlace {
            rank: 0,
            members: Vec::new(),
            arrived: 0,
            phase: 0,
            aside: Vec::new(),
            is_away: false,
            has_ended: false,
            uses: BTreeMap::new(),
            seen: (0, 0),
        }
    }
}

impl<R> ClusterPlace<R> {
    pub fn begin(&mut self, rank: usize, members: &[*mut R]) {
        self.rank = rank;
        self.members.clear();
        self.members.extend_from_slice(members);
        (self.arrived, self.phase) = (0, 0);
        (self.is_away, self.has_ended) = (false, false);
        self.uses.clear();
    }

    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// # Safety
    /// The range is the calling thread's, and nothing else uses it now.
    pub unsafe fn put_aside(&mut self, (start, bytes): (usize, usize)) {
        self.aside.resize(bytes, 0);
        // SAFETY: as the caller promises; the copy is as long as the range.
        unsafe { std::ptr::copy_nonoverlapping(start as *const u8, self.aside.as_mut_ptr(), bytes) };
        self.is_away = true;
    }

    /// # Safety
    /// As for [`ClusterPlace::put_aside`].
    pub unsafe fn take_back(&mut self, (start, bytes): (usize, usize)) {
        if std::mem::take(&mut self.is_away) {
            // SAFETY: as the caller promises; what was put aside is as long.
            unsafe { std::ptr::copy_nonoverlapping(self.aside.as_ptr(), start as *mut u8, bytes) };
        }
    }

    pub fn aside(&self) -> usize {
        self.aside.as_ptr() as usize
    }
}
