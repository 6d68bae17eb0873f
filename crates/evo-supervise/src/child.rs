//! The parent's side of one device worker: how it is started and greeted, and the one way to ask it something, with a limit
//! for each phase that it reports.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evo_protocol::device::{DeviceError, DeviceInfo, DeviceKind};
use evo_protocol::worker::{
    BinaryRef, Candidate, DescribedGpu, InstrumentedBuild, PROTOCOL_VERSION, Phase, ReferenceKernels,
    Request, Response, WorkerLease,
};
use evo_space::genome::ContentHash;
use evo_space::text::{printable, shortened};
use flate2::Compression;
use flate2::write::GzEncoder;
use thiserror::Error;

use super::deadline::Deadlines;
use evo_system::process::{CappedLog, Conversation, PATIENCE, ProcessGroup, RunMark, worker_program};
pub use evo_system::process::{Death, DeathHow};

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

impl LaneOptions {
    pub fn worker_command(&self) -> Result<Vec<String>, LaneError> {
        self.command.clone().map_or_else(own_worker, Ok)
    }
}

pub fn own_worker() -> Result<Vec<String>, LaneError> {
    let program =
        worker_program().map_err(|source| LaneError::Spawn { command: "evo worker".into(), source })?;
    Ok(vec![program.to_string_lossy().into_owned(), "worker".into()])
}

#[derive(Debug, Error)]
pub enum LaneError {
    #[error("cannot start the worker `{command}`: {source}")]
    Spawn { command: String, source: io::Error },
    #[error("{}", .error.message)]
    Open { error: Box<DeviceError> },
    #[error("{}", in_words(.death))]
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

impl From<Death> for LaneError {
    fn from(death: Death) -> LaneError {
        LaneError::Died { death: Box::new(death) }
    }
}

pub fn in_words(death: &Death) -> String {
    let how = &death.how;
    let what = match how {
        DeathHow::Exit(status) if status.signal().is_some() => format!("the worker was {how}"),
        DeathHow::Exit(_) => format!("the worker {how}"),
        DeathHow::Protocol(_) => format!("the worker broke the protocol: {how}"),
        DeathHow::Cut(_) => format!("the worker is cut off: {how}"),
        DeathHow::Deadline { .. } | DeathHow::Missing(_) | DeathHow::Fault { .. } => how.to_string(),
    };
    match death.phase {
        Some(phase) if death.place.is_empty() => format!("{what} (phase {phase:?})"),
        Some(phase) => format!("{what} (phase {phase:?}, {})", death.place),
        None => what,
    }
}

/// Bytes kept of what a worker prints; what came before is counted and forgotten.
const LOG_MAX: usize = 64 * 1024;
/// Of that, what explains a death.
pub(crate) const LOG_TAIL: usize = 4 * 1024;

/// A worker on another machine that says nothing for so long is given up.
const SILENCE: Duration = Duration::from_secs(10);

/// A worker on another machine gives a sign of life this often.
const BEAT: Duration = Duration::from_secs(2);
/// It gets so long to leave before its connection is cut.
pub(crate) const FAREWELL: Duration = Duration::from_secs(5);

const PLACE_MAX: usize = 200;

#[derive(Debug)]
pub struct DeviceWorker {
    conversation: Conversation<Request, Response>,
    /// Whether binaries that it asks for are compressed.
    leased: bool,
    /// Of the open request: the phase it is in before it reports one, and the binaries that it may ask for.
    assumed: Phase,
    binaries: Vec<BinaryRef>,
    provided: Vec<ContentHash>,
    /// The longest time between a reported launch of the last request and the next sign of life.
    pub launched_max: Duration,
    // Below the conversation, so that it is dropped after the kill of the group.
    _mark: Option<RunMark>,
}

#[derive(Debug)]
pub(crate) struct Opened {
    pub info: DeviceInfo,
    pub judge: String,
    pub settings: BTreeMap<String, String>,
    pub host: String,
}

impl Opened {
    pub fn class(&self) -> DeviceClass<'_> {
        DeviceClass { info: &self.info, settings: &self.settings, judge: &self.judge }
    }
}

