//! Keeps one device served: a working child, a warm spare, and the way back after a failure.
//!
//! After any doubt the supervisor kills the child's process group and reaps it. The spare takes over and
//! must pass the health check (a small computation with a known answer, and the memory that the dead
//! worker held) before it judges a variant. When two new workers fail in a row, or a process cannot be
//! reaped, the device counts as lost.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use evo_protocol::device::{DeviceError, DeviceInfo, DeviceKind};
use evo_protocol::evaluation::{Recovery, RecoveryLevel};
use evo_protocol::worker::{PROTOCOL_VERSION, ReferenceKernels, Request, Response, WorkerLease};
use evo_space::genome::ContentHash;
use evo_space::text::{printable, shortened};
use thiserror::Error;

use super::child::{BEAT, Death, DeviceWorker, WorkerAnswer};
use super::class::DeviceClass;
use super::deadline::Deadlines;
use evo_system::process;

#[derive(Clone, Debug)]
pub struct LaneOptions {
    /// The worker's command; this program's own `worker` when absent.
    pub command: Option<Vec<String>>,
    /// `host`, `cuda:0`, as the worker understands it.
    pub device: String,
    pub cache: PathBuf,
    pub support_cubin: Option<PathBuf>,
    pub reference_kernels: Option<ReferenceKernels>,
    /// Whether the command leads to a worker that may be on another machine and has its device to itself: it gives signs
    /// of life, and there is one at a time.
    pub leased: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct LaneLimits {
    /// Used for every request instead of what the device and the shapes call for.
    pub deadlines: Option<Deadlines>,
    /// No step of a request may take longer than this, whatever the device and the shapes call for.
    pub step_max: Option<Duration>,
    /// Sampling one problem in one mode takes no longer than this, whatever its interval calls for.
    pub sampling_max: Option<Duration>,
    /// When whoever asks wants an answer: steps end by then, and none begins afterwards.
    pub until: Option<Instant>,
    pub output_bytes_max: u64,
    pub spare: bool,
    /// Whether another device sees again what does not count when it is seen once; this one does then not.
    pub second_elsewhere: bool,
}

impl Default for LaneLimits {
    fn default() -> LaneLimits {
        LaneLimits {
            deadlines: None,
            step_max: None,
            sampling_max: None,
            until: None,
            output_bytes_max: 16 << 20,
            spare: true,
            second_elsewhere: false,
        }
    }
}

impl LaneLimits {
    /// These deadlines with no step above the longest one allowed.
    pub(crate) fn capped(&self, deadlines: Deadlines) -> Deadlines {
        let deadlines = self.step_max.map_or(deadlines, |most| deadlines.capped(most));
        match self.until {
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now()).max(LAST_STEP);
                Deadlines { total: deadlines.total.min(left), ..deadlines.capped(left) }
            }
            None => deadlines,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// What a step gets at least, so that a worker which is opened late is not taken for a dead one.
const LAST_STEP: Duration = Duration::from_millis(50);

#[derive(Debug, Error)]
pub enum LaneError {
    #[error("cannot start the worker `{command}`: {source}")]
    Spawn { command: String, source: std::io::Error },
    #[error("{}", .error.message)]
    Open { error: Box<DeviceError> },
    #[error("{}", .death.describe())]
    Died { death: Box<Death> },
    #[error("the worker refused: {}", .error.message)]
    Refused { error: Box<DeviceError> },
    #[error("the worker's answer does not fit the request: {found}")]
    Unexpected { found: String },
    #[error("the time by which an answer was wanted is over")]
    OutOfTime,
    #[error("the device is lost: {why}")]
    Lost { why: String },
}

impl LaneError {
    /// With what a launcher printed last, which says more than that its process is gone.
    fn in_full(&self, leased: bool) -> String {
        let log = match self {
            LaneError::Died { death } if leased => death.log.as_str(),
            _ => "",
        };
        match log.lines().map(str::trim).rfind(|line| !line.is_empty()) {
            Some(last) => format!("{self}; it said: {}", printable(&shortened(last, WORDS_MAX))),
            None => self.to_string(),
        }
    }

    pub(crate) fn died(death: Death) -> LaneError {
        LaneError::Died { death: Box::new(death) }
    }

