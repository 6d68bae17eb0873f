//! Workers of their own for one variant that has passed its gates, or needs none: its launches perhaps under a tool, or
//! blocks of samples that take turns with other implementations' blocks.

use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::worker::{BlockAnswer, BufferSpan, GateAnswer, Request, Response};

use super::child::{DeathHow, DeviceWorker, LOG_TAIL, LaneError, LaneOptions};
use super::deadline::Deadlines;
use super::job::Job;

/// How long a tool may take to write its files after the worker has ended, at most and at least.
const FAREWELL_MAX: Duration = Duration::from_secs(60);
const FAREWELL_MIN: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub struct SoloRun {
    pub launched: Result<Vec<u64>, LaneError>,
    /// Where each problem's buffers lay, as far as the worker got; only of a run without guard zones.
    pub buffers: Vec<BufferSpan>,
    /// How the tool, or the worker without one, ended by itself; absent if it had to be killed.
    pub status: Option<ExitStatus>,
    pub log: String,
    pub elapsed: Duration,
}

#[derive(Clone, Copy, Debug)]
pub struct SoloOrder<'a> {
    pub options: &'a LaneOptions,
    pub job: &'a Job,
    pub plans: &'a [ProblemPlan],
    pub warmup: u32,
    pub calls: u32,
    /// A tool that looks for accesses outside of allocations takes a guard zone for a part of the buffer.
    pub unguarded: bool,
    pub limit: Duration,
}

impl<'a> SoloOrder<'a> {
    /// For whoever looks at each launch once: what a kernel accesses follows from its arguments.
    pub fn once(options: &'a LaneOptions, job: &'a Job, plans: &'a [ProblemPlan], limit: Duration) -> Self {
        SoloOrder { options, job, plans, warmup: 0, calls: 1, unguarded: false, limit }
    }
}

/// Fails only where the worker's command does not start; everything else is in the answer.
pub fn run_solo(order: &SoloOrder<'_>) -> Result<SoloRun, LaneError> {
    let began = Instant::now();
    let (launched, log, elapsed) = (Ok(Vec::new()), String::new(), Duration::ZERO);
    let mut run = SoloRun { launched, buffers: Vec::new(), status: None, log, elapsed };
    match DeviceWorker::greet(order.options) {
        Ok(mut worker) => {
            let until = began + order.limit;
            run.launched = launch_all(&mut worker, order, &mut run.buffers, until);
            let left = until.saturating_duration_since(Instant::now());
            run.status = worker.end(left.clamp(FAREWELL_MIN, FAREWELL_MAX));
            run.log = worker.log().text();
        }
        // A tool that talks or ends before it was asked anything.
        Err(LaneError::Died { death }) => {
            run.log = death.log.tail(LOG_TAIL);
            run.launched = Err(LaneError::Died { death });
        }
        Err(error) => return Err(error),
    }
    // What was killed has a status too.
    if let Err(LaneError::Died { death }) = &run.launched {
        run.status = if let DeathHow::Exit(status) = death.how { Some(status) } else { None };
    }
    run.elapsed = began.elapsed();
    Ok(run)
}

fn launch_all(
    worker: &mut DeviceWorker,
    order: &SoloOrder<'_>,
    buffers: &mut Vec<BufferSpan>,
    until: Instant,
) -> Result<Vec<u64>, LaneError> {
    // A tool slows everything down by a factor that nobody knows, so the whole run has one limit.
    let deadlines = || Deadlines::within(until.saturating_duration_since(Instant::now()));
    worker.opened(&deadlines())?;
    worker.load(0, &order.job.candidate, &deadlines())?;
    let mut run = |plan: &ProblemPlan, calls: u32, warmup: u32| {
        let plan = Box::new(plan.clone());
        let run = Request::Run { slot: 0, plan, calls, warmup, unguarded: order.unguarded };
        match worker.ask(&run, &deadlines())? {
            Response::Ran { launches, buffers } => Ok((launches, buffers)),
            other => Err(LaneError::unexpected(&other)),
        }
    };
    let mut launched = Vec::new();
    for plan in order.plans {
        // A launch that faults leaves no answer behind, so the buffers' places are asked for before.
        if order.unguarded {
            buffers.extend(run(plan, 0, 0)?.1);
        }
        launched.push(run(plan, order.calls, order.warmup)?.0);
    }
    Ok(launched)
}

/// For blocks of samples. Outputs of timed calls are checked.
#[derive(Debug)]
pub struct BlockWorker {
    pub(super) worker: DeviceWorker,
    pub(super) deadlines: Deadlines,
}

impl BlockWorker {
    /// What the candidate does wrong is a verdict in the answer.
    pub fn block(
        &mut self,
        plan: &ProblemPlan,
        mode: TimingMode,
        block_ms: f64,
        check: bool,
    ) -> Result<BlockAnswer, LaneError> {
        let request = Request::Block { slot: 0, plan: Box::new(plan.clone()), mode, block_ms, check };
        match self.worker.ask(&request, &self.deadlines)? {
            Response::Sampled(answer) => Ok(*answer),
            other => Err(LaneError::unexpected(&other)),
        }
    }

    /// `expected`: with the answers in `expected/NAME.npy`, for a program that does its own check.
    pub fn hand_out(
        &mut self,
        plan: &ProblemPlan,
        seed_index: u32,
        folder: &Path,
        expected: bool,
    ) -> Result<(), LaneError> {
        let (plan, folder) = (Box::new(plan.clone()), folder.to_path_buf());
        let request = Request::HandOut { slot: 0, plan, seed_index, folder, expected };
        match self.worker.ask(&request, &self.deadlines)? {
            Response::HandedOut => Ok(()),
            other => Err(LaneError::unexpected(&other)),
        }
    }

    pub fn judge_foreign(
        &mut self,
        plan: &ProblemPlan,
        seed_index: u32,
        folder: &Path,
    ) -> Result<GateAnswer, LaneError> {
        let (plan, folder) = (Box::new(plan.clone()), folder.to_path_buf());
        let request = Request::JudgeForeign { slot: 0, plan, seed_index, folder };
        match self.worker.ask(&request, &self.deadlines)? {
            Response::GateDone(answer) => Ok(*answer),
            other => Err(LaneError::unexpected(&other)),
        }
    }
}