/// Devices of one class may share a study: their times compare, and the same gates judge them.
#[derive(Clone, Copy, Debug)]
pub struct DeviceClass<'a> {
    pub info: &'a DeviceInfo,
    pub settings: &'a BTreeMap<String, String>,
    pub judge: &'a str,
}

impl DeviceClass<'_> {
    /// In words; `None` where the other is of this class.
    pub fn difference(&self, other: &DeviceClass<'_>) -> Option<String> {
        let (first, other) = (self.properties(), other.properties());
        let value =
            |all: &BTreeMap<String, String>, name: &str| all.get(name).cloned().unwrap_or("unknown".into());
        let pairs = first.keys().chain(other.keys());
        let pairs = pairs.map(|name| (name, value(&first, name), value(&other, name)));
        let different: Vec<_> = pairs.filter(|(_, first, other)| first != other).collect();
        // The name says most.
        let named = different.iter().find(|(name, ..)| *name == "name");
        let (name, first, other) = named.or(different.first())?;
        Some(format!("its {name} is `{other}` and not `{first}`"))
    }

    fn properties(&self) -> BTreeMap<String, String> {
        let info = self.info;
        let memory = match info.kind {
            DeviceKind::Host => format!("{} GiB", info.memory_bytes.div_ceil(1 << 30)),
            DeviceKind::Cuda | DeviceKind::Replay => info.memory_bytes.to_string(),
        };
        let properties = [
            ("kind", info.kind.as_str().to_string()),
            ("name", info.name.clone()),
            ("architecture", info.arch.clone()),
            ("number of multiprocessors", info.multiprocessors.to_string()),
            ("memory", memory),
            ("driver", info.driver.clone()),
            ("cache", info.l2_bytes.to_string()),
            ("limits", serde_json::to_string(&info.limits).unwrap_or_default()),
            ("evo", self.judge.to_string()),
        ];
        let properties = properties.into_iter().map(|(name, value)| (name.to_string(), value));
        properties.chain(self.settings.clone()).collect()
    }
}

