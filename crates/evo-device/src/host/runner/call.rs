//! A request of a running thread and the answer to it; how the thread hands the processor to the scheduler, and how it
//! ends its launch.

use std::borrow::Cow;

use super::mbarrier::TransactionBarriers;
use super::scheduler::{Background, FiberYielder, Member, Runner};
use super::warpgroup::Warpgroup;
use crate::host::fiber::ThreadRecord;
use crate::host::stop;
use crate::host::warp::WaitPoint;

pub(super) fn wait(record: *mut ThreadRecord) {
    // SAFETY: the yielder lives on this fiber's own stack, below us, as long as the fiber does.
    unsafe { (*(*record).yielder.cast::<FiberYielder>()).suspend(()) }
}

pub(super) fn member_of(record: *mut ThreadRecord) -> Member {
    // SAFETY: the record was filled when the fiber began.
    Member(unsafe { (*record).runner.cast() })
}

/// `kind` is an `EVO_STOP_…`.
pub(super) fn fail(record: *mut ThreadRecord, kind: i32, line: i32, text: &str) -> ! {
    // SAFETY: the calling fiber's own record.
    member_of(record).runner().error = Some(stop::stopped(unsafe { &*record }, kind, line, text));
    // The scheduler takes the error and drops this fiber, so the thread never goes on.
    loop {
        wait(record);
    }
}

/// One request of a running thread. What `at`, `from` and `detail` are is the operation's.
pub(super) struct Call {
    pub record: *mut ThreadRecord,
    /// Linear number in the block.
    pub thread: usize,
    pub line: i32,
    pub at: usize,
    pub from: usize,
    pub detail: u64,
}

/// A refusal ends the launch, as what no GPU does either.
pub(super) type Answer = Result<u64, Cow<'static, str>>;

impl Call {
    pub(super) fn member(&self) -> Member {
        member_of(self.record)
    }

    /// As [`Member::runner`].
    pub(super) fn runner<'r>(&self) -> &'r mut Runner {
        self.member().runner()
    }

    pub(super) fn barriers<'r>(&self) -> &'r mut TransactionBarriers {
        &mut self.runner().state.barriers
    }

    pub(super) fn background<'r>(&self) -> &'r mut Background {
        &mut self.runner().background[self.thread]
    }

    pub(super) fn group<'r>(&self) -> &'r mut Warpgroup {
        &mut self.runner().state.groups[self.thread / 128]
    }

    /// Of the barrier at `at`.
    pub(super) fn memory<'m>(&self) -> &'m mut u64 {
        // SAFETY: the header has checked that the eight bytes are shared memory.
        unsafe { &mut *(self.at as *mut u64) }
    }

    /// Waits until somebody releases the lanes at this place, or those with this value.
    pub(super) fn wait(&self, kind: i32, mask: u32, value: u64) {
        let warp = &mut self.runner().warps[self.thread / 32];
        warp.waiting |= 1 << (self.thread % 32);
        let lane = &mut warp.lanes[self.thread % 32];
        // SAFETY: the calling fiber's own record.
        lane.fiber = unsafe { (*self.record).fiber } as u32;
        (lane.place, lane.value) = (WaitPoint { kind, line: self.line, mask }, value);
        wait(self.record);
    }
}
