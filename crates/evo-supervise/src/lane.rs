//! One device as the engine sees it: jobs in, verdicts out, whatever happens to the workers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::device::{DeviceError, DeviceInfo, DeviceKind, Telemetry};
use evo_protocol::evaluation::{Recovery, RecoveryLevel};
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Cause, Gate, GateReport, GateState, Verdict, VerdictKind};
use evo_protocol::worker::{
    CheckPlan, Depth, GateAnswer, MeasureAnswer, PairedTimes, Request, Response, SamplePolicy,
};

use super::blame::{Blame, after_two, blame};
use super::blocks::BlockWorker;
use super::cascade::{self, Station};
use super::child::DeviceWorker;
use super::deadline::{Deadlines, LaunchPrediction, work};
pub use super::described::describe;
use super::job::{Job, Judgement, SecondLook, Standing};
use super::supervisor::Supervisor;
pub use super::supervisor::{LaneError, LaneLimits, LaneOptions, own_worker};
use super::unfit::UnfitShapes;
use evo_timing::noise::{self, NoiseFloor};

#[derive(Debug)]
pub struct Lane {
    supervisor: Supervisor,
    /// Paired runs so far; every other one swaps the slots.
    pairings: u32,
    unfit: UnfitShapes,
    pub(crate) ahead: Option<(CheckPlan, Vec<ProblemPlan>)>,
}

