//! The device lanes: threads that each own a device's supervisor. All of them take evaluations from one queue; what
//! belongs to one device goes to its own lane.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use evo_system::lock;

use super::ports::{Evaluate, LaneAnswer, LanePart, Message, Sanitizer};
use evo_supervise::job::Standing;
use evo_supervise::lane::Renewal;

/// How long a variant waits for a second device that has lost its worker, before the first one sees it again.
const SECOND_LOOK_WAITS: Duration = Duration::from_secs(10);

pub(crate) enum Task<J> {
    /// In times of the first lane: a lane that is slower than that one is asked for as much less.
    Evaluate(LaneJob<J>),
    /// A job whose times are known of other lanes, as the lane itself measures them.
    Anchor {
        job: Box<J>,
        number: u64,
    },
    Call(Call<J>),
}

/// Anything else that is asked of a lane; who asks has a channel of its own for the answer.
pub(crate) type Call<J> = Box<dyn FnOnce(&mut dyn Evaluate<J>, &mut dyn Sanitizer<J>) + Send>;

pub(crate) struct LaneJob<J> {
    pub number: u64,
    pub job: Box<J>,
    pub standing: Standing,
    /// The lane that has seen it and should not see it again, as long as there are others.
    pub avoid: Option<usize>,
}

pub(crate) struct LanePool<J> {
    shared: Arc<SharedQueue<J>>,
    threads: Vec<JoinHandle<()>>,
}

struct SharedQueue<J> {
    state: Mutex<QueueState<J>>,
    changed: Condvar,
}

struct QueueState<J> {
    // Behind a lock, not in a channel: `cancel_queued` takes back what has not begun.
    queue: VecDeque<LaneJob<J>>,
    lanes: Vec<LaneState<J>>,
    returned: BTreeMap<u64, LaneJob<J>>,
    closed: bool,
}

struct LaneState<J> {
    own: VecDeque<Task<J>>,
    has_begun: bool,
    is_out: bool,
    is_held: bool,
    renewing: Option<Instant>,
    /// How many times as long as the first lane it takes.
    ratio: f64,
    busy: Duration,
    since: Option<Instant>,
}

impl<J> Default for LaneState<J> {
    fn default() -> LaneState<J> {
        LaneState {
            own: VecDeque::new(),
            has_begun: false,
            is_out: false,
            is_held: false,
            renewing: None,
            ratio: 1.0,
            busy: Duration::ZERO,
            since: None,
        }
    }
}

struct LaneTask<J> {
    task: Task<J>,
    ratio: f64,
    number: Option<u64>,
}

impl<J> QueueState<J> {
    fn take(&mut self, lane: usize) -> Option<LaneTask<J>> {
        let ratio = self.lanes[lane].ratio;
        if let Some(task) = self.lanes[lane].own.pop_front() {
            return Some(LaneTask { task, ratio, number: None });
        }
        if self.lanes[lane].is_out || self.lanes[lane].is_held {
            return None;
        }
        // A second look on another device is worth some waiting.
        let may_come = |own: &LaneState<J>| {
            !own.is_out && own.renewing.is_none_or(|since| since.elapsed() < SECOND_LOOK_WAITS)
        };
        let is_alone = !self.lanes.iter().enumerate().any(|(other, own)| other != lane && may_come(own));
        let may_take = |job: &LaneJob<J>| is_alone || job.avoid != Some(lane);
        let position = self.queue.iter().position(may_take)?;
        let job = self.queue.remove(position)?;
        let number = (self.lanes.len() > 1).then_some(job.number);
        Some(LaneTask { task: Task::Evaluate(job), ratio, number })
    }
}

