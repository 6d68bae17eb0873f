//! How a running thread hands the processor to the scheduler, and how it ends its launch.

use super::scheduler::{FiberYielder, Runner};
use crate::host::fiber::ThreadRecord;
use crate::host::stop;

pub(super) fn wait(record: *mut ThreadRecord) {
    // SAFETY: the yielder lives on this fiber's own stack, below us, as long as the fiber does.
    unsafe { (*(*record).yielder.cast::<FiberYielder>()).suspend(()) }
}

pub(super) fn runner_of(record: *mut ThreadRecord) -> *mut Runner {
    // SAFETY: the record was filled when the fiber began.
    unsafe { (*record).runner.cast() }
}

/// `kind` is an `EVO_STOP_…`.
pub(super) fn fail(record: *mut ThreadRecord, kind: i32, line: i32, text: &str) -> ! {
    // SAFETY: the scheduler is suspended while a fiber runs.
    unsafe { (*runner_of(record)).error = Some(stop::stopped(&*record, kind, line, text)) };
    // The scheduler takes the error and drops this fiber, so the thread never goes on.
    loop {
        wait(record);
    }
}
