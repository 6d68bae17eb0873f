//! A bounded pool of compile workers that stays ahead of the device.
//!
//! Workers are processes, because a compiler may hang, crash or use up the memory, and because NVRTC does not scale
//! in threads: 28, 27 and 25 compilations per second with 1, 4 and 16 threads of one process, but 19, 74 and 216 with
//! as many processes (small WMMA kernel for sm_90a, NVRTC 13.0, 16 cores, 2026).

use std::borrow::Cow;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use evo_protocol::binary::{Binary, CompileOutcome, KernelSource};
use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::{Cause, Verdict, VerdictKind};
use evo_space::genome::ContentHash;
use evo_system::process::{
    self, CappedLog, Conversation, Death, DeathHow, PATIENCE, ProcessGroup, ResourceLimits,
};
use evo_system::scratch::ScratchFolder;

use super::cache::Cache;
use super::diagnose::MemoryUse;
use super::error::CompileSetupError;
use super::includes::FileReader;
use super::search_path::SearchPath;
use super::serve::{CompileAnswer, CompileOrder, FoundCompiler, WIRE_VERSION, WorkerSetup};
use super::toolbox::Toolbox;
use super::{cache, diagnose, host_half, includes};

/// How to compile.
#[derive(Clone, Debug)]
pub struct FarmOptions {
    pub jobs: usize,
    pub kind: DeviceKind,
    pub arch: String,
    pub deadline: Duration,
    /// Address-space limit of each worker and of each process it starts, bytes; 0 for none.
    pub memory_bytes: u64,
    pub cache: PathBuf,
    /// Which checks judge a source: all, except in the self-test of the gates.
    pub checks: CheckSet,
    pub toolbox: Toolbox,
}

impl FarmOptions {
    /// The defaults: a job per core, 120 s, the machine's memory divided by the jobs (2 to 8 GiB each). NVRTC
    /// compiles a small kernel in 40–70 ms (13.0, sm_90a, 2026), so a variant that needs 120 s would hold up a whole sweep.
    pub fn new(kind: DeviceKind, arch: &str) -> FarmOptions {
        let jobs = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let share = memory_total().unwrap_or(8 << 30) / jobs as u64;
        FarmOptions {
            jobs,
            kind,
            arch: arch.to_string(),
            deadline: Duration::from_secs(120),
            memory_bytes: share.clamp(2 << 30, 8 << 30),
            cache: cache::default_dir(),
            checks: CheckSet::default(),
            toolbox: Toolbox::from_env(),
        }
    }
}

fn memory_total() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    // What the kernel calls `kB` are KiB.
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

pub type OnDone = Box<dyn FnOnce(CompileOutcome) + Send>;

/// The pool. Dropping it kills and reaps every worker; what is still queued is not answered.
pub struct CompileFarm {
    shared: Arc<FarmShared>,
    lanes: Vec<JoinHandle<()>>,
}

struct FarmShared {
    starter: WorkerStarter,
    toolchain: String,
    fingerprint: ContentHash,
    search: SearchPath,
    files: FileReader,
    queue: Mutex<CompileQueue>,
    wake: Condvar,
    busy_ns: AtomicU64,
    /// A worker that started before the last trouble is not used again: what broke it, such as a folder that was
    /// removed, may have broken the others as well.
    troubles: AtomicU64,
    groups: Vec<ProcessGroup>,
}

