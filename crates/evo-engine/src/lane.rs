//! The device lane: one thread that owns a device's supervisor and works through tasks in order.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::ports::{Evaluate, LaneAnswer, Message, Rivals, Sanitizer};
use evo_space::genome::Configuration;
use evo_supervise::job::Standing;

/// Something for the lane to do.
pub(crate) enum Task<J> {
    Evaluate { number: u64, job: Box<J>, standing: Standing },
    Pair(Box<Rivals<J>>),
    NoiseFloor { job: Box<J>, problems: usize },
    Sanitize { job: Box<J>, configuration: Configuration, within: Option<Duration> },
    ExpectPairs,
    Telemetry,
}

/// The engine's end of the lane.
pub(crate) struct LaneHandle<J> {
    shared: Arc<SharedQueue<J>>,
    thread: Option<JoinHandle<()>>,
}

struct SharedQueue<J> {
    state: Mutex<QueueState<J>>,
    changed: Condvar,
}

struct QueueState<J> {
    // Behind a lock, not in a channel: `cancel_queued` takes back what has not begun.
    queue: VecDeque<Task<J>>,
    closed: bool,
    busy: Duration,
    since: Option<Instant>,
}

impl<J> SharedQueue<J> {
    fn new() -> SharedQueue<J> {
        let state = QueueState { queue: VecDeque::new(), closed: false, busy: Duration::ZERO, since: None };
        SharedQueue { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<J>> {
        // A poisoned lock stays usable: no critical section leaves the queue half changed.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The next task; `None` once the handle is gone.
    fn next(&self) -> Option<Task<J>> {
        let mut state = self.lock();
        loop {
            // Checked before the queue: once the handle is gone, queued tasks are not started any more.
            if state.closed {
                return None;
            }
            if let Some(task) = state.queue.pop_front() {
                state.since = Some(Instant::now());
                return Some(task);
            }
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    fn rest(&self) {
        let mut state = self.lock();
        if let Some(since) = state.since.take() {
            state.busy += since.elapsed();
        }
    }
}

impl<J: Send + 'static> LaneHandle<J> {
    /// Starts the thread. It ends when the handle is dropped, after the task at hand.
    pub(crate) fn start<B: Send + 'static>(
        device: Box<dyn Evaluate<J>>,
        sanitizer: Box<dyn Sanitizer<J>>,
        answers: Sender<Message<B>>,
    ) -> io::Result<LaneHandle<J>> {
        let shared = Arc::new(SharedQueue::new());
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("lane".into());
        let thread = thread.spawn(move || {
            let (mut device, mut sanitizer) = (device, sanitizer);
            while let Some(task) = own.next() {
                let answer = perform(&mut *device, &mut *sanitizer, &task);
                // Before the answer is sent: on the last one the engine may drop the handle, which joins this
                // thread only if it finds the lane idle.
                own.rest();
                if answers.send(Message::Lane(Box::new(answer))).is_err() {
                    return;
                }
            }
        })?;
        Ok(LaneHandle { shared, thread: Some(thread) })
    }

    /// Queues a task.
    pub(crate) fn send(&self, task: Task<J>) {
        self.shared.lock().queue.push_back(task);
        self.shared.changed.notify_one();
    }

    /// Takes back evaluations that have not begun; gives their numbers.
    pub(crate) fn cancel_queued(&self) -> Vec<u64> {
        // Only the search cancels, and it queues nothing but evaluations.
        let number = |task: Task<J>| match task {
            Task::Evaluate { number, .. } => Some(number),
            Task::Pair(_)
            | Task::NoiseFloor { .. }
            | Task::Sanitize { .. }
            | Task::ExpectPairs
            | Task::Telemetry => None,
        };
        std::mem::take(&mut self.shared.lock().queue).into_iter().filter_map(number).collect()
    }

    /// Time spent on tasks so far, the one at hand included.
    pub(crate) fn busy(&self) -> Duration {
        let state = self.shared.lock();
        state.busy + state.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl<J> Drop for LaneHandle<J> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        let idle = state.since.is_none();
        drop(state);
        self.shared.changed.notify_one();
        // An idle thread is joined, so that its device shuts down in order. A busy thread could block for as
        // long as a launch may take; the end of this process ends it and its workers.
        if let Some(thread) = self.thread.take().filter(|_| idle) {
            let _ = thread.join();
        }
    }
}

fn perform<J>(device: &mut dyn Evaluate<J>, sanitizer: &mut dyn Sanitizer<J>, task: &Task<J>) -> LaneAnswer {
    match task {
        Task::Evaluate { number, job, standing } => {
            let result = Box::new(device.evaluate(job, standing));
            LaneAnswer::Evaluated { number: *number, result }
        }
        Task::Pair(rivals) => LaneAnswer::Paired(device.pair(rivals)),
        Task::NoiseFloor { job, problems } => LaneAnswer::NoiseFloor(device.noise_floor(job, *problems)),
        Task::Sanitize { job, configuration, within } => {
            LaneAnswer::Sanitized(Box::new(sanitizer.sanitize(job, configuration, *within)))
        }
        Task::ExpectPairs => {
            device.expect_pairs();
            LaneAnswer::Expecting
        }
        Task::Telemetry => LaneAnswer::Telemetry(device.telemetry()),
    }
}