impl DeviceWorker {
    fn start(command: &[String]) -> Result<DeviceWorker, LaneError> {
        let failed = |source| LaneError::Spawn { command: command.join(" "), source };
        let Some((program, arguments)) = command.split_first() else {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "the worker command is empty")));
        };
        let mut line = Command::new(program);
        line.args(arguments);
        // Without fences a variant of the host device can leave processes in sessions of their own.
        let is_unfenced = arguments.windows(2).any(|pair| pair == ["--sandbox", "off"]);
        let mark = is_unfenced.then(|| RunMark::put_on(&mut line));
        // The end of the output is what explains a death.
        let (group, log) = (ProcessGroup::default(), CappedLog::of_end(LOG_MAX));
        Ok(DeviceWorker {
            conversation: Conversation::start(line, PROTOCOL_VERSION, group, log).map_err(failed)?,
            leased: false,
            assumed: Phase::Opening,
            binaries: Vec::new(),
            provided: Vec::new(),
            launched_max: Duration::ZERO,
            _mark: mark,
        })
    }

    /// Started and asked to open its device; `opened` waits for the answer.
    pub(crate) fn greet(options: &LaneOptions) -> Result<DeviceWorker, LaneError> {
        let mut worker = DeviceWorker::start(&options.worker_command()?)?;
        let lease = options.leased.then(|| lease(options));
        if let Some(lease) = &lease {
            let conversation = worker.conversation.under_lease(lease.nonce.clone(), SILENCE);
            worker = DeviceWorker { conversation, leased: true, ..worker };
        }
        worker.begin(&Request::Hello {
            lease,
            device: options.device.clone(),
            expected_cache: options.cache.clone(),
            support_cubin: options.support_cubin.clone(),
            reference_kernels: options.reference_kernels.clone(),
        })?;
        Ok(worker)
    }

    pub(crate) fn opened(&mut self, deadlines: &Deadlines) -> Result<Opened, LaneError> {
        match self.answer(deadlines)? {
            Response::Ready { protocol: PROTOCOL_VERSION, info, judge, settings, host, .. } => {
                Ok(Opened { info: *info, judge, settings, host })
            }
            Response::Failed { error } => Err(LaneError::Open { error }),
            other => Err(LaneError::unexpected(&other)),
        }
    }

    pub fn load(&mut self, slot: u8, candidate: &Candidate, deadlines: &Deadlines) -> Result<(), LaneError> {
        match self.ask(&Request::Load { slot, candidate: Box::new(candidate.clone()) }, deadlines)? {
            Response::Loaded { .. } => Ok(()),
            other => Err(LaneError::unexpected(&other)),
        }
    }

    /// After an error of the worker's end it is dead.
    pub fn ask(&mut self, request: &Request, deadlines: &Deadlines) -> Result<Response, Death> {
        self.begin(request)?;
        self.answer(deadlines)
    }

    fn begin(&mut self, request: &Request) -> Result<(), Death> {
        (self.assumed, self.binaries) = (assumed_phase(request), binaries(request));
        self.provided.clear();
        self.conversation.begin(request)
    }

    fn answer(&mut self, deadlines: &Deadlines) -> Result<Response, Death> {
        self.launched_max = Duration::ZERO;
        self.conversation.enter(None, String::new());
        let begun = Instant::now();
        loop {
            // Each phase starts a limit of its own, so a worker that reports one after the other would never
            // be late.
            if begun.elapsed() > deadlines.total {
                let seconds = deadlines.total.as_secs_f64();
                let found = format!("it reported phases for {seconds} s and gave no answer");
                return Err(self.conversation.break_off(found));
            }
            let limit = deadlines.of(self.conversation.phase.unwrap_or(self.assumed));
            // The limit of a phase is always given, and patience ends with the request's own limit, which is looked at
            // above: a request that runs into it between two reports is one that reports for ever.
            let since = self.conversation.since;
            let patient = (since + limit * PATIENCE).min(begun + deadlines.total);
            let frame = self.conversation.next(limit, patient.max(since + limit))?;
            // Checked before the number: a fault ends the request, whatever number the frame carries.
            if let Response::Fault { error } = frame.body {
                return Err(self.conversation.die(DeathHow::Fault { error }));
            }
            match self.conversation.check_number(frame)? {
                Response::Phase { phase, detail } => {
                    self.note_launch();
                    let place = printable(&shortened(&detail, PLACE_MAX)).into_owned();
                    self.conversation.enter(Some(phase), place);
                }
                Response::Beat => {}
                // A connection may bring a line twice.
                Response::Need { hash } if self.leased && self.provided.contains(&hash) => {}
                Response::Need { hash } => self.provide(hash)?,
                response => {
                    self.note_launch();
                    return match response.fault() {
                        None => Ok(response),
                        Some(fault) => {
                            Err(self.conversation.break_off(format!("its answer cannot be true: {fault}")))
                        }
                    };
                }
            }
        }
    }

    /// Only launches count: this time predicts launches at full shapes, and other phases are evo's work.
    fn note_launch(&mut self) {
        if self.conversation.phase == Some(Phase::Launched) {
            self.launched_max = self.launched_max.max(self.conversation.since.elapsed());
        }
    }

    fn provide(&mut self, hash: ContentHash) -> Result<(), Death> {
        let known = self.binaries.iter().find(|binary| binary.hash == hash);
        let Some(path) = known.and_then(|binary| binary.path.clone()) else {
            let found = format!("it needs the binary `{hash}`, which nobody gave it");
            return Err(self.conversation.break_off(found));
        };
        let Ok(bytes) = std::fs::read(path) else {
            // The worker waits for nothing else and would only run into the limit for loading.
            let what = format!("the compiled variant `{hash}` is gone from the cache");
            return Err(self.conversation.die(DeathHow::Missing(what)));
        };
        let packed = self.leased.then(|| packed(&bytes)).transpose().ok().flatten();
        let gzip = packed.is_some();
        let data = STANDARD.encode(packed.as_deref().unwrap_or(&bytes));
        self.conversation.send(&Request::Provide { hash: hash.clone(), data, gzip })?;
        // It keeps what it got, so asking again is a fault that would not end.
        self.binaries.retain(|binary| binary.hash != hash);
        self.provided.push(hash);
        // Sending the binary took the parent's time.
        self.conversation.since = Instant::now();
        Ok(())
    }

    pub fn log(&self) -> &CappedLog {
        self.conversation.log()
    }

    pub fn has_answer(&mut self) -> bool {
        self.conversation.has_answer(|response| !matches!(response, Response::Phase { .. } | Response::Beat))
    }

    pub fn dismiss(&mut self) {
        self.conversation.dismiss(&Request::Shutdown);
    }

    /// The status of an end that needed no kill: that of a tool around the worker.
    pub fn end(&mut self, grace: Duration) -> Option<ExitStatus> {
        self.conversation.end(&Request::Shutdown, grace)
    }

    /// With everything it started. Whether it is gone; if not, the device is lost.
    pub fn kill(&mut self) -> bool {
        self.conversation.kill()
    }
}