    pub(crate) fn unexpected(response: &Response) -> LaneError {
        match response {
            Response::Failed { error } => LaneError::Refused { error: error.clone() },
            other => {
                let text = serde_json::to_string(other).unwrap_or_default();
                LaneError::Unexpected { found: text.chars().take(120).collect() }
            }
        }
    }
}

const MEMORY_BACK: f64 = 0.8;
/// Free memory returns a moment after a kill. It is read at most this often, with this pause between.
const MEMORY_TRIES: u32 = 10;
const MEMORY_TRIES_LEASED: u32 = 50;
const MEMORY_PAUSE: Duration = Duration::from_millis(100);
/// A process that SIGKILL does not end is stuck in the driver, and leaves the device in doubt.
const UNREAPED: &str = "a killed worker cannot be reaped";
const SHUTDOWN_GRACE: Duration = Duration::from_millis(200);
/// A worker on another machine gets so long to leave before its connection is cut.
pub(super) const FAREWELL: Duration = Duration::from_secs(5);
const WORDS_MAX: usize = 160;
const OPENING_LEASED: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) struct Supervisor {
    options: LaneOptions,
    pub(crate) limits: LaneLimits,
    command: Vec<String>,
    info: DeviceInfo,
    settings: BTreeMap<String, String>,
    judge: String,
    host: String,
    current: Option<DeviceWorker>,
    /// Workers that were started and greeted, and whose answers have not been read, oldest first.
    spares: VecDeque<DeviceWorker>,
    /// Whether the spares have opened their device, or were waited for in vain.
    spares_settled: bool,
    resting: VecDeque<DeviceWorker>,
    retired: Vec<DeviceWorker>,
    memory_free: Option<u64>,
    lost: Option<String>,
    unstarted: bool,
    /// What is in doubt after a worker's death whose successor is still to be started.
    owed: Option<RecoveryLevel>,
}

impl Supervisor {
    pub(crate) fn start(options: LaneOptions, limits: LaneLimits) -> Result<Supervisor, LaneError> {
        let command = match &options.command {
            Some(command) => command.clone(),
            None => own_worker()?,
        };
        let mut child = begin(&command, &options)?;
        // The kind of device is not known before the answer. The limit for opening is the same for all.
        let opening = opening(&options, deadlines(&limits, DeviceKind::Cuda));
        let Opened { info, judge, settings, host } = finish(&mut child, &options, &opening)?;
        let mut supervisor = Supervisor {
            options,
            limits,
            command,
            info,
            settings,
            judge,
            host,
            current: Some(child),
            spares: VecDeque::new(),
            spares_settled: true,
            resting: VecDeque::new(),
            retired: Vec::new(),
            memory_free: None,
            lost: None,
            unstarted: false,
            owed: None,
        };
        // Read before a spare exists, whose context takes memory too: later checks compare with this value.
        supervisor.memory_free = supervisor.canary()?;
        supervisor.prepare_spare();
        Ok(supervisor)
    }

    pub(crate) fn info(&self) -> &DeviceInfo {
        &self.info
    }

    pub(crate) fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }

