//! The thread that looks at processor threads and sends signals.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::clock::TurnClock;
use super::signal;

/// By how much slices shrink once threads of a launch were seen to wait for each other.
const HURRY: u32 = 50;

/// How many slices it sleeps while no kernel runs.
const IDLE: u32 = 5;

/// Ends its thread when dropped.
#[derive(Debug)]
pub struct SliceTicker {
    end: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl SliceTicker {
    /// Watches over processor threads; a fiber that others wait for runs for at most two slices at a stretch.
    ///
    /// # Errors
    /// The operating system refuses a thread or a signal handler.
    pub fn start(clocks: Vec<Arc<TurnClock>>, slice: Duration) -> io::Result<SliceTicker> {
        let end = Arc::new((Mutex::new(false), Condvar::new()));
        let mut ticker = SliceTicker { end: Arc::clone(&end), thread: None };
        if signal::install()? {
            let builder = std::thread::Builder::new().name("evo-host-ticker".to_string());
            ticker.thread = Some(builder.spawn(move || watch(&clocks, slice, &end))?);
        }
        Ok(ticker)
    }
}

impl Drop for SliceTicker {
    fn drop(&mut self) {
        *self.end.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.end.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn watch(clocks: &[Arc<TurnClock>], slice: Duration, end: &(Mutex<bool>, Condvar)) {
    let mut seen = vec![None; clocks.len()];
    let mut pause = slice;
    let mut ended = end.0.lock().unwrap_or_else(PoisonError::into_inner);
    while !*ended {
        ended = end.1.wait_timeout(ended, pause).unwrap_or_else(PoisonError::into_inner).0;
        pause = IDLE * slice;
        for (clock, seen) in clocks.iter().zip(&mut seen) {
            let now = clock.look();
            if let Some((thread, turn)) = now {
                if *seen == now {
                    clock.ask(turn);
                    signal::send(thread);
                }
                pause = pause.min(if clock.hurried() { slice / HURRY } else { slice });
            }
            *seen = now;
        }
    }
}
