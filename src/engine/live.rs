//! The real compilers and the real device behind the engine's ports.

use std::time::{Duration, Instant};

use evo_protocol::device::Telemetry;
use evo_protocol::leaderboard::{PairedDecision, PairedProblem};

use super::ports::{Compilers, Evaluate, Rivals};
use super::recipe::PreparedKernel;
use crate::compile::farm::CompileFarm;
use crate::supervise::job::{Job, Judgement, Standing};
use crate::supervise::lane::Lane;
use crate::timing::paired::{self, PairedComparison};
use crate::timing::stats::median;

/// Fresh processes of a paired comparison whose interval decides at once: one may be lucky.
const PROCESSES_MIN: usize = 2;

/// Fresh processes of one that is not decided yet, on any machine.
const PROCESSES: usize = 3;

/// Blocks A B B A in each of them.
const BLOCKS: u32 = 4;

/// An inconclusive comparison is extended up to this many processes, while it has taken less than
/// `EXTENDED_WITHIN`: on a GPU always, on a slow host never.
const PROCESSES_MAX: usize = 9;
const EXTENDED_WITHIN: Duration = Duration::from_secs(3);

impl Compilers<PreparedKernel> for CompileFarm {
    fn submit(&mut self, ticket: u64, prepared: &PreparedKernel) {
        CompileFarm::submit(self, ticket, prepared.source.clone());
    }

    fn cancel(&mut self) {
        CompileFarm::cancel(self);
    }

    fn jobs(&self) -> usize {
        CompileFarm::jobs(self)
    }

    fn busy_seconds(&self) -> f64 {
        CompileFarm::busy_seconds(self)
    }
}

impl Evaluate<Job> for Lane {
    fn evaluate(&mut self, job: &Job, standing: &Standing) -> Judgement {
        Lane::evaluate(self, job, standing)
    }

    fn pair(&mut self, rivals: &Rivals<Job>) -> Result<PairedProblem, String> {
        let began = Instant::now();
        let mut processes = Vec::new();
        let (mut baseline_ns, mut finalist_ns) = (Vec::new(), Vec::new());
        loop {
            let paired = Lane::pair(self, &rivals.baseline, &rivals.finalist, rivals.problem, BLOCKS)
                .map_err(|error| error.to_string())?;
            baseline_ns.extend(paired.a_ns);
            finalist_ns.extend(paired.b_ns);
            // Kept apart by process, because the interval is resampled within processes.
            processes.push(paired.log_ratios);
            if processes.len() < PROCESSES_MIN {
                continue;
            }
            let comparison =
                // Resampling is seeded by the job, so that the same ratios always give the same interval.
                paired::compare(&processes, rivals.noise_floor, rivals.finalist.candidate.check.seed);
            let decided = comparison.decision != PairedDecision::Ambiguous;
            let spent = processes.len() >= PROCESSES_MAX || began.elapsed() >= EXTENDED_WITHIN;
            if decided || processes.len() >= PROCESSES && spent {
                let drift = paired::drift(&baseline_ns);
                let times = [median(&baseline_ns), median(&finalist_ns)];
                let pair = outcome(rivals, &processes, comparison, times)?;
                return Ok(PairedProblem { baseline_drift: drift, ..pair });
            }
        }
    }

    fn noise_floor(&mut self, job: &Job, problem: usize) -> Result<f64, String> {
        let floor = Lane::noise_floor(self, job, problem).map_err(|error| error.to_string())?.floor;
        if floor.is_finite() { Ok(floor) } else { Err("too few blocks".to_string()) }
    }

    fn telemetry(&mut self) -> Option<Telemetry> {
        Lane::telemetry(self)
    }
}

fn outcome(
    rivals: &Rivals<Job>,
    processes: &[Vec<f64>],
    comparison: PairedComparison,
    [baseline_ns, finalist_ns]: [f64; 2],
) -> Result<PairedProblem, String> {
    if !comparison.log_ratio.is_finite() {
        return Err("no block was timed".to_string());
    }
    Ok(PairedProblem {
        problem: rivals.finalist.timed[rivals.problem].name.clone(),
        ratio: comparison.log_ratio.exp(),
        ratio_low: comparison.low.exp(),
        ratio_high: comparison.high.exp(),
        processes: processes.len() as u32,
        pairs: processes.iter().map(Vec::len).sum::<usize>() as u32,
        decision: comparison.decision,
        baseline_ns,
        finalist_ns,
        baseline_drift: None,
    })
}