/// A block of a paired run: on a GPU twenty-five samples, on the host more, because other programs share its cores.
/// With fifty samples (until 2026-11-23) blocks took a third of a finalist's time with `gemm` on an H200, and two fifths
/// with `attention_simt`.
fn block_ms(kind: DeviceKind) -> f64 {
    match kind {
        DeviceKind::Host => 20.0,
        DeviceKind::Cuda | DeviceKind::Replay => 5.0,
    }
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
    pub fn start(options: LaneOptions) -> Result<Lane, LaneError> {
        Lane::start_with(options, LaneLimits::default())
    }

    pub fn start_with(options: LaneOptions, limits: LaneLimits) -> Result<Lane, LaneError> {
        Ok(Lane {
            supervisor: Supervisor::start(options, limits)?,
            pairings: 0,
            unfit: UnfitShapes::default(),
            ahead: None,
        })
    }

    /// What is not known by then is `interrupted`. `None` for no such time.
    pub fn answer_by(&mut self, until: Option<Instant>) {
        self.supervisor.limits.until = until;
    }

    pub fn limit_steps(&mut self, most: Option<Duration>) {
        self.supervisor.limits.step_max = most;
    }

    pub fn judge(&self) -> &str {
        self.supervisor.judge()
    }

    /// How the device is set up, as far as that changes its times; empty for workers of this machine, where NVML says it.
    pub fn settings(&self) -> &BTreeMap<String, String> {
        self.supervisor.settings()
    }

    pub fn info(&self) -> &DeviceInfo {
        self.supervisor.info()
    }

    pub fn host(&self) -> &str {
        self.supervisor.host()
    }

    pub(crate) fn supervisor(&mut self) -> &mut Supervisor {
        &mut self.supervisor
    }

    pub fn telemetry(&mut self) -> Option<Telemetry> {
        if self.supervisor.lost().is_some() {
            return None;
        }
        let deadlines = self.supervisor.deadlines();
        match self.supervisor.request(&Request::Telemetry, &deadlines) {
            Ok(answer) => match answer.response {
                Response::Clocks { telemetry } => Some(telemetry),
                _ => None,
            },
            Err(_) => {
                // The worker died with the request; the next job must find a checked one.
                self.supervisor.recover(RecoveryLevel::R2);
                None
            }
        }
    }

    /// Whatever the job does to its worker, the next job finds a worker that has passed the health check.
    pub fn evaluate(&mut self, job: &Job, standing: &Standing) -> Judgement {
        self.supervisor.renew();
        if let Some(why) = self.supervisor.lost() {
            return lost(why);
        }
        let mut spent = Spent { began: Instant::now(), recovery: None };
        // What may be evo's own fault or the machine's is tried once more in a fresh worker before it counts.
        let mut first: Option<Verdict> = None;
        let whole = job;
        loop {
            let last = first.is_some() || self.supervisor.limits.second_elsewhere;
            let job = &*self.unfit.without(whole);
            // The second try starts from nothing: reports from a broken process are not kept.
            let mut judgement = Judgement::begin();
            let mut shift = Shift::new(&mut self.supervisor, standing, job.candidate.check.checks);
            match cascade::run(&mut shift, job, standing, &mut judgement) {
                Ok(sticky) => {
                    let failed = judgement.gates.iter().find(|report| report.state == GateState::Fail);
                    let unfit = failed.map(|report| report.gate);
                    let unfit = unfit.is_some_and(|gate| self.unfit.learn(job, gate, &judgement.verdict));
                    let trouble = judgement.verdict.is_trouble();
                    // What a busy machine may cause, such as times that look forged, is seen again or not at all.
                    let doubtful = trouble || judgement.verdict.is_in_doubt();
                    if sticky || trouble {
                        // Only the end of the process clears a sticky error. Without it every later variant
                        // would inherit the error.
                        spent.add(self.supervisor.recover(RecoveryLevel::R2));
                    }
                    if unfit && self.supervisor.lost().is_none() {
                        continue;
                    }
                    if !doubtful || last || self.supervisor.lost().is_some() {
                        judgement.second_look = self.second_look(doubtful, SecondLook::Doubtful);
                        return self.finish(judgement, spent);
                    }
                    first = Some(judgement.verdict);
                }
                Err((gate, Trouble { objective_ns, .. })) if self.supervisor.limits.is_over() => {
                    // Who was at work when the time ended says nothing about the variant.
                    spent.add(self.supervisor.recover(RecoveryLevel::R2));
                    judgement.objective_ns = objective_ns;
                    judgement.verdict = out_of_time();
                    refuse_late(&mut judgement.gates, gate, &judgement.verdict);
                    return self.finish(judgement, spent);
                }
                Err((gate, Trouble { blame, objective_ns })) => {
                    let owes_worker = self.leave_worker(&blame, &mut spent);
                    // What the reference does not take says nothing about the variant.
                    if self.unfit.learn(job, gate, &blame.verdict) && self.supervisor.lost().is_none() {
                        self.supervisor.renew().into_iter().for_each(|recovery| spent.add(recovery));
                        continue;
                    }
                    judgement.owes_worker = owes_worker;
                    if last || !blame.second_chance || self.supervisor.lost().is_some() {
                        judgement.objective_ns = objective_ns;
                        judgement.second_look = self.second_look(blame.second_chance, SecondLook::Broken);
                        // A verdict that needs no second look counts whatever the first try ended with.
                        let verdict = match first.filter(|_| blame.second_chance) {
                            Some(first) => after_two(&first, blame.verdict),
                            None => blame.verdict,
                        };
                        judgement.verdict = job.tiny_notes.about(gate, verdict);
                        refuse(&mut judgement.gates, gate, &judgement.verdict);
                        return self.finish(judgement, spent);
                    }
                    first = Some(blame.verdict);
                }
            }
        }
    }

    /// Left for later where another lane sees what the worker died with: this one may wait long for its launcher.
    /// Whether it was left.
    fn leave_worker(&mut self, blame: &Blame, spent: &mut Spent) -> bool {
        let elsewhere = self.supervisor.limits.second_elsewhere && blame.second_chance;
        if elsewhere && self.supervisor.has_one_at_a_time() {
            self.supervisor.postpone(blame.doubt);
            return self.supervisor.lost().is_none();
        }
        // Before the verdict, which has to say whether the device was lost on the way.
        spent.add(self.supervisor.recover(blame.doubt));
        false
    }

    fn second_look(&self, in_doubt: bool, why: SecondLook) -> Option<SecondLook> {
        (in_doubt && self.supervisor.limits.second_elsewhere).then_some(why)
    }

    fn finish(&self, mut judgement: Judgement, spent: Spent) -> Judgement {
        let recovery_ms = spent.recovery.map_or(0.0, |recovery| recovery.elapsed_ms);
        judgement.recovery = spent.recovery;
        // Recovery has a field of its own in the record, so it does not count as the variant's time.
        judgement.device_ms = spent.began.elapsed().as_secs_f64() * 1e3 - recovery_ms;
        judgement.lost = self.supervisor.lost().is_some();
        // A worker that cannot be started is the machine's trouble.
        if let Some(why) = self.supervisor.lost().filter(|_| self.supervisor.is_unstarted()) {
            judgement.verdict = Verdict::new(VerdictKind::HarnessError, why).with_cause(Cause::Machine);
        }
        judgement
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
        if let Some(why) = self.supervisor.lost() {
            return Err(LaneError::Lost { why: why.to_string() });
        }
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
        match (self.supervisor.has_one_at_a_time(), &paired) {
            (false, _) => self.supervisor.rest(child, self.spares() - 1),
            (true, Ok(_)) => self.supervisor.keep(child),
            (true, Err(_)) => {
                self.supervisor.keep(child);
                self.supervisor.recover(RecoveryLevel::R2);
            }
        }
        paired.map(|all| match swap {
            true => all.into_iter().map(PairedTimes::swapped).collect(),
            false => all,
        })
    }

    pub fn block_worker(&mut self, job: &Job) -> Result<BlockWorker, LaneError> {
        if let Some(why) = self.supervisor.lost() {
            return Err(LaneError::Lost { why: why.to_string() });
        }
        let child = self.supervisor.fresh()?;
        self.supervisor.settle(SETTLE);
        BlockWorker::load(child, job, self.paired_deadlines())
    }

    pub fn block_ms(&self) -> f64 {
        block_ms(self.info().kind)
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
            ratios.iter_mut().zip(times).for_each(|(own, times)| own.push(times.log_ratios));
        }
        let floors = ratios.into_iter().map(|own| noise::floor(own, job.candidate.check.seed));
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
        let before = self.recovery.map_or(0.0, |own| own.elapsed_ms);
        let level = self.recovery.map_or(recovery.level, |own| own.level.max(recovery.level));
        self.recovery = Some(Recovery { level, elapsed_ms: before + recovery.elapsed_ms });
    }
}

