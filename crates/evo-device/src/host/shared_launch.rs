//! One launch, as the processor threads that run it share it.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use evo_protocol::device::DeviceError;

use super::instrument::CheckerHandle;
use super::module::HostModule;
use super::runner::Work;
use super::tls;
use super::zones::SharedVariable;

pub struct SharedLaunch {
    pub work: Work,
    pub pattern: Option<u32>,
    pub statics: tls::Statics,
    pub zoned: Arc<[SharedVariable]>,
    pub seats: usize,
    /// Whether what lies beside shared variables is looked at after a block.
    pub looks_beside: bool,
    pub ascends: bool,
    pub checker: Option<CheckerHandle>,
    /// Whether another launch follows closely, as in a timed batch.
    pub closely: bool,
    pub(super) next: AtomicU64,
    pub(super) stop: AtomicBool,
    /// Line of a barrier at which threads waited that others had left before; 0 if there was none.
    pub(super) early_exit: AtomicI32,
    error: Mutex<Option<DeviceError>>,
}

// SAFETY: the argument pointers in `work` are read only while the launch that owns the values waits.
unsafe impl Send for SharedLaunch {}
// SAFETY: as above; kernels get copies of the values.
unsafe impl Sync for SharedLaunch {}

impl SharedLaunch {
    pub fn new(work: Work, module: &HostModule, pattern: Option<u32>, seats: usize) -> SharedLaunch {
        SharedLaunch {
            work,
            pattern,
            statics: module.statics,
            zoned: Arc::clone(&module.zoned),
            seats,
            looks_beside: true,
            ascends: false,
            checker: None,
            closely: false,
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            early_exit: AtomicI32::new(0),
            error: Mutex::new(None),
        }
    }

    pub(super) fn clusters(&self) -> u64 {
        self.work.grid.iter().zip(self.work.cluster).map(|(blocks, own)| u64::from(blocks / own)).product()
    }

    pub(super) fn has_blocks(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.clusters()
    }

    pub(super) fn fail(&self, error: DeviceError) {
        self.stop.store(true, Ordering::Relaxed);
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    pub(super) fn outcome(&self) -> Result<Option<i32>, DeviceError> {
        let line = self.early_exit.load(Ordering::Relaxed);
        self.error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .map_or(Ok((line != 0).then_some(line)), Err)
    }
}
