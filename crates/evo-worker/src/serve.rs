//! The loop inside a worker process: one request at a time, phases in between, one answer.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evo_device::host::RoomOptions;
use evo_protocol::check::GateCheck;
use evo_protocol::device::{DeviceError, DeviceInfo, Telemetry};
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::VerdictKind;
use evo_protocol::worker::{
    BinaryRef, BlockAnswer, DescribedGpu, MeasureAnswer, PROTOCOL_VERSION, PairedTimes, Phase,
    ReferenceKernels, Request, Response, SamplePolicy, WorkerLease,
};
use evo_space::genome::ContentHash;
use evo_system::process::{Orphaned, ParentLink, REQUEST};
use evo_timing::paired::interleave;
use evo_timing::stats::median;
use flate2::read::GzDecoder;

use super::canary;
use super::judge::{Answers, Asked, Judge, TimedProblem, Turns, found, honesty};
use super::measure::{BlockSize, SampleSource, measure};

type Wire = ParentLink<Request, Response>;

/// Serves requests until stdin closes or `Shutdown` comes. `build` names the gates and the timing that this worker
/// has: results of another build are not taken over.
pub fn run(sandbox: bool, build: &str) -> io::Result<()> {
    let wire = Wire::take_over(PROTOCOL_VERSION, Orphaned::Exits)?;
    evo_device::host::fault::install(Some(&REQUEST), wire.descriptor())?;
    let (wire, build) = (Rc::new(RefCell::new(wire)), build.to_string());
    let binaries = Binaries { wire: wire.clone(), received: HashMap::new() };
    let mut server = Server { binaries, rooms: rooms(sandbox)?, build, judge: None, seed: 0, kept: None };
    loop {
        let request = wire.borrow_mut().receive()?;
        let Some(request) = request.filter(|request| !matches!(request, Request::Shutdown)) else {
            return Ok(());
        };
        let response =
            server.serve(request).unwrap_or_else(|error| Response::Failed { error: Box::new(error) });
        wire.borrow_mut().send(&response)?;
    }
}

pub fn rooms(sandbox: bool) -> io::Result<RoomOptions> {
    let words = ["worker", "--executor", "--sandbox", if sandbox { "on" } else { "off" }];
    Ok(RoomOptions { program: std::env::current_exe()?, arguments: words.map(String::from).into() })
}

struct Server {
    binaries: Binaries,
    rooms: RoomOptions,
    build: String,
    judge: Option<Judge>,
    /// Decides which timed iterations are checked; from the loaded candidate's secret seed.
    seed: u64,
    /// The problem of the block before, which is prepared already; any other request gives it up.
    kept: Option<TimedSlot>,
}

impl Server {
    fn serve(&mut self, request: Request) -> Result<Response, DeviceError> {
        if !matches!(request, Request::Block { .. }) {
            self.kept = None;
        }
        match request {
            Request::Hello { device, expected_cache, support_cubin, reference_kernels, lease } => {
                self.open(&device, expected_cache, support_cubin, reference_kernels, lease)
            }
            Request::Describe => {
                let gpus = evo_device::telemetry::list().into_iter();
                let gpus = gpus.map(|gpu| DescribedGpu {
                    name: gpu.name,
                    uuid: gpu.uuid,
                    capability: gpu.capability,
                });
                Ok(Response::Described { gpus: gpus.collect() })
            }
            Request::Prepare { check, plans } => {
                self.judge()?.rehearse(&check, &plans)?;
                Ok(Response::Prepared)
            }
            Request::Load { slot, candidate } => {
                let Server { judge, binaries, seed, .. } = self;
                report(&binaries.wire, Phase::Loading, &candidate.label);
                *seed = candidate.check.seed;
                let judge = judge.as_mut().ok_or_else(no_device)?;
                let load_ms = judge.load(slot, &candidate, &mut |binary| binaries.fetch(binary))?;
                Ok(Response::Loaded { load_ms })
            }
            Request::Gate { slot, gate, depth, plans } => {
                Ok(Response::GateDone(Box::new(self.judge()?.gate(slot, gate, depth, &plans))))
            }
            Request::Measure { slot, plan, mode, policy } => {
                // A device error among samples is the variant's.
                let answer = self.measure(slot, &plan, mode, &policy);
                let answer = answer.unwrap_or_else(|error| MeasureAnswer::failed(&error));
                Ok(Response::Measured(Box::new(answer)))
            }
            Request::Pair { plans, mode, blocks, block_ms } => {
                self.pair(&plans, mode, blocks, block_ms).map(Response::Paired)
            }
            Request::Run { slot, plan, calls, warmup, unguarded } => {
                let judge = self.judge()?;
                let ran = judge.run_plain(slot, &plan, calls.saturating_add(warmup), unguarded);
                let (launches, buffers) = judge.at_problem(&plan, ran).map_err(message_alone)?;
                Ok(Response::Ran { launches, buffers })
            }
            Request::Block { slot, plan, mode, block_ms, check } => {
                let answer = self.block(slot, &plan, (mode, block_ms), check);
                let answer = answer.unwrap_or_else(|error| {
                    let verdict = Some(Box::new(error.verdict()));
                    BlockAnswer { verdict, sticky: error.sticky, ..BlockAnswer::default() }
                });
                Ok(Response::Sampled(Box::new(answer)))
            }
            Request::HandOut { slot, plan, seed_index, folder, expected } => {
                let judge = self.judge()?;
                let handed = judge.hand_out(slot, &plan, seed_index, (&folder, expected));
                judge.at_problem(&plan, handed).map_err(message_alone)?;
                Ok(Response::HandedOut)
            }
            Request::JudgeForeign { slot, plan, seed_index, folder } => {
                let answer = self.judge()?.judge_foreign(slot, &plan, seed_index, &folder);
                Ok(Response::GateDone(Box::new(answer)))
            }
            Request::Canary => {
                let device = self.judge()?.device();
                let canary_ns = canary::check(device)?;
                Ok(Response::Alive { canary_ns, memory_free: device.memory_free() })
            }
            Request::Telemetry => Ok(Response::Clocks { telemetry: self.judge()?.device().telemetry() }),
            Request::Provide { .. } | Request::Shutdown => {
                Err(harness("a binary that was not asked for".to_string()))
            }
        }
    }

