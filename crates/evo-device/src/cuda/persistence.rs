//! Windows of the L2 cache that launches ask for (`l2_persist`), and their end.
//!
//! A window is an attribute of its launch, so it needs no clearing. What outlives the launch is the part of the cache that
//! is set aside for kept lines, and the lines themselves: they would slow down or speed up whoever is timed next. So
//! both are given back before anything else is timed.

use cudarc::driver::sys;
use evo_protocol::device::DeviceError;

use super::driver::check;
use crate::device::BoundLaunch;

/// What a device allows; both are 0 where it has no such windows (before sm_80).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WindowLimits {
    pub set_aside_bytes: u64,
    pub window_bytes: u64,
}

impl WindowLimits {
    /// None where the device has no windows, or nothing is in the buffer.
    pub fn window(self, buffer_bytes: u64) -> Option<u64> {
        let bytes = buffer_bytes.min(self.window_bytes);
        (bytes > 0 && self.set_aside_bytes > 0).then_some(bytes)
    }
}

fn set_aside(bytes: u64) -> Result<(), DeviceError> {
    let limit = sys::CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE;
    // SAFETY: a context is current; no pointer is passed.
    unsafe { check(sys::cuCtxSetLimit(limit, bytes as usize), "cannot set aside a part of the L2 cache") }
}

fn reset() -> Result<(), DeviceError> {
    // SAFETY: a context is current.
    unsafe { check(sys::cuCtxResetPersistingL2Cache(), "cannot reset the L2 cache") }
}

#[derive(Debug)]
pub struct CachePersistence {
    pub limits: WindowLimits,
    /// Whether a part is set aside.
    pub is_open: bool,
}

impl CachePersistence {
    pub fn is_asked_for(&self, launch: &BoundLaunch) -> bool {
        self.limits.set_aside_bytes > 0 && launch.l2_persist.is_some()
    }

    /// Sets the part aside. Must not be called while a stream is captured.
    pub fn begin(&mut self) -> Result<(), DeviceError> {
        match std::mem::replace(&mut self.is_open, true) {
            true => Ok(()),
            false => set_aside(self.limits.set_aside_bytes),
        }
    }

    /// For cold samples, whose calls must find no kept lines; the part stays set aside.
    pub fn forget(&self) -> Result<(), DeviceError> {
        if self.is_open { reset() } else { Ok(()) }
    }

    /// Gives everything back. Nothing may run.
    pub fn end(&mut self) -> Result<(), DeviceError> {
        self.is_open = false;
        reset()?;
        set_aside(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{BoundWindow, BufferId};

    #[test]
    fn a_window_is_no_larger_than_buffer_and_device_allow() {
        let limits = WindowLimits { set_aside_bytes: 30, window_bytes: 100 };
        assert_eq!([0, 50, 1000].map(|bytes| limits.window(bytes)), [None, Some(50), Some(100)]);
        assert_eq!(WindowLimits::default().window(50), None);
        let window = Some(BoundWindow { buffer: BufferId(0), ratio: 1.0 });
        let asks = |limits, l2_persist| {
            let launch = BoundLaunch { l2_persist, ..BoundLaunch::default() };
            CachePersistence { limits, is_open: false }.is_asked_for(&launch)
        };
        assert!(asks(limits, window) && !asks(limits, None));
        assert!(
            !asks(WindowLimits::default(), window),
            "a device without windows runs the launch all the same"
        );
    }
}
