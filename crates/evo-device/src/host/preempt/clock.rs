//! What a processor thread, the ticker and the signal handler tell each other.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use crate::host::fiber::ThreadRecord;

#[derive(Clone, Copy, Debug)]
pub struct InterruptSection {
    /// First address and the one behind the last.
    pub code: (usize, usize),
    pub stacks: (usize, usize),
    /// What an interrupted thread calls.
    pub give_way: extern "C" fn(*mut ThreadRecord),
}

/// Counts the turns of one processor thread's fibers.
#[derive(Debug, Default)]
pub struct TurnClock {
    turns: AtomicU64,
    /// The turn that has lasted a whole slice.
    overdue: AtomicU64,
    /// The operating system's number of the thread while it runs a kernel, else 0.
    thread: AtomicI32,
    interruptions: AtomicU64,
    /// Threads of this launch wait for each other: slices are short.
    hurried: AtomicBool,
    blocks: AtomicU64,
    /// More threads than processors run blocks that may wait for each other.
    crowded: AtomicBool,
}

impl TurnClock {
    /// Only the processor thread itself calls this.
    #[inline]
    pub fn turn(&self) {
        self.turns.store(self.turns.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Only the processor thread itself calls this.
    pub fn block(&self) {
        self.blocks.store(self.blocks.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    pub fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    pub fn crowd(&self) {
        self.crowded.store(true, Ordering::Relaxed);
    }

    pub fn crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed)
    }

    pub fn hurry(&self) {
        self.hurried.store(true, Ordering::Relaxed);
    }

    /// Only the processor thread itself calls this.
    pub fn interrupted(&self) {
        self.interruptions.fetch_add(1, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub fn interruptions(&self) -> u64 {
        self.interruptions.load(Ordering::Relaxed)
    }

    pub fn hurried(&self) -> bool {
        self.hurried.load(Ordering::Relaxed)
    }

    /// `thread` is 0 when it ends its part of a launch.
    pub fn occupy(&self, thread: i32) {
        self.hurried.store(false, Ordering::Relaxed);
        self.crowded.store(false, Ordering::Relaxed);
        self.turn();
        self.block();
        self.thread.store(thread, Ordering::Release);
    }

    pub fn look(&self) -> Option<(i32, u64)> {
        let thread = self.thread.load(Ordering::Acquire);
        (thread != 0).then(|| (thread, self.turns.load(Ordering::Relaxed)))
    }

    pub fn ask(&self, turn: u64) {
        self.overdue.store(turn, Ordering::Release);
    }

    pub fn is_overdue(&self) -> bool {
        self.overdue.load(Ordering::Acquire) == self.turns.load(Ordering::Relaxed)
    }
}