    fn judge(&mut self) -> Result<&mut Judge, DeviceError> {
        self.judge.as_mut().ok_or_else(no_device)
    }

    fn open(
        &mut self,
        device: &str,
        expected_cache: PathBuf,
        support_cubin: Option<PathBuf>,
        reference_kernels: Option<ReferenceKernels>,
        lease: Option<WorkerLease>,
    ) -> Result<Response, DeviceError> {
        if let Some(lease) = &lease {
            let pace = Duration::from_millis(lease.beat_ms.max(1));
            let begun =
                self.binaries.wire.borrow_mut().begin_lease(lease.nonce.clone(), pace, &Response::Beat);
            begun.map_err(|error| harness(format!("the worker cannot start its threads: {error}")))?;
        }
        report(&self.binaries.wire, Phase::Opening, device);
        start_threads()?;
        let hashes = lease.as_ref().map(|lease| (lease.support.clone(), lease.references.clone()));
        let (support_hash, references_hash) = hashes.unwrap_or_default();
        // Deleted with this. Of a parent on another machine.
        let mut copy = None;
        let support = match (support_cubin, support_hash) {
            (Some(path), Some(hash))
                if !std::fs::read(&path).is_ok_and(|own| ContentHash::of(&own) == hash) =>
            {
                let bytes = self.binaries.fetch(&BinaryRef { hash, path: None })?;
                let file =
                    tempfile::NamedTempFile::new().and_then(|mut file| file.write_all(&bytes).map(|()| file));
                let file =
                    file.map_err(|error| harness(format!("cannot keep the helper kernels: {error}")))?;
                Some(copy.insert(file).path().to_path_buf())
            }
            (path, _) => path,
        };
        let device = evo_device::open::open(device, support.as_deref(), self.rooms.clone())?;
        let info = Box::new(device.info().clone());
        let mut judge = Judge::new(device, expected_cache);
        if let Some(ReferenceKernels { name, path }) = reference_kernels {
            let image = match references_hash {
                Some(hash) => self.binaries.fetch(&BinaryRef { hash, path: Some(path) })?,
                None => std::fs::read(&path).map_err(|error| {
                    harness(format!("cannot read the reference kernels `{}`: {error}", path.display()))
                })?,
            };
            judge.take_references(&name, &image)?;
        }
        let wire = self.binaries.wire.clone();
        judge.reporter = Box::new(move |phase, detail| report(&wire, phase, detail));
        self.judge = Some(judge);
        let judge = self.build.clone();
        let host = lease.as_ref().map(|_| evo_system::machine_name()).unwrap_or_default();
        let settings = lease.map(|_| evo_device::telemetry::settings(&info.uuid)).unwrap_or_default();
        let settings = settings.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        let (protocol, pid) = (PROTOCOL_VERSION, std::process::id());
        Ok(Response::Ready { protocol, pid, info, judge, settings, host })
    }
}

/// Tells what is about to happen, so that a death or a missed deadline has a name. If the parent no longer listens, sending
/// the answer will fail too.
fn report(wire: &RefCell<Wire>, phase: Phase, detail: &str) {
    let _ = wire.borrow_mut().send(&Response::Phase { phase, detail: detail.to_string() });
}

const RECEIVED_MAX: usize = 64 << 20;

