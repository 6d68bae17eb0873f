//! All cores at work on one launch: each processor thread takes block after block from a counter.
//!
//! The calling thread works too, so a launch of one block wakes nobody. The first error stops the
//! rest; blocks are handed out in order, so a block that waits for an earlier one waits for work in progress. A ticker
//! looks at all of them (`preempt.rs`).

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use evo_protocol::device::DeviceError;

use super::calls;
use super::fault;
use super::machine;
use super::preempt::{self, TurnClock};
use super::runner::{Seat, SharedLaunch, WINDOW, of_neighbors};

/// By how much slices shrink once threads of a launch were seen to wait for each other.
const HURRY: u32 = 50;

const IDLE: u32 = 5;

/// After how many looks at the same block it counts as stuck.
const PATIENCE: u32 = 3;

/// As long as that is waited for helpers that were roused: less than what a message may take beyond its samples.
const ROUSE_MAX: Duration = Duration::from_micros(300);

fn take_part(launch: &SharedLaunch, seat: &mut Seat) {
    let clusters = launch.clusters();
    // A helper that wakes late spares itself the preparation.
    if launch.next.load(Ordering::Relaxed) >= clusters {
        return;
    }
    // Without its own signal stack a stack overflow on this thread would be nameless, not wrong.
    let _ = fault::prepare_thread();
    calls::restrict_thread();
    let several = launch.work.cluster != [1; 3];
    let statics = if launch.pattern.is_some() || several { launch.statics.locate() } else { None };
    if let Err(error) = seat.begin(launch, statics) {
        launch.fail(error);
        return;
    }
    let seed = launch.work.order.filter(|_| !launch.ascends);
    let (mut window, mut order) = (None, Vec::new());
    fault::in_kernel(true);
    // `Relaxed` will do: who sees the stop late runs one block too many, and the first error is kept.
    while !launch.stop.load(Ordering::Relaxed) {
        let position = launch.next.fetch_add(1, Ordering::Relaxed);
        if position >= clusters {
            break;
        }
        seat.clock.blocks.fetch_add(1, Ordering::Relaxed);
        let first = position - position % WINDOW;
        if window.replace(first) != Some(first) {
            order = of_neighbors(seed, first, WINDOW.min(clusters - first) as usize);
        }
        let number = first + order[(position - first) as usize] as u64;
        if let Err(error) = seat.run(launch, number, statics) {
            launch.fail(error);
        }
    }
    preempt::leave(&seat.clock);
    fault::in_kernel(false);
}

