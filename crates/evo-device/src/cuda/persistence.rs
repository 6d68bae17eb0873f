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

pub trait CacheControl {
    fn set_aside(&mut self, bytes: u64) -> Result<(), DeviceError>;
    fn reset(&mut self) -> Result<(), DeviceError>;
}

#[derive(Debug)]
pub struct DriverCache;

impl CacheControl for DriverCache {
    fn set_aside(&mut self, bytes: u64) -> Result<(), DeviceError> {
        let limit = sys::CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE;
        // SAFETY: a context is current; no pointer is passed.
        unsafe { check(sys::cuCtxSetLimit(limit, bytes as usize), "cannot set aside a part of the L2 cache") }
    }

    fn reset(&mut self) -> Result<(), DeviceError> {
        // SAFETY: a context is current.
        unsafe { check(sys::cuCtxResetPersistingL2Cache(), "cannot reset the L2 cache") }
    }
}

#[derive(Debug)]
pub struct CachePersistence<C> {
    pub limits: WindowLimits,
    control: C,
    open: bool,
}

impl<C: CacheControl> CachePersistence<C> {
    pub fn new(limits: WindowLimits, control: C) -> CachePersistence<C> {
        CachePersistence { limits, control, open: false }
    }

    pub fn is_asked_for(&self, launch: &BoundLaunch) -> bool {
        self.limits.set_aside_bytes > 0 && launch.l2_persist.is_some()
    }

    /// Sets the part aside. Must not be called while a stream is captured.
    pub fn begin(&mut self) -> Result<(), DeviceError> {
        if !self.open {
            self.open = true;
            self.control.set_aside(self.limits.set_aside_bytes)?;
        }
        Ok(())
    }

    /// For cold samples, whose calls must find no kept lines; the part stays set aside.
    pub fn forget(&mut self) -> Result<(), DeviceError> {
        if self.open { self.control.reset() } else { Ok(()) }
    }

    /// Gives everything back. Nothing may run.
    pub fn end(&mut self) -> Result<(), DeviceError> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        self.control.reset()?;
        self.control.set_aside(0)
    }

    pub fn is_open(&self) -> bool {
        self.open
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{BoundWindow, BufferId};

    #[derive(Default)]
    struct Recorded(Vec<String>);

    impl CacheControl for Recorded {
        fn set_aside(&mut self, bytes: u64) -> Result<(), DeviceError> {
            self.0.push(format!("set aside {bytes}"));
            Ok(())
        }

        fn reset(&mut self) -> Result<(), DeviceError> {
            self.0.push("reset".into());
            Ok(())
        }
    }

    fn launch(ratio: Option<f32>) -> BoundLaunch {
        BoundLaunch {
            l2_persist: ratio.map(|ratio| BoundWindow { buffer: BufferId(0), ratio }),
            ..BoundLaunch::default()
        }
    }

    const LIMITS: WindowLimits = WindowLimits { set_aside_bytes: 30, window_bytes: 100 };

    #[test]
    fn everything_is_given_back_once() {
        let mut own = CachePersistence::new(LIMITS, Recorded::default());
        assert!(own.is_asked_for(&launch(Some(0.5))) && !own.is_asked_for(&launch(None)));
        own.forget().unwrap();
        own.end().unwrap();
        assert!(own.control.0.is_empty(), "nothing was set aside");
        own.begin().unwrap();
        own.begin().unwrap();
        own.forget().unwrap();
        assert!(own.is_open());
        own.end().unwrap();
        own.end().unwrap();
        assert!(!own.is_open());
        assert_eq!(own.control.0, ["set aside 30", "reset", "reset", "set aside 0"]);
    }

    #[test]
    fn a_window_is_no_larger_than_buffer_and_device_allow() {
        assert_eq!([0, 50, 1000].map(|bytes| LIMITS.window(bytes)), [None, Some(50), Some(100)]);
        assert_eq!(WindowLimits::default().window(50), None);
        let own = CachePersistence::new(WindowLimits::default(), Recorded::default());
        let asked = own.is_asked_for(&launch(Some(1.0)));
        assert!(!asked, "a device without windows runs the launch all the same");
    }
}
