//! A bounded pool of compile workers that stays ahead of the device.
//!
//! Workers are processes, because NVRTC does not scale in threads and because a compiler may hang,
//! crash or eat all memory. One thread here looks after each: it takes a source from the queue, asks the
//! cache, asks the worker, holds the deadline, and replaces a worker that is lost. Nothing polls.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use evo_protocol::binary::{CompileOutcome, CompileRequest, KernelSource};
use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::{Verdict, VerdictKind};
use evo_space::genome::ContentHash;

use super::cache::{self, Cache};
use super::child::{self, CompileChild, Death, Group, Loss};
use super::error::CompileSetupError;
use super::options::FarmOptions;
use super::starter::{Starter, worker_program};
use super::toolbox::Toolbox;
use super::toolchain::Found;
use super::wire::{Answer, Order};
use super::{diagnose, guard};

/// Share of the memory limit that a worker must have had in use for its death to count as want of memory.
const MEMORY_SHARE: f64 = 0.6;

/// Called with a ticket and its outcome, from a thread of the farm.
pub type OnDone = Box<dyn Fn(u64, CompileOutcome) + Send + Sync>;

/// The pool. Dropping it kills and reaps every worker; what is still queued is not answered.
pub struct CompileFarm {
    shared: Arc<Shared>,
    lanes: Vec<JoinHandle<()>>,
}

struct Shared {
    starter: Starter,
    options: FarmOptions,
    cache: Cache,
    toolchain: String,
    fingerprint: ContentHash,
    queue: Mutex<Queue>,
    wake: Condvar,
    pending: AtomicUsize,
    busy_ns: AtomicU64,
    groups: Vec<Group>,
    on_done: OnDone,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(u64, KernelSource)>,
    stop: bool,
}

impl CompileFarm {
    /// Starts the pool with the compiler that this process's environment suggests. Waits until one worker
    /// is ready, so that a missing compiler or an unwritable cache is an error here.
    pub fn start(options: FarmOptions, on_done: OnDone) -> Result<CompileFarm, CompileSetupError> {
        CompileFarm::start_with(options, &Toolbox::from_env(), on_done)
    }

    /// The same with the environment given.
    pub fn start_with(
        mut options: FarmOptions,
        toolbox: &Toolbox,
        on_done: OnDone,
    ) -> Result<CompileFarm, CompileSetupError> {
        // Device workers that read a binary may have another working folder.
        options.cache = std::path::absolute(&options.cache)
            .map_err(|error| CompileSetupError::cache(&options.cache, error))?;
        let found = Found::locate(options.kind, toolbox)?;
        let cache = Cache::open(&options.cache)?;
        let program = worker_program(toolbox)?;
        let groups: Vec<Group> = (0..options.jobs.max(1)).map(|_| Group::default()).collect();
        let starter = Starter { program, options: options.clone(), found, cache: cache.clone() };
        // The kernel ends a worker with the thread that started it, so each lane starts its own.
        let (ready_sender, ready) = mpsc::channel();
        let (shared_sender, shared_receiver) = mpsc::channel::<Arc<Shared>>();
        let first = Arc::clone(&groups[0]);
        let own = starter.clone();
        let mut lanes = vec![spawn(0, move || {
            let (child, answer) = match own.start(&first) {
                Ok(worker) => (Some(worker.child), Ok((worker.toolchain, worker.fingerprint))),
                Err(error) => (None, Err(error)),
            };
            let _ = ready_sender.send(answer);
            if let (Some(child), Ok(shared)) = (child, shared_receiver.recv()) {
                Lane { shared, group: first, child: Some(child) }.run();
            }
        })?];
        let lost = || spawn_error("the first lane ended early");
        let (toolchain, fingerprint) = ready.recv().map_err(|_| lost())??;
        let shared = Arc::new(Shared {
            starter,
            options,
            cache,
            toolchain,
            fingerprint,
            queue: Mutex::default(),
            wake: Condvar::new(),
            pending: AtomicUsize::new(0),
            busy_ns: AtomicU64::new(0),
            groups,
            on_done,
        });
        shared_sender.send(Arc::clone(&shared)).map_err(|_| lost())?;
        for (number, group) in shared.groups.iter().enumerate().skip(1) {
            let mut lane = Lane { shared: Arc::clone(&shared), group: Arc::clone(group), child: None };
            // Fewer lanes than asked for are enough.
            let Ok(thread) = spawn(number, move || lane.run()) else { break };
            lanes.push(thread);
        }
        Ok(CompileFarm { shared, lanes })
    }