/// What a command leads to, before a lane is started on it. The worker is gone afterwards.
pub fn describe(command: &[String], within: Duration) -> Result<Vec<DescribedGpu>, LaneError> {
    let mut worker = DeviceWorker::start(command)?;
    let answer = worker.ask(&Request::Describe, &Deadlines::within(within))?;
    worker.end(FAREWELL);
    match answer {
        Response::Described { gpus } => Ok(gpus),
        other => Err(LaneError::unexpected(&other)),
    }
}

/// A lease of its own for every worker, so that nothing which another one said passes for an answer of this one.
fn lease(options: &LaneOptions) -> WorkerLease {
    static LEASES: AtomicU64 = AtomicU64::new(1);
    let number = LEASES.fetch_add(1, Ordering::Relaxed);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let hash = |path: Option<&PathBuf>| {
        path.and_then(|path| std::fs::read(path).ok()).map(|bytes| ContentHash::of(&bytes))
    };
    WorkerLease {
        nonce: format!("{:x}-{:x}-{number:x}", std::process::id(), since.as_nanos()),
        beat_ms: BEAT.as_millis() as u64,
        support: hash(options.support_cubin.as_ref()),
        references: hash(options.reference_kernels.as_ref().map(|kernels| &kernels.path)),
    }
}

fn assumed_phase(request: &Request) -> Phase {
    match request {
        Request::Hello { .. } | Request::Describe => Phase::Opening,
        Request::Load { .. } | Request::Provide { .. } => Phase::Loading,
        Request::Prepare { .. }
        | Request::Gate { .. }
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

/// What a worker may ask for: one that cannot read the files of a candidate, or under a lease those of its device.
fn binaries(request: &Request) -> Vec<BinaryRef> {
    match request {
        Request::Load { candidate, .. } => {
            let builds = candidate.builds.iter().flat_map(|build| {
                let instrumented = match &build.instrumented {
                    Some(InstrumentedBuild::Binary(binary)) => Some(binary),
                    Some(InstrumentedBuild::Failed { .. }) | None => None,
                };
                std::iter::once(&build.binary).chain(instrumented)
            });
            let kernels = candidate.reference.iter().chain(&candidate.prepare).map(|(binary, _)| binary);
            builds.chain(kernels).chain(&candidate.reference_single).cloned().collect()
        }
        Request::Hello { support_cubin, reference_kernels, lease: Some(lease), .. } => {
            let kernels = reference_kernels.as_ref().map(|kernels| &kernels.path);
            let files = [(&lease.support, support_cubin.as_ref()), (&lease.references, kernels)];
            let file = |(hash, path): (&Option<ContentHash>, Option<&PathBuf>)| {
                Some(BinaryRef { hash: hash.clone()?, path: Some(path?.clone()) })
            };
            files.into_iter().filter_map(file).collect()
        }
        _ => Vec::new(),
    }
}
