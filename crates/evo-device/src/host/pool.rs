//! All cores at work on one launch: each processor thread takes block after block from a counter.
//!
//! The calling thread works too, so a launch of one block wakes nobody. The first error stops the
//! rest; blocks are handed out in order, so a block that waits for an earlier one waits for work in progress.

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
use super::preempt::{self, SliceTicker, TurnClocks};
use super::runner::{BlockSequence, Seat, SharedLaunch, WINDOW};

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
    if let Err(error) = seat.begin(launch.work, launch.statics, statics) {
        launch.fail(error);
        return;
    }
    let order = BlockSequence::new(clusters, launch.work.order.filter(|_| !launch.ascends));
    fault::in_kernel(true);
    preempt::enter(&seat.clock, seat.section(0, launch.statics.code()));
    // `Relaxed` will do: who sees the stop late runs one block too many, and the first error is kept.
    while !launch.stop.load(Ordering::Relaxed) {
        let position = launch.next.fetch_add(1, Ordering::Relaxed);
        if position >= clusters {
            break;
        }
        seat.clock.block();
        if let Err(error) = seat.run(launch, order.at(position), statics) {
            launch.fail(error);
        }
    }
    preempt::leave(&seat.clock);
    fault::in_kernel(false);
    if let Some(line) = seat.early_exit() {
        launch.early_exit.store(line, Ordering::Relaxed);
    }
}

struct BoardState {
    epoch: u64,
    job: Option<Arc<SharedLaunch>>,
    working: usize,
    relief: usize,
    relieved: usize,
    wait: Wait,
    end: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// Not at all: a checked launch is a message away from the next one.
    Asleep,
    /// Some microseconds: launches of a timed batch follow each other closely.
    Closely,
    /// Until the launch that a clock is about to be started for, those that will take part in it.
    Roused { seats: usize },
}

struct Board {
    state: Mutex<BoardState>,
    start: Condvar,
    done: Condvar,
    /// Mirror of the state's epoch, watched for a moment before a thread goes to sleep.
    epoch: AtomicU64,
    roused: AtomicUsize,
}

