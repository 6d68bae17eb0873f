//! Keeps one device served: a working child, a warm spare, and the way back after a failure.
//!
//! After any doubt the supervisor kills the child's process group and reaps it. The spare takes over and
//! must pass the health check (a small computation with a known answer, and the memory that the dead
//! worker held) before it judges a variant. When two new workers fail in a row, or a process cannot be
//! reaped, the device counts as lost.

use std::time::{Duration, Instant};

use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::{Recovery, RecoveryLevel};
use evo_protocol::worker::{Phase, Request, Response};
use evo_space::text::{printable, shortened};

use super::child::{DeviceWorker, FAREWELL, LOG_TAIL, LaneError, LaneOptions, Opened};
use super::deadline::Deadlines;

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
    fn deadlines(&self, kind: DeviceKind) -> Deadlines {
        self.capped(self.deadlines.unwrap_or_else(|| Deadlines::tiny(kind)))
    }

    /// These deadlines with no step above the longest one allowed.
    pub(crate) fn capped(&self, deadlines: Deadlines) -> Deadlines {
        let deadlines = self.step_max.map_or(deadlines, |most| deadlines.capped(most));
        let Some(until) = self.until else { return deadlines };
        let left = until.saturating_duration_since(Instant::now()).max(LAST_STEP);
        let mut capped = deadlines.capped(left);
        capped.total = deadlines.total.min(left);
        capped
    }

    pub(crate) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// What a step gets at least, so that a worker which is opened late is not taken for a dead one.
const LAST_STEP: Duration = Duration::from_millis(50);

const MEMORY_BACK: f64 = 0.8;
/// Free memory returns a moment after a kill. It is read at most this often, with this pause between.
const MEMORY_TRIES: u32 = 10;
/// What was killed on another machine ends when it notices.
const MEMORY_TRIES_LEASED: u32 = 60;
const MEMORY_PAUSE: Duration = Duration::from_millis(100);
/// A process that SIGKILL does not end is stuck in the driver, and leaves the device in doubt.
const UNREAPED: &str = "a killed worker cannot be reaped";
const SHUTDOWN_GRACE: Duration = Duration::from_millis(200);
const WORDS_MAX: usize = 160;
const OPENING_LEASED: Duration = Duration::from_secs(120);

/// What a worker beside the current one is there for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Slot {
    /// Greeted, its answer not read; it may still be opening its device.
    Opening,
    /// Greeted too; it has opened its device, or was waited for in vain.
    Spare,
    /// Done with its work. Its end would hold up the next measurement.
    Resting,
    /// Asked to end.
    Ending,
}

impl Slot {
    fn is_spare(self) -> bool {
        matches!(self, Slot::Opening | Slot::Spare)
    }
}

#[derive(Debug)]
pub(crate) struct Supervisor {
    pub options: LaneOptions,
    pub limits: LaneLimits,
    pub device: Opened,
    pub current: Option<DeviceWorker>,
    /// Oldest first.
    others: Vec<(Slot, DeviceWorker)>,
    memory_free: Option<u64>,
    pub lost: Option<String>,
    /// Whether it is lost because no worker can be started.
    pub unstarted: bool,
    /// What is in doubt after a worker's death whose successor is still to be started.
    owed: Option<RecoveryLevel>,
}

impl Supervisor {
    pub fn start(mut options: LaneOptions, limits: LaneLimits) -> Result<Supervisor, LaneError> {
        // Asked once: the path of a program that was built again names no file.
        options.command = Some(options.worker_command()?);
        let mut child = DeviceWorker::greet(&options)?;
        // The kind of device is not known before the answer. The limit for opening is the same for all.
        let device = child.opened(&opening(&options, limits.deadlines(DeviceKind::Cuda)))?;
        let (current, others) = (Some(child), Vec::new());
        let (memory_free, lost, unstarted, owed) = (None, None, false, None);
        let mut supervisor =
            Supervisor { options, limits, device, current, others, memory_free, lost, unstarted, owed };
        // Read before a spare exists, whose context takes memory too: later checks compare with this value.
        supervisor.memory_free = supervisor.canary()?;
        supervisor.prepare_spares(1);
        Ok(supervisor)
    }