#[derive(Default)]
struct CompileQueue {
    // First in, first out: the default configuration is submitted first, and others are measured against it.
    jobs: VecDeque<(KernelSource, OnDone)>,
    work: Vec<LaneWork>,
    stop: bool,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum LaneWork {
    #[default]
    Idle,
    Working,
    /// At work on a source whose outcome is no longer wanted; its worker has been killed.
    Cancelled,
}

impl CompileFarm {
    /// Waits until one worker is ready, so that a missing compiler or an unwritable cache is an error here.
    pub fn start(mut options: FarmOptions) -> Result<CompileFarm, CompileSetupError> {
        // Device workers that read a binary may have another working folder.
        options.cache = std::path::absolute(&options.cache)
            .map_err(|error| CompileSetupError::cache(&options.cache, error))?;
        let found = FoundCompiler::locate(options.kind, &options.toolbox)?;
        let cache = Cache::open(&options.cache)?;
        cache.prune_sometimes(cache::limit()?);
        let program = options.toolbox.program.clone().map_or_else(process::worker_program, Ok);
        let program = program.map_err(|error| CompileSetupError::Worker {
            program: "evo".to_string(),
            reason: format!("cannot tell where this program is: {error}"),
        })?;
        let starter = WorkerStarter { program, options, found, cache };
        let options = &starter.options;
        let groups: Vec<ProcessGroup> = (0..options.jobs.max(1)).map(|_| ProcessGroup::default()).collect();
        // Only one worker starts now: it proves that compiling works. The other lanes start theirs when the
        // cache has no answer.
        let (first, toolchain, fingerprint) = starter.start(&groups[0])?;
        let work = vec![LaneWork::Idle; groups.len()];
        let search = SearchPath::of_environment(options.kind, &options.toolbox);
        let shared = Arc::new(FarmShared {
            starter,
            toolchain,
            fingerprint,
            search,
            files: FileReader::default(),
            queue: Mutex::new(CompileQueue { work, ..CompileQueue::default() }),
            wake: Condvar::new(),
            busy_ns: AtomicU64::new(0),
            troubles: AtomicU64::new(0),
            groups,
        });
        let mut farm = CompileFarm { shared, lanes: Vec::new() };
        let mut worker = Some((first, 0));
        for number in 0..farm.shared.groups.len() {
            let lane = CompileLane { shared: Arc::clone(&farm.shared), number, worker: worker.take() };
            let thread = thread::Builder::new().name(format!("compile-{number}"));
            match thread.spawn(move || lane.run()) {
                Ok(thread) => farm.lanes.push(thread),
                Err(source) if number == 0 => {
                    let what = "a thread for compile workers".to_string();
                    return Err(CompileSetupError::Exhausted { what, source });
                }
                // Fewer lanes than asked for are enough.
                Err(_) => break,
            }
        }
        Ok(farm)
    }

    pub fn submit(&self, source: KernelSource, on_done: impl FnOnce(CompileOutcome) + Send + 'static) {
        self.shared.lock().jobs.push_back((source, Box::new(on_done)));
        self.shared.wake.notify_one();
    }

    pub fn submit_all(
        &self,
        sources: Vec<KernelSource>,
        on_built: impl FnOnce(VariantOutcome) + Send + 'static,
    ) {
        for (source, on_done) in gather(sources, on_built) {
            self.submit(source, on_done);
        }
    }

    /// None of the sources is answered, except for an outcome that is being delivered right now.
    ///
    /// Compilers are killed rather than left to finish because one may run for its whole deadline (120 s):
    /// confirmation would then have to wait for it, or share the host's cores with it while timing.
    pub fn cancel(&self) {
        let mut queue = self.shared.lock();
        queue.jobs.clear();
        // Under the lock: a lane cannot take up a new source whose worker would then be killed.
        for (work, group) in queue.work.iter_mut().zip(&self.shared.groups) {
            if *work == LaneWork::Working {
                *work = LaneWork::Cancelled;
                group.kill();
            }
        }
    }

    pub fn pending(&self) -> usize {
        let queue = self.shared.lock();
        queue.jobs.len() + queue.work.iter().filter(|work| **work == LaneWork::Working).count()
    }

    pub fn jobs(&self) -> usize {
        self.lanes.len()
    }

    /// Summed over workers. Answers from the cache cost none.
    pub fn busy_seconds(&self) -> f64 {
        // Relaxed: this is a statistic, and nothing is ordered by it.
        self.shared.busy_ns.load(Ordering::Relaxed) as f64 / 1e9
    }