pub struct ProcessorPool {
    board: Arc<Board>,
    own: Seat,
    helpers: Vec<JoinHandle<()>>,
    relief: Arc<Relief>,
    /// How many threads more a kernel's last launch needed, by the address of its code and whether its order was seeded:
    /// the next one gets them at once. Only for grids that can be resident as a whole, which may meet at a barrier.
    needed: HashMap<(usize, bool), usize>,
    ticker: SliceTicker,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProcessorPool {
    /// `threads` includes the caller. A fiber that others wait for gives way after `slice`.
    pub fn new(threads: usize, slice: Duration) -> io::Result<ProcessorPool> {
        let state = BoardState {
            epoch: 0,
            job: None,
            working: 0,
            relief: 0,
            relieved: 0,
            wait: Wait::Asleep,
            end: false,
        };
        let board = Arc::new(Board {
            state: Mutex::new(state),
            start: Condvar::new(),
            done: Condvar::new(),
            epoch: AtomicU64::new(0),
            roused: AtomicUsize::new(0),
        });
        // Made on this thread, so that running out of address space is the caller's error.
        let seats = (0..threads.max(1)).map(|_| Seat::new()).collect::<io::Result<Vec<Seat>>>()?;
        let clocks: TurnClocks = Default::default();
        lock(&clocks).extend(seats.iter().map(|seat| Arc::clone(&seat.clock)));
        let mut seats = seats.into_iter().enumerate();
        let own = seats.next().map(|(_, seat)| seat).expect("there is at least one seat");
        let relief = Arc::new(Relief {
            board: Arc::clone(&board),
            clocks: Arc::clone(&clocks),
            most: (WINDOW as usize).min(machine::blocks_max()).saturating_sub(threads),
            wanted: AtomicUsize::new(0),
        });
        let (at_once, tick, needed) = (Arc::clone(&relief), Arc::clone(&relief), HashMap::new());
        let ticker = SliceTicker::start(clocks, slice, move || at_once.start_wanted(), move || tick.start())?;
        let mut pool = ProcessorPool { board, own, helpers: Vec::new(), relief, needed, ticker };
        for (number, seat) in seats {
            let board = Arc::clone(&pool.board);
            let builder = std::thread::Builder::new().name(format!("evo-host-{number}"));
            pool.helpers.push(builder.spawn(move || help(&board, seat, number))?);
        }
        Ok(pool)
    }

    #[cfg(test)]
    pub fn interruptions(&self) -> u64 {
        self.own.clock.interruptions()
    }

    pub fn threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// The line of a barrier at which threads waited that others had left before.
    pub fn run(&mut self, job: SharedLaunch) -> Result<Option<i32>, DeviceError> {
        if job.seats > 1 {
            self.run_together(job)
        } else {
            take_part(&job, &mut self.own);
            job.outcome()
        }
    }

    /// A helper that sleeps comes late, most of all where its core runs a compiler, and a short kernel may be over by
    /// then.
    pub fn rouse(&self, blocks: u64) {
        let others = usize::try_from(blocks.saturating_sub(1)).unwrap_or(usize::MAX);
        let wanted = self.helpers.len().min(others);
        if wanted == 0 {
            return;
        }
        {
            let mut state = lock(&self.board.state);
            state.epoch += 1;
            state.wait = Wait::Roused { seats: wanted + 1 };
            self.board.epoch.store(state.epoch, Ordering::Release);
        }
        self.board.start.notify_all();
        let began = Instant::now();
        while self.board.roused.load(Ordering::Acquire) < wanted && began.elapsed() < ROUSE_MAX {
            std::hint::spin_loop();
        }
    }

    fn run_together(&mut self, job: SharedLaunch) -> Result<Option<i32>, DeviceError> {
        let job = Arc::new(job);
        {
            let mut state = lock(&self.board.state);
            state.epoch += 1;
            state.relieved = 0;
            state.wait = if job.closely { Wait::Closely } else { Wait::Asleep };
            state.job = Some(Arc::clone(&job));
            self.board.epoch.store(state.epoch, Ordering::Release);
        }
        self.board.start.notify_all();
        let kernel = (job.work.run as usize, job.work.order.is_some());
        if let Some(needed) = self.needed.get(&kernel) {
            // By the ticker, because threads that run kernels may be forbidden to start others.
            self.relief.wanted.store(*needed, Ordering::Release);
            self.ticker.wake();
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
        // For helpers that are still watching the epoch and do not sleep yet.
        self.board.epoch.fetch_add(1, Ordering::Release);
        for helper in self.helpers.drain(..) {
            let _ = helper.join();
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
        let mut state = lock(&board.state);
        state.working -= 1;
        if state.working == 0 {
            board.done.notify_one();
        }
    }
}

/// Processor threads for a launch whose blocks wait for blocks that have not begun, at a barrier of the whole grid
/// for example, so that a few more blocks than processor threads can be resident, as on the smallest GPU.
struct Relief {
    board: Arc<Board>,
    clocks: TurnClocks,
    most: usize,
    wanted: AtomicUsize,
}

impl Relief {
    fn start_wanted(&self) {
        for _ in 0..self.wanted.swap(0, Ordering::Acquire) {
            self.start();
        }
    }

    fn start(&self) -> bool {
        let mut state = lock(&self.board.state);
        let Some(job) = state.job.clone().filter(|job| job.has_blocks()) else { return false };
        if state.relief >= self.most {
            return false;
        }
        let Ok(seat) = Seat::new() else { return false };
        let (board, clocks) = (Arc::clone(&self.board), Arc::clone(&self.clocks));
        let builder = std::thread::Builder::new().name("evo-host-relief".to_string());
        let spawned = builder.spawn(move || relieve(&board, &clocks, seat, &job)).is_ok();
        // The thread cannot end before this: it waits for the lock that is held here.
        state.working += usize::from(spawned);
        state.relief += usize::from(spawned);
        state.relieved += usize::from(spawned);
        spawned
    }
}

fn relieve(board: &Board, clocks: &TurnClocks, mut seat: Seat, job: &SharedLaunch) {
    let clock = Arc::clone(&seat.clock);
    lock(clocks).push(Arc::clone(&clock));
    take_part(job, &mut seat);
    lock(clocks).retain(|other| !Arc::ptr_eq(other, &clock));
    drop(seat);
    fault::release_thread();
    let mut state = lock(&board.state);
    state.working -= 1;
    state.relief -= 1;
    if state.working == 0 {
        board.done.notify_one();
    }
}

impl Board {
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
