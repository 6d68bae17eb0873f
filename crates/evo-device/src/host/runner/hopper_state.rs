//! What Hopper's instructions need to know of the block that runs: its barriers, copies and products.

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;
use serde_json::json;

use super::async_view::AsyncView;
use super::copies::BulkQueue;
use super::mbarrier::TransactionBarriers;
use super::warpgroup::{ProductThread, Warpgroup};

/// Waits in vain of all threads, one behind the other, before a block counts as stuck: a thread may try one barrier
/// and another in turn.
pub(super) const VAIN_TRIES: u32 = 64;

#[derive(Debug, Default)]
pub struct HopperState {
    pub barriers: TransactionBarriers,
    pub view: AsyncView,
    pub groups: Vec<Warpgroup>,
    /// By linear thread number; as many as any block had.
    pub queues: Vec<BulkQueue>,
    pub products: Vec<ProductThread>,
    pub tries: u32,
}

impl HopperState {
    pub fn begin_block(&mut self, threads: usize) {
        self.barriers.clear();
        self.view.clear();
        self.tries = VAIN_TRIES;
        self.groups.clear();
        self.groups.resize_with(threads.div_ceil(128), Warpgroup::default);
        self.queues.resize_with(threads.max(self.queues.len()), BulkQueue::default);
        self.products.resize_with(threads.max(self.products.len()), ProductThread::default);
    }

    pub fn end_block(&mut self, block: [u32; 3]) -> Result<(), DeviceError> {
        let Some(line) = self.barriers.clear() else { return Ok(()) };
        let [x, y, z] = block;
        let message = format!(
            "the block ends before the copy of line {line} has landed: nobody has waited for its barrier \
             (block {x},{y},{z})"
        );
        let mut error = DeviceError::plain(VerdictKind::CrashIllegalInstruction, message);
        error.evidence.insert("line".to_string(), json!(line));
        error.evidence.insert("block".to_string(), json!(block));
        Err(error)
    }

    pub fn begin_thread(&mut self, thread: usize) {
        self.queues[thread].clear();
        self.products[thread].clear();
    }
}
