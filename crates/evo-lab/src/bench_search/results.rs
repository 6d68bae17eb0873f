//! How strategies did on recorded spaces.

use evo_timing::stats::{quantile, sorted};
use serde_json::{Value, json};

use super::data::ScoredSpace;
use crate::score::{Aggregate, RunProgress, SpaceScore};
use crate::simulate::LanesPlayed;

/// How one strategy did, one of ours or another tool.
pub struct StrategyResult<'a> {
    /// Its name.
    pub strategy: &'a str,
    /// The spaces that it has runs on.
    pub spaces: Vec<SpaceResult<'a>>,
    pub aggregate: Option<Aggregate>,
    /// Over all proposals on all spaces.
    pub time: Option<OwnTime>,
}

/// How it did on one space.
pub struct SpaceResult<'a> {
    pub space: &'a ScoredSpace,
    pub score: SpaceScore,
    pub time: Option<OwnTime>,
    pub per_run: PerRun,
    /// What lanes did in each run, if there were any.
    pub lanes: Vec<LanesPlayed>,
}

impl SpaceResult<'_> {
    /// A mean over the runs on lanes; `None` without lanes.
    pub fn on_lanes(&self, of: impl Fn(&LanesPlayed) -> f64) -> Option<f64> {
        let sum: f64 = self.lanes.iter().map(of).sum();
        (!self.lanes.is_empty()).then(|| sum / self.lanes.len() as f64)
    }
}

/// What a run did, as means over the runs.
#[derive(Clone, Copy, Debug)]
pub struct PerRun {
    pub distinct: f64,
    /// Distinct evaluations that failed.
    pub failures: f64,
    /// Evaluations of configurations that the run had evaluated before.
    pub repeats: f64,
    /// Evaluations that the space does not allow.
    pub illegal: f64,
}

impl PerRun {
    pub fn of(runs: &[RunProgress], illegal: usize) -> PerRun {
        let mean = |count: &dyn Fn(&RunProgress) -> usize| {
            runs.iter().map(count).sum::<usize>() as f64 / runs.len().max(1) as f64
        };
        PerRun {
            distinct: mean(&|run| run.distinct),
            failures: mean(&|run| run.failures),
            repeats: mean(&|run| run.times.len() - run.distinct),
            illegal: illegal as f64 / runs.len().max(1) as f64,
        }
    }
}

/// A strategy's own time per proposal, milliseconds.
pub struct OwnTime {
    pub median: f64,
    pub p95: f64,
}

impl OwnTime {
    /// Median and 95th percentile of these times; `None` if there are none.
    pub fn of(times: impl Iterator<Item = f64>) -> Option<OwnTime> {
        let times = sorted(&times.collect::<Vec<_>>());
        let time = || OwnTime { median: quantile(&times, 0.5), p95: quantile(&times, 0.95) };
        (!times.is_empty()).then(time)
    }
}

/// For people.
pub fn own_time_text(time: &Option<OwnTime>) -> String {
    match time {
        Some(OwnTime { median, p95 }) => format!("{median:.3} ms, {p95:.3} ms"),
        None => "not counted".to_string(),
    }
}

/// For programs.
pub fn own_time_object(time: &Option<OwnTime>) -> Value {
    match time {
        Some(OwnTime { median, p95 }) => json!({ "median_ms": median, "p95_ms": p95 }),
        None => Value::Null,
    }
}