impl<J> SharedQueue<J> {
    fn new(lanes: usize) -> SharedQueue<J> {
        let lanes = (0..lanes).map(|_| LaneState::default()).collect();
        let state = QueueState { queue: VecDeque::new(), lanes, returned: BTreeMap::new(), closed: false };
        SharedQueue { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<J>> {
        lock(&self.state)
    }

    fn next(&self, lane: usize) -> Option<LaneTask<J>> {
        let mut state = self.lock();
        loop {
            // Checked before the queue: once the handle is gone, queued tasks are not started any more.
            if state.closed {
                return None;
            }
            if let Some(taken) = state.take(lane) {
                state.lanes[lane].since = Some(Instant::now());
                return Some(taken);
            }
            // No message comes when a variant has waited long enough.
            let waited = self.changed.wait_timeout(state, SECOND_LOOK_WAITS / 4);
            state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    fn rest(&self, lane: usize, job: Option<LaneJob<J>>, answer: &LaneAnswer) {
        let mut state = self.lock();
        let own = &mut state.lanes[lane];
        if let Some(since) = own.since.take() {
            own.busy += since.elapsed();
        }
        let Some(judgement) = answer.judgement() else { return };
        // Here and not in the engine: a lane without a device would answer for everything that is queued.
        own.is_out |= judgement.lost;
        own.renewing = judgement.owes_worker.then(Instant::now);
        if let Some(job) = job.filter(|_| judgement.lost || judgement.second_look.is_some()) {
            state.returned.insert(job.number, job);
        }
        if judgement.lost {
            // What others avoided because of this lane may now be theirs.
            self.changed.notify_all();
        }
    }

    fn renewed(&self, lane: usize, renewal: Option<&Renewal>) {
        let mut state = self.lock();
        state.lanes[lane].renewing = None;
        if renewal.is_some_and(|own| own.lost.is_some()) {
            state.lanes[lane].is_out = true;
            self.changed.notify_all();
        }
    }
}

impl<J: Send + 'static> LanePool<J> {
    /// Starts a thread for each lane. They end when the handle is dropped, after the tasks at hand.
    pub(crate) fn start<B: Send + 'static>(
        parts: Vec<LanePart<J>>,
        answers: &Sender<Message<B>>,
    ) -> io::Result<LanePool<J>> {
        let shared = Arc::new(SharedQueue::new(parts.len()));
        let mut lanes = LanePool { shared: Arc::clone(&shared), threads: Vec::new() };
        for (lane, part) in parts.into_iter().enumerate() {
            let (own, answers) = (Arc::clone(&shared), answers.clone());
            let thread = std::thread::Builder::new().name("lane".into());
            lanes.threads.push(thread.spawn(move || {
                let LanePart { mut device, mut sanitizer, .. } = part;
                let send = |answer| answers.send(Message::Lane(lane, Box::new(answer))).is_ok();
                device.begin();
                own.lock().lanes[lane].has_begun = true;
                while let Some(LaneTask { task, ratio, number }) = own.next(lane) {
                    if let Some(number) = number {
                        send(LaneAnswer::Taken { number });
                    }
                    let (answer, job) = perform(&mut *device, &mut *sanitizer, task, ratio);
                    // Before the answer is sent: on the last one the engine may drop the handle, which joins this
                    // thread only if it finds the lane idle.
                    own.rest(lane, job, &answer);
                    if !send(answer) {
                        return;
                    }
                    // After it: what the worker died with goes to another lane while this one waits.
                    if own.lock().lanes[lane].renewing.is_some() {
                        let renewal = device.renew();
                        own.renewed(lane, renewal.as_ref());
                        if renewal.is_some_and(|renewal| !send(LaneAnswer::Renewed(Box::new(renewal)))) {
                            return;
                        }
                    }
                }
            })?);
        }
        Ok(lanes)
    }

    pub(crate) fn queue(&self, job: LaneJob<J>) {
        self.shared.lock().queue.push_back(job);
        self.shared.changed.notify_all();
    }

    pub(crate) fn send(&self, lane: usize, task: Task<J>) {
        self.shared.lock().lanes[lane].own.push_back(task);
        self.shared.changed.notify_all();
    }

    /// Queues a variant again, before all others, whose last answer did not settle it; not for the lane that gave that
    /// answer, as long as there is another. Whether there was such a variant.
    pub(crate) fn queue_again(&self, number: u64, avoid: usize) -> bool {
        let mut state = self.shared.lock();
        let Some(job) = state.returned.remove(&number) else { return false };
        state.queue.push_front(LaneJob { avoid: Some(avoid), ..job });
        self.shared.changed.notify_all();
        true
    }

    pub(crate) fn settle(&self, number: u64) {
        self.shared.lock().returned.remove(&number);
    }

    /// Takes back evaluations that have not begun; gives their numbers.
    pub(crate) fn cancel_queued(&self) -> Vec<u64> {
        let mut state = self.shared.lock();
        state.lanes.iter_mut().for_each(|lane| lane.own.clear());
        std::mem::take(&mut state.queue).into_iter().map(|job| job.number).collect()
    }

    pub(crate) fn live(&self) -> usize {
        self.shared.lock().lanes.iter().filter(|lane| !lane.is_out).count()
    }

    pub(crate) fn is_out(&self, lane: usize) -> bool {
        self.shared.lock().lanes[lane].is_out
    }

    pub(crate) fn is_renewing(&self, lane: usize) -> bool {
        self.shared.lock().lanes[lane].renewing.is_some()
    }

    pub(crate) fn renewing_for(&self, lane: usize) -> Duration {
        let since = self.shared.lock().lanes[lane].renewing;
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    pub(crate) fn is_working(&self, lane: usize) -> bool {
        self.shared.lock().lanes[lane].since.is_some()
    }

    /// The first lane that takes variants, before those that wait for a worker; the first of all where none does.
    pub(crate) fn first(&self) -> usize {
        let state = self.shared.lock();
        let ready = state.lanes.iter().position(|lane| !lane.is_out && lane.renewing.is_none());
        ready.or_else(|| state.lanes.iter().position(|lane| !lane.is_out)).unwrap_or(0)
    }

    pub(crate) fn put_out(&self, lane: usize) {
        self.shared.lock().lanes[lane].is_out = true;
        self.shared.changed.notify_all();
    }

    pub(crate) fn hold(&self, lane: usize, is_held: bool) {
        self.shared.lock().lanes[lane].is_held = is_held;
        self.shared.changed.notify_all();
    }

    pub(crate) fn set_ratio(&self, lane: usize, ratio: f64) {
        self.shared.lock().lanes[lane].ratio = ratio;
    }

    /// Time that a lane has spent on tasks so far, the one at hand included.
    pub(crate) fn busy_of(&self, lane: usize) -> Duration {
        let state = self.shared.lock();
        let own = &state.lanes[lane];
        own.busy + own.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    pub(crate) fn busy(&self) -> Duration {
        let count = self.shared.lock().lanes.len();
        (0..count).map(|lane| self.busy_of(lane)).sum::<Duration>() / count.max(1) as u32
    }
}

impl<J> Drop for LanePool<J> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        let is_idle = |lane: &LaneState<J>| lane.has_begun && lane.since.is_none() && lane.renewing.is_none();
        let idle: Vec<bool> = state.lanes.iter().map(is_idle).collect();
        drop(state);
        self.shared.changed.notify_all();
        // A busy thread could block for as long as a launch may take; the end of this process ends it and its workers.
        for (thread, _) in self.threads.drain(..).zip(idle).filter(|(_, idle)| *idle) {
            let _ = thread.join();
        }
    }
}

/// The answer, and the variant that may have to be judged again.
fn perform<J>(
    device: &mut dyn Evaluate<J>,
    sanitizer: &mut dyn Sanitizer<J>,
    task: Task<J>,
    ratio: f64,
) -> (LaneAnswer, Option<LaneJob<J>>) {
    match task {
        Task::Evaluate(job) => {
            // What is compared and what comes back are the first lane's times, of which this one takes `ratio` as many.
            let result = match ratio == 1.0 {
                true => device.evaluate(&job.job, &job.standing),
                false => device.evaluate(&job.job, &job.standing.scaled(ratio)).scaled(1.0 / ratio),
            };
            let result = Box::new(result);
            (LaneAnswer::Evaluated { number: job.number, ratio, result }, Some(job))
        }
        Task::Anchor { job, number } => {
            let result = Box::new(device.evaluate(&job, &Standing::default()));
            (LaneAnswer::Anchored { number, result }, None)
        }
        Task::Call(call) => {
            call(device, sanitizer);
            (LaneAnswer::Called, None)
        }
    }
}
