//! The parent's side of one worker process: requests with deadlines, and the truth about its death.
//!
//! A request ends in exactly one answer or in a `Death`: a missed deadline, an exit, garbage instead
//! of frames, or a fault the worker reported with its last breath. After a death the whole process
//! group has been killed and the process reaped, or it is known that it cannot be.

use std::io;
use std::process::Child as Process;
use std::time::{Duration, Instant};

use evo_protocol::device::DeviceError;
use evo_protocol::worker::{BinaryRef, Frame, PROTOCOL_VERSION, Phase, Request, Response};
use evo_space::genome::ContentHash;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::base64;
use super::deadline::Deadlines;
use super::log::Log;
use super::pipe::{Incoming, Pipe};
use super::spawn::spawn;

/// How a worker died.
#[derive(Clone, Debug, PartialEq)]
pub enum DeathHow {
    /// It missed the deadline of its phase.
    Deadline { limit: Duration },
    /// It ended by itself or by a signal.
    Exit { code: Option<i32>, signal: Option<i32> },
    /// It said something that is not the protocol.
    Protocol { found: String },
    /// Its fault handler named the reason.
    Fault { error: Box<DeviceError> },
}

/// A worker's death and where it happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Death {
    pub how: DeathHow,
    /// The phase it had reached in the current request, if it had reported one.
    pub phase: Option<Phase>,
    /// What the phase was about: shape, seed, iteration.
    pub detail: String,
    /// Time since the phase was reported.
    pub elapsed: Duration,
    /// The end of what it printed.
    pub log: String,
    /// Whether the process is gone; if not, the device is lost.
    pub reaped: bool,
}

impl Death {
    /// One line for people.
    pub fn describe(&self) -> String {
        let what = match &self.how {
            DeathHow::Deadline { limit } => format!("no answer within {} ms", limit.as_millis()),
            DeathHow::Exit { signal: Some(signal), .. } => {
                format!("the worker was killed by signal {signal}")
            }
            DeathHow::Exit { code, .. } => {
                format!("the worker exited with {} before it answered", code.unwrap_or(-1))
            }
            DeathHow::Protocol { found } => format!("the worker broke the protocol: {found}"),
            DeathHow::Fault { error } => error.message.clone(),
        };
        match self.phase {
            Some(phase) if self.detail.is_empty() => format!("{what} (phase {phase:?})"),
            Some(phase) => format!("{what} (phase {phase:?}, {})", self.detail),
            None => what,
        }
    }
}

/// A served request.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub response: Response,
    /// The longest time between a reported launch and the next sign of life.
    pub launched_max: Duration,
}

/// A SIGKILLed process that is not gone after this long is stuck in the driver.
const REAP_LIMIT: Duration = Duration::from_secs(10);
/// A child that closed its stdout is given this long to leave by itself, so that its status is known.
const EXIT_GRACE: Duration = Duration::from_millis(500);
/// How often a silent child is checked for being alive (a grandchild may hold its stdout open).
const PULSE: Duration = Duration::from_millis(50);
/// Log kept in a death's evidence.
const LOG_TAIL: usize = 4 * 1024;

/// One worker process. Dropping it kills its group and reaps it.
#[derive(Debug)]
pub struct Child {
    process: Process,
    pipe: Pipe,
    log: Log,
    last_id: u64,
    /// Set once the process has been killed or found dead; whether it could be reaped.
    buried: Option<bool>,
}

/// Where a request stands while it is served.
struct Progress<'a> {
    id: u64,
    deadlines: &'a Deadlines,
    /// The phase assumed until one is reported.
    assumed: Phase,
    phase: Option<Phase>,
    detail: String,
    since: Instant,
    launched_max: Duration,
    /// Binaries the worker may ask for.
    binaries: Vec<BinaryRef>,
}

impl Child {
    /// Starts a worker from its command.
    pub fn start(command: &[String]) -> io::Result<Child> {
        let mut process = spawn(command)?;
        let missing = || io::Error::other("a pipe to the worker is missing");
        let stdin = process.stdin.take().ok_or_else(missing)?;
        let stdout = process.stdout.take().ok_or_else(missing)?;
        let stderr = process.stderr.take().ok_or_else(missing)?;
        let (pipe, log) = (Pipe::new(stdin, stdout)?, Log::drain(stderr)?);
        Ok(Child { process, pipe, log, last_id: 0, buried: None })
    }