    pub(crate) fn judge(&self) -> &str {
        &self.judge
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    pub(crate) fn is_unstarted(&self) -> bool {
        self.unstarted
    }

    pub(crate) fn deadlines(&self) -> Deadlines {
        deadlines(&self.limits, self.info.kind)
    }

    /// After an error the child is dead: `recover` comes next.
    pub(crate) fn request(
        &mut self,
        request: &Request,
        deadlines: &Deadlines,
    ) -> Result<WorkerAnswer, LaneError> {
        if self.limits.is_over() {
            return Err(LaneError::OutOfTime);
        }
        let deadlines = self.limits.deadlines.unwrap_or(*deadlines);
        self.request_within(request, &self.limits.capped(deadlines))
    }

    pub(crate) fn request_within(
        &mut self,
        request: &Request,
        deadlines: &Deadlines,
    ) -> Result<WorkerAnswer, LaneError> {
        let why = || LaneError::Lost { why: self.lost.clone().unwrap_or_else(|| "no worker".into()) };
        let child = self.current.as_mut().ok_or_else(why)?;
        child.request(request, deadlines).map_err(LaneError::died)
    }

    pub(crate) fn printed(&self) -> u64 {
        self.current.as_ref().map_or(0, |child| child.log().total())
    }

    pub(crate) fn log_tail(&self, bytes: usize) -> String {
        self.current.as_ref().map(|child| child.log().tail(bytes)).unwrap_or_default()
    }

    /// Waits until neither opening spares nor retired workers disturb a measurement.
    pub(crate) fn settle(&mut self, limit: Duration) {
        let until = Instant::now() + limit;
        self.bury_retired(until);
        while !self.spares_settled {
            // Set on a timeout too, so that a slow spare delays one measurement and not all of them.
            let late = Instant::now() >= until;
            self.spares_settled = late || self.spares.iter_mut().all(DeviceWorker::has_answer);
            if !self.spares_settled {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    pub(crate) fn keep(&mut self, child: DeviceWorker) {
        self.current = Some(child);
    }

    pub(crate) fn has_one_at_a_time(&self) -> bool {
        self.options.leased
    }

    /// A worker's end would hold up the next measurement. Those that rested before it, beyond `most`, are asked to
    /// end.
    pub(crate) fn rest(&mut self, child: DeviceWorker, most: usize) {
        self.resting.push_back(child);
        while self.resting.len() > most
            && let Some(oldest) = self.resting.pop_front()
        {
            self.retire(oldest);
        }
    }

    fn retire(&mut self, mut child: DeviceWorker) {
        child.dismiss();
        self.retired.push(child);
    }

    fn bury_retired(&mut self, until: Instant) {
        for mut child in std::mem::take(&mut self.retired) {
            let grace = until.saturating_duration_since(Instant::now());
            if !child.wait_for_end(grace) {
                self.lost = Some(UNREAPED.into());
            }
        }
    }

    pub(crate) fn postpone(&mut self, doubt: RecoveryLevel) {
        if !self.current.take().is_none_or(|mut child| child.bury()) {
            self.lost = Some(UNREAPED.into());
        }
        self.owed = Some(doubt);
    }

    pub(crate) fn renew(&mut self) -> Option<Recovery> {
        let doubt = self.owed.take()?;
        match self.lost {
            None => Some(self.recover(doubt)),
            Some(_) => Some(Recovery { level: RecoveryLevel::R3, elapsed_ms: 0.0 }),
        }
    }

    /// `doubt` says why; a device that is lost on the way is `R3`.
    ///
    /// The health check follows at every level: it takes milliseconds, and a process that died in host code may have
    /// left the device in any state.
    pub(crate) fn recover(&mut self, doubt: RecoveryLevel) -> Recovery {
        let began = Instant::now();
        // The next answer needs a checked worker, however late this one is.
        let until = self.limits.until.take();
        // Kill and reap first: the new worker's check expects the dead one's memory to be free again.
        let reaped = self.current.take().is_none_or(|mut child| child.bury());
        // A process that SIGKILL does not end is stuck in the driver, and a new one would meet the same
        // device.
        let outcome = if reaped { self.replace() } else { Err(UNREAPED.into()) };
        if let Err(why) = outcome {
            self.lost = Some(why);
        }
        self.limits.until = until;
        let level = if self.lost.is_some() { RecoveryLevel::R3 } else { doubt };
        Recovery { level, elapsed_ms: began.elapsed().as_secs_f64() * 1e3 }
    }

    fn replace(&mut self) -> Result<(), String> {
        let mut why = String::new();
        // The first try may fail because of the spare, which opened before the failure. The second try starts
        // a new process; when that fails too, the device itself is at fault.
        for _ in 0..2 {
            let checked = self.fresh().and_then(|child| {
                self.current = Some(child);
                self.canary()
            });
            match checked {
                Ok(_) => {
                    self.prepare_spare();
                    return Ok(());
                }
                Err(error) => {
                    self.unstarted = matches!(error, LaneError::Spawn { .. });
                    why = format!("two new workers failed in a row: {}", error.in_full(self.options.leased));
                }
            }
            if !self.current.take().is_none_or(|mut child| child.bury()) {
                return Err(UNREAPED.into());
            }
            // Opened before the failure, all of them.
            self.spares.clear();
        }
        Err(why)
    }

    pub(crate) fn fresh(&mut self) -> Result<DeviceWorker, LaneError> {
        let deadlines = opening(&self.options, self.deadlines());
        if self.options.leased
            && let Some(mut child) = self.current.take()
            && !child.shutdown(FAREWELL)
        {
            return Err(LaneError::Lost { why: UNREAPED.into() });
        }
        // The error of a spare is dropped: if there is a lasting reason, the new worker below meets it too.
        if let Some(mut spare) = self.spares.pop_front()
            && finish(&mut spare, &self.options, &deadlines).is_ok()
        {
            return Ok(spare);
        }
        // No spare, or one that did not open.
        let mut child = begin(&self.command, &self.options)?;
        let opened = finish(&mut child, &self.options, &deadlines)?;
        self.meet(opened)?;
        Ok(child)
    }

    /// A launcher may have led the new worker to another machine or device than the last one.
    fn meet(&mut self, opened: Opened) -> Result<(), LaneError> {
        if !self.options.leased {
            return Ok(());
        }
        let own = DeviceClass { info: &self.info, settings: &self.settings, judge: &self.judge };
        let new = DeviceClass { info: &opened.info, settings: &opened.settings, judge: &opened.judge };
        if let Some(difference) = own.difference(&new) {
            return Err(LaneError::Lost { why: format!("the new one is of another class: {difference}") });
        }
        self.info.uuid = opened.info.uuid;
        self.host = opened.host;
        Ok(())
    }

    pub(crate) fn prepare_spare(&mut self) {
        self.prepare_spares(1);
    }

    pub(crate) fn prepare_spares(&mut self, wanted: usize) {
        // They end while the new ones open.
        while let Some(child) = self.resting.pop_front() {
            self.retire(child);
        }
        while self.limits.spare && !self.options.leased && self.spares.len() < wanted && self.lost.is_none() {
            let Ok(spare) = begin(&self.command, &self.options) else { return };
            self.spares.push_back(spare);
            self.spares_settled = false;
        }
    }

    /// The free memory, where the device reports it.
    fn canary(&mut self) -> Result<Option<u64>, LaneError> {
        let deadlines = self.deadlines();
        // What was killed on another machine ends when it notices.
        let tries = if self.options.leased { MEMORY_TRIES + MEMORY_TRIES_LEASED } else { MEMORY_TRIES };
        for _ in 0..tries {
            let free = match self.request(&Request::Canary, &deadlines)?.response {
                Response::Alive { memory_free, .. } => memory_free,
                other => return Err(LaneError::unexpected(&other)),
            };
            // Other programs use the host's memory too, so a drop says nothing about a dead worker.
            let expected = self.memory_free.filter(|_| self.info.kind == DeviceKind::Cuda);
            match (expected, free) {
                (Some(expected), Some(free)) if (free as f64) < expected as f64 * MEMORY_BACK => {
                    std::thread::sleep(MEMORY_PAUSE);
                }
                _ => return Ok(free),
            }
        }
        Err(LaneError::Lost { why: "device memory of a killed worker does not come back".into() })
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // Only the current worker is asked to end. The spare has no work under way, and dropping it kills it.
        if let Some(mut child) = self.current.take() {
            let grace = if self.options.leased { FAREWELL } else { SHUTDOWN_GRACE };
            child.shutdown(grace);
        }
    }
}

fn opening(options: &LaneOptions, deadlines: Deadlines) -> Deadlines {
    let least = if options.leased { OPENING_LEASED } else { Duration::ZERO };
    Deadlines { opening: deadlines.opening.max(least), ..deadlines }
}

fn deadlines(limits: &LaneLimits, kind: DeviceKind) -> Deadlines {
    limits.capped(limits.deadlines.unwrap_or_else(|| Deadlines::tiny(kind)))
}

pub fn own_worker() -> Result<Vec<String>, LaneError> {
    let program = process::worker_program()
        .map_err(|source| LaneError::Spawn { command: "evo worker".into(), source })?;
    Ok(vec![program.to_string_lossy().into_owned(), "worker".into()])
}

fn hello(options: &LaneOptions, lease: Option<WorkerLease>) -> Request {
    Request::Hello {
        lease,
        device: options.device.clone(),
        expected_cache: Some(options.cache.clone()),
        support_cubin: options.support_cubin.clone(),
        reference_kernels: options.reference_kernels.clone(),
    }
}

/// Without waiting for the answer.
pub(super) fn begin(command: &[String], options: &LaneOptions) -> Result<DeviceWorker, LaneError> {
    let spawn_error = |source| LaneError::Spawn { command: command.join(" "), source };
    let mut child = DeviceWorker::start(command).map_err(spawn_error)?;
    let lease = options.leased.then(|| lease(options));
    if let Some(lease) = &lease {
        child = child.under_lease(lease.nonce.clone());
    }
    child.begin(&hello(options, lease)).map_err(LaneError::died)?;
    Ok(child)
}

/// A lease of its own for every worker, so that nothing which another one said passes for an answer of this one.
fn lease(options: &LaneOptions) -> WorkerLease {
    static LEASES: AtomicU64 = AtomicU64::new(1);
    let number = LEASES.fetch_add(1, Ordering::Relaxed);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let hash = |path: Option<&PathBuf>| {
        path.and_then(|path| std::fs::read(path).ok()).map(|own| ContentHash::of(&own))
    };
    WorkerLease {
        nonce: format!("{:x}-{:x}-{number:x}", std::process::id(), since.as_nanos()),
        beat_ms: BEAT.as_millis() as u64,
        support: hash(options.support_cubin.as_ref()),
        references: hash(options.reference_kernels.as_ref().map(|kernels| &kernels.path)),
    }
}

pub(super) struct Opened {
    pub info: DeviceInfo,
    pub judge: String,
    pub settings: BTreeMap<String, String>,
    pub host: String,
}

pub(super) fn finish(
    child: &mut DeviceWorker,
    options: &LaneOptions,
    deadlines: &Deadlines,
) -> Result<Opened, LaneError> {
    // The greeting went out in `begin`. It is given again only for the phase and the files that `finish` assumes.
    let again = hello(options, options.leased.then(|| lease(options)));
    match child.finish(&again, deadlines).map_err(LaneError::died)?.response {
        Response::Ready { protocol: PROTOCOL_VERSION, info, judge, settings, host, .. } => {
            Ok(Opened { info: *info, judge, settings, host })
        }
        Response::Failed { error } => Err(LaneError::Open { error }),
        other => Err(LaneError::unexpected(&other)),
    }
}
