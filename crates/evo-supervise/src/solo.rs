//! One worker for one variant, perhaps under a tool: its launches, no gates, and no second worker behind it.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use evo_protocol::plan::ProblemPlan;
use evo_protocol::worker::{BufferSpan, Request, Response};

use super::child::{DeathHow, DeviceWorker};
use super::deadline::Deadlines;
use super::job::Job;
use super::supervisor::{LaneError, LaneOptions, begin, finish, own_worker};

/// How long a tool may take to write its files after the worker has ended, at most and at least.
const FAREWELL_MAX: Duration = Duration::from_secs(60);
const FAREWELL_MIN: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoloCalls {
    pub warmup: u32,
    pub calls: u32,
}

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
    pub job: &'a Job,
    pub plans: &'a [ProblemPlan],
    pub calls: SoloCalls,
    /// A tool that looks for accesses outside of allocations takes a guard zone for a part of the buffer.
    pub unguarded: bool,
    pub limit: Duration,
}

/// Fails only where the worker's command does not start; everything else is in the answer.
pub fn run_solo(options: &LaneOptions, order: &SoloOrder<'_>) -> Result<SoloRun, LaneError> {
    let limit = order.limit;
    let began = Instant::now();
    let command = options.command.clone().map_or_else(own_worker, Ok)?;
    let mut child = match begin(&command, options) {
        Ok(child) => child,
        // A tool that talks or ends before it was asked anything.
        Err(LaneError::Died { death }) => {
            let (status, log) = (status_of(&death.how), death.log.clone());
            return Ok(SoloRun {
                launched: Err(LaneError::Died { death }),
                buffers: Vec::new(),
                status,
                log,
                elapsed: began.elapsed(),
            });
        }
        Err(error) => return Err(error),
    };
    let mut buffers = Vec::new();
    let launched = launch_all(&mut child, options, order, &mut buffers, began + limit);
    let status = match &launched {
        Err(LaneError::Died { death }) => status_of(&death.how),
        _ => {
            let left = (began + limit).saturating_duration_since(Instant::now());
            child.status_within(left.clamp(FAREWELL_MIN, FAREWELL_MAX))
        }
    };
    let log = child.log().text();
    Ok(SoloRun { launched, buffers, status, log, elapsed: began.elapsed() })
}

fn status_of(how: &DeathHow) -> Option<ExitStatus> {
    let DeathHow::Exit { code, signal } = how else { return None };
    // A wait status: the exit code is its second byte, a signal its first (wait(2)).
    Some(ExitStatus::from_raw(code.unwrap_or(0) << 8 | signal.unwrap_or(0)))
}

fn launch_all(
    child: &mut DeviceWorker,
    options: &LaneOptions,
    order: &SoloOrder<'_>,
    buffers: &mut Vec<BufferSpan>,
    until: Instant,
) -> Result<Vec<u64>, LaneError> {
    // A tool slows everything down by a factor that nobody knows, so the whole run has one limit.
    let deadlines = || Deadlines::within(until.saturating_duration_since(Instant::now()));
    finish(child, options, &deadlines())?;
    let load = Request::Load { slot: 0, candidate: Box::new(order.job.candidate.clone()) };
    match child.request(&load, &deadlines()).map_err(LaneError::died)?.response {
        Response::Loaded { .. } => {}
        other => return Err(LaneError::unexpected(&other)),
    }
    let SoloCalls { warmup, calls } = order.calls;
    let mut run = |plan: &ProblemPlan, calls: u32, warmup: u32| {
        let plan = Box::new(plan.clone());
        let run = Request::Run { slot: 0, plan, calls, warmup, unguarded: order.unguarded };
        match child.request(&run, &deadlines()).map_err(LaneError::died)?.response {
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
        launched.push(run(plan, calls, warmup)?.0);
    }
    Ok(launched)
}