    /// What it printed.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Whether the answer to the request that was begun has come, or never will.
    pub fn has_answer(&mut self) -> bool {
        let is_answer = |line: &[u8]| match serde_json::from_slice::<Frame<Response>>(line) {
            Ok(frame) => !matches!(frame.body, Response::Phase { .. }),
            Err(_) => true,
        };
        self.pipe.has_input() && self.pipe.lines().any(is_answer) || self.has_exited()
    }

    /// Sends a request without waiting; `finish` collects the answer. At most one may be open.
    pub fn begin(&mut self, request: &Request) -> Result<(), Death> {
        self.last_id += 1;
        if self.pipe.has_input() {
            let found = "an answer nobody asked for".to_string();
            return Err(self.die(DeathHow::Protocol { found }, None));
        }
        let frame = Frame { v: PROTOCOL_VERSION, id: self.last_id, body: request };
        match serde_json::to_vec(&frame) {
            Ok(line) => self.pipe.send(&line),
            Err(error) => return Err(self.die(DeathHow::Protocol { found: error.to_string() }, None)),
        }
        Ok(())
    }

    /// Sends a request and waits for its answer.
    pub fn request(&mut self, request: &Request, deadlines: &Deadlines) -> Result<Answer, Death> {
        self.begin(request)?;
        self.finish(request, deadlines)
    }

    /// Waits for the answer to the request that was begun.
    pub fn finish(&mut self, request: &Request, deadlines: &Deadlines) -> Result<Answer, Death> {
        let mut progress = Progress {
            id: self.last_id,
            deadlines,
            assumed: assumed_phase(request),
            phase: None,
            detail: String::new(),
            since: Instant::now(),
            launched_max: Duration::ZERO,
            binaries: binaries(request),
        };
        loop {
            let line = self.next_line(&progress)?;
            if let Some(response) = self.take(&line, &mut progress)? {
                return Ok(Answer { response, launched_max: progress.launched_max });
            }
        }
    }

    /// The next line, or the death that came instead.
    fn next_line(&mut self, progress: &Progress) -> Result<Vec<u8>, Death> {
        let limit = progress.deadlines.of(progress.phase.unwrap_or(progress.assumed));
        let until = progress.since + limit;
        loop {
            let pulse = until.min(Instant::now() + PULSE);
            match self.pipe.receive(pulse) {
                Incoming::Line(line) => return Ok(line),
                Incoming::End => return Err(self.die_of_exit(progress)),
                Incoming::Overlong => {
                    let found = "a line without an end".to_string();
                    return Err(self.die(DeathHow::Protocol { found }, Some(progress)));
                }
                Incoming::Nothing if self.has_exited() && !self.pipe.has_input() => {
                    return Err(self.die_of_exit(progress));
                }
                Incoming::Nothing if Instant::now() >= until => {
                    return Err(self.die(DeathHow::Deadline { limit }, Some(progress)));
                }
                Incoming::Nothing => {}
            }
        }
    }

    /// Understands one line: `None` when the request goes on.
    fn take(&mut self, line: &[u8], progress: &mut Progress) -> Result<Option<Response>, Death> {
        let frame: Frame<Response> = match serde_json::from_slice(line) {
            Ok(frame) => frame,
            Err(_) => {
                let start = String::from_utf8_lossy(&line[..line.len().min(120)]).into_owned();
                return Err(self.die(DeathHow::Protocol { found: format!("`{start}`") }, Some(progress)));
            }
        };
        // A fault handler cannot know the number of the request it died in.
        if let Response::Fault { error } = frame.body {
            return Err(self.die(DeathHow::Fault { error }, Some(progress)));
        }
        if frame.v != PROTOCOL_VERSION || frame.id != progress.id {
            let found = format!(
                "version {} and answer {} instead of {PROTOCOL_VERSION} and {}",
                frame.v, frame.id, progress.id
            );
            return Err(self.die(DeathHow::Protocol { found }, Some(progress)));
        }
        match frame.body {
            Response::Phase { phase, detail } => progress.enter(phase, detail),
            Response::Need { hash } => self.provide(&hash, progress)?,
            response => {
                progress.leave();
                return Ok(Some(response));
            }
        }
        Ok(None)
    }

    /// Sends a binary that the worker lacks.
    fn provide(&mut self, hash: &ContentHash, progress: &mut Progress) -> Result<(), Death> {
        let known = progress.binaries.iter().find(|binary| binary.hash == *hash);
        let bytes = known.and_then(|binary| binary.path.as_ref()).map(std::fs::read);
        let Some(Ok(bytes)) = bytes else {
            let found = format!("it needs the binary `{hash}`, which cannot be read here");
            return Err(self.die(DeathHow::Protocol { found }, Some(progress)));
        };
        let body = Request::Provide { hash: hash.clone(), data: base64::encode(&bytes) };
        let frame = Frame { v: PROTOCOL_VERSION, id: progress.id, body };
        if let Ok(line) = serde_json::to_vec(&frame) {
            self.pipe.send(&line);
        }
        progress.since = Instant::now();
        Ok(())
    }