fn out_of_time() -> Verdict {
    Verdict::new(VerdictKind::Interrupted, "the time by which an answer was wanted is over")
}

fn refuse_late(gates: &mut Vec<GateReport>, gate: Gate, verdict: &Verdict) {
    gates.retain(|report| report.gate < gate);
    let late = |gate: &Gate| GateReport::not_run(*gate, &verdict.message);
    let own = |later: &&Gate| (gate..=Gate::Honesty).contains(*later);
    gates.extend(Gate::ALL.iter().filter(own).map(late));
}

fn lost(why: &str) -> Judgement {
    let not_run = |gate: &Gate| GateReport::not_run(*gate, "the device is lost");
    let own = |gate: &&Gate| (Gate::Launch..=Gate::Honesty).contains(*gate);
    Judgement {
        verdict: Verdict::new(VerdictKind::DeviceLost, why),
        gates: Gate::ALL.iter().filter(own).map(not_run).collect(),
        lost: true,
        ..Judgement::begin()
    }
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
    let [first, second] = jobs;
    for (slot, job) in (0u8..).zip(jobs) {
        let load = Request::Load { slot, candidate: Box::new(job.candidate.clone()) };
        match child.request(&load, deadlines).map_err(LaneError::died)?.response {
            Response::Loaded { .. } => {}
            // An error and not a verdict: a paired run compares times and judges nobody.
            other => return Err(LaneError::unexpected(&other)),
        }
    }
    let mut all = Vec::new();
    for problem in problems {
        let plan = |job: &Job| job.timed.get(*problem).cloned();
        let (Some(first_plan), Some(second_plan)) = (plan(first), plan(second)) else {
            return Err(LaneError::Unexpected { found: format!("no timed problem {problem}") });
        };
        let request = Request::Pair {
            plans: Box::new([first_plan, second_plan]),
            mode: first.ranking.timing(),
            blocks,
            block_ms,
        };
        match child.request(&request, deadlines).map_err(LaneError::died)?.response {
            Response::Paired(paired) => all.push(paired),
            other => return Err(LaneError::unexpected(&other)),
        }
    }
    Ok(all)
}

#[derive(Debug)]
struct Trouble {
    blame: Blame,
    objective_ns: Option<f64>,
}

