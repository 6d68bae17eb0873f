//! What is known of one access, and of the thread that makes it.

use super::shadow::AccessKind;

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
