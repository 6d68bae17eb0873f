//! The good variant that is judged after each fault: right at full depth, and as fast as before.

use std::time::Duration;

use evo_protocol::measurement::TimingMode;
use evo_protocol::verdict::VerdictKind;

use crate::cli::error::CliError;
use crate::cli::selftest::bench::SelftestBench;
use crate::supervise::job::{Job, Standing};
use crate::supervise::lane::Lane;
use crate::timing::stats::median;

/// Times of the good variant before any fault.
const FIRST_RUNS: usize = 5;
/// A neighbor may take this many times as long as the slowest of the first runs. Generous, because other
/// programs use the machine too: a fault that stays behind costs a process or a context, which shows as far
/// more.
const TIMES_SLOWEST: f64 = 3.0;
/// A slow neighbor is timed again: what comes from outside passes.
const TRIES: usize = 6;
const PAUSE: Duration = Duration::from_millis(100);

pub struct GoodNeighbor {
    /// Everything up to a screening.
    pub timed: Job,
    /// Every gate at full depth, nothing timed.
    gates: Job,
    /// What the full evaluation measured, as a sweep's incumbent.
    pub standing: Standing,
    first_ns: Vec<f64>,
}

impl GoodNeighbor {
    /// Evaluates the good variant in full, then times it a few times.
    pub fn begin(bench: &mut SelftestBench<'_>) -> Result<GoodNeighbor, CliError> {
        let good = bench.configuration(&[]);
        let failed = |text: String| CliError::harness(format!("the good variant fails: {text}"));
        let timed = bench.job(&good, false)?.map_err(|verdict| failed(verdict.message.clone()))?;
        let result = bench.lane.evaluate(&timed, &Standing::default());
        if !result.verdict.is_pass() {
            return Err(failed(format!("{}: {}", result.verdict.label(), result.verdict.message)));
        }
        let gates = timed.gates_only();
        let hot = result.measurements.iter().filter(|measured| measured.mode == TimingMode::Hot);
        let problems = hot.map(|measured| (measured.problem.clone(), measured.p50_ns)).collect();
        let standing = Standing { problems, objective_ns: result.objective_ns, ..Standing::default() };
        let mut neighbor = GoodNeighbor { timed, gates, standing, first_ns: Vec::new() };
        for _ in 0..FIRST_RUNS {
            let time = neighbor.time(&mut bench.lane).map_err(failed)?;
            neighbor.first_ns.push(time);
        }
        Ok(neighbor)
    }

    /// Median, fastest and slowest of the first runs, nanoseconds.
    pub fn first(&self) -> (f64, f64, f64) {
        let fastest = self.first_ns.iter().copied().fold(f64::INFINITY, f64::min);
        let slowest = self.first_ns.iter().copied().fold(0.0, f64::max);
        (median(&self.first_ns), fastest, slowest)
    }

    /// Its time over the median before any fault. The error says why the good variant is not what it was.
    pub fn judge(&self, lane: &mut Lane) -> Result<f64, String> {
        let result = lane.evaluate(&self.gates, &Standing::default());
        if !result.verdict.is_pass() {
            return Err(format!("{}: {}", result.verdict.label(), result.verdict.message));
        }
        let (median, _, slowest) = self.first();
        let mut best = f64::INFINITY;
        for _ in 0..TRIES {
            best = best.min(self.time(lane)?);
            if best <= TIMES_SLOWEST * slowest {
                return Ok(best / median);
            }
            std::thread::sleep(PAUSE);
        }
        Err(format!("it takes {:.2}× its time", best / median))
    }

    /// The time of a screening, nanoseconds. It runs against an incumbent that nothing can beat, so that it ends
    /// after its first samples, as it does for most variants of a sweep.
    fn time(&self, lane: &mut Lane) -> Result<f64, String> {
        let problems = self.standing.problems.keys().map(|name| (name.clone(), 1.0)).collect();
        let result = lane.evaluate(&self.timed, &Standing::new(problems, 1.0));
        let verdict = result.verdict;
        let seen = verdict.evidence.get("measured_ns").and_then(serde_json::Value::as_f64);
        match (verdict.kind, seen) {
            (VerdictKind::TooSlow, Some(seen)) => Ok(seen),
            _ => Err(format!("{}: {}", verdict.label(), verdict.message)),
        }
    }
}
