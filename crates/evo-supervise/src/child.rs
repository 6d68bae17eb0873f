//! The parent's side of one device worker: which phase a request is in, how long that may take, and what a
//! death was about.

use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evo_protocol::device::DeviceError;
use evo_protocol::worker::{BinaryRef, InstrumentedBuild, PROTOCOL_VERSION, Phase, Request, Response};
use evo_space::genome::ContentHash;
use evo_space::text::{printable, shortened};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::deadline::Deadlines;
use evo_system::process::{
    CappedLog, Conversation, DeathCause, PATIENCE, ProcessDeath, ProcessGroup, RunMark, signal_name,
};

#[derive(Clone, Debug, PartialEq)]
pub enum DeathHow {
    Deadline { limit: Duration },
    Exit { code: Option<i32>, signal: Option<i32> },
    Protocol { found: String },
    Missing { hash: ContentHash },
    Fault { error: Box<DeviceError> },
    Cut { what: String },
}

impl From<DeathCause> for DeathHow {
    fn from(cause: DeathCause) -> DeathHow {
        match cause {
            DeathCause::Deadline { limit } => DeathHow::Deadline { limit },
            DeathCause::Exit(status) => DeathHow::Exit { code: status.code(), signal: status.signal() },
            DeathCause::Protocol { found } => DeathHow::Protocol { found },
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Death {
    pub how: DeathHow,
    /// The phase it had reached in the current request, if it had reported one.
    pub phase: Option<Phase>,
    pub detail: String,
    pub elapsed: Duration,
    /// Of that, what it waited for a processor, as far as it put off a deadline.
    pub waited: Duration,
    pub log: String,
    /// Whether the process is gone; if not, the device is lost.
    pub reaped: bool,
}

impl Death {
    pub fn describe(&self) -> String {
        let what = match &self.how {
            DeathHow::Deadline { limit } => format!("no answer within {} ms", limit.as_millis()),
            DeathHow::Exit { signal: Some(signal), .. } => {
                format!("the worker was killed by {}", signal_name(*signal))
            }
            DeathHow::Exit { code, .. } => {
                format!("the worker exited with {} before it answered", code.unwrap_or(-1))
            }
            DeathHow::Protocol { found } => format!("the worker broke the protocol: {found}"),
            DeathHow::Missing { hash } => format!("the compiled variant `{hash}` is gone from the cache"),
            DeathHow::Fault { error } => error.message.clone(),
            DeathHow::Cut { what } => format!("the worker is cut off: {what}"),
        };
        match self.phase {
            Some(phase) if self.detail.is_empty() => format!("{what} (phase {phase:?})"),
            Some(phase) => format!("{what} (phase {phase:?}, {})", self.detail),
            None => what,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct WorkerAnswer {
    pub response: Response,
    /// The longest time between a reported launch and the next sign of life.
    pub launched_max: Duration,
}

/// Bytes kept of what a worker prints; what came before is counted and forgotten.
const LOG_MAX: usize = 64 * 1024;
const LOG_TAIL: usize = 4 * 1024;

/// A worker on another machine that says nothing for so long is given up.
const SILENCE: Duration = Duration::from_secs(10);

/// A worker on another machine gives a sign of life this often.
pub(super) const BEAT: Duration = Duration::from_secs(2);

const DETAIL_MAX: usize = 200;

#[derive(Debug)]
pub struct DeviceWorker {
    conversation: Conversation<Request, Response>,
    /// Whether binaries that it asks for are compressed.
    leased: bool,
    // Below the conversation, so that it is dropped after the kill of the group.
    _mark: Option<RunMark>,
}

struct RequestProgress {
    assumed: Phase,
    phase: Option<Phase>,
    detail: String,
    since: Instant,
    launched_max: Duration,
    binaries: Vec<BinaryRef>,
    provided: Vec<ContentHash>,
}

impl DeviceWorker {
    pub fn start(command: &[String]) -> io::Result<DeviceWorker> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the worker command is empty"));
        };
        let mut command = Command::new(program);
        command.args(arguments);
        // Without fences a variant of the host device can leave processes in sessions of their own.
        let is_unfenced = arguments.windows(2).any(|pair| pair == ["--sandbox", "off"]);
        let mark = is_unfenced.then(|| RunMark::put_on(&mut command));
        // The end of the output is what explains a death.
        let (group, log) = (ProcessGroup::default(), CappedLog::of_end(LOG_MAX));
        let conversation = Conversation::start(command, PROTOCOL_VERSION, group, log)?;
        Ok(DeviceWorker { conversation, leased: false, _mark: mark })
    }

    /// For a worker that may be on another machine, which is to answer under this nonce.
    #[must_use]
    pub fn under_lease(self, nonce: String) -> DeviceWorker {
        DeviceWorker { conversation: self.conversation.under_lease(nonce, SILENCE), leased: true, ..self }
    }

    pub fn log(&self) -> &CappedLog {
        self.conversation.log()
    }

    pub fn has_answer(&mut self) -> bool {
        self.conversation.has_answer(|response| !matches!(response, Response::Phase { .. } | Response::Beat))
    }

    pub fn begin(&mut self, request: &Request) -> Result<(), Death> {
        self.conversation.begin(request).map_err(|death| death_in(None, death))
    }

    pub fn request(&mut self, request: &Request, deadlines: &Deadlines) -> Result<WorkerAnswer, Death> {
        self.begin(request)?;
        self.finish(request, deadlines)
    }

    pub fn finish(&mut self, request: &Request, deadlines: &Deadlines) -> Result<WorkerAnswer, Death> {
        let mut progress = RequestProgress {
            assumed: assumed_phase(request),
            phase: None,
            detail: String::new(),
            since: Instant::now(),
            launched_max: Duration::ZERO,
            binaries: binaries(request),
            provided: Vec::new(),
        };
        let begun = Instant::now();
        loop {
            // Each phase starts a limit of its own, so a worker that reports one after the other would never
            // be late.
            if begun.elapsed() > deadlines.total {
                let seconds = deadlines.total.as_secs_f64();
                let found = format!("it reported phases for {seconds} s and gave no answer");
                let death = self.conversation.break_off(found);
                return Err(death_in(Some(&progress), death));
            }
            let limit = deadlines.of(progress.phase.unwrap_or(progress.assumed));
            // The limit of a phase is always given, and patience ends with the request's own limit, which is looked at
            // above: a request that runs into it between two reports is one that reports for ever.
            let patient = (progress.since + limit * PATIENCE).min(begun + deadlines.total);
            let latest = patient.max(progress.since + limit);
            let frame = self.conversation.next_patiently(progress.since, limit, latest);
            let frame = frame.map_err(|death| death_in(Some(&progress), death))?;
            // Checked before the number: a fault ends the request, whatever number the frame carries.
            if let Response::Fault { error } = frame.body {
                let death = self.conversation.break_off("its fault handler spoke");
                return Err(Death { how: DeathHow::Fault { error }, ..death_in(Some(&progress), death) });
            }
            let response = self.conversation.check_number(frame);
            match response.map_err(|death| death_in(Some(&progress), death))? {
                Response::Phase { phase, detail } => progress.enter(phase, detail),
                Response::Beat => {}
                // A connection may bring a line twice.
                Response::Need { hash } if self.leased && progress.provided.contains(&hash) => {}
                Response::Need { hash } => {
                    self.provide(&hash, &progress)?;
                    // It keeps what it got, so asking again is a fault that would not end.
                    progress.binaries.retain(|binary| binary.hash != hash);
                    progress.provided.push(hash);
                    // Sending the binary took the parent's time, so the limit of the phase starts again.
                    progress.since = Instant::now();
                }
                response => {
                    if let Some(fault) = response.fault() {
                        let death =
                            self.conversation.break_off(format!("its answer cannot be true: {fault}"));
                        return Err(death_in(Some(&progress), death));
                    }
                    progress.leave();
                    return Ok(WorkerAnswer { response, launched_max: progress.launched_max });
                }
            }
        }
    }

    fn provide(&mut self, hash: &ContentHash, progress: &RequestProgress) -> Result<(), Death> {
        let known = progress.binaries.iter().find(|binary| binary.hash == *hash);
        let Some(path) = known.and_then(|binary| binary.path.as_ref()) else {
            let death =
                self.conversation.break_off(format!("it needs the binary `{hash}`, which nobody gave it"));
            return Err(death_in(Some(progress), death));
        };
        let Ok(bytes) = std::fs::read(path) else {
            // The worker waits for nothing else and would only run into the limit for loading.
            let death = self.conversation.break_off("it needs a binary that is gone");
            let how = DeathHow::Missing { hash: hash.clone() };
            return Err(Death { how, ..death_in(Some(progress), death) });
        };
        let packed = self.leased.then(|| packed(&bytes)).transpose().ok().flatten();
        let gzip = packed.is_some();
        let data = STANDARD.encode(packed.as_deref().unwrap_or(&bytes));
        let provide = Request::Provide { hash: hash.clone(), data, gzip };
        self.conversation.send(&provide).map_err(|death| death_in(Some(progress), death))
    }

    /// Whether the worker is gone.
    pub fn shutdown(&mut self, grace: Duration) -> bool {
        self.conversation.shutdown(&Request::Shutdown, grace)
    }

    pub fn dismiss(&mut self) {
        self.conversation.dismiss(&Request::Shutdown);
    }

    /// Whether the worker is gone.
    pub fn wait_for_end(&mut self, grace: Duration) -> bool {
        self.conversation.wait_for_end(grace)
    }

    /// The status of an end that needed no kill: that of a tool around the worker.
    pub fn status_within(&mut self, grace: Duration) -> Option<ExitStatus> {
        self.conversation.dismiss(&Request::Shutdown);
        self.conversation.status_within(grace)
    }

    /// Kills the worker with everything it started. Whether it is gone; if not, the device is lost.
    pub fn bury(&mut self) -> bool {
        self.conversation.bury()
    }
}

fn death_in(progress: Option<&RequestProgress>, death: ProcessDeath) -> Death {
    let how = match death.cause {
        DeathCause::Protocol { found } if death.is_cut => DeathHow::Cut { what: found },
        cause => cause.into(),
    };
    Death {
        how,
        phase: progress.and_then(|progress| progress.phase),
        detail: progress.map(|progress| progress.detail.clone()).unwrap_or_default(),
        elapsed: progress.map(|progress| death.at.duration_since(progress.since)).unwrap_or_default(),
        waited: death.waited,
        log: death.log.tail(LOG_TAIL),
        reaped: death.reaped,
    }
}

impl RequestProgress {
    fn enter(&mut self, phase: Phase, detail: String) {
        self.leave();
        self.phase = Some(phase);
        self.detail = printable(&shortened(&detail, DETAIL_MAX)).into_owned();
        self.since = Instant::now();
    }

    fn leave(&mut self) {
        // Only launches count: this time predicts launches at full shapes, and other phases are evo's work.
        if self.phase == Some(Phase::Launched) {
            self.launched_max = self.launched_max.max(self.since.elapsed());
        }
    }
}

fn assumed_phase(request: &Request) -> Phase {
    match request {
        Request::Hello { .. } | Request::Describe => Phase::Opening,
        Request::Prepare { .. } => Phase::Preparing,
        Request::Load { .. } | Request::Provide { .. } => Phase::Loading,
        Request::Gate { .. }
        | Request::Measure { .. }
        | Request::Pair { .. }
        | Request::Run { .. }
        | Request::Block { .. }
        | Request::HandOut { .. }
        | Request::JudgeForeign { .. } => Phase::Preparing,
        Request::Canary | Request::Telemetry | Request::Shutdown => Phase::Checking,
    }
}

fn packed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// For a worker that cannot read their files.
fn own_kernels(request: &Request) -> Vec<BinaryRef> {
    let Request::Hello { support_cubin, reference_kernels, lease: Some(lease), .. } = request else {
        return Vec::new();
    };
    let of = |hash: &Option<ContentHash>, path: Option<&PathBuf>| {
        Some(BinaryRef { hash: hash.clone()?, path: Some(path?.clone()) })
    };
    let support = of(&lease.support, support_cubin.as_ref());
    let references = of(&lease.references, reference_kernels.as_ref().map(|kernels| &kernels.path));
    support.into_iter().chain(references).collect()
}

fn binaries(request: &Request) -> Vec<BinaryRef> {
    let Request::Load { candidate, .. } = request else { return own_kernels(request) };
    let reference = candidate.reference.iter().map(|(binary, _)| binary.clone());
    let single = candidate.reference_single.clone();
    let prepare = candidate.prepare.iter().map(|(binary, _)| binary.clone());
    let builds = candidate.builds.iter().flat_map(|build| {
        let instrumented = match &build.instrumented {
            Some(InstrumentedBuild::Binary(binary)) => Some(binary.clone()),
            Some(InstrumentedBuild::Failed { .. }) | None => None,
        };
        std::iter::once(build.binary.clone()).chain(instrumented)
    });
    builds.chain(reference).chain(single).chain(prepare).collect()
}
