//! What is known of one access, and of the thread that makes it.

use super::shadow::AccessKind;

/// A thread as the checker knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadPlace {
    /// The processor thread's runner: one block at a time runs there.
    pub runner: usize,
    /// The block's linear number.
    pub block: u32,
    /// The thread's linear number in its block.
    pub thread: u16,
    /// Threads of the block.
    pub threads: u32,
    /// First address of the block's dynamic shared memory.
    pub shared: usize,
}

/// An access that is about to happen.
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