#[derive(Default)]
struct BoardState {
    epoch: u64,
    job: Option<Arc<SharedLaunch>>,
    working: usize,
    /// Processor threads more that this launch was given.
    relieved: usize,
    wait: Wait,
    end: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wait {
    /// Not at all: a checked launch is a message away from the next one.
    #[default]
    Asleep,
    /// Some microseconds: launches of a timed batch follow each other closely.
    Closely,
    /// Until the launch that a clock is about to be started for, those that will take part in it.
    Roused { seats: usize },
}

#[derive(Default)]
struct Board {
    state: Mutex<BoardState>,
    start: Condvar,
    done: Condvar,
    /// Wakes the ticker.
    tick: Condvar,
    /// Of all processor threads.
    clocks: Mutex<Vec<Arc<TurnClock>>>,
    /// Most processor threads that a launch is given beside those that there are.
    most: usize,
    /// How many of them to start at once.
    wanted: AtomicUsize,
    /// Mirror of the state's epoch, watched for a moment before a thread goes to sleep.
    epoch: AtomicU64,
    roused: AtomicUsize,
}

pub struct ProcessorPool {
    board: Arc<Board>,
    own: Seat,
    helpers: Vec<JoinHandle<()>>,
    /// How many threads more a kernel's last launch needed, by the address of its code and whether its order was seeded:
    /// the next one gets them at once. Only for grids that can be resident as a whole, which may meet at a barrier.
    needed: HashMap<(usize, bool), usize>,
    ticker: Option<JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProcessorPool {
    /// `threads` includes the caller. A fiber that others wait for gives way after `slice`.
    pub fn new(threads: usize, slice: Duration) -> io::Result<ProcessorPool> {
        // Made on this thread, so that running out of address space is the caller's error.
        let seats = (0..threads.max(1)).map(|_| Seat::new()).collect::<io::Result<Vec<Seat>>>()?;
        let board = Arc::new(Board {
            clocks: Mutex::new(seats.iter().map(|seat| Arc::clone(&seat.clock)).collect()),
            most: (WINDOW as usize).min(machine::blocks_max()).saturating_sub(threads),
            ..Board::default()
        });
        let mut seats = seats.into_iter().enumerate();
        let own = seats.next().map(|(_, seat)| seat).expect("there is at least one seat");
        let (helpers, needed) = (Vec::new(), HashMap::new());
        let mut pool = ProcessorPool { board, own, helpers, needed, ticker: None };
        if preempt::install()? {
            let board = Arc::clone(&pool.board);
            let builder = std::thread::Builder::new().name("evo-host-ticker".to_string());
            pool.ticker = Some(builder.spawn(move || watch(&board, slice))?);
        }
        for (number, seat) in seats {
            let board = Arc::clone(&pool.board);
            let builder = std::thread::Builder::new().name(format!("evo-host-{number}"));
            pool.helpers.push(builder.spawn(move || help(&board, seat, number))?);
        }
        Ok(pool)
    }

    #[cfg(test)]
    pub fn interruptions(&self) -> u64 {
        self.own.clock.interruptions.load(Ordering::Relaxed)
    }

    pub fn threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// A helper that sleeps comes late, most of all where its core runs a compiler, and a short kernel may be over by
    /// then.
    pub fn rouse(&self, blocks: u64) {
        let others = usize::try_from(blocks.saturating_sub(1)).unwrap_or(usize::MAX);
        let wanted = self.helpers.len().min(others);
        if wanted == 0 {
            return;
        }
        self.board.begin(None, Wait::Roused { seats: wanted + 1 });
        let began = Instant::now();
        while self.board.roused.load(Ordering::Acquire) < wanted && began.elapsed() < ROUSE_MAX {
            std::hint::spin_loop();
        }
    }

    pub fn run(&mut self, job: SharedLaunch) -> Result<(), DeviceError> {
        if job.seats == 1 {
            take_part(&job, &mut self.own);
            return job.outcome();
        }
        let job = Arc::new(job);
        let wait = if job.closely { Wait::Closely } else { Wait::Asleep };
        self.board.begin(Some(Arc::clone(&job)), wait);
        let kernel = (job.work.run as usize, job.work.order.is_some());
        if let Some(needed) = self.needed.get(&kernel) {
            // By the ticker, because threads that run kernels may be forbidden to start others.
            self.board.wanted.store(*needed, Ordering::Release);
            self.board.tick.notify_all();
        }
        take_part(&job, &mut self.own);
        // Who comes now finds nothing to do; who has begun is waited for.
        let mut state = lock(&self.board.state);
        state.job = None;
        while state.working > 0 {
            state = self.board.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let relieved = state.relieved;
        drop(state);
        // A module may be unloaded and another loaded in its place, so what is not needed is forgotten.
        match relieved {
            more if more > 0 && job.clusters() <= WINDOW => self.needed.insert(kernel, more),
            _ => self.needed.remove(&kernel),
        };
        job.outcome()
    }
}

impl Drop for ProcessorPool {
    fn drop(&mut self) {
        lock(&self.board.state).end = true;
        self.board.start.notify_all();
        self.board.tick.notify_all();
        // For helpers that are still watching the epoch and do not sleep yet.
        self.board.epoch.fetch_add(1, Ordering::Release);
        for thread in self.helpers.drain(..).chain(self.ticker.take()) {
            let _ = thread.join();
        }
    }
}

fn help(board: &Board, mut seat: Seat, number: usize) {
    let (mut seen, mut wait) = (0, Wait::Asleep);
    loop {
        board.watch(seen, wait, number);
        let mut state = lock(&board.state);
        while state.epoch == seen && !state.end {
            state = board.start.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.end {
            return;
        }
        (seen, wait) = (state.epoch, state.wait);
        let Some(job) = state.job.clone().filter(|job| number < job.seats) else { continue };
        state.working += 1;
        drop(state);
        take_part(&job, &mut seat);
        drop(job);
        board.leave(&mut lock(&board.state));
    }
}

fn relieve(board: &Board, mut seat: Seat, job: &SharedLaunch) {
    let clock = Arc::clone(&seat.clock);
    lock(&board.clocks).push(Arc::clone(&clock));
    take_part(job, &mut seat);
    lock(&board.clocks).retain(|other| !Arc::ptr_eq(other, &clock));
    drop(seat);
    fault::release_thread();
    board.leave(&mut lock(&board.state));
}

impl Board {
    /// Another processor thread for a launch whose blocks wait for blocks that have not begun, at a barrier of the whole
    /// grid for example, so that a few more blocks than processor threads can be resident, as on the smallest GPU.
    fn relieve(self: &Arc<Board>) -> bool {
        let mut state = lock(&self.state);
        let Some(job) = state.job.clone().filter(|job| job.has_blocks()) else { return false };
        if state.relieved >= self.most {
            return false;
        }
        let (board, Ok(seat)) = (Arc::clone(self), Seat::new()) else { return false };
        let builder = std::thread::Builder::new().name("evo-host-relief".to_string());
        let spawned = builder.spawn(move || relieve(&board, seat, &job)).is_ok();
        // The thread cannot end before this: it waits for the lock that is held here.
        state.working += usize::from(spawned);
        state.relieved += usize::from(spawned);
        spawned
    }

    fn begin(&self, job: Option<Arc<SharedLaunch>>, wait: Wait) {
        let mut state = lock(&self.state);
        state.epoch += 1;
        (state.job, state.wait, state.relieved) = (job, wait, 0);
        self.epoch.store(state.epoch, Ordering::Release);
        drop(state);
        self.start.notify_all();
    }

    fn leave(&self, state: &mut BoardState) {
        state.working -= 1;
        if state.working == 0 {
            self.done.notify_one();
        }
    }

    fn watch(&self, seen: u64, wait: Wait, number: usize) {
        let is_new = || self.epoch.load(Ordering::Acquire) != seen;
        match wait {
            Wait::Roused { seats } if number >= seats => {}
            Wait::Asleep => {}
            Wait::Closely => {
                for _ in 0..500 {
                    if is_new() {
                        return;
                    }
                    std::hint::spin_loop();
                }
            }
            Wait::Roused { .. } => {
                self.roused.fetch_add(1, Ordering::Release);
                let began = Instant::now();
                while !is_new() && began.elapsed() < 2 * ROUSE_MAX {
                    std::hint::spin_loop();
                }
                self.roused.fetch_sub(1, Ordering::Release);
            }
        }
    }
}

#[derive(Default)]
struct LastLook {
    turn: Option<(i32, u64)>,
    block: u64,
    looks: u32,
}

/// Looks at processor threads and has those interrupted that run one fiber for too long: one that others wait for runs for
/// at most two slices at a stretch.
fn watch(board: &Arc<Board>, slice: Duration) {
    let mut last_looks = Vec::new();
    let mut pause = slice;
    loop {
        let mut state = lock(&board.state);
        if !state.end {
            state = board.tick.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.end {
            return;
        }
        drop(state);
        for _ in 0..board.wanted.swap(0, Ordering::Acquire) {
            board.relieve();
        }
        pause = IDLE * slice;
        let now = lock(&board.clocks).clone();
        last_looks.resize_with(now.len(), LastLook::default);
        let mut stuck = true;
        for (clock, last) in now.iter().zip(&mut last_looks) {
            let turn = clock.look();
            if let Some(turn) = turn {
                if last.turn == Some(turn) {
                    clock.interrupt(turn);
                }
                let hurried = clock.hurried.load(Ordering::Relaxed);
                pause = pause.min(if hurried { slice / HURRY } else { slice });
            }
            let block = clock.blocks.load(Ordering::Relaxed);
            last.looks = if last.block == block { last.looks + 1 } else { 0 };
            (last.turn, last.block) = (turn, block);
            stuck &= turn.is_none() || last.looks >= PATIENCE;
        }
        // Where one block goes on, those that wait for it will too.
        if stuck && pause <= slice && board.relieve() {
            now.iter().for_each(|clock| clock.crowded.store(true, Ordering::Relaxed));
            last_looks.iter_mut().for_each(|last| last.looks = 0);
        }
    }
}
