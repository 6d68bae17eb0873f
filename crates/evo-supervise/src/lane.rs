//! One device as the engine sees it: jobs in, verdicts out, whatever happens to the workers.

use std::collections::BTreeMap;
use std::slice;
use std::time::{Duration, Instant};

use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::{DeviceInfo, DeviceKind, Telemetry};
use evo_protocol::evaluation::{Recovery, RecoveryLevel};
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Cause, Gate, GateReport, GateState, Verdict, VerdictKind};
use evo_protocol::worker::{CheckPlan, PairedTimes, Request, Response};

use super::blame::{Blame, after_two, blame};
use super::cascade::{self, not_run};
use super::child::DeviceWorker;
pub use super::child::{LaneError, LaneOptions, describe, own_worker};
use super::deadline::{Deadlines, LaunchPrediction, work};
use super::job::{Job, Judgement, SecondLook, Standing};
use super::solo::BlockWorker;
pub use super::supervisor::LaneLimits;
use super::supervisor::Supervisor;
use super::unfit::UnfitShapes;
use evo_timing::paired::{self, NoiseFloor};

#[derive(Debug)]
pub struct Lane {
    supervisor: Supervisor,
    /// Paired runs so far; every other one swaps the slots.
    pairings: u32,
    unfit: UnfitShapes,
    /// What it computes before its first job.
    ahead: Option<(CheckPlan, Vec<ProblemPlan>)>,
}

/// A worker's successor behind a launcher, which may let wait for minutes. Where other lanes can take what the dead
/// worker was busy with, the answer comes first, and the lane then sees to its next worker.
#[derive(Clone, Debug)]
pub struct Renewal {
    pub recovery: Recovery,
    pub lost: Option<String>,
    pub host: String,
    pub device_uuid: Option<String>,
}

/// A noise floor takes this many processes of this many blocks.
const NOISE_PROCESSES: u32 = 2;
const NOISE_BLOCKS: u32 = 6;
/// A full measurement waits at most this long for a spare that is still opening.
const SETTLE: Duration = Duration::from_secs(2);
/// Fresh processes that open while a finalist meets its gates: what its comparison takes where nothing drifts. Each
/// context takes some hundred megabytes, so a device below this size has one at a time.
const SPARES: usize = 2;
const SPARES_MEMORY: u64 = 16 << 30;
const LOG_TAIL: usize = 2_000;
/// What a launch may take where its deadline is left out: a self-test must end as well.
const PATIENCE: Duration = Duration::from_secs(120);

impl Lane {
    pub fn start_with(options: LaneOptions, limits: LaneLimits) -> Result<Lane, LaneError> {
        let supervisor = Supervisor::start(options, limits)?;
        Ok(Lane { supervisor, pairings: 0, unfit: UnfitShapes::default(), ahead: None })
    }

    /// What is not known by `until` is `interrupted`; no step takes longer than `step_max`. `None` for no such time.
    pub fn limit(&mut self, until: Option<Instant>, step_max: Option<Duration>) {
        self.supervisor.limits = LaneLimits { until, step_max, ..self.supervisor.limits };
    }

    pub fn judge(&self) -> &str {
        &self.supervisor.device.judge
    }