const UNPACKED_MAX: u64 = 1 << 30;

fn unpacked(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).take(UNPACKED_MAX).read_to_end(&mut plain)?;
    Ok(plain)
}

/// Started now: later, a machine without room for threads would end the worker in the middle of a variant, which
/// would look like the variant's doing. This thread is one of them: handing work to another one and waiting for it
/// takes longer than what there is to do at a small shape.
fn start_threads() -> Result<(), DeviceError> {
    match rayon::ThreadPoolBuilder::new().use_current_thread().build_global() {
        Ok(()) => Ok(()),
        // They run already; the error has no kind to ask for.
        Err(error) if error.to_string().contains("already been initialized") => Ok(()),
        Err(error) => Err(harness(format!("the worker cannot start its threads: {error}"))),
    }
}

/// Contents of binaries, from their files or from the parent.
struct Binaries {
    /// The judge tells by it what it is about to do.
    wire: Rc<RefCell<Wire>>,
    received: HashMap<ContentHash, Vec<u8>>,
}

impl Binaries {
    fn fetch(&mut self, binary: &BinaryRef) -> Result<Vec<u8>, DeviceError> {
        // The hash decides, not the path: on another machine the same path may hold another file.
        if let Some(bytes) = binary.path.as_deref().and_then(|path: &Path| std::fs::read(path).ok())
            && ContentHash::of(&bytes) == binary.hash
        {
            return Ok(bytes);
        }
        if let Some(bytes) = self.received.get(&binary.hash) {
            return Ok(bytes.clone());
        }
        let lost = |error: io::Error| harness(format!("cannot talk to the parent: {error}"));
        let mut wire = self.wire.borrow_mut();
        wire.send(&Response::Need { hash: binary.hash.clone() }).map_err(lost)?;
        let Some(Request::Provide { data, gzip, .. }) = wire.receive().map_err(lost)? else {
            return Err(harness(format!("the binary `{}` was not provided", binary.hash)));
        };
        let bytes = STANDARD.decode(&data).ok();
        let bytes = if gzip { bytes.and_then(|bytes| unpacked(&bytes).ok()) } else { bytes };
        match bytes {
            Some(bytes) if ContentHash::of(&bytes) == binary.hash => {
                // It travels once, as far as there is room.
                let held: usize = self.received.values().map(Vec::len).sum();
                if held + bytes.len() > RECEIVED_MAX {
                    self.received.clear();
                }
                self.received.insert(binary.hash.clone(), bytes.clone());
                Ok(bytes)
            }
            _ => Err(harness(format!("the binary that was provided is not `{}`", binary.hash))),
        }
    }
}

impl Server {
    fn measure(
        &mut self,
        slot: u8,
        plan: &ProblemPlan,
        mode: TimingMode,
        policy: &SamplePolicy,
    ) -> Result<MeasureAnswer, DeviceError> {
        let seed = self.seed;
        let judge = self.judge()?;
        // A screening tells who is far behind, and for that one set is enough. A race's times stand beside those of
        // full measurements.
        let turns = if policy.screen && policy.race.is_none() { Turns::One } else { Turns::Several };
        let ready = TimedSlot::prepare(judge, (slot, plan), turns, Answers::Needed)?;
        // Another seed for each request, so that a candidate cannot learn which moments are checked.
        let seed = seed ^ REQUEST.load(std::sync::atomic::Ordering::SeqCst);
        let info = judge.device().info().clone();
        let mut answer = measure(&mut ready.stand(judge), &plan.name, mode, policy, seed)?;
        if ready.timed.checks().include(GateCheck::Roofline) {
            believe(&mut answer, &info, plan, mode);
        }
        Ok(answer)
    }

    fn pair(
        &mut self,
        plans: &[ProblemPlan; 2],
        mode: TimingMode,
        blocks: u32,
        block_ms: f64,
    ) -> Result<PairedTimes, DeviceError> {
        let judge = self.judge()?;
        let rivals = (0u8..).zip(plans).map(|rival| {
            let ready = TimedSlot::prepare(judge, rival, Turns::Several, Answers::NotNeeded);
            ready.map_err(message_alone)
        });
        let mut rivals = rivals.collect::<Result<Vec<_>, _>>()?;
        let paired = interleave(blocks, false, |slot| {
            let (samples, _) = rivals[usize::from(slot)].block(judge, mode, block_ms)?;
            Ok(median(&samples))
        })?;
        Ok(PairedTimes { telemetry: judge.device().telemetry(), ..paired })
    }

