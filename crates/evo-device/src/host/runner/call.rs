//! A request of a running thread, and the answer to it.

use std::borrow::Cow;

use super::copies::BulkQueue;
use super::mbarrier::TransactionBarriers;
use super::scheduler::Runner;
use super::switch::runner_of;
use super::warpgroup::{ProductThread, Warpgroup};
use crate::host::fiber::ThreadRecord;
use crate::host::warp::{WaitPoint, Warp, WarpLane};

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
    /// Not to be kept while the thread waits.
    pub(super) fn runner<'r>(&self) -> &'r mut Runner {
        // SAFETY: the scheduler is suspended while a fiber runs, and no operation switches while it uses the reference.
        unsafe { &mut *runner_of(self.record) }
    }

    pub(super) fn barriers<'r>(&self) -> &'r mut TransactionBarriers {
        &mut self.runner().hopper.barriers
    }

    pub(super) fn queue<'r>(&self) -> &'r mut BulkQueue {
        &mut self.runner().hopper.queues[self.thread]
    }

    pub(super) fn products<'r>(&self) -> &'r mut ProductThread {
        &mut self.runner().hopper.products[self.thread]
    }

    pub(super) fn group<'r>(&self) -> &'r mut Warpgroup {
        &mut self.runner().hopper.groups[self.thread / 128]
    }

    /// Of the barrier at `at`.
    pub(super) fn memory<'m>(&self) -> &'m mut u64 {
        // SAFETY: the header has checked that the eight bytes are shared memory.
        unsafe { &mut *(self.at as *mut u64) }
    }

    /// Says at which place the thread waits next; `waiting` picks the set of its warp's lanes that wait for such a thing.
    pub(super) fn will_wait<'r>(
        &self,
        kind: i32,
        mask: u32,
        waiting: fn(&mut Warp) -> &mut u32,
    ) -> &'r mut WarpLane {
        let warp = &mut self.runner().warps[self.thread / 32];
        *waiting(warp) |= 1 << (self.thread % 32);
        let lane = &mut warp.lanes[self.thread % 32];
        // SAFETY: the calling fiber's own record.
        lane.fiber = unsafe { (*self.record).fiber } as u32;
        lane.place = WaitPoint { kind, line: self.line, mask };
        lane
    }
}