    /// Queues a source; its outcome comes through `on_done` with the same ticket.
    pub fn submit(&self, ticket: u64, source: KernelSource) {
        self.shared.pending.fetch_add(1, Ordering::SeqCst);
        self.shared.lock().jobs.push_back((ticket, source));
        self.shared.wake.notify_one();
    }

    /// Sources queued or being compiled.
    pub fn pending(&self) -> usize {
        self.shared.pending.load(Ordering::SeqCst)
    }

    /// Number of workers.
    pub fn jobs(&self) -> usize {
        self.lanes.len()
    }

    /// Time spent compiling, summed over workers, seconds. Answers from the cache cost none.
    pub fn busy_seconds(&self) -> f64 {
        self.shared.busy_ns.load(Ordering::Relaxed) as f64 / 1e9
    }

    /// Compiler and version, such as `nvrtc 13.0`.
    pub fn toolchain(&self) -> &str {
        &self.shared.toolchain
    }
}

impl Drop for CompileFarm {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.wake.notify_all();
        self.shared.groups.iter().for_each(child::kill);
        for lane in self.lanes.drain(..) {
            let _ = lane.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next source; `None` when the farm ends.
    fn next(&self) -> Option<(u64, KernelSource)> {
        let mut queue = self.lock();
        loop {
            if queue.stop {
                return None;
            }
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A refusal with less than this free on the cache's disk is blamed on the disk.
const ROOM_BYTES: u64 = 4 << 20;

/// One worker's keeper.
struct Lane {
    shared: Arc<Shared>,
    group: Group,
    /// Absent until the cache first has no answer, and after a loss.
    child: Option<CompileChild>,
}

impl Lane {
    fn run(&mut self) {
        while let Some((ticket, source)) = self.shared.next() {
            let outcome = self.answer(source);
            if self.shared.lock().stop {
                return;
            }
            self.shared.pending.fetch_sub(1, Ordering::SeqCst);
            (self.shared.on_done)(ticket, outcome);
        }
    }

    fn answer(&mut self, source: KernelSource) -> CompileOutcome {
        guard::check(&source.text)?;
        let options = &self.shared.options;
        let key = cache::key(&source, options.kind, &options.arch, &self.shared.fingerprint);
        if let Some(outcome) = self.shared.cache.get(&key) {
            return outcome;
        }
        let request = CompileRequest {
            source,
            kind: options.kind,
            arch: options.arch.clone(),
            deadline_ms: options.deadline.as_millis() as u64,
            memory_bytes: options.memory_bytes,
        };
        let start = Instant::now();
        let outcome = self.compile(request);
        let outcome = self.with_room(outcome);
        self.shared.busy_ns.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        // A cache that cannot be written costs time later; the outcome is good.
        let _ = self.shared.cache.put(&key, &outcome);
        outcome
    }

    fn compile(&mut self, request: CompileRequest) -> CompileOutcome {
        let mut child = match self.child.take() {
            Some(child) => child,
            None => self.start_child()?,
        };
        // A worker started while the farm ends was in no group list when the others were killed.
        if self.shared.lock().stop {
            return Err(harness("the compile farm ends".to_string()));
        }
        let deadline = Instant::now() + self.shared.options.deadline;
        match child.ask(&Order::Compile(Box::new(request)), deadline) {
            Ok(Answer::Done { outcome }) => {
                self.child = Some(child);
                outcome
            }
            Ok(other) => Err(harness(format!("a compile worker answers out of turn: {other:?}"))),
            Err(Loss::Garbled(reason)) => {
                Err(harness(format!("a compile worker's answer cannot be read: {reason}")))
            }
            Err(Loss::Deadline) => {
                drop(child);
                Err(self.timeout())
            }
            Err(Loss::Closed) => Err(match child.end() {
                Some(death) => self.died(&death),
                None => harness("a compile worker is gone without a trace".to_string()),
            }),
        }
    }

    /// Without room on its disk a C++ compiler says many things, and its linker dies of a bus error:
    /// none of that is the variant's fault.
    fn with_room(&self, outcome: CompileOutcome) -> CompileOutcome {
        let cache = &self.shared.cache;
        match (outcome, cache.free_bytes()) {
            (Err(verdict), Some(free))
                if free < ROOM_BYTES && self.shared.options.kind == DeviceKind::Host =>
            {
                let kib = free / 1024;
                let message =
                    format!("the disk of the compile cache `{}` is full: {kib} KiB free", cache.shown());
                let said = verdict.message;
                let verdict = Verdict::new(VerdictKind::HarnessError, message).with_cause("cache");
                Err(Box::new(verdict.with("compiler_says", said)))
            }
            (outcome, _) => outcome,
        }
    }

    fn start_child(&self) -> Result<CompileChild, Box<Verdict>> {
        let worker = self.shared.starter.start(&self.group).map_err(|error| harness(error.to_string()))?;
        Ok(worker.child)
    }

    fn timeout(&self) -> Box<Verdict> {
        let deadline = self.shared.options.deadline;
        let message = format!("the compiler did not finish in {} s and was killed", deadline.as_secs_f64());
        Box::new(
            Verdict::new(VerdictKind::CompileTimeout, message)
                .with("deadline_ms", deadline.as_millis() as u64),
        )
    }

    /// What a death means. A kill that was not ours is the kernel's for want of memory.
    fn died(&self, death: &Death) -> Box<Verdict> {
        let how = match (death.status.signal(), death.status.code()) {
            (Some(signal), _) => format!("signal {signal}"),
            (None, code) => format!("exit code {}", code.unwrap_or(-1)),
        };
        let limit = self.shared.options.memory_bytes;
        let starved = limit > 0 && death.memory_peak as f64 > MEMORY_SHARE * limit as f64;
        let mut verdict = match starved || death.status.signal() == Some(libc::SIGKILL) {
            true => diagnose::out_of_memory(&death.log),
            false => diagnose::died(&how, &death.log),
        };
        verdict.evidence.insert("ended", how);
        verdict.evidence.insert("memory_peak_bytes", death.memory_peak);
        verdict.evidence.insert("memory_limit_bytes", limit);
        verdict
    }
}

/// What to tell a person if an outcome says that the cache has no room: then no variant can be built.
pub fn full_cache(outcome: &CompileOutcome) -> Option<String> {
    let verdict = outcome.as_ref().err()?;
    let full = verdict.kind == VerdictKind::HarnessError && verdict.cause.as_deref() == Some("cache");
    full.then(|| {
        format!("{}\nhint: make room, or set EVO_CACHE_DIR to a folder with free space", verdict.message)
    })
}

fn harness(message: String) -> Box<Verdict> {
    Box::new(Verdict::new(VerdictKind::HarnessError, message))
}

fn spawn(number: usize, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, CompileSetupError> {
    let thread = thread::Builder::new().name(format!("compile-{number}"));
    thread.spawn(run).map_err(|error| spawn_error(&error.to_string()))
}

fn spawn_error(reason: &str) -> CompileSetupError {
    CompileSetupError::Worker { program: "a thread of the farm".to_string(), reason: reason.to_string() }
}

/// Compiles one source and waits for it.
pub fn compile_one(options: &FarmOptions, source: KernelSource) -> Result<CompileOutcome, CompileSetupError> {
    compile_one_with(options, &Toolbox::from_env(), source)
}

/// The same with the environment given.
pub fn compile_one_with(
    options: &FarmOptions,
    toolbox: &Toolbox,
    source: KernelSource,
) -> Result<CompileOutcome, CompileSetupError> {
    let (sender, receiver) = mpsc::channel();
    let on_done: OnDone = Box::new(move |_, outcome| {
        let _ = sender.send(outcome);
    });
    let farm = CompileFarm::start_with(FarmOptions { jobs: 1, ..options.clone() }, toolbox, on_done)?;
    farm.submit(0, source);
    let outcome = receiver.recv();
    Ok(outcome.unwrap_or_else(|_| Err(harness("the compile farm ended early".to_string()))))
}