    /// How the device is set up, as far as that changes its times; empty for workers of this machine, where NVML says it.
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.supervisor.device.settings
    }

    pub fn info(&self) -> &DeviceInfo {
        &self.supervisor.device.info
    }

    pub fn host(&self) -> &str {
        &self.supervisor.device.host
    }

    pub fn telemetry(&mut self) -> Option<Telemetry> {
        if self.supervisor.lost.is_some() {
            return None;
        }
        let deadlines = self.supervisor.deadlines();
        match self.supervisor.request(&Request::Telemetry, &deadlines) {
            Ok(Response::Clocks { telemetry }) => Some(telemetry),
            Ok(_) => None,
            Err(_) => {
                // The worker died with the request; the next job must find a checked one.
                self.supervisor.recover(RecoveryLevel::R2);
                None
            }
        }
    }

    pub fn prepare(&mut self, check: &CheckPlan, plans: &[ProblemPlan]) -> Result<(), LaneError> {
        let request = Request::Prepare { check: Box::new(check.clone()), plans: plans.to_vec() };
        let deadlines = self.supervisor.deadlines();
        match self.supervisor.request(&request, &deadlines) {
            Ok(Response::Prepared) => Ok(()),
            Ok(other) => Err(LaneError::unexpected(&other)),
            Err(LaneError::Died { .. }) if self.supervisor.limits.is_over() => Err(LaneError::OutOfTime),
            Err(error) => Err(error),
        }
    }

    pub fn answer_ahead(&mut self, check: &CheckPlan, plans: Vec<ProblemPlan>) {
        self.ahead = Some((check.clone(), plans));
    }

    /// What goes wrong is for the first job to say, which asks for the same.
    pub fn begin(&mut self) {
        let Some((check, plans)) = self.ahead.take() else { return };
        if let Err(LaneError::Died { .. }) = self.prepare(&check, &plans) {
            self.supervisor.recover(RecoveryLevel::R2);
        }
    }

    pub fn renew(&mut self) -> Option<Renewal> {
        let recovery = self.supervisor.renew()?;
        let info = self.info();
        Some(Renewal {
            recovery,
            lost: self.supervisor.lost.clone(),
            host: self.host().to_string(),
            device_uuid: (info.kind == DeviceKind::Cuda).then(|| info.uuid.clone()),
        })
    }

    /// Whatever the job does to its worker, the next job finds a worker that has passed the health check.
    pub fn evaluate(&mut self, job: &Job, standing: &Standing) -> Judgement {
        self.supervisor.renew();
        if let Some(why) = &self.supervisor.lost {
            let verdict = Verdict::new(VerdictKind::DeviceLost, why);
            let gates = not_run(Gate::Launch, "the device is lost").collect();
            return Judgement { verdict, gates, lost: true, ..Judgement::begin() };
        }
        let mut spent = Spent { began: Instant::now(), recovery: None };
        // What may be evo's own fault or the machine's is tried once more in a fresh worker before it counts.
        let mut first: Option<Verdict> = None;
        let complete = job;
        loop {
            let job = &*self.unfit.without(complete);
            // The second try starts from nothing: reports from a broken process are not kept.
            let mut judgement = Judgement::begin();
            let sampling_max = self.supervisor.limits.sampling_max.into_iter().chain(job.sampling_max).min();
            let mut shift = Shift::new(&mut self.supervisor, standing, job.candidate.check.checks);
            let walked =
                cascade::run(&mut |request| shift.ask(request), job, standing, sampling_max, &mut judgement);
            let died = walked.is_err();
            let (gate, doubtful) = match walked {
                Ok(sticky) => {
                    let trouble = judgement.verdict.is_trouble();
                    if sticky || trouble {
                        // Only the end of the process clears a sticky error. Without it every later variant
                        // would inherit the error.
                        spent.add(self.supervisor.recover(RecoveryLevel::R2));
                    }
                    let failed = judgement.gates.iter().find(|report| report.state == GateState::Fail);
                    // What a busy machine may cause, such as times that look forged, is seen again or not at all.
                    (failed.map(|report| report.gate), trouble || judgement.verdict.is_in_doubt())
                }
                Err((gate, blame)) => {
                    judgement.objective_ns = slow_objective(&blame, standing);
                    if self.supervisor.limits.is_over() {
                        // Who was at work when the time ended says nothing about the variant.
                        spent.add(self.supervisor.recover(RecoveryLevel::R2));
                        judgement.verdict = out_of_time();
                        judgement.gates.retain(|report| report.gate < gate);
                        judgement.gates.extend(not_run(gate, &judgement.verdict.message));
                        return self.finish(judgement, spent);
                    }
                    judgement.owes_worker = self.leave_worker(&blame, &mut spent);
                    judgement.verdict = blame.verdict;
                    (Some(gate), blame.second_chance)
                }
            };
            let is_lost = self.supervisor.lost.is_some();
            // What the reference does not take says nothing about the variant.
            if gate.is_some_and(|gate| self.unfit.learn(job, gate, &judgement.verdict)) && !is_lost {
                self.supervisor.renew().into_iter().for_each(|recovery| spent.add(recovery));
                continue;
            }
            let elsewhere = self.supervisor.limits.second_elsewhere;
            if doubtful && first.is_none() && !elsewhere && !is_lost {
                first = Some(judgement.verdict);
                continue;
            }
            let why = if died { SecondLook::Broken } else { SecondLook::Doubtful };
            judgement.second_look = (doubtful && elsewhere).then_some(why);
            if let Some(gate) = gate.filter(|_| died) {
                // A verdict that needs no second look counts whatever the first try ended with.
                let verdict = match first.filter(|_| doubtful) {
                    Some(first) => after_two(&first, judgement.verdict),
                    None => judgement.verdict,
                };
                judgement.verdict = job.tiny_notes.about(gate, verdict);
                refuse(&mut judgement.gates, gate, &judgement.verdict);
            }
            return self.finish(judgement, spent);
        }
    }

    /// Left for later where another lane sees what the worker died with: this one may wait long for its launcher.
    /// Whether it was left.
    fn leave_worker(&mut self, blame: &Blame, spent: &mut Spent) -> bool {
        let elsewhere = self.supervisor.limits.second_elsewhere && blame.second_chance;
        if elsewhere && self.supervisor.options.leased {
            self.supervisor.postpone(blame.doubt);
            return self.supervisor.lost.is_none();
        }
        // Before the verdict, which has to say whether the device was lost on the way.
        spent.add(self.supervisor.recover(blame.doubt));
        false
    }

    fn finish(&self, mut judgement: Judgement, spent: Spent) -> Judgement {
        let recovery_ms = spent.recovery.map_or(0.0, |recovery| recovery.elapsed_ms);
        judgement.recovery = spent.recovery;
        // Recovery has a field of its own in the record, so it does not count as the variant's time.
        judgement.device_ms = spent.began.elapsed().as_secs_f64() * 1e3 - recovery_ms;
        judgement.lost = self.supervisor.lost.is_some();
        // A worker that cannot be started is the machine's trouble.
        if let Some(why) = self.supervisor.lost.as_ref().filter(|_| self.supervisor.unstarted) {
            judgement.verdict = Verdict::new(VerdictKind::HarnessError, why).with_cause(Cause::Machine);
        }
        judgement
    }

    fn not_lost(&self) -> Result<(), LaneError> {
        self.supervisor.lost.clone().map_or(Ok(()), |why| Err(LaneError::Lost { why }))
    }

    pub fn expect_pairs(&mut self) {
        self.supervisor.prepare_spares(self.spares());
    }

    fn spares(&self) -> usize {
        let many = self.info().kind == DeviceKind::Cuda && self.info().memory_bytes >= SPARES_MEMORY;
        if many { SPARES } else { 1 }
    }

    /// Times A B B A, in one fresh process. Every other call swaps the slots, so that over several calls neither has
    /// the better place.
    pub fn pair(
        &mut self,
        a: &Job,
        b: &Job,
        problems: &[usize],
        blocks: u32,
    ) -> Result<Vec<PairedTimes>, LaneError> {
        self.not_lost()?;
        if self.supervisor.limits.is_over() {
            return Err(LaneError::OutOfTime);
        }
        let swap = self.pairings % 2 == 1;
        self.pairings += 1;
        let (first, second) = if swap { (b, a) } else { (a, b) };
        // A fresh process, because the working child carries what earlier variants left behind. The others have to be
        // done with opening, which disturbs the clock.
        let mut child = self.supervisor.fresh()?;
        self.supervisor.settle(SETTLE);
        let deadlines = self.paired_deadlines();
        let size = (blocks, self.block_ms());
        let paired = pair_in(&mut child, [first, second], problems, size, &deadlines);
        if self.supervisor.options.leased {
            self.supervisor.current = Some(child);
            if paired.is_err() {
                self.supervisor.recover(RecoveryLevel::R2);
            }
        } else {
            self.supervisor.rest(child, self.spares() - 1);
        }
        paired.map(|all| match swap {
            true => all.into_iter().map(PairedTimes::swapped).collect(),
            false => all,
        })
    }

    pub fn block_worker(&mut self, job: &Job) -> Result<BlockWorker, LaneError> {
        self.not_lost()?;
        let mut worker = self.supervisor.fresh()?;
        self.supervisor.settle(SETTLE);
        let deadlines = self.paired_deadlines();
        worker.load(0, &job.candidate, &deadlines)?;
        Ok(BlockWorker { worker, deadlines })
    }

    /// A block of a paired run: on a GPU twenty-five samples, on the host more, because other programs share its cores.
    /// With fifty samples (until 2026-11-23) blocks took a third of a finalist's time with `gemm` on an H200, and two
    /// fifths with `attention_simt`.
    pub fn block_ms(&self) -> f64 {
        match self.info().kind {
            DeviceKind::Host => 20.0,
            DeviceKind::Cuda | DeviceKind::Replay => 5.0,
        }
    }

    fn paired_deadlines(&self) -> Deadlines {
        let deadlines = self.supervisor.limits.deadlines.unwrap_or_else(|| {
            // The jobs have run before, so one generous limit against accidents is enough.
            let unknown = LaunchPrediction::default().launched(self.info().kind);
            self.supervisor.deadlines().with_launched(unknown)
        });
        self.supervisor.limits.capped(deadlines)
    }

    /// Through the whole paired path, on the first so many timed problems; the problem with the largest floor counts.
    pub fn noise_floor(&mut self, job: &Job, problems: usize) -> Result<NoiseFloor, LaneError> {
        let problems: Vec<usize> = (0..problems).collect();
        let mut ratios = vec![Vec::new(); problems.len()];
        // Two processes in a row: `pair` swaps the slots in between, so both orders are in the floor.
        for _ in 0..NOISE_PROCESSES {
            let times = self.pair(job, job, &problems, NOISE_BLOCKS)?;
            ratios.iter_mut().zip(times).for_each(|(ratios, times)| ratios.push(times.log_ratios));
        }
        let floors = ratios.iter().map(|ratios| paired::noise_floor(ratios, job.candidate.check.seed));
        // NaN counts as the largest floor, and `total_cmp` puts it last.
        let largest = floors.max_by(|a, b| a.floor.total_cmp(&b.floor));
        largest.ok_or_else(|| LaneError::Unexpected { found: "no timed problem".into() })
    }
}