    pub fn toolchain(&self) -> &str {
        &self.shared.toolchain
    }

    /// Differs between compilers, their versions, and the arguments and include folders that `$CXX` and the
    /// environment give a C++ compiler.
    pub fn compiler_hash(&self) -> ContentHash {
        let own = self.shared.starter.found.identity();
        ContentHash::of_parts([self.shared.toolchain.as_bytes(), own.as_bytes()])
    }
}

impl Drop for CompileFarm {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.wake.notify_all();
        // Before the lanes are joined, because each may be waiting for its worker's answer.
        self.shared.groups.iter().for_each(ProcessGroup::kill);
        for lane in self.lanes.drain(..) {
            let _ = lane.join();
        }
    }
}

impl FarmShared {
    fn lock(&self) -> MutexGuard<'_, CompileQueue> {
        evo_system::lock(&self.queue)
    }

    /// `None` when the farm ends.
    fn next(&self, lane: usize) -> Option<(KernelSource, OnDone)> {
        let mut queue = self.lock();
        loop {
            if queue.stop {
                return None;
            }
            if let Some(job) = queue.jobs.pop_front() {
                queue.work[lane] = LaneWork::Working;
                return Some(job);
            }
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn is_wanted(&self, lane: usize) -> bool {
        let queue = self.lock();
        !queue.stop && queue.work[lane] == LaneWork::Working
    }

    fn finish(&self, lane: usize) -> bool {
        let mut queue = self.lock();
        let work = std::mem::take(&mut queue.work[lane]);
        !queue.stop && work == LaneWork::Working
    }
}

/// Longest wait until a worker is set up. The first one on a machine precompiles the host header, and all of them
/// may start at once on a busy machine.
const SETUP_DEADLINE: Duration = Duration::from_secs(60);

const ANSWER_MAX: usize = 4 << 20;

struct CompileProcess {
    conversation: Conversation<CompileOrder, CompileAnswer>,
    // Removed when the worker is gone.
    _scratch: ScratchFolder,
}

impl CompileProcess {
    /// Waits for `limit`, and for as long as the worker waits for a processor.
    fn ask(&mut self, order: &CompileOrder, limit: Duration) -> Result<CompileAnswer, Box<Death>> {
        // The log of a death is about this order alone.
        self.conversation.clear_log();
        self.conversation.ask_patiently(order, limit, PATIENCE).map_err(Box::new)
    }
}

struct WorkerStarter {
    program: PathBuf,
    options: FarmOptions,
    found: FoundCompiler,
    cache: Cache,
}

impl WorkerStarter {
    /// With the name and the fingerprint of its toolchain. `group` can end the worker from the start.
    fn start(
        &self,
        group: &ProcessGroup,
    ) -> Result<(CompileProcess, String, ContentHash), CompileSetupError> {
        let failed = |reason: String| CompileSetupError::Worker {
            program: self.program.display().to_string(),
            reason,
        };
        let scratch = self.cache.scratch()?;
        let setup = WorkerSetup {
            kind: self.options.kind,
            arch: self.options.arch.clone(),
            found: self.found.clone(),
            cache: self.options.cache.clone(),
            scratch: scratch.path().to_path_buf(),
            is_confined: self.options.checks.include(GateCheck::IncludePaths),
        };
        let mut command = Command::new(&self.program);
        command.args(["worker", "--compile", self.options.kind.as_str()]);
        // A thread's own arena takes 64 MiB of addresses at a time, which count towards the limit and are hardly used: a
        // compiler would run out of memory long before it had used what it may.
        command.env("MALLOC_ARENA_MAX", "1");
        let memory_bytes = self.options.memory_bytes;
        // Compilers yield to the device's lane and to the engine, which are few and must not wait. On the host device kernels
        // are timed on the compilers' own cores, where a compiler beside a timed thread gets a tenth.
        let niceness = if self.options.kind == DeviceKind::Host { 10 } else { 5 };
        process::limit(&mut command, ResourceLimits { memory_bytes, niceness, ..ResourceLimits::default() });
        let log = CappedLog::new(diagnose::LOG_MAX);
        let conversation = Conversation::start(command, WIRE_VERSION, group.clone(), log)
            .map_err(|source| match process::is_exhausted(&source) {
                true => CompileSetupError::Exhausted { what: "a compile worker".to_string(), source },
                false => failed(source.to_string()),
            })?
            .with_line_max(ANSWER_MAX);
        let mut process = CompileProcess { conversation, _scratch: scratch };
        match process.ask(&CompileOrder::Setup(Box::new(setup)), SETUP_DEADLINE) {
            Ok(CompileAnswer::Ready { toolchain, fingerprint }) => Ok((process, toolchain, fingerprint)),
            Ok(CompileAnswer::Refused { message, hint }) => Err(CompileSetupError::Refused { message, hint }),
            Ok(CompileAnswer::Done { .. }) => Err(failed("it answers out of turn".to_string())),
            Err(death) => Err(failed(match &death.how {
                DeathHow::Deadline { limit } => format!("not ready within {} s", limit.as_secs()),
                DeathHow::Exit(status) => format!("{status}: {}", death.log.text().trim()),
                found => format!("its answer cannot be read: {found}"),
            })),
        }
    }
}

/// With less than this free on the cache's disk, a failed compilation is blamed on the disk.
const ROOM_BYTES: u64 = 4 << 20;

struct CompileLane {
    shared: Arc<FarmShared>,
    number: usize,
    /// With the number of troubles before its start. Absent until the cache first has no answer, and after a loss.
    worker: Option<(CompileProcess, u64)>,
}

impl CompileLane {
    fn run(mut self) {
        while let Some((source, on_done)) = self.shared.next(self.number) {
            let outcome = self.answer(source);
            if self.shared.finish(self.number) {
                on_done(outcome);
            } else {
                // It was killed, if only after its answer.
                self.worker = None;
            }
        }
    }

    fn answer(&mut self, source: KernelSource) -> CompileOutcome {
        self.check_includes(&source)?;
        let search = self.shared.search.with_options(&source.options);
        let merged = host_half::merged(&source.text, &source.file_name, &search.folders);
        let whole = merged.as_ref().map_or(&*source.text, |own| &own.text);
        let half = host_half::device_half(whole, &source.entries, &source.options);
        let outcome = match &half.text {
            Cow::Borrowed(_) => self.answer_half(source.clone()),
            Cow::Owned(text) => {
                let own = KernelSource { text: text.clone(), ..source.clone() };
                // Again, in case blanks made a directive of what was none.
                self.check_includes(&own).and_then(|()| {
                    let marked = merged.as_ref().map(|merged| merged.marked(&own.text));
                    self.answer_half(KernelSource { text: marked.unwrap_or(own.text), ..source.clone() })
                })
            }
        };
        outcome.map_err(|mut verdict| {
            if !verdict.is_trouble() {
                let place = |line: usize| match &merged {
                    Some(merged) => merged.place(line),
                    None => format!("line {line}"),
                };
                half.explain(&mut verdict, &place);
            }
            verdict
        })
    }

    /// Before the cache: a source that is refused must be refused whatever an older evo stored for it.
    fn check_includes(&self, source: &KernelSource) -> Result<(), Box<Verdict>> {
        match self.shared.starter.options.checks.include(GateCheck::IncludePaths) {
            true => includes::check(&source.text, &source.file_name),
            false => Ok(()),
        }
    }

    fn answer_half(&mut self, source: KernelSource) -> CompileOutcome {
        let shared = Arc::clone(&self.shared);
        let options = &shared.starter.options;
        let mut search = shared.search.with_options(&source.options);
        if options.kind == DeviceKind::Host {
            search.folders.extend(includes::of_system());
        }
        // Hashed before the compiler reads them, and again after: an answer to files that changed in between
        // belongs to neither state.
        let scan = || shared.files.scan(&source.text, &search);
        let before = scan();
        let key = || cache::key(&source, options.kind, &options.arch, &shared.fingerprint, &before.files);
        let key = before.complete.then(key);
        if let Some(outcome) = key.as_ref().and_then(|key| shared.starter.cache.get(key)) {
            return outcome;
        }
        let start = Instant::now();
        let outcome = self.compile(source.clone());
        // Before `put`, which would keep an error for good that was the disk's and not the source's.
        let outcome = self.with_room(outcome);
        shared.busy_ns.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        // What a compiler says whose processes are being killed is not about the source.
        if let Some(key) = key.filter(|_| shared.is_wanted(self.number) && before == scan()) {
            // A cache that cannot be written costs time later; the outcome is good.
            let _ = shared.starter.cache.put(&key, &outcome);
        }
        outcome
    }

    fn compile(&mut self, source: KernelSource) -> CompileOutcome {
        // Put back only after a good answer: every other way out drops the worker, which kills it.
        let (mut worker, troubles) = self.ready_worker()?;
        let order = CompileOrder::Compile(Box::new(source));
        match worker.ask(&order, self.shared.starter.options.deadline) {
            Ok(CompileAnswer::Done { outcome }) => {
                // Set before the answer is told: whoever asks again is to meet a fresh worker.
                if outcome.as_ref().is_err_and(|verdict| verdict.is_trouble() || verdict.is_in_doubt()) {
                    self.shared.troubles.fetch_add(1, Ordering::SeqCst);
                }
                self.worker = Some((worker, troubles));
                outcome
            }
            Ok(other) => Err(harness(format!("a compile worker answers out of turn: {other:?}"))),
            Err(death) => Err(self.lost(&death)),
        }
    }

    fn ready_worker(&mut self) -> Result<(CompileProcess, u64), Box<Verdict>> {
        let troubles = self.shared.troubles.load(Ordering::SeqCst);
        let worker = match self.worker.take() {
            Some((worker, since)) if since == troubles => worker,
            older => {
                // Ended first, because it shares its group's handle with the next.
                drop(older);
                let group = &self.shared.groups[self.number];
                let started = self.shared.starter.start(group);
                started.map_err(|error| not_started(&error))?.0
            }
        };
        // A worker started in the meantime was in no group when the others were killed.
        match self.shared.is_wanted(self.number) {
            true => Ok((worker, troubles)),
            false => Err(harness("the compile farm does not want this any more".to_string())),
        }
    }

    /// Without room, a C++ compiler reports all kinds of errors, and its linker dies of a bus error.
    fn with_room(&self, outcome: CompileOutcome) -> CompileOutcome {
        let cache = &self.shared.starter.cache;
        match (outcome, cache.free_bytes()) {
            (Err(verdict), Some(free))
                if free < ROOM_BYTES && self.shared.starter.options.kind == DeviceKind::Host =>
            {
                let kib = free / 1024;
                let message =
                    format!("the disk of the compile cache `{}` is full: {kib} KiB free", cache.shown());
                let said = verdict.message;
                let verdict = Verdict::new(VerdictKind::HarnessError, message).with_cause(Cause::Cache);
                Err(Box::new(verdict.with("compiler_says", said)))
            }
            (outcome, _) => outcome,
        }
    }

    fn lost(&self, death: &Death) -> Box<Verdict> {
        match &death.how {
            DeathHow::Deadline { .. } => self.timeout(death),
            DeathHow::Exit(status) => {
                let limit = self.shared.starter.options.memory_bytes;
                let memory = MemoryUse { peak: death.memory_peak, limit };
                diagnose::ended("the compile worker", *status, &death.log.text(), memory)
            }
            found => harness(format!("a compile worker's answer cannot be read: {found}")),
        }
    }

    /// A compiler that waited for a processor for most of its time may be quicker another time.
    fn timeout(&self, death: &Death) -> Box<Verdict> {
        let deadline = self.shared.starter.options.deadline;
        let message = format!("the compiler did not finish in {} s and was killed", deadline.as_secs_f64());
        let mut verdict = Verdict::new(VerdictKind::CompileTimeout, message)
            .with("deadline_ms", deadline.as_millis() as u64);
        if !death.waited.is_zero() {
            verdict = verdict.with("waited_ms", death.waited.as_millis() as u64);
        }
        Box::new(if death.waited > deadline { verdict.in_doubt() } else { verdict })
    }
}

/// In the order of a configuration's sources, or the verdict on the first source that failed.
pub type VariantOutcome = Result<Vec<Binary>, Box<Verdict>>;

/// Each source with what takes its outcome; whichever is called last answers for all.
fn gather(
    sources: Vec<KernelSource>,
    on_built: impl FnOnce(VariantOutcome) + Send + 'static,
) -> Vec<(KernelSource, OnDone)> {
    let answers: Vec<Option<CompileOutcome>> = sources.iter().map(|_| None).collect();
    let open = Arc::new(Mutex::new((answers, Some(on_built))));
    let part = |(position, source): (usize, KernelSource)| {
        let (open, own) = (Arc::clone(&open), source.clone());
        let on_done = move |outcome| {
            let mut open = evo_system::lock(&open);
            let (answers, on_built) = &mut *open;
            answers[position] = Some(with_constants(&own, outcome));
            // Waiting for all keeps the answer from depending on which was compiled first.
            if answers.iter().all(Option::is_some)
                && let Some(on_built) = on_built.take()
            {
                on_built(answers.drain(..).flatten().collect());
            }
        };
        (source, Box::new(on_done) as OnDone)
    };
    sources.into_iter().enumerate().map(part).collect()
}

/// A verdict on one of several sources says on which.
pub fn with_constants(source: &KernelSource, outcome: CompileOutcome) -> CompileOutcome {
    match source.constants.is_empty() {
        true => outcome,
        false => outcome.map_err(|mut verdict| {
            verdict.message = format!("with {}: {}", source.constants, verdict.message);
            Box::new(verdict.with("constants", source.constants.to_string()))
        }),
    }
}

pub const FULL_CACHE_HINT: &str = "make room, or set EVO_CACHE_DIR to a folder with free space";

pub fn full_cache<B>(outcome: &Result<B, Box<Verdict>>) -> Option<String> {
    let verdict = outcome.as_ref().err()?;
    let full = verdict.kind == VerdictKind::HarnessError && verdict.has_cause(Cause::Cache);
    full.then(|| verdict.message.clone())
}

fn not_started(error: &CompileSetupError) -> Box<Verdict> {
    let verdict = diagnose::machine(error.with_cause(), error.hint().as_deref().unwrap_or(START_HINT));
    match error.is_full() {
        true => Box::new(verdict.with_cause(Cause::Cache)),
        false => verdict,
    }
}

const START_HINT: &str = "`evo preflight` shows what is missing; `ulimit -u` is the limit on processes";

fn harness(message: String) -> Box<Verdict> {
    Box::new(Verdict::new(VerdictKind::HarnessError, message))
}

/// Sources at once: the one that is waited for, and one that is compiled ahead of its turn.
const JOBS: usize = 2;

/// A pool for whoever compiles one source after another and waits for each: `compile_one` costs a process start and the
/// loading of a compiler each time.
pub struct WarmCompiler {
    farm: CompileFarm,
    /// Held by who waits for a source: giving it up cancels all.
    turn: Mutex<()>,
}

impl std::fmt::Debug for WarmCompiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WarmCompiler").field("toolchain", &self.farm.toolchain()).finish_non_exhaustive()
    }
}