impl Trouble {
    fn of(verdict: Verdict) -> Trouble {
        Trouble { blame: Blame::plain(verdict), objective_ns: None }
    }
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
        let own = plans.iter().map(|plan| {
            let (launched, tiny_work) = self.tiny_launched?;
            Some(launched.as_nanos() as f64 * work(plan) / tiny_work)
        });
        LaunchPrediction { incumbent_ns: largest(incumbent.collect()), own_ns: largest(own.collect()) }
    }

    fn ask(
        &mut self,
        request: &Request,
        deadlines: &Deadlines,
        prediction: Option<&LaunchPrediction>,
    ) -> Result<(Response, Duration), Trouble> {
        let answer = match self.checks.include(GateCheck::Deadline) {
            true => self.supervisor.request(request, deadlines),
            false => self.supervisor.request_within(request, &deadlines.with_launched(PATIENCE)),
        };
        let answer = answer.map_err(|error| match error {
            LaneError::Died { death } => self.trouble(blame(&death, prediction), prediction),
            LaneError::OutOfTime => Trouble::of(out_of_time()),
            other => {
                let verdict = Verdict::new(VerdictKind::HarnessError, other.to_string());
                Trouble::of(verdict.with_cause(Cause::Machine))
            }
        })?;
        // Counted for each job: the worker lives on, and so does its total.
        let printed = self.supervisor.printed() - self.printed_before;
        if printed > self.supervisor.limits.output_bytes_max && self.checks.include(GateCheck::OutputFlood) {
            let message = format!("printed {printed} bytes");
            let verdict = Verdict::new(VerdictKind::OutputFlood, message).with("printed_bytes", printed);
            // Handled like a death (R2), because only a new process is sure to stop printing.
            return Err(Trouble::of(verdict.with("log_tail", self.supervisor.log_tail(LOG_TAIL))));
        }
        Ok((answer.response, answer.launched_max))
    }

    fn trouble(&self, blame: Blame, prediction: Option<&LaunchPrediction>) -> Trouble {
        let bound = blame.lower_bound.map(|bound| bound.as_nanos() as f64);
        let incumbent = prediction.and_then(|prediction| prediction.incumbent_ns);
        let objective_ns = match (bound, incumbent, self.standing.objective_ns) {
            // Scaled as in the screening, so that a strategy can compare the bound with measured variants.
            (Some(bound), Some(incumbent), Some(best)) => Some(best * bound / incumbent),
            _ => None,
        };
        Trouble { blame, objective_ns }
    }

    fn full_deadlines(&self, prediction: &LaunchPrediction) -> Deadlines {
        let kind = self.supervisor.info().kind;
        self.supervisor.deadlines().with_launched(prediction.launched(kind))
    }
}

impl Station for Shift<'_> {
    type Broken = Trouble;

    fn sampling_max(&self) -> Option<Duration> {
        self.supervisor.limits.sampling_max
    }

    fn load(&mut self, job: &Job) -> Result<Result<f64, DeviceError>, Trouble> {
        let request = Request::Load { slot: 0, candidate: Box::new(job.candidate.clone()) };
        let deadlines = self.supervisor.deadlines();
        match self.ask(&request, &deadlines, None)?.0 {
            Response::Loaded { load_ms } => Ok(Ok(load_ms)),
            Response::Failed { error } => Ok(Err(*error)),
            other => Err(unexpected(&other)),
        }
    }

    fn gate(&mut self, gate: Gate, depth: Depth, plans: &[ProblemPlan]) -> Result<GateAnswer, Trouble> {
        let request = Request::Gate { slot: 0, gate, depth, plans: plans.to_vec() };
        let full = matches!(gate, Gate::FullShapes | Gate::Repeatability);
        let prediction = full.then(|| self.predict(plans));
        let deadlines = match &prediction {
            Some(prediction) => self.full_deadlines(prediction),
            None => self.supervisor.deadlines(),
        };
        let (response, launched) = self.ask(&request, &deadlines, prediction.as_ref())?;
        // Zero means that no launch was reported, and would predict that a full shape takes no time.
        if gate == Gate::TinyShapes && !launched.is_zero() {
            let tiny_work = plans.iter().map(work).fold(1.0, f64::max);
            self.tiny_launched = Some((launched, tiny_work));
        }
        match response {
            Response::GateDone(answer) => Ok(*answer),
            Response::Failed { error } => Ok(GateAnswer::failed(gate, &error)),
            other => Err(unexpected(&other)),
        }
    }

    fn measure(
        &mut self,
        plan: &ProblemPlan,
        mode: TimingMode,
        policy: &SamplePolicy,
    ) -> Result<MeasureAnswer, Trouble> {
        // A spare that opens its context disturbs the clock. A screening does not wait for it: its few
        // samples decide only about variants that are far behind.
        if !policy.screen {
            self.supervisor.settle(SETTLE);
        }
        let request = Request::Measure { slot: 0, plan: Box::new(plan.clone()), mode, policy: *policy };
        let prediction = self.predict(std::slice::from_ref(plan));
        let deadlines = self.full_deadlines(&prediction);
        match self.ask(&request, &deadlines, Some(&prediction))?.0 {
            Response::Measured(answer) => Ok(*answer),
            Response::Failed { error } => Ok(MeasureAnswer::failed(&error)),
            other => Err(unexpected(&other)),
        }
    }
}

fn unexpected(response: &Response) -> Trouble {
    let verdict = Verdict::new(VerdictKind::WorkerDied, LaneError::unexpected(response).to_string());
    let blame = Blame { second_chance: true, ..Blame::plain(verdict.with_cause("protocol")) };
    Trouble { blame, objective_ns: None }
}