    fn die_of_exit(&mut self, progress: &Progress) -> Death {
        let until = Instant::now() + EXIT_GRACE;
        while !self.has_exited() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.die(DeathHow::Exit { code: None, signal: None }, Some(progress))
    }

    /// Kills the group, reaps the process and writes the death certificate.
    fn die(&mut self, how: DeathHow, progress: Option<&Progress>) -> Death {
        let elapsed = progress.map(|progress| progress.since.elapsed()).unwrap_or_default();
        let own_end = self.has_exited();
        let reaped = self.bury();
        let how = match how {
            DeathHow::Exit { .. } => self.exit_status(own_end),
            other => other,
        };
        self.log.wait_closed(Duration::from_millis(200));
        Death {
            how,
            phase: progress.and_then(|progress| progress.phase),
            detail: progress.map(|progress| progress.detail.clone()).unwrap_or_default(),
            elapsed,
            log: self.log.tail(LOG_TAIL),
            reaped,
        }
    }

    /// The status of a process that ended by itself; one that only closed its stdout was killed by us.
    fn exit_status(&mut self, own_end: bool) -> DeathHow {
        use std::os::unix::process::ExitStatusExt;
        let status = self.process.try_wait().ok().flatten();
        match status {
            Some(status) if own_end => DeathHow::Exit { code: status.code(), signal: status.signal() },
            _ => DeathHow::Protocol { found: "it closed its stdout and went on running".to_string() },
        }
    }

    /// Whether the process has ended, leaving it to be reaped later: its number must stay taken until
    /// its group has been killed.
    fn has_exited(&self) -> bool {
        if self.buried.is_some() {
            return true;
        }
        let Some(pid) = Pid::from_raw(self.process.id() as i32) else { return true };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(rustix::process::waitid(WaitId::Pid(pid), options), Ok(None))
    }

    /// Asks the worker to end, and ends it after `grace`. Whether it is gone.
    pub fn shutdown(&mut self, grace: Duration) -> bool {
        if self.buried.is_none() {
            let frame = Frame { v: PROTOCOL_VERSION, id: self.last_id + 1, body: Request::Shutdown };
            if let Ok(line) = serde_json::to_vec(&frame) {
                self.pipe.send(&line);
            }
            self.pipe.close();
            let until = Instant::now() + grace;
            while !self.has_exited() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.bury()
    }

    /// SIGKILL for the whole group, then reaps. Whether the process is gone within the limit.
    pub fn bury(&mut self) -> bool {
        if let Some(reaped) = self.buried {
            return reaped;
        }
        if let Some(group) = Pid::from_raw(self.process.id() as i32) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let until = Instant::now() + REAP_LIMIT;
        let reaped = loop {
            match self.process.try_wait() {
                Ok(Some(_)) => break true,
                Ok(None) if Instant::now() >= until => break false,
                Ok(None) => std::thread::sleep(Duration::from_micros(500)),
                Err(_) => break false,
            }
        };
        self.buried = Some(reaped);
        reaped
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.bury();
    }
}

impl Progress<'_> {
    fn enter(&mut self, phase: Phase, detail: String) {
        self.leave();
        self.phase = Some(phase);
        self.detail = detail;
        self.since = Instant::now();
    }

    fn leave(&mut self) {
        if self.phase == Some(Phase::Launched) {
            self.launched_max = self.launched_max.max(self.since.elapsed());
        }
    }
}

/// The phase whose limit holds until the worker reports one.
fn assumed_phase(request: &Request) -> Phase {
    match request {
        Request::Hello { .. } => Phase::Opening,
        Request::Load { .. } | Request::Provide { .. } => Phase::Loading,
        Request::Gate { .. } | Request::Measure { .. } | Request::Pair { .. } => Phase::Preparing,
        Request::Canary | Request::Telemetry | Request::Shutdown => Phase::Checking,
    }
}

fn binaries(request: &Request) -> Vec<BinaryRef> {
    let Request::Load { candidate, .. } = request else { return Vec::new() };
    let reference = candidate.reference.iter().map(|(binary, _)| binary.clone());
    std::iter::once(candidate.binary.clone()).chain(reference).collect()
}