struct Spent {
    began: Instant,
    recovery: Option<Recovery>,
}

impl Spent {
    fn add(&mut self, recovery: Recovery) {
        // A job that is tried twice may need two recoveries: the record has the worse level and both times.
        let before = self.recovery.map_or(0.0, |before| before.elapsed_ms);
        let level = self.recovery.map_or(recovery.level, |before| before.level.max(recovery.level));
        self.recovery = Some(Recovery { level, elapsed_ms: before + recovery.elapsed_ms });
    }
}

fn out_of_time() -> Verdict {
    Verdict::new(VerdictKind::Interrupted, "the time by which an answer was wanted is over")
}

fn refuse(gates: &mut Vec<GateReport>, gate: Gate, verdict: &Verdict) {
    // A variant that was merely slow gave no wrong answer: its gate counts as not reached, and timing fails.
    let slow = verdict.kind == VerdictKind::TooSlow;
    for report in gates.iter_mut().filter(|report| report.gate > gate || report.gate == gate && slow) {
        *report = GateReport::not_run(report.gate, format!("not reached: {}", verdict.label()));
    }
    let failing = if slow { Gate::Timing } else { gate };
    let failed = GateReport {
        state: GateState::Fail,
        cases: 1,
        evidence: verdict.evidence.clone(),
        ..GateReport::not_run(failing, &verdict.message)
    };
    gates.retain(|report| report.gate != failing);
    gates.push(failed);
    gates.sort_by_key(|report| report.gate);
}

