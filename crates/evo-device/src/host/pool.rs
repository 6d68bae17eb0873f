//! All cores at work on one launch: each processor thread takes block after block from a counter.
//!
//! The calling thread works too, so a launch of one block wakes nobody. The first error stops the
//! rest; blocks are handed out in order, so a block that waits for an earlier one waits for work in progress.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use evo_protocol::device::DeviceError;

use super::fault::{self, Range, RangeKind, Registered};
use super::runner::{RUNTIME, Runner, Work};
use super::tls;

/// A launch that all processor threads share.
pub struct SharedLaunch {
    pub work: Work,
    /// Whether shared memory is filled with NaN before each block.
    pub poison: bool,
    pub statics: tls::Statics,
    /// Processor threads that may take part.
    pub seats: usize,
    next: AtomicU64,
    stop: AtomicBool,
    error: Mutex<Option<DeviceError>>,
}

// SAFETY: the argument pointers in `work` are read only while the launch that owns the values waits.
unsafe impl Send for SharedLaunch {}
// SAFETY: as above; kernels get copies of the values.
unsafe impl Sync for SharedLaunch {}

impl SharedLaunch {
    /// A launch with no block done.
    pub fn new(work: Work, statics: tls::Statics, poison: bool, seats: usize) -> SharedLaunch {
        SharedLaunch {
            work,
            poison,
            statics,
            seats,
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            error: Mutex::new(None),
        }
    }

    /// Takes blocks until there are none, on this thread.
    fn take_part(&self, seat: &mut Seat) {
        let [x, y, z] = self.work.grid.map(u64::from);
        let blocks = x * y * z;
        // A helper that wakes late spares itself the preparation.
        if self.next.load(Ordering::Relaxed) >= blocks {
            return;
        }
        // Without its own signal stack a stack overflow on this thread would be nameless, not wrong.
        let _ = fault::prepare_thread();
        seat.begin(self.work);
        let runner: *mut Runner = &mut *seat.runner;
        let statics = if self.poison { self.statics.locate() } else { None };
        fault::in_kernel(true);
        // `Relaxed` will do: who sees the stop late runs one block too many, and the first error is kept.
        while !self.stop.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= blocks {
                break;
            }
            if self.poison {
                // SAFETY: no block runs on this thread now.
                unsafe { (*runner).poison_shared() };
            }
            if let Some(statics) = statics {
                // SAFETY: located by this thread just now; the launch keeps the module loaded.
                unsafe { tls::poison(statics) };
            }
            let block = [number % x, number / x % y, number / x / y].map(|index| index as u32);
            // SAFETY: `begin` was called; only this thread touches the runner.
            if let Err(error) = unsafe { Runner::run_block(runner, block) } {
                self.stop.store(true, Ordering::Relaxed);
                lock(&self.error).get_or_insert(error);
            }
        }
        fault::in_kernel(false);
    }
}

/// A runner with its ranges known to the fault handler.
struct Seat {
    runner: Box<Runner>,
    _stacks: Registered,
    shared: Registered,
}

// SAFETY: fibers of a runner are suspended whenever it changes threads, and hold nothing of a thread's.
unsafe impl Send for Seat {}

impl Seat {
    fn new() -> io::Result<Seat> {
        let runner = Runner::new(&RUNTIME)?;
        let (stacks, shared) = (runner.stack_range(), runner.shared_range());
        let range = |kind, whole, inner, name| Registered::new(Range { kind, whole, inner, name });
        Ok(Seat {
            _stacks: range(RangeKind::Stacks, stacks, stacks, "stacks"),
            shared: range(RangeKind::Shared, shared, runner.shared_inner(), "dynamic shared memory"),
            runner,
        })
    }

    fn begin(&mut self, work: Work) {
        self.runner.begin(work);
        let (start, bytes) = self.runner.shared_inner();
        self.shared.set_inner(start, bytes);
    }
}

struct BoardState {
    epoch: u64,
    job: Option<Arc<SharedLaunch>>,
    working: usize,
    end: bool,
}

struct Board {
    state: Mutex<BoardState>,
    start: Condvar,
    done: Condvar,
    /// Mirror of the state's epoch, watched for a moment before a thread goes to sleep.
    epoch: AtomicU64,
}

/// The processor threads.
pub struct ProcessorPool {
    board: Arc<Board>,
    own: Seat,
    helpers: Vec<JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProcessorPool {
    /// A pool of `threads`, the caller included.
    pub fn new(threads: usize) -> io::Result<ProcessorPool> {
        let state = BoardState { epoch: 0, job: None, working: 0, end: false };
        let board = Arc::new(Board {
            state: Mutex::new(state),
            start: Condvar::new(),
            done: Condvar::new(),
            epoch: AtomicU64::new(0),
        });
        let mut pool = ProcessorPool { board, own: Seat::new()?, helpers: Vec::new() };
        for number in 1..threads {
            // Made on this thread, so that running out of address space is the caller's error.
            let (board, seat) = (Arc::clone(&pool.board), Seat::new()?);
            let builder = std::thread::Builder::new().name(format!("evo-host-{number}"));
            pool.helpers.push(builder.spawn(move || help(&board, seat, number))?);
        }
        Ok(pool)
    }

    /// Processor threads, the caller included.
    pub fn threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Runs a launch to its end.
    pub fn run(&mut self, job: SharedLaunch) -> Result<(), DeviceError> {
        if job.seats > 1 && !self.helpers.is_empty() {
            self.run_together(job)
        } else {
            job.take_part(&mut self.own);
            lock(&job.error).take().map_or(Ok(()), Err)
        }
    }

    fn run_together(&mut self, job: SharedLaunch) -> Result<(), DeviceError> {
        let job = Arc::new(job);
        {
            let mut state = lock(&self.board.state);
            state.epoch += 1;
            state.job = Some(Arc::clone(&job));
            self.board.epoch.store(state.epoch, Ordering::Release);
        }
        self.board.start.notify_all();
        job.take_part(&mut self.own);
        // Who comes now finds nothing to do; who has begun is waited for.
        let mut state = lock(&self.board.state);
        state.job = None;
        while state.working > 0 {
            state = self.board.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        lock(&job.error).take().map_or(Ok(()), Err)
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
    let mut seen = 0;
    loop {
        watch(board, seen);
        let mut state = lock(&board.state);
        while state.epoch == seen && !state.end {
            state = board.start.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.end {
            return;
        }
        seen = state.epoch;
        let Some(job) = state.job.clone().filter(|job| number < job.seats) else { continue };
        state.working += 1;
        drop(state);
        job.take_part(&mut seat);
        drop(job);
        let mut state = lock(&board.state);
        state.working -= 1;
        if state.working == 0 {
            board.done.notify_one();
        }
    }
}

/// Looks for new work for some microseconds: launches of a timed batch follow each other closely.
fn watch(board: &Board, seen: u64) {
    for _ in 0..500 {
        if board.epoch.load(Ordering::Acquire) != seen {
            return;
        }
        std::hint::spin_loop();
    }
}