    pub fn deadlines(&self) -> Deadlines {
        self.limits.deadlines(self.device.info.kind)
    }

    /// After the worker's death `recover` comes next.
    pub fn request(&mut self, request: &Request, deadlines: &Deadlines) -> Result<Response, LaneError> {
        if self.limits.is_over() {
            return Err(LaneError::OutOfTime);
        }
        let deadlines = self.limits.capped(self.limits.deadlines.unwrap_or(*deadlines));
        self.request_within(request, &deadlines)
    }

    pub fn request_within(
        &mut self,
        request: &Request,
        deadlines: &Deadlines,
    ) -> Result<Response, LaneError> {
        match &mut self.current {
            Some(child) => Ok(child.ask(request, deadlines)?),
            None => Err(LaneError::Lost { why: self.lost.clone().unwrap_or_else(|| "no worker".into()) }),
        }
    }

    pub fn printed(&self) -> u64 {
        self.current.as_ref().map_or(0, |child| child.log().total())
    }

    /// Waits until neither opening spares nor retired workers disturb a measurement.
    pub fn settle(&mut self, limit: Duration) {
        let until = Instant::now() + limit;
        for (_, mut child) in self.others.extract_if(.., |(slot, _)| *slot == Slot::Ending) {
            child.end(until.saturating_duration_since(Instant::now()));
            if !child.kill() {
                self.lost = Some(UNREAPED.into());
            }
        }
        loop {
            // A slow spare delays one measurement and not all of them.
            let late = Instant::now() >= until;
            for (slot, child) in self.others.iter_mut().filter(|(slot, _)| *slot == Slot::Opening) {
                if late || child.has_answer() {
                    *slot = Slot::Spare;
                }
            }
            if self.others.iter().all(|(slot, _)| *slot != Slot::Opening) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Those that rested before it, beyond `most`, are asked to end.
    pub fn rest(&mut self, child: DeviceWorker, most: usize) {
        self.others.push((Slot::Resting, child));
        self.retire(most);
    }

    fn retire(&mut self, most: usize) {
        let resting = self.others.iter_mut().filter(|(slot, _)| *slot == Slot::Resting);
        for (slot, child) in resting.rev().skip(most) {
            child.dismiss();
            *slot = Slot::Ending;
        }
    }

    pub fn postpone(&mut self, doubt: RecoveryLevel) {
        if !self.kill_current() {
            self.lost = Some(UNREAPED.into());
        }
        self.owed = Some(doubt);
    }

    fn kill_current(&mut self) -> bool {
        self.current.take().is_none_or(|mut child| child.kill())
    }

    pub fn renew(&mut self) -> Option<Recovery> {
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
    pub fn recover(&mut self, doubt: RecoveryLevel) -> Recovery {
        let began = Instant::now();
        // The next answer needs a checked worker, however late this one is.
        let until = self.limits.until.take();
        if let Err(why) = self.replace() {
            self.lost = Some(why);
        }
        self.limits.until = until;
        let level = if self.lost.is_some() { RecoveryLevel::R3 } else { doubt };
        Recovery { level, elapsed_ms: began.elapsed().as_secs_f64() * 1e3 }
    }

    fn replace(&mut self) -> Result<(), String> {
        // Kill and reap first: the new worker's check expects the dead one's memory to be free again. A process that
        // SIGKILL does not end is stuck in the driver, and a new one would meet the same device.
        if !self.kill_current() {
            return Err(UNREAPED.into());
        }
        let mut why = String::new();
        // The first try may fail because of the spare, which opened before the failure. The second try starts
        // a new process; when that fails too, the device itself is at fault.
        for _ in 0..2 {
            let checked = self.fresh().and_then(|child| {
                self.current = Some(child);
                self.canary()
            });
            let Err(error) = checked else {
                self.prepare_spares(1);
                return Ok(());
            };
            self.unstarted = matches!(error, LaneError::Spawn { .. });
            why = format!("two new workers failed in a row: {}", self.in_full(&error));
            if !self.kill_current() {
                return Err(UNREAPED.into());
            }
            // Opened before the failure, all of them.
            self.others.retain(|(slot, _)| !slot.is_spare());
        }
        Err(why)
    }

    /// With what a launcher printed last, which says more than that its process is gone.
    fn in_full(&self, error: &LaneError) -> String {
        let log = match error {
            LaneError::Died { death } if self.options.leased => death.log.tail(LOG_TAIL),
            _ => String::new(),
        };
        match log.lines().map(str::trim).rfind(|line| !line.is_empty()) {
            Some(last) => format!("{error}; it said: {}", printable(&shortened(last, WORDS_MAX))),
            None => error.to_string(),
        }
    }

    pub fn fresh(&mut self) -> Result<DeviceWorker, LaneError> {
        let deadlines = opening(&self.options, self.deadlines());
        if self.options.leased
            && let Some(mut child) = self.current.take()
        {
            child.end(FAREWELL);
            if !child.kill() {
                return Err(LaneError::Lost { why: UNREAPED.into() });
            }
        }
        // The error of a spare is dropped: if there is a lasting reason, the new worker below meets it too.
        let spare = self.others.iter().position(|(slot, _)| slot.is_spare());
        if let Some((_, mut spare)) = spare.map(|at| self.others.remove(at))
            && spare.opened(&deadlines).is_ok()
        {
            return Ok(spare);
        }
        // No spare, or one that did not open.
        let mut child = DeviceWorker::greet(&self.options)?;
        let device = child.opened(&deadlines)?;
        self.meet(device)?;
        Ok(child)
    }

    /// A launcher may have led the new worker to another machine or device than the last one.
    fn meet(&mut self, device: Opened) -> Result<(), LaneError> {
        if !self.options.leased {
            return Ok(());
        }
        if let Some(difference) = self.device.class().difference(&device.class()) {
            return Err(LaneError::Lost { why: format!("the new one is of another class: {difference}") });
        }
        self.device.info.uuid = device.info.uuid;
        self.device.host = device.host;
        Ok(())
    }

    pub fn prepare_spares(&mut self, wanted: usize) {
        // They end while the new ones open.
        self.retire(0);
        if !self.limits.spare || self.options.leased || self.lost.is_some() {
            return;
        }
        let there = self.others.iter().filter(|(slot, _)| slot.is_spare()).count();
        for _ in there..wanted {
            let Ok(spare) = DeviceWorker::greet(&self.options) else { return };
            self.others.push((Slot::Opening, spare));
        }
    }

    /// The free memory, where the device reports it.
    fn canary(&mut self) -> Result<Option<u64>, LaneError> {
        let deadlines = self.deadlines();
        let tries = if self.options.leased { MEMORY_TRIES_LEASED } else { MEMORY_TRIES };
        for _ in 0..tries {
            let free = match self.request(&Request::Canary, &deadlines)? {
                Response::Alive { memory_free, .. } => memory_free,
                other => return Err(LaneError::unexpected(&other)),
            };
            // Other programs use the host's memory too, so a drop says nothing about a dead worker.
            let expected = self.memory_free.filter(|_| self.device.info.kind == DeviceKind::Cuda);
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
            child.end(if self.options.leased { FAREWELL } else { SHUTDOWN_GRACE });
        }
    }
}

fn opening(options: &LaneOptions, deadlines: Deadlines) -> Deadlines {
    let least = if options.leased { OPENING_LEASED } else { Duration::ZERO };
    deadlines.with(Phase::Opening, deadlines.of(Phase::Opening).max(least))
}
