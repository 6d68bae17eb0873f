//! What the instrumented code calls: mirrors of `evo_instrument.h`, each a call of the checker.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::checker::AccessChecker;
use super::order::AccessKind;
use super::shadow::{SeenAccess, ThreadPlace};
use crate::host::fiber::ThreadRecord;

const WRITE: u32 = 1;
const VOLATILE: u32 = 2;
const ATOMIC: u32 = 4;
const READ: u32 = 8;

/// The checker must outlive the launches that use it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct CheckerHandle(*const Mutex<AccessChecker>);

// SAFETY: only the mutex is reached through it, as kernels on any processor thread do through the table.
unsafe impl Send for CheckerHandle {}

impl CheckerHandle {
    pub fn of(checker: &Mutex<AccessChecker>) -> CheckerHandle {
        CheckerHandle(checker)
    }

    pub fn lock<'a>(self) -> MutexGuard<'a, AccessChecker> {
        // SAFETY: whoever set the module's slot to this table holds the checker until the launch is over.
        unsafe { &*self.0 }.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Mirror of `evo_watch`.
#[repr(C)]
#[derive(Debug)]
pub struct WatchTable {
    checker: CheckerHandle,
    access: extern "C" fn(CheckerHandle, *mut ThreadRecord, usize, u64, u32, usize) -> i32,
    sync: extern "C" fn(CheckerHandle, *mut ThreadRecord, u32, u32),
    mismatch: extern "C" fn(CheckerHandle, *mut ThreadRecord, usize, u32, u32, u32, u32) -> i32,
    heap: extern "C" fn(CheckerHandle, usize, u64),
}

impl WatchTable {
    pub fn of(checker: CheckerHandle) -> WatchTable {
        WatchTable { checker, access: on_access, sync: on_sync, mismatch: on_mismatch, heap: on_heap }
    }
}

fn place(record: *mut ThreadRecord) -> ThreadPlace {
    // SAFETY: the record is that of the fiber that calls us.
    let record = unsafe { &*record };
    let [x, y, _] = record.grid_dim;
    let [bx, by, bz] = record.block;
    ThreadPlace {
        runner: record.runner as usize,
        block: bx + x * (by + y * bz),
        thread: record.linear as u16,
        threads: record.threads,
        shared: record.shared as usize,
    }
}

extern "C" fn on_access(
    checker: CheckerHandle,
    record: *mut ThreadRecord,
    address: usize,
    bytes: u64,
    bits: u32,
    from: usize,
) -> i32 {
    let kind = match bits {
        bits if bits & ATOMIC != 0 => AccessKind::Atomic,
        bits if bits & VOLATILE != 0 => AccessKind::Volatile,
        _ => AccessKind::Plain,
    };
    let (read, write) = (bits & READ != 0, bits & WRITE != 0);
    let (place, bytes) = (place(record), bytes as usize);
    checker.lock().access(&SeenAccess { place, address, bytes, read, write, kind, from }) as i32
}

extern "C" fn on_sync(checker: CheckerHandle, record: *mut ThreadRecord, moment: u32, detail: u32) {
    checker.lock().sync(&place(record), moment, detail);
}

extern "C" fn on_mismatch(
    checker: CheckerHandle,
    record: *mut ThreadRecord,
    address: usize,
    alignment: u32,
    local: u32,
    write: u32,
    line: u32,
) -> i32 {
    checker.lock().mismatch(&place(record), address, (alignment, local != 0), write != 0, line).into()
}

extern "C" fn on_heap(checker: CheckerHandle, address: usize, bytes: u64) {
    checker.lock().heap(address, bytes as usize);
}