    fn block(
        &mut self,
        slot: u8,
        plan: &ProblemPlan,
        (mode, block_ms): (TimingMode, f64),
        check: bool,
    ) -> Result<BlockAnswer, DeviceError> {
        let Server { judge, kept, .. } = self;
        let judge = judge.as_mut().ok_or_else(no_device)?;
        let is_same = |kept: &TimedSlot| kept.slot == slot && kept.plan == *plan;
        let mut ready = match kept.take().filter(is_same) {
            Some(ready) => ready,
            None => TimedSlot::prepare(judge, (slot, plan), Turns::Several, Answers::Needed)?,
        };
        let (samples_ns, batch) = ready.block(judge, mode, block_ms)?;
        let mut answer = BlockAnswer { samples_ns, ..BlockAnswer::default() };
        if check {
            answer.verdict = found(ready.stand(judge).check_outputs(mode, batch))?;
        }
        if answer.verdict.is_none() {
            if check {
                answer.parity = Some(judge.plain_parity(&ready.timed)?);
            }
            *kept = Some(ready);
        }
        Ok(answer)
    }
}

/// A candidate bound to one problem.
struct TimedSlot {
    slot: u8,
    plan: ProblemPlan,
    timed: TimedProblem,
    sizes: Vec<(TimingMode, BlockSize)>,
}

impl TimedSlot {
    fn prepare(
        judge: &mut Judge,
        (slot, plan): (u8, &ProblemPlan),
        turns: Turns,
        answers: Answers,
    ) -> Result<TimedSlot, DeviceError> {
        let timed = judge.prepare_timed(slot, plan, turns, answers);
        let timed = judge.at_problem(plan, timed)?;
        Ok(TimedSlot { slot, plan: plan.clone(), timed, sizes: Vec::new() })
    }

    fn stand<'a>(&'a self, judge: &'a mut Judge) -> Stand<'a> {
        Stand { judge, ready: self, began: Instant::now() }
    }

    /// The times of one block, and the calls of a sample. The first block of a mode sizes all of them, so that they are
    /// alike.
    fn block(
        &mut self,
        judge: &mut Judge,
        mode: TimingMode,
        block_ms: f64,
    ) -> Result<(Vec<f64>, u32), DeviceError> {
        let known = self.sizes.iter().find(|(known, _)| *known == mode).map(|(_, size)| *size);
        let size = match known {
            Some(size) => size,
            None => {
                let size = BlockSize::find(&mut self.stand(judge), mode, block_ms)?;
                self.sizes.push((mode, size));
                size
            }
        };
        Ok((size.samples(&mut self.stand(judge), mode)?, size.batch))
    }
}

struct Stand<'a> {
    judge: &'a mut Judge,
    ready: &'a TimedSlot,
    began: Instant,
}

impl SampleSource for Stand<'_> {
    fn sample(&mut self, mode: TimingMode, samples: u32, batch: u32) -> Result<Vec<f64>, DeviceError> {
        // Each chunk restarts the parent's deadline, so a hang while sampling is found within one chunk's
        // limit.
        let what = format!("`{}` {}", self.ready.plan.name, mode.as_str());
        (self.judge.reporter)(Phase::Timing, &what);
        self.judge.sample(&self.ready.timed, mode, samples, batch)
    }

    fn telemetry(&mut self) -> Telemetry {
        self.judge.device().telemetry()
    }

    fn batch(&self, mode: TimingMode, wanted: u32) -> u32 {
        self.ready.timed.batch(mode, wanted)
    }

    fn check_outputs(&mut self, mode: TimingMode, batch: u32) -> Asked {
        (self.judge.reporter)(Phase::Checking, &self.ready.plan.name);
        self.judge.check_sampled(&self.ready.timed, mode, batch)
    }

    fn compare_fresh(&mut self, seed: u64) -> Asked {
        self.judge.compare_fresh(&self.ready.timed, seed)
    }

    fn now_ms(&mut self) -> f64 {
        self.began.elapsed().as_secs_f64() * 1e3
    }

    fn pause(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// Refuses a time that the device cannot have reached.
fn believe(answer: &mut MeasureAnswer, info: &DeviceInfo, plan: &ProblemPlan, mode: TimingMode) {
    let (Some(measurement), Some(report)) = (&answer.measurement, &mut answer.honesty) else { return };
    let floor = honesty::check(plan, info, mode, measurement.p50_ns);
    report.cases += floor.report.cases;
    report.evidence = floor.report.evidence;
    report.message = format!("{}; {}", report.message, floor.report.message);
    if floor.verdict.is_some() {
        report.state = floor.report.state;
        answer.verdict = answer.verdict.take().or(floor.verdict);
    }
}

/// Whoever asked for no verdict is told what went wrong.
fn message_alone(error: DeviceError) -> DeviceError {
    DeviceError { sticky: error.sticky, ..DeviceError::plain(error.kind, error.message) }
}

fn no_device() -> DeviceError {
    harness("no device is open".to_string())
}

fn harness(message: String) -> DeviceError {
    DeviceError::plain(VerdictKind::HarnessError, message)
}