impl WarmCompiler {
    pub fn start(options: &FarmOptions) -> Result<WarmCompiler, CompileSetupError> {
        let options = FarmOptions { jobs: options.jobs.clamp(1, JOBS), ..options.clone() };
        Ok(WarmCompiler { farm: CompileFarm::start(options)?, turn: Mutex::new(()) })
    }

    /// `limit` comes beside the pool's own.
    pub fn compile(&self, source: &KernelSource, limit: Option<Duration>) -> CompileOutcome {
        let first = self.once(source, limit);
        // What may be the machine's doing is asked once more, in a fresh worker.
        match first.as_ref().is_err_and(|verdict| verdict.is_trouble() || verdict.is_in_doubt()) {
            true => self.once(source, limit),
            false => first,
        }
    }

    /// The cache will have the answer then.
    pub fn compile_ahead(&self, source: &KernelSource) {
        let _turn = evo_system::lock(&self.turn);
        self.farm.submit(source.clone(), drop);
    }

    fn once(&self, source: &KernelSource, limit: Option<Duration>) -> CompileOutcome {
        let _turn = evo_system::lock(&self.turn);
        let (sender, receiver) = mpsc::channel();
        self.farm.submit(source.clone(), move |outcome| drop(sender.send(outcome)));
        receiver.recv_timeout(limit.unwrap_or(Duration::MAX)).unwrap_or_else(|error| {
            let (kind, message) = match error {
                RecvTimeoutError::Timeout => {
                    self.farm.cancel();
                    let seconds = limit.unwrap_or_default().as_secs_f64();
                    let message = format!("the compiler did not finish within {seconds:.1} s");
                    (VerdictKind::CompileTimeout, message)
                }
                RecvTimeoutError::Disconnected => {
                    (VerdictKind::HarnessError, "the compile farm ended early".to_string())
                }
            };
            Err(Box::new(Verdict::new(kind, message)))
        })
    }
}