fn pair_in(
    child: &mut DeviceWorker,
    jobs: [&Job; 2],
    problems: &[usize],
    (blocks, block_ms): (u32, f64),
    deadlines: &Deadlines,
) -> Result<Vec<PairedTimes>, LaneError> {
    for (slot, job) in (0..).zip(jobs) {
        // A failure is an error and not a verdict: a paired run compares times and judges nobody.
        child.load(slot, &job.candidate, deadlines)?;
    }
    let pair = |problem: &usize| {
        let [Some(first), Some(second)] = jobs.map(|job| job.timed.get(*problem).cloned()) else {
            return Err(LaneError::Unexpected { found: format!("no timed problem {problem}") });
        };
        let (plans, mode) = (Box::new([first, second]), jobs[0].ranking.timing());
        match child.ask(&Request::Pair { plans, mode, blocks, block_ms }, deadlines)? {
            Response::Paired(paired) => Ok(paired),
            other => Err(LaneError::unexpected(&other)),
        }
    };
    problems.iter().map(pair).collect()
}

/// Scaled as in the screening, so that a strategy can compare the bound with measured variants. The evidence of another
/// death may come from the variant's own process.
fn slow_objective(blame: &Blame, standing: &Standing) -> Option<f64> {
    if blame.verdict.kind != VerdictKind::TooSlow {
        return None;
    }
    let number = |name| blame.verdict.evidence.get(name)?.as_f64();
    Some(standing.objective_ns? * number("lower_bound_ns")? / number("incumbent_ns")?)
}

