//! The thread that looks at processor threads and sends signals.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::clock::TurnClock;
use super::signal;

/// By how much slices shrink once threads of a launch were seen to wait for each other.
const HURRY: u32 = 50;

const IDLE: u32 = 5;

/// After how many looks at the same block it counts as stuck.
const PATIENCE: u32 = 3;

pub type TurnClocks = Arc<Mutex<Vec<Arc<TurnClock>>>>;

#[derive(Debug)]
pub struct SliceTicker {
    end: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl SliceTicker {
    /// A fiber that others wait for runs for at most two slices at a stretch. `relieve` is called when a block makes
    /// no progress; it tells whether it has started another processor thread.
    pub fn start(
        clocks: TurnClocks,
        slice: Duration,
        look: impl Fn() + Send + 'static,
        relieve: impl Fn() -> bool + Send + 'static,
    ) -> io::Result<SliceTicker> {
        let end = Arc::new((Mutex::new(false), Condvar::new()));
        let mut ticker = SliceTicker { end: Arc::clone(&end), thread: None };
        if signal::install()? {
            let builder = std::thread::Builder::new().name("evo-host-ticker".to_string());
            ticker.thread = Some(builder.spawn(move || watch(&clocks, slice, (&look, &relieve), &end))?);
        }
        Ok(ticker)
    }
}

impl SliceTicker {
    pub fn wake(&self) {
        self.end.1.notify_all();
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

#[derive(Default)]
struct LastLook {
    turn: Option<(i32, u64)>,
    block: u64,
    looks: u32,
}

fn watch(
    clocks: &TurnClocks,
    slice: Duration,
    (look, relieve): (&dyn Fn(), &dyn Fn() -> bool),
    end: &(Mutex<bool>, Condvar),
) {
    let mut seen = Vec::new();
    let mut pause = slice;
    let mut ended = end.0.lock().unwrap_or_else(PoisonError::into_inner);
    while !*ended {
        ended = end.1.wait_timeout(ended, pause).unwrap_or_else(PoisonError::into_inner).0;
        look();
        pause = IDLE * slice;
        let now = clocks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        seen.resize_with(now.len(), LastLook::default);
        let mut stuck = true;
        for (clock, last) in now.iter().zip(&mut seen) {
            let turn = clock.look();
            if let Some((thread, turn)) = turn {
                if last.turn == Some((thread, turn)) {
                    clock.ask(turn);
                    signal::send(thread);
                }
                pause = pause.min(if clock.hurried() { slice / HURRY } else { slice });
            }
            last.looks = if last.block == clock.blocks() { last.looks + 1 } else { 0 };
            (last.turn, last.block) = (turn, clock.blocks());
            stuck &= turn.is_none() || last.looks >= PATIENCE;
        }
        // Where one block goes on, those that wait for it will too.
        if stuck && pause <= slice && relieve() {
            now.iter().for_each(|clock| clock.crowd());
            seen.iter_mut().for_each(|last| last.looks = 0);
        }
    }
}