pub fn compile_one(options: &FarmOptions, source: KernelSource) -> Result<CompileOutcome, CompileSetupError> {
    let options = FarmOptions { jobs: 1, ..options.clone() };
    Ok(WarmCompiler::start(&options)?.compile(&source, None))
}

/// evo's own kernels (helpers of the CUDA device, built-in references) for a farm's target, kept in its cache.
pub fn own_kernels(farm: &FarmOptions, source: KernelSource) -> Result<PathBuf, CompileSetupError> {
    let (cache, toolbox) = (farm.cache.clone(), farm.toolbox.clone());
    let options = FarmOptions { cache, toolbox, ..FarmOptions::new(farm.kind, &farm.arch) };
    match compile_one(&options, source)? {
        Ok(binary) => Ok(binary.path),
        Err(verdict) => Err(CompileSetupError::Support {
            arch: farm.arch.clone(),
            message: format!("{}: {}", verdict.label(), verdict.message),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use evo_protocol::binary::Specialization;

    use super::*;

    fn source(causal: i64) -> KernelSource {
        let constants = Specialization::of(&["CAUSAL".into()], &BTreeMap::from([("CAUSAL".into(), causal)]));
        KernelSource { constants, ..KernelSource::plain("k.cu", "", [""; 0]) }
    }

    /// What comes of two sources of which the second is answered first.
    fn gathered(first: CompileOutcome, second: CompileOutcome) -> VariantOutcome {
        let (sender, receiver) = mpsc::channel();
        let mut parts = gather(vec![source(0), source(1)], move |outcome| sender.send(outcome).unwrap());
        parts.pop().unwrap().1(second);
        assert!(receiver.try_recv().is_err());
        parts.pop().unwrap().1(first);
        receiver.recv().unwrap()
    }

    #[test]
    fn one_answer_for_all_sources_in_their_order_or_the_first_failure() {
        let binary = |word: &str| Ok(Binary { path: word.into(), ..Binary::default() });
        let binaries = gathered(binary("zero"), binary("one")).unwrap();
        let paths: Vec<String> = binaries.iter().map(|own| own.path.display().to_string()).collect();
        assert_eq!(paths, ["zero", "one"]);
        let failed = |word: &str| Err(Box::new(Verdict::new(VerdictKind::CompileError, word)));
        assert_eq!(gathered(failed("early"), failed("late")).unwrap_err().message, "with CAUSAL=0: early");
    }
}