struct Shift<'a> {
    supervisor: &'a mut Supervisor,
    standing: &'a Standing,
    checks: CheckSet,
    printed_before: u64,
    /// The longest launch at tiny shapes and the largest work among them.
    tiny_launched: Option<(Duration, f64)>,
}

impl<'a> Shift<'a> {
    fn new(supervisor: &'a mut Supervisor, standing: &'a Standing, checks: CheckSet) -> Shift<'a> {
        let printed_before = supervisor.printed();
        Shift { supervisor, standing, checks, printed_before, tiny_launched: None }
    }

    /// The slowest of the shapes counts.
    fn predict(&self, plans: &[ProblemPlan]) -> LaunchPrediction {
        // One unknown problem makes the whole prediction unknown: a limit from the known ones could be too
        // short and condemn a good variant.
        let largest = |values: Vec<Option<f64>>| {
            values.into_iter().collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
        };
        let incumbent = plans.iter().map(|plan| self.standing.problems.get(&plan.name).copied());
        let scaled = plans.iter().map(|plan| {
            let (launched, tiny_work) = self.tiny_launched?;
            Some(launched.as_nanos() as f64 * work(plan) / tiny_work)
        });
        LaunchPrediction { incumbent_ns: largest(incumbent.collect()), own_ns: largest(scaled.collect()) }
    }

    fn ask(&mut self, request: &Request) -> Result<Response, Blame> {
        let prediction = match request {
            Request::Gate { gate: Gate::FullShapes | Gate::Repeatability, plans, .. } => {
                Some(self.predict(plans))
            }
            Request::Measure { plan, policy, .. } => {
                // A spare that opens its context disturbs the clock. A screening does not wait for it: its few
                // samples decide only about variants that are far behind.
                if !policy.screen {
                    self.supervisor.settle(SETTLE);
                }
                Some(self.predict(slice::from_ref(plan)))
            }
            _ => None,
        };
        let kind = self.supervisor.device.info.kind;
        let deadlines = self.supervisor.deadlines();
        let deadlines = prediction.map_or(deadlines, |launch| deadlines.with_launched(launch.launched(kind)));
        let answer = match self.checks.include(GateCheck::Deadline) {
            true => self.supervisor.request(request, &deadlines),
            false => self.supervisor.request_within(request, &deadlines.with_launched(PATIENCE)),
        };
        let response = answer.map_err(|error| match error {
            LaneError::Died { death } => blame(&death, prediction.as_ref()),
            LaneError::OutOfTime => Blame::plain(out_of_time()),
            other => {
                let verdict = Verdict::new(VerdictKind::HarnessError, other.to_string());
                Blame::plain(verdict.with_cause(Cause::Machine))
            }
        })?;
        // Counted for each job: the worker lives on, and so does its total.
        let printed = self.supervisor.printed() - self.printed_before;
        let Some(worker) = &self.supervisor.current else { return Ok(response) };
        if printed > self.supervisor.limits.output_bytes_max && self.checks.include(GateCheck::OutputFlood) {
            let message = format!("printed {printed} bytes");
            let verdict = Verdict::new(VerdictKind::OutputFlood, message).with("printed_bytes", printed);
            // Handled like a death (R2), because only a new process is sure to stop printing.
            return Err(Blame::plain(verdict.with("log_tail", worker.log().tail(LOG_TAIL))));
        }
        // Zero means that no launch was reported, and would predict that a full shape takes no time.
        if let Request::Gate { gate: Gate::TinyShapes, plans, .. } = request
            && !worker.launched_max.is_zero()
        {
            self.tiny_launched = Some((worker.launched_max, plans.iter().map(work).fold(1.0, f64::max)));
        }
        Ok(response)
    }
}
