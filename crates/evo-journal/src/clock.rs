//! The time since a command began. Budgets and journal stamps read this clock alone, so that a test can play
//! hours of it, and nothing before the first evaluation is left out.

use std::time::{Duration, Instant};

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Copies agree.
#[derive(Clone, Debug)]
pub struct CommandClock(ClockSource);

#[derive(Clone, Debug)]
enum ClockSource {
    Real(Instant),
    /// Milliseconds that a test sets.
    Scripted(Arc<AtomicU64>),
}

impl CommandClock {
    pub fn start() -> CommandClock {
        CommandClock(ClockSource::Real(Instant::now()))
    }

    #[doc(hidden)]
    pub fn scripted(milliseconds: &Arc<AtomicU64>) -> CommandClock {
        CommandClock(ClockSource::Scripted(Arc::clone(milliseconds)))
    }

    pub fn elapsed(&self) -> Duration {
        match &self.0 {
            ClockSource::Real(began) => began.elapsed(),
            ClockSource::Scripted(milliseconds) => {
                Duration::from_millis(milliseconds.load(Ordering::Relaxed))
            }
        }
    }

    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
